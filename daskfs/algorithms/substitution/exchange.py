"""`method="block"`: a whole block is scored with one sweep, the best of it are fitted jointly with the set.

A worker needs the pull and the curvature of the rows and a threshold (`view`), and offers columns that beat it
(`work`); whoever owns the set lets them in, refits, and drops by exact loss (`accept`). Serially the two
alternate once more while the block is in memory; on a cluster the view may be a little old, which costs a nomination
now and then and never correctness, since `accept` scores again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.substitution.columns import AnyColumns, Sweep, pulled, swept, unit_columns
from daskfs.algorithms.substitution.refit import Fields, enter, selected, settle, transposed
from daskfs.protocol import State

SHARE = 8  # at most one column in so many of a block is nominated once the set is full,
FEW = 16  # or so many,
_CROWD = 64  # and never more than these, or twice the features asked for: a fit costs the third power of their number
POOL = 5  # rejected columns remembered for a last look, per feature asked for
_TINY = 1e-12  # for columns on which all curvature is lost
NEVER = -1.0  # the score of a column that cannot help, such as a constant


def crowd(wanted: int) -> int:
    """How many columns may be nominated at once, at most."""
    return max(_CROWD, 2 * wanted)


def view(one: Fields, wanted: int) -> State:
    """What a worker has to know to nominate."""
    room = wanted - len(selected(one))
    return {
        "version": one["version"],
        "r": one["r"],
        "h": one["h"][:0] if one["uniform"] else one["h"],
        "ridge": one["ridge"],
        "threshold": one["threshold"] if room <= 0 else 0.0,
        "room": room,
        "centred": bool(one["fixed"]),
        "ids": np.sort(selected(one)),
    }


class Scored(NamedTuple):
    """A block and what letting each of its columns in would gain; `free` ones are not in the set."""

    block: AnyColumns
    found: Sweep
    score: NDArray[np.float64]
    free: NDArray[np.bool_]


def scored(view: Fields, block: AnyColumns) -> Scored:
    """Score a block with one sweep."""
    found = swept(block, view["r"], view["h"], view["centred"])
    score = np.where(found.norm > 0, found.g**2 / (found.d + view["ridge"] + _TINY), NEVER)
    return Scored(block, found, score, ~np.isin(block.ids.astype(np.int64), view["ids"]))


def rescored(before: Scored, view: Fields) -> Scored:
    """Score a block again after the set has changed; columns that were nowhere near keep their score."""
    block, found, score = before.block, before.found, before.score.copy()
    near = np.flatnonzero(before.free & (score > view["threshold"] / 2))
    score[near] = pulled(block, near, found, view["r"]) ** 2 / (found.d[near] + view["ridge"] + _TINY)
    return Scored(block, found, score, before.free & ~np.isin(block.ids.astype(np.int64), view["ids"]))


def nominated(own: Fields, view: Fields, now: Scored, wanted: int) -> State | None:
    """The best columns of a block, if they beat the threshold; the best of the others are remembered in `own`."""
    block, found, score, free = now
    ids = block.ids.astype(np.int64)
    most = max(min(len(ids) // SHARE, crowd(wanted)), FEW, view["room"])
    best = np.flatnonzero(free & (score > view["threshold"]))
    if len(best) > most:
        best = np.sort(best[np.argsort(-score[best], kind="stable")[:most]])
    left = free.copy()
    left[best] = False
    remember(own, ids[left], score[left], wanted)
    if not len(best):
        return None
    return {
        "version": view["version"],
        "ids": ids[best],
        "score": score[best],
        "mean": found.mean[best],
        "norm": found.norm[best],
        "d": found.d[best],
        "X": unit_columns(block, best, found.mean[best], found.norm[best], view["r"].dtype),
    }


def work(own: Fields, view: Fields, block: AnyColumns, wanted: int) -> State | None:
    """Score a block and nominate its best columns."""
    return nominated(own, view, scored(view, block), wanted)


def both(offers: Sequence[Fields], view: Fields, wanted: int) -> State:
    """The best columns of offers that could not be sent yet, scored again; the others count as rejected."""
    ids, mean, norm, d = (np.concatenate([offer[name] for offer in offers]) for name in ("ids", "mean", "norm", "d"))
    pull = np.concatenate([transposed(offer["X"], view["r"]) for offer in offers])
    score = pull**2 / (d + view["ridge"] + _TINY)
    most = max(FEW, view["room"])
    best = np.sort(np.argsort(-score, kind="stable")[:most])
    best = best[(score[best] > view["threshold"]) & ~np.isin(ids[best], view["ids"])]
    one: State = {"version": view["version"], "ids": ids[best], "score": score[best]}
    one |= {"mean": mean[best], "norm": norm[best], "d": d[best]}
    one["X"] = np.asfortranarray(np.concatenate([offer["X"] for offer in offers], axis=1)[:, best])
    for offer in offers:
        if "rejected" in offer:
            remember(one, offer["rejected"], offer["rejected_score"], wanted)
    left = np.setdiff1d(np.arange(len(ids)), best)
    remember(one, ids[left], score[left], wanted)
    return one


def accept(one: Fields, offer: Fields, wanted: int) -> int:
    """Let nominated columns in as far as they still lower the loss; returns how many came in and stayed."""
    ids, score = offer["ids"], offer["score"]
    before = selected(one).copy()
    keep = ~np.isin(ids, before)
    if offer["version"] != one["version"] and keep.any():
        score = transposed(offer["X"], one["r"]) ** 2 / ((offer["X"] ** 2).T @ one["h"] + one["ridge"])
        if len(before) >= wanted:
            keep &= score > one["threshold"]
    came = 0
    if keep.any():
        columns = offer["X"] if keep.all() else np.asfortranarray(offer["X"][:, keep])
        came = enter(one, ids[keep], columns, offer["mean"][keep], offer["norm"][keep], wanted)
    if came:
        settle(one)
        one["version"] += 1
    now = selected(one)
    _forget(one, now)
    scores = dict(zip(ids.tolist(), score.tolist(), strict=True))
    out = np.setdiff1d(np.concatenate([ids, before]), now)
    remember(one, out, np.array([scores.get(i, one["threshold"]) for i in out.tolist()]), wanted)
    return came


def update(one: Fields, block: AnyColumns, wanted: int) -> int:
    """Both halves, and once more if that has changed anything; returns how many columns came in."""
    own: State = {}
    seen = view(one, wanted)
    now = scored(seen, block)
    offer = nominated(own, seen, now, wanted)
    came = 0 if offer is None else accept(one, offer, wanted)
    if came:
        seen, own = view(one, wanted), {}
        offer = nominated(own, seen, rescored(now, seen), wanted)
        came += 0 if offer is None else accept(one, offer, wanted)
    remember(one, own["rejected"], own["rejected_score"], wanted)
    return came


def merge(ones: Sequence[Fields], wanted: int) -> int:
    """Bring the columns of several sets into the first of them; returns how many stayed there."""
    one, came = ones[0], 0
    for other in ones[1:]:
        fixed, k = other["fixed"], other["k"]
        new = np.sort(fixed + np.flatnonzero(~np.isin(selected(other), selected(one))))
        if len(new):
            columns = np.asfortranarray(other["X"][:, new])
            came += enter(one, other["ids"][new], columns, other["mean"][new], other["norm"][new], wanted)
            settle(one)
        out = np.setdiff1d(other["ids"][fixed:k], selected(one))
        remember(one, out, np.full(len(out), one["threshold"]), wanted)
        remember(one, other["rejected"], other["rejected_score"], wanted)
        one["version"] = max(one["version"], other["version"])
    _forget(one, selected(one))
    one["version"] += 1
    return came


def remember(own: Fields, ids: NDArray[np.int64], score: NDArray[np.float64], wanted: int) -> None:
    """Add rejected columns to a pool that keeps the best, each once, with its newest score."""
    known = own.get("rejected", np.empty(0, np.int64))
    worth = own.get("rejected_score", np.empty(0))
    if len(known) >= POOL * wanted:
        better = score > worth.min()
        if not better.any():
            return
        ids, score = ids[better], score[better]
    kept = ~np.isin(known, ids)
    known, worth = np.concatenate([known[kept], ids]), np.concatenate([worth[kept], score])
    if len(known) > POOL * wanted:
        best = np.argsort(-worth, kind="stable")[: POOL * wanted]
        known, worth = known[best], worth[best]
    own["rejected"], own["rejected_score"] = known, worth


def _forget(one: Fields, ids: NDArray[np.int64]) -> None:
    """Take columns that are in the set out of the pool."""
    stays = ~np.isin(one["rejected"], ids)
    one["rejected"], one["rejected_score"] = one["rejected"][stays], one["rejected_score"][stays]
