"""The selected set of `method="block"`: columns in slots, fitted jointly, and exchanged by exact loss.

The set minimises  Σ m_i L(u_i, y_i) + ½ λ ‖w‖²,  u = X_S w_S,  over standardised columns; where there is an
intercept it is a column of its own in slot 0, never penalised and never dropped. m_i is the importance of
row i, 0 while the row is held back.

H = X_Sᵀ diag(h) X_S + λI is kept as its inverse, with h the curvature of the rows when it was last taken. A
step of Newton's method with a slightly old h still points downhill, and h is taken anew when it has drifted;
for the squared loss it is constant and a single step is exact. New columns enter by a block-wise extension of the
inverse, old ones leave by `prune`.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from daskfs.algorithms.loss_kernels import SQUARED, curvatures, residuals
from daskfs.algorithms.substitution.kernels import prune
from daskfs.errors import OptionError
from daskfs.protocol import State

Floats = NDArray[np.float64]
Fields = MutableMapping[str, Any]
"""A state, or the part of one that belongs to one set."""

INTERCEPT = -1  # in place of a feature's id, in slot 0
_TILE = 16_384  # rows multiplied in the data's precision before they are added up in float64
_WORTHWHILE = 1e-9  # share of the objective that a step must promise for another to follow
_ATTEMPTS = 8  # at an inverse, with more and more ridge
_HALVINGS = 20  # of a step that leads uphill
CAUTIOUS = 1e-2  # curvature of rows that have less: steps are shorter for it, and an old H stays useful for longer
_DRIFT = 0.1  # share of the curvature that may change before H is taken anew
LEAST_RIDGE = 1e-7  # of columns of unit norm: what less of it does is lost in rounding
_DUPLICATE = {4: 1e-5, 8: 1e-9}  # 1 − |cosine| below which two columns are one, by the bytes of a number


class Part(Fields):
    """The fields of a flat state whose names begin with a prefix, under the rest of their names."""

    def __init__(self, state: State, prefix: str) -> None:
        self._state, self._prefix = state, prefix

    def __getitem__(self, name: str) -> Any:
        return self._state[self._prefix + name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._state[self._prefix + name] = value

    def __delitem__(self, name: str) -> None:
        del self._state[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in list(self._state) if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def new_set(n: int, slots: int, itemsize: int, code: int, intercept: bool) -> State:
    """A set with room for `slots` features, empty but for the intercept."""
    dtype = np.dtype(f"f{itemsize}")
    size = slots + intercept
    state: State = {
        "code": code,
        "fixed": int(intercept),
        "k": int(intercept),
        "ids": np.full(size, INTERCEPT, np.int64),
        "X": np.zeros((n, size), dtype, order="F"),
        "mean": np.zeros(size),
        "norm": np.ones(size),
        "w": np.zeros(size),
        "inverse": np.zeros((size, size)),
        "diagonal": np.ones(size),  # of X_Sᵀ diag(h) X_S
        "ridge": 0.0,
        "threshold": 0.0,
        "objective": np.nan,
        "target": np.zeros(n),
        "importance": np.ones(n),
        "u": np.zeros(n),
        "r": np.zeros(n, dtype),
        "h": np.zeros(n, dtype),
        "uniform": False,  # whether h is 1 throughout
    }
    if intercept:
        state["X"][:, 0] = 1 / np.sqrt(n)
    return state


def set_nbytes(n: int, slots: int, entering: int, itemsize: int) -> int:
    """Bytes of a set, and of its work when `entering` columns come at once."""
    size = slots + 1
    columns = n * (size + 2 * entering) * itemsize + min(n, _TILE) * size * itemsize
    small = 8 * 6 * (size + entering) ** 2
    return columns + small + n * (3 * 8 + 2 * itemsize + 8)


def selected(state: Fields) -> NDArray[np.int64]:
    """Ids of the features in the set, by slot."""
    ids: NDArray[np.int64] = state["ids"][state["fixed"] : state["k"]]
    return ids


def refresh(state: Fields, steps: int = 3, least: float = CAUTIOUS) -> Fields:
    """Take curvature (at least `least`) and H anew and go to the minimum, as far as `steps` of Newton's method lead."""
    k, X = state["k"], state["X"]
    for _ in range(steps):
        curvatures(state["code"], state["u"], state["target"], state["importance"], least, state["h"])
        state["uniform"] = bool((state["h"] == 1).all())
        H = gram(X[:, :k], state["h"])
        state["diagonal"][:k] = np.diag(H)
        state["inverse"][:k, :k] = _inverse(H + np.diag(_penalty(state, k)))
        if not descend(state):
            break
    _close(state)
    return state


def descend(state: Fields) -> bool:
    """One step of Newton's method with the H at hand; False once there is nothing left to gain."""
    k, X = state["k"], state["X"]
    residuals(state["code"], state["u"], state["target"], state["importance"], state["r"])
    slope = transposed(X[:, :k], state["r"]) - _penalty(state, k) * state["w"][:k]
    step = state["inverse"][:k, :k] @ slope
    before = _walk(state, step, X[:, :k] @ step.astype(X.dtype))
    return float(slope @ step) > _WORTHWHILE * before


def enter(state: Fields, ids: NDArray[np.int64], XK: NDArray[Any], mean: Floats, norm: Floats, keep: int) -> int:
    """Let standardised columns join, refit all together, keep the best; returns how many of the new ones stayed."""
    fixed, k, X = state["fixed"], state["k"], state["X"]
    weighted = XK if state["uniform"] else XK * state["h"][:, None]
    C, B = cross(X[:, :k], weighted), cross(XK, weighted)
    fresh = _distinct(C[fixed:], B, state["diagonal"][fixed:k], _DUPLICATE[X.dtype.itemsize])
    if not len(fresh):
        return 0
    if len(fresh) < len(ids):
        ids, mean, norm, C, B = ids[fresh], mean[fresh], norm[fresh], C[:, fresh], B[np.ix_(fresh, fresh)]
        XK = np.asfortranarray(XK[:, fresh])
    inverse = _extended(state["inverse"][:k, :k], C, B + state["ridge"] * np.eye(len(fresh)))
    slope = np.concatenate([np.zeros(k), transposed(XK, state["r"])])
    old = np.concatenate([state["w"][:k], np.zeros(len(fresh))])
    w = old + inverse @ slope
    alive = prune(inverse, w, fixed, fixed + keep)
    holder = _holders(alive, k)
    for slot in np.flatnonzero(holder >= k):
        new = holder[slot] - k
        X[:, slot] = XK[:, new]
        state["ids"][slot], state["mean"][slot], state["norm"][slot] = ids[new], mean[new], norm[new]
        state["diagonal"][slot] = B[new, new]
    _seat(state, holder, inverse, w, old)
    return int(alive[k:].sum())


def _seat(state: Fields, holder: NDArray[np.int64], inverse: Floats, w: Floats, old: Floats) -> None:
    """Take over inverse and weights of the columns that now sit in the slots.

    The new weights rest on a quadratic; where the loss is none, they are taken only as far as they lead downhill.
    """
    size, X = len(holder), state["X"]
    state["k"] = size
    state["inverse"][:size, :size] = inverse[np.ix_(holder, holder)]
    state["w"][:size] = w[holder]
    state["u"][:] = X[:, :size] @ w[holder].astype(X.dtype)
    if state["code"] != SQUARED:
        state["w"][:size] = old[holder]
        start = X[:, :size] @ old[holder].astype(X.dtype)
        way = state["u"] - start
        state["u"][:] = start
        _walk(state, (w - old)[holder], way)
    _close(state)


def _walk(state: Fields, step: Floats, way: Floats) -> float:
    """Go along a step, `way` being what it changes in u, as far as it leads downhill; the objective before."""
    k = state["k"]
    before = _objective(state, state["u"], state["w"][:k])
    for _ in range(_HALVINGS):
        u, w = state["u"] + way, state["w"][:k] + step
        if _objective(state, u, w) <= before + 1e-12 * abs(before):
            state["u"][:], state["w"][:k] = u, w
            break
        step, way = step / 2, way / 2
    return before


def _holders(alive: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
    """Who sits in each slot, of k old and some new columns: whoever can stays, the others fill the gaps."""
    total = int(alive.sum())
    stays = alive.copy()
    stays[min(k, total) :] = False
    holder = np.arange(total)
    holder[~stays[:total]] = np.flatnonzero(alive & ~stays)
    return holder


def _distinct(C: Floats, B: Floats, diagonal: Floats, tolerance: float) -> NDArray[np.int64]:
    """Which new columns are near-duplicates neither of the set nor of a new one before them."""
    lengths = np.sqrt(np.diag(B))
    alike = (np.abs(C) > (1 - tolerance) * np.sqrt(diagonal)[:, None] * lengths).any(axis=0)
    earlier = np.triu(np.abs(B) > (1 - tolerance) * lengths[:, None] * lengths, k=1)
    keep: list[int] = []
    for j in np.flatnonzero(~alike & (lengths > 0)):
        if not earlier[keep, j].any():
            keep.append(int(j))
    return np.array(keep, np.int64)


def _extended(inverse: Floats, C: Floats, B: Floats) -> Floats:
    """The inverse of [[H, C], [Cᵀ, B]] from that of H."""
    Z = inverse @ C
    schur = _inverse(B - C.T @ Z)
    schur = (schur + schur.T) / 2
    ZS = Z @ schur
    return np.block([[inverse + ZS @ Z.T, -ZS], [-ZS.T, schur]])


def _inverse(H: Floats) -> Floats:
    """The inverse of a matrix that is positive definite but for rounding, which a little more ridge makes up for."""
    extra = 0.0
    for _ in range(_ATTEMPTS):
        try:
            return np.asarray(cho_solve(cho_factor(H + extra * np.eye(len(H))), np.eye(len(H))))
        except np.linalg.LinAlgError:
            extra = max(10 * extra, 1e-8 * float(np.trace(H)) / len(H))
    raise OptionError("the chosen columns cannot be fitted together: give a larger ridge")


def _close(state: Fields) -> None:
    """After a change: pull of the rows, objective, and what the least useful feature is worth."""
    k, fixed = state["k"], state["fixed"]
    loss = residuals(state["code"], state["u"], state["target"], state["importance"], state["r"])
    w = state["w"][fixed:k]
    state["objective"] = loss + 0.5 * state["ridge"] * float(w @ w)
    worth = w**2 / np.diag(state["inverse"])[fixed:k]
    state["threshold"] = float(worth.min()) if len(w) else 0.0


def settle(state: Fields, steps: int = 3) -> Fields:
    """After columns were exchanged: go on to the minimum, with a new H where the curvature has drifted."""
    if state["code"] == SQUARED:
        return state
    h = np.empty_like(state["h"])
    curvatures(state["code"], state["u"], state["target"], state["importance"], CAUTIOUS, h)
    if np.abs(h - state["h"]).sum() > _DRIFT * state["h"].sum():
        return refresh(state, steps)
    for _ in range(steps):
        if not descend(state):
            break
    _close(state)
    return state


def cross(A: NDArray[Any], B: NDArray[Any]) -> Floats:
    """AᵀB, long sums in float64."""
    out = np.zeros((A.shape[1], B.shape[1]))
    for start in range(0, len(A), _TILE):
        out += A[start : start + _TILE].T @ B[start : start + _TILE]
    return out


def gram(A: NDArray[Any], h: NDArray[Any]) -> Floats:
    """Aᵀ diag(h) A, a tile of rows at a time."""
    out = np.zeros((A.shape[1], A.shape[1]))
    for start in range(0, len(A), _TILE):
        rows = slice(start, start + _TILE)
        out += A[rows].T @ (A[rows] * h[rows, None])
    return out


def transposed(A: NDArray[Any], r: NDArray[Any]) -> Floats:
    """Aᵀr, long sums in float64."""
    return cross(A, r[:, None])[:, 0]


def _penalty(state: Fields, k: int) -> Floats:
    """The ridge of every slot."""
    ridge = np.full(k, state["ridge"])
    ridge[: state["fixed"]] = 0.0
    return ridge


def _objective(state: Fields, u: Floats, w: Floats) -> float:
    loss = residuals(state["code"], u, state["target"], state["importance"], np.empty_like(state["r"]))
    return float(loss) + 0.5 * float(_penalty(state, len(w)) @ w**2)
