"""Online Substitution (OS, Asy-OS): exactly k columns from a matrix that never fits in memory.

H. Yang, R. Fujimaki, Y. Kusumura, J. Liu: *Online Feature Selection: A Limited-Memory Substitution Algorithm and Its
Asynchronous Parallel Variation*, KDD 2016.

The objective is  min Σ_i L(u_i, y_i),  u = Xw,  with exactly k weights that are not zero. Columns stream by, pass
after pass; k of them are kept, with weights, and a new one is let in where it serves better than the least useful of
those. Memory is O(n·k), whatever the number of columns.

=========== ================================================================= ==========================
method      what happens to a block of columns                                several workers
=========== ================================================================= ==========================
``block``   scored with one sweep; the best are fitted jointly with the set;   nominate to a centre that
            the least useful leave by exact loss. After the last pass the      owns the set, or merge in
            best rejected columns get another look                            synchronous rounds
``paper``   algorithm 1: one gradient step for every column; the least |w|     one after the other
            leaves. Same set as the listing, computed with BLAS-3
``async``   algorithms 2 and 3: every worker has a set of its own, and a       pull, step, push; nobody
            centre adds up what their sets explain                            waits
=========== ================================================================= ==========================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Loss, check_target
from daskfs.algorithms.substitution.asynchronous import Asynchronous
from daskfs.algorithms.substitution.block import Block as BlockMethod
from daskfs.algorithms.substitution.columns import AnyColumns
from daskfs.algorithms.substitution.paper import Paper
from daskfs.errors import OptionError, check_choice, check_positive, check_whole
from daskfs.protocol import Axis, Block, ColumnBlock, Glance, Meta, Result, Schedule, SparseColumnBlock, State

Method = Literal["block", "paper", "async"]
Budget = Literal["elastic", "faithful"]


@dataclass(frozen=True)
class OnlineSubstitution:
    """Choose exactly `n_select` columns for a linear model.

    Parameters
    ----------
    n_select
        How many features to choose.
    loss
        "squared" for numbers or two classes; "logistic" or "squared_hinge" for two classes.
    passes
        How many times to read the data at most.
    method
        "block", the default and the best; "paper", algorithm 1 as published; "async", Asy-OS.
    ridge
        Penalty on the squared weights of unit-norm columns; "auto" tries several on rows held back.
    intercept
        Whether to fit a constant, and centre columns.
    step
        Of "paper" and "async": the step length as a share of 1/L, up to which steps are safe.
    budget
        Of "async": "faithful" gives each of q workers room for 1/q of the features, as published;
        "elastic" shares the same total by merit.
    workers
        Of "async": how many take turns where there is no cluster, whose number counts otherwise.
    max_staleness
        Of "async": a push based on a view older than so many pushes of others is not applied.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1000)).astype("float32")
    >>> daskfs.write_dataset("wide.zarr", X, X[:, 7] - 2 * X[:, 500])
    >>> daskfs.select("wide.zarr", daskfs.OnlineSubstitution(2)).features
    array([500,   7], dtype=uint64)
    """

    n_select: int
    loss: Loss = "squared"
    passes: int = 3
    method: Method = "block"
    ridge: float | Literal["auto"] = "auto"
    intercept: bool = True
    step: float = 0.9
    budget: Budget = "elastic"
    workers: int = 1
    max_staleness: int = 64

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, Loss)
        check_choice("method", self.method, Method)
        check_choice("budget", self.budget, Budget)
        for name, least in (("n_select", 1), ("passes", 1), ("workers", 1), ("max_staleness", 0)):
            check_whole(name, getattr(self, name), least)
        if self.ridge != "auto":
            check_positive("ridge", self.ridge, " or 'auto'")
        check_positive("step", self.step)
        if self.step > 1:
            raise OptionError(f"step={self.step}: must be above 0 and at most 1, or steps overshoot")

    @property
    def axis(self) -> Axis:
        return "columns"

    @property
    def schedule(self) -> Schedule:
        return "chain" if self.method == "paper" else "centre"

    @property
    def round_nbytes(self) -> int:
        return 0  # of rounds only where someone asked for them

    @property
    def meetings(self) -> int:
        return 10  # or lanes choose the same features, of which a merge keeps one

    @property
    def stays(self) -> frozenset[str]:
        return frozenset()

    def start(self, meta: Meta, seed: int) -> State:
        check_target(self.loss, meta)
        if self.n_select > meta.n_features:
            few = "features" if meta.kind == "dense" else "features with entries"
            raise OptionError(f"n_select={self.n_select:,}: the dataset has only {meta.n_features:,} {few}")
        if meta.weighted and self.method != "block":
            raise OptionError(f"method={self.method!r} knows no weights of rows, as the paper does: use method='block'")
        return self._form.start(meta, seed)

    def update(self, state: State, block: Block) -> State:
        return self._form.update(state, _columns(block))

    def merge(self, states: Sequence[State]) -> State:
        return self._form.merge(states)

    def end_pass(self, state: State) -> tuple[State, bool]:
        return self._form.end_pass(state)

    def revisit(self, state: State) -> NDArray[np.uint64]:
        return self._form.revisit(state)

    def result(self, state: State) -> Result:
        return self._form.result(state)

    def nbytes(self, meta: Meta) -> int:
        return self._form.nbytes(meta)

    def nbytes_staying(self, meta: Meta) -> int:
        return 0

    @property
    def verb(self) -> str:
        return "score"

    def glance(self, state: State, most: int) -> Glance:
        return self._form.glance(state, most)

    @property
    def needs_fresh_views(self) -> bool:
        return self.method == "async"  # which takes steps from what it sees; nominations are scored again

    def view(self, state: State, lane: int) -> State:
        return self._central.view(state, lane)

    def work(self, own: State, view: State, block: Block) -> tuple[State, State | None]:
        return self._central.work(own, view, _columns(block))

    def both(self, offer: State, later: State, view: State) -> State:
        return self._central.both(offer, later, view)

    def rest(self, own: State) -> State | None:
        return self._central.rest(own)

    def accept(self, state: State, offer: State) -> State:
        return self._central.accept(state, offer)

    def keeps(self, state: State) -> NDArray[np.uint64]:
        return self._central.keeps(state)

    @property
    def _form(self) -> BlockMethod | Paper | Asynchronous:
        return Paper(self) if self.method == "paper" else self._central

    @property
    def _central(self) -> BlockMethod | Asynchronous:
        return Asynchronous(self) if self.method == "async" else BlockMethod(self)


def _columns(block: Block) -> AnyColumns:
    if not isinstance(block, ColumnBlock | SparseColumnBlock):
        raise OptionError("Online Substitution reads columns: write dense data with layout='columns', transpose sparse")
    return block
