"""The state of Sparse Random Features: typed records of arrays and numbers.

In the shapes of arrays, d is the number of inputs (columns of the dataset), A is the number of features in the working
set, and C is the number of scores: one for a number or two classes, and otherwise one for every class.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Loss
from daskfs.algorithms.random_features.lasso import Float64Array

IdArray = NDArray[np.uint64]
PassKind = Literal["inputs", "screen", "gram", "newton", "line", "choose", "done"]
"""The kinds of passes, whose sums a table in `sums.py` lists."""


class Rows(NamedTuple):
    """Inputs X of rows, with a target in Y for every score, and the rows' weights."""

    X: NDArray[np.floating[Any]]  # (r, d); float32 once they are scaled
    Y: Float64Array  # (r, C)
    weight: Float64Array  # (r,)

    def part(self, at: slice | NDArray[np.bool_]) -> Rows:
        """Return some of the rows, by a slice or a mask."""
        return Rows(self.X[at], self.Y[at], self.weight[at])


@dataclass(slots=True)
class InputSummary:
    """Ranges of inputs and target and a sample of rows from the first pass, and the scaling that follows from them."""

    low: Float64Array  # (d,)
    high: Float64Array  # (d,)
    sample: Float64Array  # (up to 2048, d): random rows, for bandwidth, penalty and importance
    sample_target: Float64Array  # the targets of these rows, or the numbers of their classes
    sample_weight: Float64Array  # their weights
    sample_keys: IdArray  # the hashes of these rows, ascending
    offset: Float64Array  # (d,): an input x is used as (x - offset) · scale
    scale: Float64Array  # (d,)
    centre: Float64Array  # (d,): the linear term of a scaled input x is (x - centre) · stretch
    stretch: Float64Array  # (d,), 0 for constant inputs
    target_low: float = np.inf
    target_high: float = -np.inf
    target_offset: float = 0.0
    target_scale: float = 1.0
    gamma: float = 1.0  # the bandwidth of features, for scaled inputs


@dataclass(frozen=True, slots=True)
class ScoreModel:
    """Weights of the features in the working set, and an intercept for every score."""

    weights: Float64Array  # (A, C)
    intercept: Float64Array  # (C,)


@dataclass(slots=True)
class Quadratic:
    """The sums that define the quadratic model of the loss on the working set, with row weights or curvatures D.

    With the squared loss, all scores share one Gram matrix (K = 1); with other losses, each score has one (K = C).
    """

    gram: Float64Array  # ΦᵀDΦ (K, A, A)
    b: Float64Array  # ΦᵀDy (A, C)
    s: Float64Array  # ΦᵀD1 (A, K)
    n: Float64Array  # 1ᵀD1 (K,)
    t: Float64Array  # 1ᵀDy (C,)


def _empty() -> Float64Array:
    return np.empty(0)


def _no_ids() -> IdArray:
    return np.empty(0, np.uint64)


def _all_inputs() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class Sums:
    """Sums over the rows of a pass, where the fields that the kind of pass does not need stay zero or empty."""

    weight: float = 0.0  # of the rows that the pass uses
    all_weight: float = 0.0  # of these and of held-back rows
    loss: float = 0.0
    losses: Float64Array = field(default_factory=_empty)  # of every model that is compared
    x: Float64Array = field(default_factory=_empty)  # (d,)
    x_squared: Float64Array = field(default_factory=_empty)
    y: Float64Array = field(default_factory=_empty)  # (C,)
    y_squared: Float64Array = field(default_factory=_empty)
    gradient: Float64Array = field(default_factory=_empty)  # Φᵀr, minus the gradient of the loss, for residuals r = −L′
    linear: Float64Array = field(default_factory=_empty)  # Xᵀr (d, C), for the gradient of linear terms
    residual: Float64Array = field(default_factory=_empty)  # 1ᵀr (C,)
    s: Float64Array = field(default_factory=_empty)  # as in `Quadratic`
    n: Float64Array = field(default_factory=_empty)
    gram_slices: list[Float64Array] = field(default_factory=list)  # see `sums.gram_slices`

    def __add__(self, other: Sums) -> Sums:
        return Sums(**{each.name: _add(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)})


def _add(left: Any, right: Any) -> Any:
    return [x + y for x, y in zip(left, right, strict=True)] if isinstance(left, list) else left + right


@dataclass(slots=True)
class RandomFeaturesState:
    """State of a run of Sparse Random Features, where `quadratic` and `history` are only on the driver."""

    seed: int
    classes: str  # that scores separate, as JSON; "" for a real target
    labels: Float64Array  # the classes as blocks carry them if each has a score, else empty
    positive: float  # the target of the second of two classes; NaN for a real target
    inputs: InputSummary
    model: ScoreModel  # as it was last solved; features that entered since then have weight zero
    model_before: ScoreModel  # before the last step of Newton's method
    quadratic: Quadratic | None
    history: Float64Array | None  # a row for every pass, with the columns `result.HISTORY`
    # The current pass.
    pending: Rows  # scaled rows that do not fill a tile yet
    loss: str = "squared"  # as `fitted_loss` returns it
    inputs_per_feature: NDArray[np.int64] = field(default_factory=_all_inputs)  # as in `Basis`
    pass_kind: str = "inputs"
    sums: Sums = field(default_factory=Sums)  # since the last merge, or since the pass began
    sums_before: Sums | None = None  # of this pass up to the last merge, equal in all shards
    is_merged: bool = False  # whether `sums` covers all shards: true from a merge to the next update
    # The working set.
    kept: IdArray = field(default_factory=_no_ids)  # linear terms that are always in the model, without a penalty
    active: IdArray = field(default_factory=_no_ids)  # kept features first, once these were fitted
    candidates: IdArray = field(default_factory=_no_ids)  # features that this pass screens
    draws_waves: bool = True  # whether rounds draw random features beside the linear terms
    drawn: int = 0  # features drawn so far, with the ids 0, 1, …
    n_known: int = 0  # features of the working set that are in the Gram matrix already
    slices_done: int = 0  # passes over parts of the Gram matrices
    # Rounds.
    phase: str = "grow"  # in rounds; then "final", Newton's method on a fixed working set; then "refit" after a choice
    round: int = 0
    idle: int = 0  # rounds in a row that hardly lowered the objective
    steps: int = 0  # of Newton's method in this round
    newton_passes: int = 0  # of Newton's method in this round, line searches included
    total: float = 0.0  # the weight of all rows that are learned from
    constant_loss: float = 0.0  # the loss of the best constant
    objective: float = np.inf  # of the last model that lowered it
    objective_at_step: float = np.inf  # of the model after the latest step of Newton's method
    objective_of_round: float = np.inf  # at the end of the round before
    kkt_residual: float = 0.0  # of the last solution, as a share of the penalty
    penalty: float = 0.0  # of the rounds, or 0 if no feature explains anything
    holds_back: bool = False  # whether a tenth of the rows is held back to choose a model
    diagonal_boost: float = 0.0  # the share by which diagonals of Gram matrices are raised against rounding
    strongest: float = 0.0  # the largest gradient of a candidate in the first round: a larger penalty admits no feature
    # The choice of a penalty or of exactly `n_select` features.
    models: list[ScoreModel] = field(default_factory=list)
    penalties: Float64Array = field(default_factory=_empty)  # of these models, if they differ in it
    ridges: Float64Array = field(default_factory=_empty)  # of these models, if they differ in it
    ridge: float = 0.0  # of the model that was chosen
    held_back: float = 1.0  # the weight of the held-back rows

    @property
    def fitted_loss(self) -> Loss:
        """The loss that is minimised, which the data decide for ``loss="auto"``."""
        return cast(Loss, self.loss)

    @property
    def n_kept(self) -> int:
        """How many of the first features of the working set are kept features."""
        return min(len(self.kept), len(self.active))

    @property
    def n_penalised(self) -> int:
        """How many features of the working set have a penalty: all but the kept features."""
        return len(self.active) - self.n_kept

    @property
    def penalised_weights(self) -> Float64Array:
        """The weights of the features that have a penalty."""
        return self.model.weights[self.n_kept :]

    def known_quadratic(self) -> Quadratic:
        """Return `quadratic`, which only the driver's state has."""
        assert self.quadratic is not None
        return self.quadratic


def initial_state(
    seed: int, d: int, n_scores: int, classes: str, labels: Float64Array, positive: float
) -> RandomFeaturesState:
    """Return the state before the first pass."""
    inputs = InputSummary(
        low=np.full(d, np.inf),
        high=np.full(d, -np.inf),
        sample=np.empty((0, d)),
        sample_target=np.empty(0),
        sample_weight=np.empty(0),
        sample_keys=_no_ids(),
        offset=np.zeros(d),
        scale=np.ones(d),
        centre=np.zeros(d),
        stretch=np.ones(d),
    )
    model = ScoreModel(np.zeros((0, n_scores)), np.zeros(n_scores))
    gram, b, s = np.zeros((0, 0, 0)), np.zeros((0, n_scores)), np.zeros((0, 1))
    quadratic = Quadratic(gram, b, s, n=np.zeros(1), t=np.zeros(n_scores))
    pending = Rows(np.empty((0, d), np.float32), np.empty((0, n_scores)), np.empty(0))
    return RandomFeaturesState(
        seed, classes, labels, positive, inputs, model, model, quadratic, np.zeros((0, 5)), pending
    )
