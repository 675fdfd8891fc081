"""`method="paper"`: algorithm 1 as published, on columns that are centred and of unit norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import residuals
from daskfs.algorithms.losses import (
    CODE,
    CURVATURE,
    best_constant,
    decode_classes,
    encode_classes,
    encode_target,
    positive_target,
)
from daskfs.algorithms.substitution.columns import AnyColumns
from daskfs.algorithms.substitution.method import Method, columns_of
from daskfs.algorithms.substitution.race import PLENTY
from daskfs.algorithms.substitution.refit import Fields, new_set, set_nbytes
from daskfs.algorithms.substitution.result import fitted, preview_of, result_of
from daskfs.algorithms.substitution.steps import Steps, new_slots, slots_nbytes
from daskfs.errors import OptionError
from daskfs.protocol import Block, Meta, Preview, Result, State

if TYPE_CHECKING:
    from daskfs.algorithms.substitution import OnlineSubstitution

HISTORY = ("objective", "changes")


@dataclass(frozen=True)
class PaperMethod(Method):
    """One set in slots, one step for every column that comes by."""

    def start(self, meta: Meta, seed: int) -> State:
        return {
            **new_slots(meta.n_samples, self.params.n_select, meta.itemsize),
            **blank_target(meta),
            "passes": 0,
            "changes": 0,
            "spare": np.empty(0, np.int64),
            "history": np.full((self.params.passes, len(HISTORY)), np.nan),
        }

    def update(self, state: State, any_block: Block) -> State:
        block = columns_of(any_block)
        take_target(state, block, self.params)
        steps = Steps(
            code=CODE[self.params.loss],
            target=state["target"],
            offset=np.full(len(block.y), state["constant"]),
            gamma=self.params.step / CURVATURE[self.params.loss],
            least_L=1.0,
            budget=self.params.n_select,
            bar=np.inf,
            centred=self.params.intercept,
        )
        state["changes"] += steps.through(state, block, others=np.empty(0, np.int64))
        state["spare"] = spared(state["spare"], block.ids, self.params.n_select)
        return state

    def merge(self, states: Sequence[State]) -> State:
        if len(states) > 1:
            raise OptionError("method='paper' takes columns one after the other, there is nothing to merge")
        return states[0]

    def end_pass(self, state: State) -> tuple[State, bool]:
        u = state["constant"] + state["X"] @ state["w"].astype(state["X"].dtype)
        state["history"][state["passes"]] = loss_of(u, state["target"], self.params), state["changes"]
        state["passes"] += 1
        state["changes"] = 0
        return state, state["passes"] < self.params.passes

    def revisit(self, state: State) -> NDArray[np.uint64]:
        return np.empty(0, np.uint64)

    def result(self, state: State) -> Result:
        history = [dict(zip(HISTORY, line, strict=True)) for line in state["history"][: state["passes"]].tolist()]
        return refitted(state, state["X"], self.params, state["spare"], history)

    def preview(self, state: State, most: int) -> Preview:
        ids, w, norm = (state[name][: state["k"]] for name in ("ids", "w", "norm"))
        return preview_of(ids, w, norm, most, last_objective(state), state["changes"])

    def nbytes(self, meta: Meta) -> int:
        n, k = meta.n_samples, self.params.n_select
        return slots_nbytes(n, k, meta.itemsize) + set_nbytes(n, k, 0, meta.itemsize)


def last_objective(state: State) -> float:
    """Of the pass before this one, as far as there was one."""
    return float(state["history"][state["passes"] - 1, 0]) if state["passes"] else np.nan


def blank_target(meta: Meta) -> State:
    """Fields for the target, before the first block."""
    return {
        "started": False,
        "target": np.zeros(meta.n_samples),
        "constant": 0.0,
        "positive": positive_target(meta),
        "classes": encode_classes(meta),
    }


def take_target(state: State, block: AnyColumns, params: OnlineSubstitution) -> None:
    """Take over the target from the first block that comes, and the best constant score where there is an intercept."""
    if state["started"]:
        return
    state["started"] = True
    state["target"][:] = encode_target(block.y, state["positive"])
    if params.intercept:
        state["constant"] = best_constant(params.loss, state["target"])


def spared(spare: NDArray[np.int64], ids: NDArray[np.uint64], wanted: int) -> NDArray[np.int64]:
    """A few ids to make up the number, should too few columns be of use."""
    if len(spare) >= 2 * wanted:
        return spare
    return np.unique(np.concatenate([spare, ids.astype(np.int64)]))[: 2 * wanted]


def loss_of(u: NDArray[np.float64], target: NDArray[np.float64], params: OnlineSubstitution) -> float:
    """The loss summed over all rows."""
    return float(residuals(CODE[params.loss], u.astype(np.float64), target, np.ones(len(u)), np.empty(len(u))))


def refitted(
    state: Fields,
    X: NDArray[np.floating],
    params: OnlineSubstitution,
    spare: NDArray[np.int64],
    history: Sequence[dict[str, float]],
) -> Result:
    """The set that the steps have led to, with weights of a joint fit."""
    k = state["k"]
    one = new_set(len(X), k, X.dtype.itemsize, CODE[params.loss], params.intercept)
    fixed = one["fixed"]
    one["X"][:, fixed:] = X[:, :k]
    one["target"][:] = state["target"]
    for name in ("ids", "mean", "norm"):
        one[name][fixed:] = state[name][:k]
    one["k"] = fixed + k
    ridge = PLENTY * CURVATURE[params.loss] if params.ridge == "auto" else float(params.ridge)
    return result_of(fitted(one, ridge), params.n_select, spare, decode_classes(state["classes"]), history)
