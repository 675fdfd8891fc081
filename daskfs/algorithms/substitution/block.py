"""`method="block"`: passes, the race for the ridge, and the last look at rejected columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import (
    CODE,
    decode_classes,
    encode_classes,
    encode_target,
    normalise_weights,
    positive_target,
)
from daskfs.algorithms.substitution import exchange, race
from daskfs.algorithms.substitution.columns import AnyColumns
from daskfs.algorithms.substitution.method import Method, columns_of
from daskfs.algorithms.substitution.refit import LEAST_RIDGE, Fields, Part, new_set, refresh, selected, set_nbytes
from daskfs.algorithms.substitution.result import fitted, preview_of, result_of
from daskfs.protocol import AsynchronousAlgorithm, Block, Meta, Preview, Result, Schedule, Sharing, State, copy_state

HISTORY = ("objective", "changes", "ridge", "held_back", "staleness", "staleness_max", "offers")
_SCORING = 256  # bytes for every column of a block: sums, moments, scores
_LAGS = 64  # staleness is counted up to here


@dataclass(frozen=True)
class BlockMethod(Method, AsynchronousAlgorithm):
    """The default method; a state holds one set, or while the ridge is open one for each ridge in the race."""

    def start(self, meta: Meta, seed: int) -> State:
        ridges = self._ridges(meta.n_samples)
        state: State = {
            "sets": len(ridges),
            "refit_ridge": ridges[0],
            "held_back": self._held_back(meta, seed) if len(ridges) > 1 else np.empty(0, np.int64),
            "weight": np.ones(meta.n_samples),
            "positive": positive_target(meta),
            "centre": 0.0,  # taken out of a target of numbers
            "classes": encode_classes(meta),
            "passes": 0,
            "changes": 0,  # in this pass; of several lanes, in this one since the last merge, …
            "changes_before": 0,  # … and in all of them before it
            "merged": False,  # just now, and nothing has been seen since
            "version": 0,
            "started": False,
            "lags": np.zeros(_LAGS, np.int64),
            "score": np.nan,  # on held-back rows
            "history": np.full((self.params.passes, len(HISTORY)), np.nan),
        }
        code = CODE[self.params.loss]
        for number, ridge in enumerate(ridges):
            one = Part(state, f"{number}/")
            one.update(new_set(meta.n_samples, self.params.n_select, meta.itemsize, code, self.params.intercept))
            one.update(ridge=ridge, version=0, rejected=np.empty(0, np.int64), rejected_score=np.empty(0))
        return state

    @property
    def sharing(self) -> Sharing:
        # Workers choose the same features with fewer merges, of which a merge keeps one.
        return Sharing(Schedule.ASYNCHRONOUS, min_merges_per_pass=10)

    def update(self, state: State, any_block: Block) -> State:
        block = columns_of(any_block)
        self._begin(state, block)
        if state["merged"]:
            state["changes_before"] += state["changes"]
            state["changes"], state["merged"] = 0, False
        if not len(block.ids):
            return state
        came = [exchange.update(one, block, self.params.n_select) for one in _sets(state)]
        state["changes"] += max(came)
        return state

    def view(self, state: State, lane: int) -> State:
        seen: State = {"version": state["version"], "sets": state["sets"]}
        for number, one in enumerate(_sets(state)):
            Part(seen, f"{number}/").update(exchange.view(one, self.params.n_select))
        return seen

    def work(self, own: State | None, view: State, any_block: Block, worker: int) -> tuple[State, State | None]:
        own, block = {} if own is None else own, columns_of(any_block)
        offer: State = {"version": view["version"]}
        for number in range(view["sets"]):
            one = Part(own, f"{number}/")
            if nominated := exchange.work(one, Part(view, f"{number}/"), block, self.params.n_select):
                Part(offer, f"{number}/").update(nominated)
        return own, offer if len(offer) > 1 else None

    def combine_offers(self, offer: State, later: State, view: State) -> State:
        both: State = {"version": view["version"]}
        for number in range(view["sets"]):
            parts = [part for part in (Part(one, f"{number}/") for one in (offer, later)) if "X" in part]
            if parts:
                Part(both, f"{number}/").update(exchange.both(parts, Part(view, f"{number}/"), self.params.n_select))
        return both

    def remaining_offer(self, own: State) -> State | None:
        left = {name: own.pop(name) for name in list(own) if "/rejected" in name}
        return left or None

    def accept(self, state: State, offer: State) -> State:
        came = [0]
        for number, one in enumerate(_sets(state)):
            part = Part(offer, f"{number}/")
            if "X" in part:
                came.append(exchange.accept(one, part, self.params.n_select))
            if "rejected" in part:
                exchange.remember(one, part["rejected"], part["rejected_score"], self.params.n_select)
        if "version" in offer:
            state["lags"][min(state["version"] - offer["version"], _LAGS - 1)] += 1
        state["changes"] += max(came)
        state["version"] += any(came)
        return state

    def held_features(self, state: State) -> NDArray[np.uint64]:
        held = np.concatenate([selected(one) for one in _sets(state)])
        return np.unique(held).astype(np.uint64)

    def _begin(self, state: State, block: AnyColumns) -> None:
        """Take over the target from the first block that comes."""
        if state["started"]:
            return
        state["started"] = True
        if block.weight is not None:
            state["weight"][:] = normalise_weights(block.weight)
        target = encode_target(block.y, state["positive"])
        if self.params.intercept and np.isnan(state["positive"]):  # digits of a large mean would be lost in float32
            state["centre"] = float(np.average(target, weights=state["weight"]))
        for one in _sets(state):
            one["target"][:] = target - state["centre"]
            one["importance"][:] = state["weight"]
            one["importance"][state["held_back"]] = 0.0
            refresh(one)

    def merge(self, states: Sequence[State]) -> State:
        ordered = sorted(states, key=lambda state: [np.sort(selected(one)).tolist() for one in _sets(state)])
        first = next((state for state in ordered if state["started"]), ordered[0])
        state = copy_state(first)
        ready = [state, *(other for other in ordered if other["started"] and other is not first)]
        for sets in zip(*(_sets(other) for other in ready), strict=True):
            exchange.merge(sets, self.params.n_select)
        state["changes"] += sum(other["changes"] for other in ready[1:])
        state["merged"] = True
        return state

    def end_pass(self, state: State) -> tuple[State, bool]:
        state["passes"] += 1
        state["changes"] += state["changes_before"]
        for one in _sets(state) if state["changes"] else ():
            refresh(one)  # what rounding has added up goes with it
        racing, changed = state["sets"] > 1, state["changes"] > 0
        if racing:
            state["score"] = self._lap(state)
        state["history"][state["passes"] - 1] = self._line(Part(state, "0/"), state)
        state["lags"][:], state["changes"], state["changes_before"], state["merged"] = 0, 0, 0, False
        state["version"] += 1
        return state, state["passes"] < self.params.passes and (changed or racing)

    def _line(self, one: Fields, state: State) -> list[float]:
        """What is to be said of a pass, or of what came after the last."""
        lags = state["lags"]
        offers = int(lags.sum())
        mean = float(lags @ np.arange(_LAGS) / offers) if offers else 0.0
        most = float(np.flatnonzero(lags)[-1]) if offers else 0.0
        return [one["objective"], state["changes"], one["ridge"], state["score"], mean, most, offers]

    def revisit(self, state: State) -> NDArray[np.uint64]:
        one = Part(state, "0/")
        useful: NDArray[np.int64] = one["rejected"][one["rejected_score"] > exchange.NEVER]
        return useful.astype(np.uint64)

    def result(self, state: State) -> Result:
        own = {name: np.copy(value) if _is_small(name, value) else value for name, value in Part(state, "0/").items()}
        spare = own["rejected"][np.argsort(-own["rejected_score"], kind="stable")]
        one = fitted(own, state["refit_ridge"])
        lines = [*state["history"][: state["passes"]].tolist(), self._line(one, state)]
        history = [dict(zip(HISTORY, line, strict=True)) for line in lines]
        found = result_of(one, self.params.n_select, spare, decode_classes(state["classes"]), history)
        return replace(found, intercept=found.intercept + state["centre"])

    def preview(self, state: State, most: int) -> Preview:
        one, changes = Part(state, "0/"), state["changes"] + state["changes_before"]
        at = slice(one["fixed"], one["k"])
        objective = one["objective"] if state["started"] else np.nan
        return preview_of(one["ids"][at], one["w"][at], one["norm"][at], most, objective, changes, state["lags"])

    def nbytes(self, meta: Meta) -> int:
        sets = len(self._ridges(meta.n_samples))
        entering = exchange.crowd(self.params.n_select)
        widest = meta.block_nbytes // (meta.n_samples * meta.itemsize)  # dense; a sparse block has its columns' ids too
        one = set_nbytes(meta.n_samples, self.params.n_select, entering, meta.itemsize)
        return sets * one + 16 * meta.n_samples + _SCORING * widest

    def _ridges(self, n_samples: int) -> tuple[float, ...]:
        given = self.params.ridge
        return race.entrants(n_samples, self.params.loss) if given == "auto" else (max(float(given), LEAST_RIDGE),)

    def _held_back(self, meta: Meta, seed: int) -> NDArray[np.int64]:
        return race.held_back(meta.n_samples, meta.classes is not None, seed)

    def _lap(self, state: State) -> float:
        """After a pass of the race: the score on held-back rows; after the last, the best set goes on alone."""
        verdicts = [race.judged(one, state["held_back"], state["weight"], self.params.loss) for one in _sets(state)]
        best = race.winner(verdicts)
        if state["passes"] >= min(race.LAPS, self.params.passes):
            _crown(state, best)
            state["refit_ridge"] = verdicts[best].ridge
        return verdicts[best].score


def _is_small(name: str, value: object) -> bool:
    """Whether a field of a set is an array that may be copied: all but the columns themselves."""
    return isinstance(value, np.ndarray) and name != "X"


def _sets(state: State) -> Iterator[Fields]:
    return (Part(state, f"{number}/") for number in range(state["sets"]))


def _crown(state: State, best: int) -> None:
    """Let the best set go on alone, with all rows."""
    one = Part(state, "0/")
    if best:
        one.update(Part(state, f"{best}/"))
    for number in range(1, state["sets"]):
        Part(state, f"{number}/").clear()
    state["sets"], state["held_back"] = 1, np.empty(0, np.int64)
    one["importance"][:] = state["weight"]
    refresh(one)
