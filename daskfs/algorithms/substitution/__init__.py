"""Online Substitution (OS, Asy-OS): selection of exactly k columns of a matrix that does not fit in memory.

H. Yang, R. Fujimaki, Y. Kusumura, J. Liu: *Online Feature Selection: A Limited-Memory Substitution Algorithm and Its
Asynchronous Parallel Variation*, KDD 2016.

The objective is the least loss Σ_i L(u_i, y_i) of the scores u = Xw with exactly k weights w that are not zero. All
columns are read in every pass. A selected set of k columns is kept in memory with their weights, and a new column
replaces the least useful column of the set if the new column is more useful. Memory is O(n·k) for n rows.

=========== ================================================================= ==========================
method      what happens to a block of columns                                several workers
=========== ================================================================= ==========================
``block``   All columns are scored at once, the best are fitted jointly with   Workers nominate columns
            the selected set, and the least useful leave by exact loss; after  to the actor that owns the
            the last pass the best rejected columns are tried once more        set, or shards merge sets
``paper``   Algorithm 1: one gradient step for every column, after which the   Workers take turns
            column with the least weight leaves; matrix products by BLAS-3
``async``   Algorithms 2 and 3: every worker has a selected set of its own,    Workers pull, step and push
            and a dask actor adds up the scores of all workers; then the       without waiting
            joint set is settled as by ``block``
=========== ================================================================= ==========================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from daskfs.algorithms.error_control import check_limits
from daskfs.algorithms.keep import kept_features
from daskfs.algorithms.losses import RowLoss, check_target, loss_for
from daskfs.algorithms.parameters import check_fields
from daskfs.algorithms.substitution.asynchronous import AsynchronousMethod
from daskfs.algorithms.substitution.block import BlockMethod
from daskfs.algorithms.substitution.error_control import N_PERMUTED
from daskfs.algorithms.substitution.paper import PaperMethod
from daskfs.algorithms.substitution.permuted import MOST_RIDGE, SMALLEST_RIDGE, PermutedMethod
from daskfs.errors import OptionError
from daskfs.protocol import Algorithm, Axis, Meta

SubstitutionLoss = Literal["auto", "squared", "squared_hinge", "logistic", "softmax"]
SubstitutionMethod = Literal["block", "paper", "async"]
Budget = Literal["elastic", "faithful"]


@dataclass(frozen=True)
class OnlineSubstitution(Algorithm):
    """Select exactly `n_select` columns for a linear model.

    Parameters
    ----------
    n_select
        How many features to select: all there are, with a warning, if they are fewer.
    loss
        "auto" is "squared" for numbers, "logistic" for two classes, "softmax" for more. The others, "squared",
        "squared_hinge" and "logistic", tell each of several classes from the rest. Several targets, which are
        numbers, have the squared loss, each in units of its standard deviation.
    passes
        How many times to read the data at most. Several workers that do not wait for each other may take two more.
    method
        "block", the default and the best; "paper", algorithm 1 as published; "async", Asy-OS.
    ridge
        Penalty on the squared weights of unit-norm columns; "auto" compares several on held-back rows, and again for
        the weights.
    intercept
        Whether to fit a constant, and centre columns.
    keep
        Names of features that are always in the model and are not counted in `n_select`, such as age or batch. A name
        stands for a column, or for all features of a column of categories. Kept features have no ridge penalty.
    step
        For "paper" and "async": the step length as a share of 1/L, the longest safe step.
    budget
        For "async": "faithful" gives each of q workers room for 1/q of the features, as published;
        "elastic" shares the same total by merit, and settles the joint set of all workers in at most two more passes.
    workers
        For "async" without a cluster: how many workers are simulated. On a cluster its workers count.
    max_staleness
        For "async": a push is not applied if it is based on a view that more pushes of others have outdated.
    error_control
        "permuted" also selects for ten targets whose rows were permuted, in the same passes, and compares: features
        get t-values, q-values and the number of false ones expected among them and all better ones.
    max_fdr
        With error control: of the `n_select` features only those with at most this q-value are reported, such as 0.1.
    max_false
        With error control: only as many features are reported that at most so many of them are expected to be false.
    groups
        With error control: the name of the column, of numbers or categories, that says which rows belong together, such
        as those of a donor. Groups are permuted as a whole, and the column is not selected.
    balanced
        Predict classes as if all of them were equally frequent, for the best balanced accuracy where some are rare. The
        weights, scores and probabilities stay as they are; only the threshold of predictions moves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1000)).astype("float32")
    >>> _ = daskfs.write_dataset("wide.zarr", X, X[:, 7] - 2 * X[:, 500])
    >>> daskfs.select("wide.zarr", daskfs.OnlineSubstitution(2)).features
    array([500,   7], dtype=uint64)
    """

    axis: ClassVar[Axis] = "columns"

    n_select: int
    loss: SubstitutionLoss = "auto"
    passes: int = 3
    method: SubstitutionMethod = "block"
    ridge: float | Literal["auto"] = "auto"
    intercept: bool = True
    keep: tuple[str, ...] = ()
    step: float = 0.9
    budget: Budget = "elastic"
    workers: int = 1
    max_staleness: int = 64
    error_control: Literal["permuted"] | None = None
    max_fdr: float | None = None
    max_false: float | None = None
    groups: str | None = None
    balanced: bool = False

    def __post_init__(self) -> None:
        check_fields(OnlineSubstitution, self, may_be_zero=("max_staleness",))
        if self.step > 1:
            raise OptionError(f"step={self.step}: must be above 0 and at most 1, or steps overshoot")
        if self.groups is not None and self.error_control is None:
            raise OptionError("groups: needs error_control='permuted'")
        is_on = self.error_control is not None
        check_limits(self.max_fdr, self.max_false, "permuted", is_on, N_PERMUTED, self.n_select)

    def resolve(self, meta: Meta) -> Algorithm:
        loss: RowLoss = loss_for(meta) if self.loss == "auto" else self.loss
        check_target(loss, meta, several=self.method == "block")
        if meta.targets is not None and self.method != "block":
            raise OptionError(
                f"method={self.method!r} takes one target, the dataset has {len(meta.targets)}: use method='block'"
            )
        if loss == "softmax" and len(meta.classes or ()) == 2:
            loss = "logistic"
        if loss == "softmax" and self.method != "block":
            raise OptionError(f"method={self.method!r} tells two classes apart, as in the paper: use method='block'")
        n_kept = len(kept_features(self.keep, meta))
        if n_kept >= meta.n_features:
            raise OptionError(f"keep: all {n_kept:,} features of the dataset are kept, and none is left to select")
        if n_kept and n_kept >= meta.n_samples - 1:
            raise OptionError(f"keep: {n_kept:,} features to keep fit {meta.n_samples:,} rows whatever these are")
        if n_kept and self.method != "block":
            raise OptionError(f"method={self.method!r} keeps no features, as the paper does not: use method='block'")
        if meta.weighted and self.method != "block":
            raise OptionError(f"method={self.method!r} knows no weights of rows, as the paper does: use method='block'")
        if self.error_control is not None:
            self._check_permutable(loss, meta)
            n_groups = 0 if self.groups is None else len(kept_features([self.groups], meta, "groups"))
            n_select = min(self.n_select, meta.n_features - n_groups)
            return PermutedMethod(replace(self, loss=loss, n_select=n_select), asked=self)
        method = {"block": BlockMethod, "paper": PaperMethod, "async": AsynchronousMethod}[self.method]
        n_select = min(self.n_select, meta.n_features - n_kept)
        return method(replace(self, loss=loss, n_select=n_select), asked=self)

    def _check_permutable(self, loss: RowLoss, meta: Meta) -> None:
        """Raise OptionError if t-values of permuted targets would not compare with those of the target."""
        most, least = MOST_RIDGE.get(loss, np.inf), SMALLEST_RIDGE.get(loss, 0.0)
        reasons = {
            f"method={self.method!r} treats columns one by one: use method='block'": self.method != "block",
            "kept features explain the target, and not a permuted one: leave out keep": bool(self.keep),
            "rows with weights cannot change places: write the data without weights": meta.weighted,
            "it is for one target: write the data with one of them": meta.targets is not None,
            f"loss={loss!r} has not been studied: use loss='squared' or loss='logistic'": loss
            not in ("squared", "logistic"),
            f"a ridge of {self.ridge} hides which of several similar features is true: use at most {most}": (
                self.ridge != "auto" and self.ridge > most
            ),
            f"a ridge of {self.ridge} is too small to tell true features of classes: use at least {least}": (
                self.ridge != "auto" and self.ridge < least
            ),
            f"{meta.n_samples:,} rows cannot judge {self.n_select:,} features: select fewer": meta.n_samples
            < min(self.n_select, meta.n_features) + 10,
        }
        for reason, applies in reasons.items():
            if applies:
                raise OptionError(f"error_control={self.error_control!r}: {reason}")
