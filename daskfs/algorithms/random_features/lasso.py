"""The l1 problem of Sparse Random Features, solved on its Gram to a KKT residual that is asked for and reached.

For one target or several that share G = ΦᵀDΦ (A × A), with b = ΦᵀDy and a penalty lam > 0:

    F(W) = Σ_c [½ w_cᵀ G w_c − b_cᵀ w_c] + lam Σ|W|

Random features are nearly collinear: condition numbers of 1e12 are normal, and coordinate descent alone stops moving
some percent above the minimum. Here it only finds the signs. Newton's method does the rest: with the signs fixed F is a
quadratic on the support, and its minimum is a solve away. Along that step a weight may change its sign, where F bends;
the step ends at the least F on its way, a weight that is zero there leaves the support (the factor follows by plane
rotations, in |S|² instead of |S|³), and the next step begins. Directions in which G is flat need no care of their own:
the step along them is long, and ends where a weight leaves.

All that happens on a working set: the support and the features that break the KKT conditions most. It grows until none
of all A does. G is read in rows, and at most one copy of it is made (of the working set), beside one factor (of the
support). Memory: A² for G, n² + |S|² for n features in the working set.

The unpenalised intercept is no part of the problem: `centred` removes it beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from daskfs.algorithms.random_features import lasso_kernels as kernels
from daskfs.errors import OptionError

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Problem = tuple[Floats, Floats]
"""G and b."""

_EPS = float(np.finfo(np.float64).eps)
_CONSTANT = 1e-12  # of a column's square that is left once its mean is gone: less is rounding
_EPOCHS = 20  # of coordinate descent between Newton steps; most end earlier, once the signs stay
_ROUNDS = 100  # of working sets; 25 is the most that was seen
_PATIENCE = 15  # rounds without a smaller residual, after which rounding is to blame
_TURNS = 20  # of descent and Newton within a round; two is usual
_GROWTH = 0.5  # of the support, that a working set may hold beside it
_LEAST_GROWTH = 20
_NO_GRAM = "G has entries that are no finite numbers, or is far from positive semi-definite: it is no Gram"


class Solution(NamedTuple):
    """A minimum of F, and how much of one it is."""

    weights: Floats
    """Shaped like b."""
    penalty: float
    residual: float
    """`kkt_residual` of the weights, of the worst target."""
    converged: bool
    """Whether the residual is within the tolerance."""
    limit: float
    """What rounding in Gw may leave of a residual: a tolerance below it cannot be counted on."""
    epochs: int
    """Of coordinate descent, in all targets."""
    steps: int
    """Of Newton's method, in all targets."""

    @property
    def support(self) -> Ids:
        """The features that any target uses."""
        return np.flatnonzero(self.weights.reshape(len(self.weights), -1).any(axis=1))


@dataclass(frozen=True)
class Centred:
    """A problem without its intercept, and the way back to it."""

    gram: Floats
    pull: Floats
    column_sums: Floats
    total: float
    target_sum: Floats

    def intercept(self, weights: Floats) -> Floats:
        """The best intercept of every target, given its weights."""
        return np.asarray((self.target_sum - self.column_sums @ weights) / self.total)


def centred(G: ArrayLike, b: ArrayLike, s: ArrayLike, n: float, t: ArrayLike) -> Centred:
    """Remove an unpenalised intercept: G − ssᵀ/n and b − stᵀ/n, with s = ΦᵀD1, n = ΣD and t = 1ᵀDy.

    What rounding leaves of a constant column is made zero, so that it cannot be taken for a feature.

    Examples
    --------
    >>> Phi, y = np.array([[0.0, 1], [1, 1], [2, 1]]), np.array([1.0, 3, 5])
    >>> problem = centred(Phi.T @ Phi, Phi.T @ y, Phi.sum(axis=0), 3, y.sum())
    >>> problem.gram
    array([[2., 0.], [0., 0.]])
    >>> float(problem.intercept(np.array([2.0, 0.0])))
    1.0
    """
    G, b, s, t = (np.asarray(given, dtype=np.float64) for given in (G, b, s, t))
    if not n > 0:
        raise OptionError(f"the weights of rows add up to {n}: there is nothing to fit")
    gram = np.outer(s, s / n)
    np.subtract(G, gram, out=gram)  # the only copy of G
    pull = b - np.multiply.outer(s, t / n)
    constant = np.flatnonzero(gram.diagonal() <= _CONSTANT * G.diagonal())
    gram[constant] = 0.0
    gram[:, constant] = 0.0
    pull[constant] = 0.0
    return Centred(gram, pull, s, float(n), t)


def largest_penalty(b: ArrayLike) -> float:
    """The smallest penalty for which all weights are zero.

    >>> largest_penalty([1.0, -3.0])
    3.0
    """
    return float(np.abs(b).max(initial=0.0))


def objective(G: ArrayLike, b: ArrayLike, w: ArrayLike, lam: float) -> float:
    """F(w), summed over targets.

    >>> objective(np.eye(2), [1.0, -3.0], [0.0, -2.0], lam=1.0)
    -2.0
    """
    G, b, w = _checked(G, b, lam, w)
    B, W = _by_target(b), _by_target(w)
    return sum(
        float(0.5 * w_c @ (_gradient(G, b_c, w_c) - b_c) + lam * np.abs(w_c).sum())
        for b_c, w_c in zip(B, W, strict=True)
    )


def kkt_residual(G: ArrayLike, b: ArrayLike, w: ArrayLike, lam: float) -> float:
    """How far the gradient is from one at a minimum: max_j dist(−(Gw − b)_j, lam ∂|w_j|), in units of lam.

    >>> kkt_residual(np.eye(2), [1.0, -3.0], [0.0, -2.0], lam=1.0)
    0.0
    >>> kkt_residual(np.eye(2), [1.0, -3.0], [0.0, 0.0], lam=1.0)
    2.0
    """
    G, b, w = _checked(G, b, lam, w)
    B, W = _by_target(b), _by_target(w)
    return max(_residual(_gradient(G, b_c, w_c), w_c, lam) / lam for b_c, w_c in zip(B, W, strict=True))


def solve(
    G: ArrayLike,
    b: ArrayLike,
    lam: float,
    start: ArrayLike | None = None,
    tolerance: float = 1e-6,
    most: float = np.inf,
) -> Solution:
    """Minimise F.

    Parameters
    ----------
    G
        Symmetric and positive semi-definite, but for rounding. Not copied if it is a float64 array in C or F order.
    b
        A vector, or a column for every target; targets are solved one after the other.
    lam
        The penalty, above zero.
    start
        Weights to begin with, shaped like b: those of a larger penalty, or of a problem that was smaller. They change
        how long it takes, not where F ends.
    tolerance
        The `kkt_residual` to reach. Look at `converged` where G has more noise than float64.
    most
        Give up as soon as lam ‖w‖₁ is above this, where G is known to have a minimum below: with eigenvalues that noise
        has made negative, weights grow without end.

    Examples
    --------
    >>> solution = solve(np.array([[2.0, 1], [1, 2]]), [3.0, 1.5], lam=1.0)
    >>> solution.weights, solution.converged
    (array([1., 0.]), True)
    """
    G, b, W = _checked(G, b, lam, start)
    found = _side_by_side(
        [_solved(G, b_c, lam, w_c, tolerance, most) for b_c, w_c in zip(_by_target(b), _by_target(W), strict=True)]
    )
    return found._replace(weights=found.weights.reshape(b.shape))


def solve_each(
    problems: Sequence[Problem],
    lam: float,
    start: Floats | None = None,
    tolerance: float = 1e-6,
    most: float = np.inf,
) -> Solution:
    """Minimise F of several problems that have the same features and each a G of its own; weights side by side.

    Parameters are those of `solve`; of several problems each has as many targets as the others, in columns.

    Examples
    --------
    >>> problems = [(np.eye(2), np.array([[3.0], [1.0]])), (2 * np.eye(2), np.array([[1.0], [4.0]]))]
    >>> solve_each(problems, lam=2.0).weights
    array([[1., 0.], [0., 1.]])
    """
    if len(problems) == 1:
        return solve(*problems[0], lam, start, tolerance, most)
    starts = [None] * len(problems) if start is None else np.split(start, len(problems), axis=1)
    return _side_by_side([solve(*one, lam, at, tolerance, most) for one, at in zip(problems, starts, strict=True)])


def ridge(G: ArrayLike, b: ArrayLike, support: ArrayLike, alpha: float) -> Floats:
    """Fit anew on chosen features, without the bias of the l1 penalty: minimise ½ wᵀ(G + αμI)w − bᵀw on the support.

    μ is the mean of G's diagonal there, so that alpha means the same at any number of rows. Where the chosen features
    are collinear and alpha is too small to matter, the shortest of all best weights are returned, as `lstsq` does.

    Returns
    -------
    Weights shaped like b, zero outside the support.

    Examples
    --------
    >>> ridge(np.diag([2.0, 4, 6]), [2.0, 8, 6], support=[0, 1], alpha=0.0)
    array([1., 2., 0.])
    >>> ridge(np.ones((2, 2)), [1.0, 1.0], support=[0, 1], alpha=0.0)
    array([0.5, 0.5])
    """
    G, b = np.asarray(G, dtype=np.float64), np.asarray(b, dtype=np.float64)
    S = np.asarray(support, dtype=np.int64)
    weights = np.zeros_like(b)
    if len(S):
        H = G[np.ix_(S, S)]
        H.flat[:: len(S) + 1] += alpha * H.diagonal().mean()
        weights[S] = _shortest(H, b[S])
    return weights


def _shortest(H: Floats, b: Floats) -> Floats:
    """The shortest w that minimises ½ wᵀHw − bᵀw."""
    noise = len(H) * _EPS
    try:
        lower, _ = cho_factor(H, lower=True)
    except np.linalg.LinAlgError:
        pass
    else:
        pivots = np.square(lower.diagonal())
        if pivots.min() > noise * pivots.max():
            return np.asarray(cho_solve((lower, True), b))
        del lower  # as large as H
    values, vectors = eigh(H, overwrite_a=True)  # an order slower, and right about what is singular
    inverse = np.divide(1.0, values, where=values > noise * values[-1], out=np.zeros_like(values))
    return np.asarray(vectors @ ((vectors.T @ b).T * inverse).T)


def _solved(G: Floats, b: Floats, lam: float, start: Floats, tolerance: float, most: float) -> Solution:
    """`solve` for one target: working sets, until no feature of all breaks the KKT conditions."""
    if lam >= largest_penalty(b):
        return Solution(np.zeros_like(b), lam, 0.0, True, 0.0, 0, 0)
    usable = G.diagonal() > 0.0
    largest = float(G.diagonal().max(initial=0.0))
    w = np.where(usable, start, 0.0)
    epochs = steps = idle = 0
    least = np.inf
    for _ in range(_ROUNDS):
        q = _gradient(G, b, w)
        broken = np.where(usable, kernels.distances(q, w, lam), 0.0)
        worst = float(broken.max(initial=0.0))
        limit = _EPS * (largest * np.abs(w).sum() + np.abs(b).max())  # |G_ij| is at most the largest G_jj
        idle = 0 if worst < least else idle + 1
        least = min(least, worst)
        if not worst > max(tolerance * lam, limit) or idle == _PATIENCE:
            break
        working = _working_set(w, broken, tolerance * lam)
        H = G if len(working) == len(b) else kernels.submatrix(G, working)
        w_n, q_n = w[working], q[working]
        more = _descended(H, q_n, lam, w_n, max(0.3 * tolerance * lam, 0.1 * worst), most)
        epochs, steps = epochs + more[0], steps + more[1]
        w[working] = w_n
        if lam * np.abs(w).sum() > most:
            break
    residual = _residual(_gradient(G, b, w), w, lam) / lam
    if not np.isfinite(residual):
        raise OptionError(_NO_GRAM)
    return Solution(w, lam, residual, residual <= tolerance, limit / lam, epochs, steps)


def _side_by_side(found: Sequence[Solution]) -> Solution:
    """The solutions of several targets as one."""
    return Solution(
        np.column_stack([one.weights for one in found]),
        found[0].penalty,
        max(one.residual for one in found),
        all(one.converged for one in found),
        max(one.limit for one in found),
        sum(one.epochs for one in found),
        sum(one.steps for one in found),
    )


def _working_set(w: Floats, broken: Floats, tolerance: float) -> Ids:
    """The support, and of the other features those that break the KKT conditions most, as many as may be added."""
    outside = np.flatnonzero((w == 0.0) & (broken > tolerance))
    size = np.count_nonzero(w)
    room = int(max(_LEAST_GROWTH, _GROWTH * size))
    if len(outside) > room:
        outside = outside[np.argpartition(-broken[outside], room)[:room]]
    return np.sort(np.concatenate((np.flatnonzero(w), outside)))


def _descended(H: Floats, q: Floats, lam: float, w: Floats, tolerance: float, most: float) -> tuple[int, int]:
    """Minimise over a working set, w and q in place; returns epochs and Newton steps."""
    epochs = steps = 0
    for _ in range(_TURNS):
        epochs += kernels.descend(H, q, lam, w, _EPOCHS)
        if _residual(q, w, lam) <= tolerance or lam * np.abs(w).sum() > most:
            break
        S = np.flatnonzero(w)
        if len(S):
            steps += kernels.newton(H, _factor(H, S), S, q, lam, w, 0.3 * tolerance)
        if _residual(q, w, lam) <= tolerance or lam * np.abs(w).sum() > most:
            break
    return epochs, steps


def _factor(H: Floats, S: Ids) -> Floats:
    """U with UᵀU = H_SS + δI, for the least δ above rounding with which it exists."""
    delta = len(S) * _EPS * float(H.diagonal().max())
    for _ in range(10):  # then the diagonal outweighs all else
        part = kernels.submatrix(H, S)
        part.flat[:: len(S) + 1] += delta
        try:
            lower, _ = cho_factor(part.T, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            delta *= 100.0
        else:
            return np.asarray(lower.T)
    raise OptionError(_NO_GRAM)


def _gradient(G: Floats, b: Floats, w: Floats) -> Floats:
    q = -b
    used = np.flatnonzero(w)
    kernels.add_rows(G, used, w[used], q)
    return q


def _residual(q: Floats, w: Floats, lam: float) -> float:
    return float(kernels.distances(q, w, lam).max(initial=0.0))


def _by_target(of_features: Floats) -> Floats:
    """A contiguous row for every target."""
    return np.ascontiguousarray(of_features.reshape(len(of_features), -1).T)


def _checked(G: ArrayLike, b: ArrayLike, lam: float, w: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
    """The arrays as kernels read them; zeros where no weights are given."""
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
