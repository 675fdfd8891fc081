"""Sparse Random Features: non-linear selection from few columns and any number of rows.

Yen, Lin, Lin, Ravikumar, Dhillon, "Sparse Random Features Algorithm as Coordinate Descent in Hilbert Space", NIPS 2014:

    minimise   λ ‖w‖₁ + Σ_i L(Σ_h w(h) φ_h(x_i) + β, y_i)      over random features h

    each round:  draw R features h ~ p;  solve on the working set A and the new features;  drop those with weight zero

==========  ====================  =============================================
kernel      φ_h(x)                directions ω
==========  ====================  =============================================
gaussian    √2 cos(ω·x + b)       N(0, 2γ I): exp(−γ ‖x − y‖₂²)
laplacian   √2 cos(ω·x + b)       Cauchy with scale γ: exp(−γ ‖x − y‖₁)
perceptron  sign(ω·x − b)         uniform on the sphere
==========  ====================  =============================================

The columns themselves are features, too: *linear terms*, whose penalty is a tenth of that of a random feature of the
same variance with the squared loss. The paper has none of them, and neither has ``linear=False``. Linear terms of the
columns in `keep` are always in the model, and have no penalty.

A feature is an integer (see `daskfs.basis`). The direction ω of a feature comes from a counter-based generator keyed by
seed and feature, and is the same on every worker and in every later version.

By default candidates are *screened*: four features are drawn for every feature that may enter the working set, and one
pass computes the derivative of the objective by each candidate's weight. Only candidates whose derivative exceeds the
penalty enter; the weights of others would stay at zero. ``screen=False`` is the paper's algorithm 1.

Passes read blocks of rows in any order, and merging adds the sums of shards. Memory is O(|A|²) for the Gram matrix of a
working set A, which stays on the driver, and on workers for the part of it that a pass adds up.

The file `rounds.py` has the algorithm, pass by pass; `sums.py` adds up the sums of a pass; `models.py` chooses models,
with the solver in `lasso.py` and the terms without a penalty in `unpenalised.py`; `inputs.py` reads and scales rows;
`state.py` has the records of the state.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from daskfs.algorithms.keep import kept_features
from daskfs.algorithms.losses import Loss, encode_classes, loss_for, positive_target
from daskfs.algorithms.parameters import check_fields
from daskfs.algorithms.random_features.inputs import count_inputs, merge_inputs, one_vs_rest_labels, rows_nbytes
from daskfs.algorithms.random_features.models import PATH_LENGTH
from daskfs.algorithms.random_features.result import add_record, make_preview, make_result
from daskfs.algorithms.random_features.rounds import CANDIDATES, begin_pass, finish_pass
from daskfs.algorithms.random_features.scale import scale_nbytes, sees_all_rows
from daskfs.algorithms.random_features.state import RandomFeaturesState, Sums, initial_state
from daskfs.algorithms.random_features.sums import GRAM_BYTES_PER_PASS, TILE_ROWS, add_block, add_pending, zero_sums
from daskfs.basis import LINEAR, Kernel
from daskfs.errors import OptionError
from daskfs.protocol import Algorithm, Axis, Block, Meta, Preview, Result, Schedule, Sharing, copy_state

MIXED_INPUTS = (1, 2, 3, 0, 0, 0, 0, 0)
"""Numbers of columns of features with ``inputs_per_feature="auto"``, where 0 stands for all columns. More than half of
the features are of all columns, since a target that needs those is met worse if there are fewer to choose from."""
RandomFeaturesLoss = Literal["auto", "squared", "squared_hinge", "logistic"]


@dataclass(frozen=True)
class SparseRandomFeatures(Algorithm):
    """Select random features of few columns, for a target that is no linear function of the columns.

    Parameters
    ----------
    kernel
        The shape of features: ``"gaussian"`` or ``"laplacian"`` waves, the first smoother; ``"perceptron"`` steps.
    penalty
        The paper's λ, for the sum over all rows: the larger, the fewer features. ``"auto"`` chooses it by
        cross-validation on up to 2,048 rows and, if there are more, on a tenth of the rows, which is held back. With a
        real target it applies to a target scaled to [0, 1] (see `scaling`).
    rounds
        How often features are drawn at most. Rounds end when two in a row lower the objective by less than 0.1 %.
    per_round
        How many features may enter in a round.
    loss
        ``"auto"`` is ``"squared"`` for a number and ``"logistic"`` for classes. With ``"squared"``, three or more
        numbers are no classes; ``"squared_hinge"`` and ``"logistic"`` are for classes only. More than two classes are
        separated one against the rest. (The paper's squared hinge has no ½: its λ is twice this one.)
    gamma
        How fine features are, for scaled inputs; ``"auto"`` chooses among 1, 4 and 16 times the value that the
        median distance of two rows gives (1, 2 and 4 times for the Laplacian kernel), on up to 2,048 rows.
    screen
        Admit only features that will have a weight; False is the paper's algorithm to the letter.
    linear
        Let the columns themselves be features, too, beside the random ones, which are screened like these; with
        ``screen=False`` there are none. With ``penalty="auto"``, a model of columns alone is fitted, too, and is taken
        unless random features do better on rows that were held back.
    n_select
        The exact number of features, linear terms included: the first ones on the path of penalties, refitted with a
        small ridge penalty.
    scaling
        The scaling of inputs: ``"unit"`` to [0, 1] as in the paper, ``"standard"`` to mean 0 and variance 1, or
        ``"none"``. Unless it is none, a real target is scaled to [0, 1] during the selection.
    max_features
        The largest size of the working set: memory grows with its square.
    tolerance
        How exactly the problem on the working set is solved: the largest violation of the optimality conditions, as a
        share of the penalty. Sums in float32 may not allow it; then `residual` in the history is larger.
    inputs_per_feature
        How many columns a random feature is a function of; None is all, as in the paper. The name of a feature of few
        columns says which. ``"auto"`` draws features of one, two, three and (more than half) all columns, of which
        those enter that serve the target; with ``screen=False`` all features are of all columns.
    keep
        Names of columns whose linear terms are always in the model, without a penalty, and are not counted in
        `n_select`.
    balanced
        Predict classes as if all of them were equally frequent, for the best balanced accuracy where some are rare. The
        weights, scores and probabilities stay as they are; only the threshold of predictions moves.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(500, 3))
    >>> _ = daskfs.write_dataset("waves.zarr", X, np.sin(6 * X[:, 1]), layout="rows")
    >>> sel = daskfs.select("waves.zarr", daskfs.SparseRandomFeatures(penalty=0.1, rounds=5))
    >>> sel.score("waves.zarr") > 0.99
    True
    >>> sel.input_importance.input.values[0]
    'x1'
    """

    axis: ClassVar[Axis] = "rows"
    verb: ClassVar[str] = "expand"

    kernel: Kernel = "gaussian"
    penalty: float | Literal["auto"] = "auto"
    rounds: int = 20
    per_round: int = 500
    loss: RandomFeaturesLoss = "auto"
    gamma: float | Literal["auto"] = "auto"
    screen: bool = True
    linear: bool = True
    n_select: int | None = None
    scaling: Literal["unit", "standard", "none"] = "unit"
    max_features: int = 2500
    tolerance: float = 1e-4
    inputs_per_feature: int | Literal["auto"] | None = "auto"
    keep: tuple[str, ...] = ()
    balanced: bool = False

    def __post_init__(self) -> None:
        check_fields(SparseRandomFeatures, self)
        if self.n_select is not None and self.n_select > self.max_features:
            raise OptionError(f"n_select={self.n_select:,} is above max_features={self.max_features:,}: raise that")

    @property
    def passes(self) -> None:
        return None  # a round takes several passes, and there may be fewer rounds than allowed

    @property
    def sharing(self) -> Sharing:
        # With hundreds of features a megabyte of rows is a tenth of a second of work.
        driver_only = frozenset({"quadratic", "history"})
        return Sharing(Schedule.SYNCHRONOUS, min_bytes_per_merge=1 << 20, driver_only=driver_only)

    @property
    def has_linear_terms(self) -> bool:
        """Whether columns themselves may be features: they are candidates of every screening."""
        return self.linear and self.screen

    def start(self, meta: Meta, seed: int) -> RandomFeaturesState:
        loss, kept = self._loss_for(meta), kept_features(self.keep, meta)
        labels = one_vs_rest_labels(loss, meta)
        classes = json.dumps(meta.classes) if len(labels) else encode_classes(meta)
        state = initial_state(seed, count_inputs(meta), len(labels) or 1, classes, labels, positive_target(meta))
        state.loss, state.holds_back, state.kept = loss, self._holds_back(meta), kept + np.uint64(LINEAR)
        state.inputs_per_feature = np.array(self._inputs_per_feature, np.int64)
        begin_pass(state, "inputs")
        return state

    def update(self, state: RandomFeaturesState, block: Block) -> RandomFeaturesState:
        if state.is_merged:
            state.sums_before, state.sums, state.is_merged = _sums_of_pass(state), zero_sums(state), False
        add_block(self, state, block)
        return state

    def merge(self, states: Sequence[RandomFeaturesState]) -> RandomFeaturesState:
        own = [replace(state, sums=copy_state(state.sums)) for state in states]
        for state in own:
            add_pending(self, state)
        merged: RandomFeaturesState = copy_state(replace(own[0], sums=Sums(), is_merged=True))
        merged.inputs = merge_inputs([state.inputs for state in own])
        merged.sums = functools.reduce(operator.add, [state.sums for state in own])
        return merged

    def end_pass(self, state: RandomFeaturesState) -> tuple[RandomFeaturesState, bool]:
        add_pending(self, state)
        finish_pass(self, state, _sums_of_pass(state))
        add_record(state)
        return state, state.pass_kind != "done"

    def result(self, state: RandomFeaturesState) -> Result:
        return make_result(self, state)

    def nbytes(self, meta: Meta) -> int:
        d, n_scores, largest = count_inputs(meta), self._n_scores(meta), self._largest_set(meta)
        slices = min(GRAM_BYTES_PER_PASS, 8 * largest**2 * self._n_grams(meta))
        candidates = CANDIDATES * self.per_round if self.screen else self.per_round
        widest = largest + max(candidates, largest)  # features of a tile, and a weighted copy of some of them
        pending = 3 * 4 * d * TILE_ROWS  # before and after new rows are appended, and what remains
        rows = TILE_ROWS * (4 * widest + 8 * 10 * n_scores) + rows_nbytes(d, n_scores) + pending
        to_choose_from = 4 * PATH_LENGTH if self._holds_back(meta) else 0
        models = 8 * largest * n_scores * (6 + to_choose_from)
        directions = 4 * d * (largest + candidates) + 4 * 8 * d * n_scores  # and gradients of linear terms
        return self.driver_nbytes(meta) + 3 * slices + rows + directions + models

    def driver_nbytes(self, meta: Meta) -> int:
        matrices = 2 * self._n_grams(meta) + 3  # old and new Gram, one without the intercept, and two to factor it
        n_kept = len(kept_features(self.keep, meta))
        return max(matrices * 8 * self._largest_set(meta) ** 2, scale_nbytes(count_inputs(meta), n_kept))

    def preview(self, state: RandomFeaturesState, limit: int) -> Preview:
        return make_preview(self, state, limit)

    def _holds_back(self, meta: Meta) -> bool:
        """Return whether a tenth of the rows is held back to choose a penalty, or a model of `n_select` features."""
        is_large = not sees_all_rows(meta, count_inputs(meta))
        return self.n_select is not None or (self.penalty == "auto" and is_large)

    @property
    def _inputs_per_feature(self) -> tuple[int, ...]:
        """How many columns of the dataset each random feature is a function of, as in `basis.Basis`."""
        if self.inputs_per_feature == "auto":
            return MIXED_INPUTS if self.screen else ()
        return () if self.inputs_per_feature is None else (self.inputs_per_feature,)

    def _largest_set(self, meta: Meta) -> int:
        return min(self.max_features, self.rounds * self.per_round) + len(kept_features(self.keep, meta))

    def _loss_for(self, meta: Meta) -> Loss:
        if self.loss != "auto":
            return self.loss
        return "squared" if loss_for(meta) == "squared" else "logistic"

    def _n_scores(self, meta: Meta) -> int:
        return len(one_vs_rest_labels(self._loss_for(meta), meta)) or 1

    def _n_grams(self, meta: Meta) -> int:
        return 1 if self._loss_for(meta) == "squared" else self._n_scores(meta)


def _sums_of_pass(state: RandomFeaturesState) -> Sums:
    """Return the sums over all rows since the pass began."""
    return state.sums if state.sums_before is None else state.sums_before + state.sums
