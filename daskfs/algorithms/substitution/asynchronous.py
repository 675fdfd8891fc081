"""`method="async"`: Asy-OS, algorithms 2 and 3 of the paper.

Worker t has slots of its own, S(t) with weights w_S(t), and takes the steps of algorithm 1 for its columns; the centre
holds u_C = Σ_t u(t), u(t) = X_S(t) w_S(t). What differs from the listing, and why:

* A push carries u(t) itself, numbered, instead of the difference Δu(t): the centre replaces the worker's part. That
  is the same sum, but a push that is lost, late or comes twice does no harm, and a new centre is whole again once
  every worker has pushed.
* A pull gives u_C without the worker's own part, which the worker adds afresh. One pull and one push serve a block.
* γ must be below 1/L of *all* columns together. No process sees them all, so the power iteration is distributed:
  z = Σ_t X_S(t) v(t) is added up like u_C, a worker turns its part by v(t) = X_S(t)ᵀ z / L, and L = ‖z‖² / Σ‖v(t)‖².
* ``budget="elastic"``: with 1/q of the slots each, a worker whose columns are better than average has to drop features
  that would win against those of another. So a column that beats the least of *all* workers may take a slot beyond
  the budget, and at its next pull every worker is left with as many as it has among the k largest weights of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import CODE, CURVATURE, encode_target
from daskfs.algorithms.substitution.columns import AnyColumns, swept, unit_columns
from daskfs.algorithms.substitution.method import Method, columns_of
from daskfs.algorithms.substitution.paper import (
    blank_target,
    last_objective,
    loss_of,
    refitted,
    spared,
    take_target,
)
from daskfs.algorithms.substitution.refit import Part, set_nbytes, transposed
from daskfs.algorithms.substitution.result import preview_of
from daskfs.algorithms.substitution.steps import Steps, new_slots, slots_nbytes, trimmed
from daskfs.errors import OptionError
from daskfs.protocol import AsynchronousAlgorithm, Block, ColumnBlock, Meta, Preview, Result, Schedule, Sharing, State

HISTORY = ("objective", "changes", "staleness", "staleness_max", "offers", "late")
_LAGS = 256


@dataclass(frozen=True)
class AsynchronousMethod(Method, AsynchronousAlgorithm):
    """The centre's side is a state with a part for every lane; a worker's own state are its slots."""

    def start(self, meta: Meta, seed: int) -> State:
        state: State = {
            **blank_target(meta),
            "n": meta.n_samples,
            "itemsize": meta.itemsize,
            "passes": 0,
            "changes": 0,
            "version": 0,
            "turn": 0,
            "lanes": 0,
            "late": 0,
            "spare": np.empty(0, np.int64),
            "lags": np.zeros(_LAGS, np.int64),
            "history": np.full((self.params.passes, len(HISTORY)), np.nan),
        }
        for lane in range(self.params.workers):
            self._know(state, lane)
        return state

    @property
    def sharing(self) -> Sharing:
        return Sharing(Schedule.ASYNCHRONOUS, min_merges_per_pass=10, needs_fresh_views=True)

    def update(self, state: State, any_block: Block) -> State:
        """Serially the lanes take turns, block by block; after the last pass columns come for the refit."""
        block = columns_of(any_block)
        if "ids" in state:
            return self.accept(state, self._found(block)) if len(block.ids) else state
        take_target(state, block, self.params)
        if not len(block.ids):
            return state
        lane = state["turn"] % self.params.workers
        state["turn"] += 1
        own = {name: state.pop(f"own{lane}/{name}") for name in list(Part(state, f"own{lane}/"))} or None
        own, offer = self.work(own, self.view(state, lane), block, lane)
        state.update({f"own{lane}/{name}": value for name, value in own.items()})
        return self.accept(state, offer) if offer is not None else state

    def view(self, state: State, lane: int) -> State:
        if "ids" in state:
            return {"version": state["version"], "closed": True}
        self._know(state, lane)
        part = Part(state, f"lane{lane}/")
        return {
            "version": state["version"],
            "others": state["u"] - part["u"],
            "z_others": state["z"] - part["z"],
            "L": self._smoothness(state),
            **self._shares(state, lane),
            "number": part["number"],
            "constant": state["constant"],
            "positive": state["positive"],
            "n": state["n"],
            "itemsize": state["itemsize"],
        }

    def work(self, own: State | None, view: State, any_block: Block, worker: int) -> tuple[State, State | None]:
        """Algorithm 3 for a block of columns; after the last pass, the columns themselves."""
        if "closed" in view:
            return {}, self._found(columns_of(any_block))
        own, block = {} if own is None else own, columns_of(any_block)
        if "X" not in own:
            own.update(new_slots(view["n"], self.params.n_select, view["itemsize"]), number=view["number"])
        trimmed(own, view["budget"])
        steps = Steps(
            code=CODE[self.params.loss],
            target=encode_target(block.y, view["positive"]),
            offset=view["constant"] + view["others"],
            gamma=self.params.step / CURVATURE[self.params.loss],
            least_L=max(1.0, view["L"]),
            budget=view["budget"],
            bar=view["bar"],
            centred=self.params.intercept,
        )
        steps.rebase(own)
        came = steps.through(own, block, view["ids"])
        k, X = own["k"], own["X"][:, : own["k"]]
        turned = own["v"][:k] / max(np.linalg.norm(own["v"][:k]), 1e-300)
        if view["z_others"].any():
            z = X @ turned.astype(X.dtype) + view["z_others"]
            turned = transposed(X, z.astype(X.dtype)) / max(view["L"], 1.0)
        own["number"] += 1
        return own, {
            "lane": worker,
            "number": own["number"],
            "version": view["version"],
            "u": X @ own["w"][:k].astype(X.dtype),
            "z": X @ turned.astype(X.dtype),
            "v_square": float(turned @ turned),
            "ids": own["ids"][:k].copy(),
            "w": own["w"][:k].copy(),
            "norm": own["norm"][:k].copy(),
            "passed": block.ids[: 2 * self.params.n_select].astype(np.int64),
            "changes": came,
        }

    def combine_offers(self, offer: State, later: State, view: State) -> State:
        """The later push says all that the earlier one did; only what it counts has to be added up."""
        if "columns" in offer:
            return {name: np.concatenate([offer[name], later[name]], axis=-1) for name in offer}
        passed = np.concatenate([offer["passed"], later["passed"]])[-2 * self.params.n_select :]
        return later | {"passed": passed, "changes": offer["changes"] + later["changes"]}

    def n_workers(self, state: State) -> int:
        return int(state["lanes"])

    def accept(self, state: State, offer: State) -> State:
        """Algorithm 2: put the worker's part in the place of its old one, unless the push is old news or too stale."""
        if "columns" in offer:
            return self._collect(state, offer)
        self._know(state, offer["lane"])
        part = Part(state, f"lane{offer['lane']}/")
        lag = state["version"] - offer["version"]
        if offer["number"] <= part["number"] or lag > self.params.max_staleness:
            state["late"] += 1
            return state
        state["lags"][min(lag, _LAGS - 1)] += 1
        for name in ("u", "z"):
            state[name] += offer[name] - part[name]
        for name in ("number", "u", "z", "v_square", "ids", "w", "norm"):
            part[name] = offer[name]
        state["spare"] = spared(state["spare"], offer["passed"], self.params.n_select)
        state["changes"] += offer["changes"]
        state["version"] += 1
        return state

    def held_features(self, state: State) -> NDArray[np.uint64]:
        """None: workers hold the columns, and their next pushes bring back all that was lost; until they are done."""
        collected = state["ids"][state["collected"]] if "ids" in state else np.empty(0, np.int64)
        return np.sort(collected).astype(np.uint64)

    def merge(self, states: Sequence[State]) -> State:
        if len(states) > 1:
            raise OptionError("method='async' never waits, so it has nothing to merge: use method='block'")
        return states[0]

    def end_pass(self, state: State) -> tuple[State, bool]:
        lags, offers = state["lags"], int(state["lags"].sum())
        mean = float(lags @ np.arange(_LAGS) / offers) if offers else 0.0
        most = float(np.flatnonzero(lags)[-1]) if offers else 0.0
        objective = loss_of(state["constant"] + state["u"], state["target"], self.params)
        state["history"][state["passes"]] = objective, state["changes"], mean, most, offers, state["late"]
        state["passes"] += 1
        state["turn"] = 0  # so that a lane gets the same columns in every pass
        lags[:], state["changes"], state["late"] = 0, 0, 0
        go_on = state["passes"] < self.params.passes
        if not go_on:
            self._close(state)
        return state, go_on

    def revisit(self, state: State) -> NDArray[np.uint64]:
        """The columns of the set itself, for the refit: they are spread over the workers."""
        return np.sort(state["ids"]).astype(np.uint64)

    def result(self, state: State) -> Result:
        history = [dict(zip(HISTORY, line, strict=True)) for line in state["history"][: state["passes"]].tolist()]
        return refitted(state, state["X"], self.params, state["spare"], history)

    def preview(self, state: State, most: int) -> Preview:
        """In the end, before the refit, weights are unknown."""
        if "ids" in state:
            ids, w, norm = state["ids"], np.full(len(state["ids"]), np.nan), np.ones(len(state["ids"]))
        else:
            parts = self._lanes(state)
            ids = np.concatenate([np.empty(0, np.int64), *(part["ids"] for part in parts)])
            w, norm = (np.concatenate([np.empty(0), *(part[name] for part in parts)]) for name in ("w", "norm"))
        objective = last_objective(state)
        return preview_of(ids, w, norm, most, objective, state["changes"], state["lags"])

    def nbytes(self, meta: Meta) -> int:
        n, k, lanes = meta.n_samples, self.params.n_select, self.params.workers
        slots = slots_nbytes(n, k, meta.itemsize) + (lanes - 1) * 8 * k * k
        return slots + (lanes + 1) * 3 * 8 * n + 2 * set_nbytes(n, k, 0, meta.itemsize)

    def _know(self, state: State, lane: int) -> None:
        """Make a part for a lane that is heard of for the first time."""
        if "u" not in state:
            state["u"], state["z"] = np.zeros(state["n"]), np.zeros(state["n"])
        for new in range(state["lanes"], lane + 1):
            Part(state, f"lane{new}/").update(
                number=0, v_square=0.0, u=np.zeros(state["n"]), z=np.zeros(state["n"]), ids=np.empty(0, np.int64),
                w=np.empty(0), norm=np.empty(0),
            )  # fmt: skip
            state["lanes"] = new + 1

    def _lanes(self, state: State) -> list[Part]:
        return [Part(state, f"lane{lane}/") for lane in range(state["lanes"])]

    def _smoothness(self, state: State) -> float:
        """λ_max of all columns together, as far as the distributed power iteration has come."""
        square = sum(part["v_square"] for part in self._lanes(state))
        return float(state["z"] @ state["z"]) / square if square else 1.0

    def _shares(self, state: State, lane: int) -> State:
        """How many slots a lane may use, the bar above which it may use more, and which features others have."""
        k, q, parts = self.params.n_select, state["lanes"], self._lanes(state)
        none = np.empty(0, np.int64)
        taken = np.concatenate([none, *(part["ids"] for number, part in enumerate(parts) if number != lane)])
        if self.params.budget == "faithful":
            return {"budget": k // q + (lane < k % q), "bar": np.inf, "ids": taken}
        held = len(parts[lane]["w"])
        worth = np.sort(np.abs(np.concatenate([part["w"] for part in parts])))[::-1]
        if len(worth) < k:  # whoever comes first takes what is free; should several, the least weights leave again
            return {"budget": held + k - len(worth), "bar": np.inf, "ids": taken}
        bar = float(worth[k - 1])
        return {"budget": int((np.abs(parts[lane]["w"]) >= bar).sum()), "bar": bar, "ids": taken}

    def _close(self, state: State) -> None:
        """Settle which features are in: the largest weights of all lanes."""
        parts, k = self._lanes(state), self.params.n_select
        ids = np.concatenate([part["ids"] for part in parts])
        worth = np.abs(np.concatenate([part["w"] for part in parts]))
        order = np.argsort(-worth, kind="stable")
        first = np.unique(ids[order], return_index=True)[1]  # two lanes may have met the same column
        ids = ids[order][np.sort(first)][:k]
        for name in [name for name in state if name.startswith(("own", "lane")) and "/" in name]:
            del state[name]
        state.update(new_slots(state["n"], len(ids), state["itemsize"]))
        state["ids"], state["collected"] = ids, np.zeros(len(ids), np.bool_)

    def _found(self, block: AnyColumns) -> State:
        """Columns of the set, standardised."""
        nothing = np.zeros(len(block.y), block.X.dtype if isinstance(block, ColumnBlock) else np.float32)
        found, all_of_it = swept(block, nothing, nothing[:0], self.params.intercept), np.arange(len(block.ids))
        columns = unit_columns(block, all_of_it, found.mean, found.norm, nothing.dtype)
        return {"ids": block.ids.astype(np.int64), "columns": columns, "mean": found.mean, "norm": found.norm}

    def _collect(self, state: State, offer: State) -> State:
        """Fill the slots of the set with its columns; one that comes again changes nothing."""
        slots, order = np.flatnonzero(np.isin(state["ids"], offer["ids"])), np.argsort(offer["ids"])
        matching = order[np.searchsorted(offer["ids"], state["ids"][slots], sorter=order)]
        state["X"][:, slots] = offer["columns"][:, matching]
        state["mean"][slots], state["norm"][slots] = offer["mean"][matching], offer["norm"][matching]
        state["collected"][slots] = True
        state["k"] = int(state["collected"].sum())
        return state
