"""Sparse Random Features: non-linear selection from few columns and any number of rows.

Yen, Lin, Lin, Ravikumar, Dhillon: Sparse Random Features Algorithm as Coordinate Descent in Hilbert Space, NIPS 2014.

    minimise   λ ‖w‖₁ + Σ_i L(Σ_h w(h) φ_h(x_i) + β, y_i)      over random features h

    each round:  draw R features h ~ p;  solve on the working set A and the new ones;  drop from A what became zero

==========  ====================  =============================================
kernel      φ_h(x)                directions ω
==========  ====================  =============================================
gaussian    √2 cos(ω·x + b)       N(0, 2γ I): exp(−γ ‖x − y‖₂²)
laplacian   √2 cos(ω·x + b)       Cauchy with scale γ: exp(−γ ‖x − y‖₁)
perceptron  sign(ω·x − b)         uniform on the sphere
==========  ====================  =============================================

A feature is an integer: its direction comes from a counter-based generator keyed by seed and feature, the same on every
worker and in every later version. Rows are streamed; no N x |A| array is ever made. Memory is O(|A|²) and a tile of
rows: the Gram matrix stays with whoever runs the selection, workers hold no more than the part they add up.

By default candidates are *screened*: four are drawn for every one that may enter, one pass takes the derivative of the
objective by all of them, and only those enter whose derivative is above the penalty, the steepest first. Other features
would stay at zero. ``screen=False`` is the paper's algorithm 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Loss, encode_classes, positive_target
from daskfs.algorithms.random_features.choice import PATH
from daskfs.algorithms.random_features.inputs import blank_inputs, look_at, sample_nbytes, united_inputs
from daskfs.algorithms.random_features.result import add_record, preview_of, result_of
from daskfs.algorithms.random_features.rounds import CANDIDATES, STAYS, blank_rounds, clear_sums, end_stage
from daskfs.algorithms.random_features.rows import WINDOW_CELLS, Rows, are_held_back, labels_of, n_inputs, windows
from daskfs.algorithms.random_features.sums import PANEL_BYTES, TILE, add_tiles, layout, parts_of, tiles
from daskfs.basis import Kernel
from daskfs.errors import OptionError, check_choice, check_positive, check_whole
from daskfs.protocol import (
    Algorithm,
    Axis,
    Block,
    Meta,
    Preview,
    Result,
    RowBlock,
    Schedule,
    Sharing,
    SparseBlock,
    State,
    copy_state,
)


@dataclass(frozen=True)
class SparseRandomFeatures(Algorithm):
    """Choose random features of few columns, for a target that is no linear function of them.

    Parameters
    ----------
    kernel
        What features look like: ``"gaussian"`` or ``"laplacian"`` waves, smooth and less so; ``"perceptron"`` steps.
    penalty
        The paper's λ, for the sum over all rows: the larger, the fewer features. ``"auto"`` chooses one on a tenth of
        the rows that is held back. With a real target, it is for a target scaled to [0, 1] (see `scaling`).
    rounds
        How often features are drawn, at most: rounds end when two in a row lower the objective by less than 0.1 %.
    per_round
        How many may enter in a round.
    loss
        ``"squared"`` for a number or classes, ``"squared_hinge"`` or ``"logistic"`` for classes; more than two classes
        are told apart one against the rest. (The paper's squared hinge has no ½: its λ is twice this one.)
    gamma
        How fine features are, for inputs as scaled; ``"auto"`` takes the median distance of two rows for the scale.
    screen
        Let only features enter that will have a weight; False is the paper's algorithm to the letter.
    n_select
        Exactly so many features: those that come first on the path of penalties, refitted with a small ridge.
    scaling
        Of inputs: ``"unit"`` to [0, 1] as in the paper, ``"standard"`` to mean 0 and variance 1, or ``"none"``.
        Unless it is none, a real target is scaled to [0, 1] while features are chosen.
    max_features
        The most there may be at a time: memory grows with its square.
    tolerance
        How exactly the problem on the working set is solved: the largest violation of the optimality conditions, as a
        share of the penalty. Where sums in float32 do not tell so much, less exactly: `residual` in the history.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(500, 3))
    >>> daskfs.write_dataset("waves.zarr", X, np.sin(6 * X[:, 1]), layout="rows")
    >>> sel = daskfs.select("waves.zarr", daskfs.SparseRandomFeatures(penalty=0.1, rounds=5))
    >>> sel.score("waves.zarr") > 0.99
    True
    >>> sel.importance.input.values[0]
    'x1'
    """

    axis: ClassVar[Axis] = "rows"
    verb: ClassVar[str] = "expand"

    kernel: Kernel = "gaussian"
    penalty: float | Literal["auto"] = 1.0
    rounds: int = 20
    per_round: int = 500
    loss: Loss = "squared"
    gamma: float | Literal["auto"] = "auto"
    screen: bool = True
    n_select: int | None = None
    scaling: Literal["unit", "standard", "none"] = "unit"
    max_features: int = 2500
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        check_choice("kernel", self.kernel, Kernel)
        check_choice("loss", self.loss, Loss)
        check_choice("scaling", self.scaling, Literal["unit", "standard", "none"])
        for name in ("penalty", "gamma"):
            if getattr(self, name) != "auto":
                check_positive(name, getattr(self, name), " or 'auto'")
        check_positive("tolerance", self.tolerance)
        for name in ("rounds", "per_round", "max_features"):
            check_whole(name, getattr(self, name), 1)
        if self.n_select is not None:
            check_whole("n_select", self.n_select, 1)
            if self.n_select > self.max_features:
                raise OptionError(f"n_select={self.n_select:,} is above max_features={self.max_features:,}: raise that")

    @property
    def passes(self) -> None:
        return None  # a round takes several, and there may be fewer rounds

    @property
    def sharing(self) -> Sharing:
        # With hundreds of features a megabyte of rows is a tenth of a second of work.
        return Sharing(Schedule.SYNCHRONOUS, min_bytes_per_merge=1 << 20, driver_only=STAYS)

    @property
    def holds_back(self) -> bool:
        """Whether a tenth of the rows is kept for a choice."""
        return self.penalty == "auto" or self.n_select is not None

    def start(self, meta: Meta, seed: int) -> State:
        labels = labels_of(self.loss, meta)
        d, n_scores = n_inputs(meta), len(labels) or 1
        state = {
            **blank_inputs(d, n_scores),
            **blank_rounds(n_scores),
            "seed": seed,
            "labels": labels,
            "classes": json.dumps(meta.classes) if len(labels) else encode_classes(meta),
            "positive": positive_target(meta),
            "rows": np.empty((0, d), np.float32),
            "rows_Y": np.empty((0, n_scores)),
            "rows_weight": np.empty(0),
        }
        clear_sums(state)
        return state

    def update(self, state: State, block: Block) -> State:
        assert isinstance(block, RowBlock | SparseBlock)
        if state["is_merged"]:
            state["sums_before"], state["is_merged"] = _all_sums(state), False
            state["sums"] = np.zeros_like(state["sums"])
        for rows in windows(block, state):
            self._learn(state, rows)
        return state

    def _learn(self, state: State, rows: Rows) -> None:
        held = are_held_back(rows.numbers, state["seed"]) if self.holds_back else np.zeros(len(rows.X), np.bool_)
        if state["stage"] == "inputs":
            look_at(state, parts_of(state["sums"], layout(state)), rows, ~held)
            return
        rows = rows.where(held if state["stage"] == "choose" else ~held)
        scaled = ((rows.X - state["offset"]) * state["scale"]).astype(np.float32)
        X, Y, weight = (
            np.concatenate([state[name], new])
            for name, new in (("rows", scaled), ("rows_Y", rows.Y), ("rows_weight", rows.weight))
        )
        whole = len(X) - len(X) % TILE
        if whole:  # directions are drawn for it, which takes long where rows are
            add_tiles(self, state, tiles(X[:whole], Y[:whole], weight[:whole]))
        state["rows"], state["rows_Y"], state["rows_weight"] = X[whole:].copy(), Y[whole:].copy(), weight[whole:].copy()

    def merge(self, states: Sequence[State]) -> State:
        own = [self._without_waiting({**state, "sums": state["sums"].copy()}) for state in states]
        together = {**copy_state(own[0]), **united_inputs(own), "is_merged": True}
        together["sums"] = np.sum([state["sums"] for state in own], axis=0)
        return together

    def _without_waiting(self, state: State) -> State:
        """The state when also the rows that did not fill a tile are added."""
        if len(state["rows"]):
            add_tiles(self, state, tiles(state["rows"], state["rows_Y"], state["rows_weight"]))
        nothing = {name: state[name][:0] for name in ("rows", "rows_Y", "rows_weight")}
        return {**state, **nothing}

    def end_pass(self, state: State) -> tuple[State, bool]:
        state = self._without_waiting(state)
        shapes = layout(state)
        end_stage(self, state, parts_of(_all_sums(state), shapes))
        add_record(state)
        return state, state["stage"] != "done"

    def result(self, state: State) -> Result:
        return result_of(self, state)

    def nbytes(self, meta: Meta) -> int:
        d, n_scores, most = n_inputs(meta), self._n_scores(meta), self._most
        panel = min(PANEL_BYTES, 8 * most**2 * self._n_grams(meta))
        candidates = CANDIDATES * self.per_round if self.screen else self.per_round
        widest = most + max(candidates, most)  # features of a tile, and a part of them again
        window = 5 * 8 * max(WINDOW_CELLS, d + n_scores)  # scaled, learned from, and so on
        waiting = 3 * 4 * d * TILE  # rows that do not fill a tile, those with others that join them, and the rest
        rows = TILE * (4 * widest + 8 * 10 * n_scores) + sample_nbytes(d) + window + waiting
        models = 8 * most * n_scores * (6 + (2 * PATH if self.holds_back else 0))  # and those in question
        directions = 4 * d * (most + candidates)
        return self.driver_nbytes(meta) + 3 * panel + rows + directions + models

    def driver_nbytes(self, meta: Meta) -> int:
        matrices = 2 * self._n_grams(meta) + 3  # with the one before, one without the intercept, and two to factor it
        return matrices * 8 * self._most**2

    def preview(self, state: State, most: int) -> Preview:
        return preview_of(self, state, most)

    @property
    def _most(self) -> int:
        """Features that there can be at a time."""
        return min(self.max_features, self.rounds * self.per_round)

    def _n_scores(self, meta: Meta) -> int:
        return len(labels_of(self.loss, meta)) or 1

    def _n_grams(self, meta: Meta) -> int:
        return 1 if self.loss == "squared" else self._n_scores(meta)


def _all_sums(state: State) -> NDArray[np.float64]:
    """Since the pass began."""
    before, sums = state["sums_before"], state["sums"]
    everything: NDArray[np.float64] = before + sums if len(before) else sums
    return everything
