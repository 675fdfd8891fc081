"""The l1 problem of Sparse Random Features, solved on its Gram matrix to a given KKT residual, and its path.

The problem has one or several targets c that share a Gram matrix G = ΦᵀDΦ (A × A), with b = ΦᵀDy and a penalty lam > 0:

    F(W) = Σ_c [½ w_cᵀ G w_c − b_cᵀ w_c] + lam Σ|W|

Random features are nearly collinear: condition numbers of 1e12 are normal, and coordinate descent alone stops some
percent above the minimum. The solver uses coordinate descent only to find the signs of the weights, and Newton's method
for the rest. With fixed signs the objective F is a quadratic on the support (features with a weight), whose minimum
takes one solve. A Newton step, along which weights may change sign, ends where F is least along the step. A weight that
is zero at the end of a step leaves the support S, and plane rotations update the Cholesky factor in |S|² operations.

The solver keeps a working set of features, the support and the features that violate the KKT conditions most, which
grows until no feature violates them. Memory is A² numbers for G, n² for a working set of n features, and |S|² for the
Cholesky factor.

An unpenalised intercept is not part of the problem, since `unpenalised.remove_intercept` removes it beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from daskfs.algorithms.random_features import kernels
from daskfs.errors import OptionError

Float64Array = NDArray[np.float64]
Indices = NDArray[np.int64]
LassoProblem = tuple[Float64Array, Float64Array]
"""The Gram matrix G and the vector or matrix b of the objective F."""

EPS = float(np.finfo(np.float64).eps)
_EPOCHS = 20  # of coordinate descent between Newton steps; most descents end earlier, when the signs no longer change
_MAX_WORKING_SETS = 100  # at most 25 were ever needed
_PATIENCE = 15  # working sets without a smaller residual; then rounding is the limit
_MAX_TURNS = 20  # of descent and Newton steps within a working set; two are usual
_GROWTH = 0.5  # features that a working set may hold beside the support, as a share of the support,
_LEAST_GROWTH = 20  # but at least this many
_PATH_RATIO = 0.7  # of a penalty to the one before it
_PATH_END = 1e-8  # as a share of the largest penalty: below, only rounding is left to explain
_BISECTIONS = 30  # of the gap between too few features and enough
_NARROWEST = 1e-7  # as a share of a penalty: features that enter closer than this enter together
_NO_GRAM = "G has entries that are no finite numbers, or is far from positive semi-definite: it is no Gram"


class Solution(NamedTuple):
    """Weights that minimise the objective F, with their penalty and their KKT residual."""

    weights: Float64Array
    """The weights that minimise F, shaped like b."""
    penalty: float
    residual: float
    """The largest `kkt_residual` of the weights over all targets."""

    @property
    def support(self) -> Indices:
        """The features that have a weight for any target."""
        return np.flatnonzero(self.weights.reshape(len(self.weights), -1).any(axis=1))


def largest_penalty(b: ArrayLike) -> float:
    """Return the smallest penalty for which all weights are zero.

    >>> largest_penalty([1.0, -3.0])
    3.0
    """
    return float(np.abs(b).max(initial=0.0))


def objective(G: ArrayLike, b: ArrayLike, w: ArrayLike, lam: float) -> float:
    """Return the objective F(w), summed over targets.

    >>> objective(np.eye(2), [1.0, -3.0], [0.0, -2.0], lam=1.0)
    -2.0
    """
    G, b, w = _check_problem(G, b, lam, w)
    return sum(
        float(0.5 * w_c @ (_gradient(G, b_c, w_c) - b_c) + lam * np.abs(w_c).sum())
        for b_c, w_c in zip(_rows_by_target(b), _rows_by_target(w), strict=True)
    )


def kkt_residual(G: ArrayLike, b: ArrayLike, w: ArrayLike, lam: float) -> float:
    """Return the largest violation of the optimality conditions, max_j dist(−(Gw − b)_j, lam ∂|w_j|), divided by lam.

    >>> kkt_residual(np.eye(2), [1.0, -3.0], [0.0, -2.0], lam=1.0)
    0.0
    >>> kkt_residual(np.eye(2), [1.0, -3.0], [0.0, 0.0], lam=1.0)
    2.0
    """
    G, b, w = _check_problem(G, b, lam, w)
    by_target = zip(_rows_by_target(b), _rows_by_target(w), strict=True)
    return max(_violation(_gradient(G, b_c, w_c), w_c, lam) / lam for b_c, w_c in by_target)


def solve(
    problems: Sequence[LassoProblem],
    lam: float,
    start: Float64Array | None = None,
    tolerance: float = 1e-6,
    max_norm: float = np.inf,
) -> Solution:
    """Minimise the objective F of one or several problems with the same features; return their weights side by side.

    Parameters
    ----------
    problems
        G and b of each problem. G is symmetric and, up to rounding, positive semi-definite. b is a vector, or has a
        column for every target, as many in each problem. A float64 array G in C or F order is not copied.
    lam
        The penalty, above zero.
    start
        Weights to begin with, such as those of a larger penalty; they change the time to solve, not the minimum.
    tolerance
        The `kkt_residual` to reach, if the noise of G allows it.
    max_norm
        Give up as soon as lam ‖w‖₁ is above this. If noise made eigenvalues of G negative, weights grow without end.

    Examples
    --------
    >>> G = np.array([[2.0, 1], [1, 2]])
    >>> solve([(G, [3.0, 1.5])], lam=1.0).weights
    array([1., 0.])
    >>> solve([(np.eye(2), np.array([[3.0], [1.0]])), (G, np.array([[1.0], [4.0]]))], lam=2.0).weights
    array([[1., 0.], [0., 1.]])
    """
    starts = [start] if start is None or len(problems) == 1 else np.split(start, len(problems), axis=1)
    solutions = []
    for (G, b), w in zip_longest(problems, starts):
        G, b, W = _check_problem(G, b, lam, w)
        by_target = zip(_rows_by_target(b), _rows_by_target(W), strict=True)
        solutions += [_solve_target(G, b_c, lam, w_c, tolerance, max_norm) for b_c, w_c in by_target]
    weights = np.column_stack([solution.weights for solution in solutions])
    shape = b.shape if len(problems) == 1 else weights.shape
    return Solution(weights.reshape(shape), lam, max(solution.residual for solution in solutions))


def solve_path(
    problems: Sequence[LassoProblem], penalties: Iterable[float], tolerance: float = 1e-6
) -> Iterator[Solution]:
    """Yield the solutions for descending penalties, each solved when it is asked for.

    Each solution starts from the solution for the penalty before, so that all cost little more than the last alone.

    Examples
    --------
    >>> G, b = np.eye(2), np.array([3.0, 1.0])
    >>> for solution in solve_path([(G, b)], [3.0, 2.0, 0.5]):
    ...     print(solution.penalty, solution.weights)
    3.0 [0. 0.]
    2.0 [1. 0.]
    0.5 [2.5 0.5]
    """
    weights = None
    before = np.inf
    for penalty in penalties:
        if penalty > before:
            raise OptionError(f"penalties must descend: {penalty} comes after {before}")
        solution = solve(problems, penalty, weights, tolerance)
        yield solution
        weights, before = solution.weights, penalty


def solve_for_count(problems: Sequence[LassoProblem], n_features: int, tolerance: float = 1e-6) -> Solution:
    """Return the solution with the largest penalty that has at least `n_features`, and as few more as possible.

    A feature counts if any target uses it. Penalties descend by a factor of 0.7 until there are enough features.
    The last interval of penalties is bisected until the number of features is right, or until two features cannot be
    separated. If even the smallest penalty has too few features (some are copies of each other, or there are fewer rows
    than features), the solution with the most features is returned.

    Examples
    --------
    >>> solve_for_count([(np.eye(3), np.array([3.0, 2.0, 1.0]))], n_features=2).support
    array([0, 1])
    """
    n = len(problems[0][1])
    if not 1 <= n_features <= n:
        raise OptionError(f"n_features is {n_features}: it must be from 1 to {n}, the features there are")
    top = max(largest_penalty(b) for _, b in problems)
    if top == 0.0:
        raise OptionError("b is all zeros: no feature has anything to say about the target")
    n_penalties = int(np.log(_PATH_END) / np.log(_PATH_RATIO)) + 1
    solutions = solve_path(problems, top * _PATH_RATIO ** np.arange(n_penalties), tolerance)
    few = largest = next(solutions)
    for solution in solutions:
        if len(solution.support) >= n_features:
            return _bisect(problems, few, solution, n_features, tolerance)
        few = solution
        largest = max(largest, solution, key=_size)
    return largest


def _bisect(
    problems: Sequence[LassoProblem], few: Solution, enough: Solution, n_features: int, tolerance: float
) -> Solution:
    """Bisect between penalties with too few and enough features; return the solution with the fewest, but enough."""
    best = enough
    for _ in range(_BISECTIONS):
        if len(best.support) == n_features or few.penalty <= enough.penalty * (1.0 + _NARROWEST):
            break
        middle = solve(problems, float(np.sqrt(few.penalty * enough.penalty)), few.weights, tolerance)
        if len(middle.support) < n_features:
            few = middle
        else:
            enough = middle
            best = min(middle, best, key=_size)  # of two with equally many features the first, whose penalty is larger
    return best


def _size(solution: Solution) -> int:
    return len(solution.support)


def _solve_target(
    G: Float64Array, b: Float64Array, lam: float, start: Float64Array, tolerance: float, max_norm: float
) -> Solution:
    """Return the solution for one target; the working set grows until no feature violates the KKT conditions."""
    if lam >= largest_penalty(b):
        return Solution(np.zeros_like(b), lam, 0.0)
    usable = G.diagonal() > 0.0
    largest = float(G.diagonal().max(initial=0.0))
    w = np.where(usable, start, 0.0)
    least, idle = np.inf, 0
    for _ in range(_MAX_WORKING_SETS):
        q = _gradient(G, b, w)
        violations = np.where(usable, kernels.distances(q, w, lam), 0.0)
        worst = float(violations.max(initial=0.0))
        limit = EPS * (largest * np.abs(w).sum() + np.abs(b).max())  # |G_ij| is at most the largest G_jj
        idle = 0 if worst < least else idle + 1
        least = min(least, worst)
        if not worst > max(tolerance * lam, limit) or idle == _PATIENCE:
            break
        working = _working_set(w, violations, tolerance * lam)
        H = G if len(working) == len(b) else kernels.submatrix(G, working)
        w_n, q_n = w[working], q[working]
        _minimise_on(H, q_n, lam, w_n, max(0.3 * tolerance * lam, 0.1 * worst), max_norm)
        w[working] = w_n
        if lam * np.abs(w).sum() > max_norm:
            break
    residual = _violation(_gradient(G, b, w), w, lam) / lam
    if not np.isfinite(residual):
        raise OptionError(_NO_GRAM)
    return Solution(w, lam, residual)


def _working_set(w: Float64Array, violations: Float64Array, tolerance: float) -> Indices:
    """Return the features with a weight and, up to the growth limit, those with the largest KKT violations."""
    outside = np.flatnonzero((w == 0.0) & (violations > tolerance))
    size = np.count_nonzero(w)
    room = int(max(_LEAST_GROWTH, _GROWTH * size))
    if len(outside) > room:
        outside = outside[np.argpartition(-violations[outside], room)[:room]]
    return np.sort(np.concatenate((np.flatnonzero(w), outside)))


def _minimise_on(
    H: Float64Array, q: Float64Array, lam: float, w: Float64Array, tolerance: float, max_norm: float
) -> None:
    """Minimise the objective F on a working set, changing the weights w and the gradient q in place."""

    def is_done() -> bool:
        return _violation(q, w, lam) <= tolerance or bool(lam * np.abs(w).sum() > max_norm)

    for _ in range(_MAX_TURNS):
        kernels.descend(H, q, lam, w, _EPOCHS)
        S = np.flatnonzero(w)
        if is_done():
            return
        if len(S):
            kernels.newton(H, _factor(H, S), S, q, lam, w, 0.3 * tolerance)
        if is_done():
            return


def _factor(H: Float64Array, S: Indices) -> Float64Array:
    """Return a Cholesky factor U with UᵀU = H_SS + δI, for the smallest δ tried for which U exists."""
    delta = len(S) * EPS * float(H.diagonal().max())
    for _ in range(10):  # the last δ outweighs all other entries
        part = kernels.submatrix(H, S)
        part.flat[:: len(S) + 1] += delta
        try:
            lower, _ = scipy.linalg.cho_factor(part.T, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            delta *= 100.0
        else:
            return np.asarray(lower.T)
    raise OptionError(_NO_GRAM)


def _gradient(G: Float64Array, b: Float64Array, w: Float64Array) -> Float64Array:
    """Return the gradient Gw − b of the quadratic."""
    q = -b
    used = np.flatnonzero(w)
    kernels.add_rows(G, used, w[used], q)
    return q


def _violation(q: Float64Array, w: Float64Array, lam: float) -> float:
    """Return the largest violation of the KKT conditions by weights w, for the gradient q at w."""
    return float(kernels.distances(q, w, lam).max(initial=0.0))


def _rows_by_target(b: Float64Array) -> Float64Array:
    """Return a contiguous array with a row for every target (column of b)."""
    return np.ascontiguousarray(b.reshape(len(b), -1).T)


def _check_problem(
    G: ArrayLike, b: ArrayLike, lam: float, w: ArrayLike | None
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return float64 arrays G, b and w (zeros for None); raise OptionError if their shapes or values are wrong."""
    G, b = np.asarray(G, dtype=np.float64), np.asarray(b, dtype=np.float64)
    w = np.zeros_like(b) if w is None else np.asarray(w, dtype=np.float64)
    if b.ndim not in (1, 2) or not b.size or G.shape != (len(b), len(b)) or w.shape != b.shape:
        raise OptionError(f"G {G.shape}, b {b.shape} and w {w.shape} do not fit: (A, A) and twice (A,) or (A, C)")
    if not (np.isfinite(b).all() and np.isfinite(G.diagonal()).all() and np.isfinite(w).all()):
        raise OptionError("b, the weights or the diagonal of G have entries that are no finite numbers")
    if not 0.0 < lam < np.inf:
        raise OptionError(f"the penalty lam is {lam}: it must be a number above 0")
    if not G.flags.c_contiguous:
        G = np.ascontiguousarray(G.T)  # symmetric: a copy only if it is in neither order
    return G, b, w
