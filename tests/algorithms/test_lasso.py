"""The l1 solver: minima as others find them, and KKT conditions that hold on Grams of random features."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from reference.lasso import fista, residual
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from daskfs.algorithms.random_features import kernels, lasso
from daskfs.algorithms.random_features.lasso import Solution, kkt_residual, largest_penalty, objective
from daskfs.algorithms.random_features.models import ridge
from daskfs.algorithms.random_features.unpenalised import remove_intercept
from daskfs.errors import OptionError

pytestmark = pytest.mark.kernels

SHARES = [0.3, 1e-2, 1e-4, 1e-5]  # of the largest penalty


class Problem(NamedTuple):
    Phi: np.ndarray
    y: np.ndarray
    G: np.ndarray
    b: np.ndarray


def solve(G: np.ndarray, b: np.ndarray, lam: float, *options: object, **named: object) -> Solution:
    return lasso.solve([(G, b)], lam, *options, **named)


def problem_of(Phi: np.ndarray, y: np.ndarray) -> Problem:
    Phi, y = Phi - Phi.mean(axis=0), y - y.mean(axis=0)
    return Problem(Phi, y, Phi.T @ Phi, Phi.T @ y)


def cosines(
    n: int = 1500, dimensions: int = 5, features: int = 200, targets: int | None = None, seed: int = 0
) -> Problem:
    """Random cosine features of smooth data: nearly collinear."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dimensions))
    phase = rng.random(features) * 2 * np.pi
    Phi = np.sqrt(2) * np.cos(X @ rng.normal(size=(dimensions, features)) + phase)
    waves = np.sin(6 * X[:, :1] + np.arange(targets or 1)) + X[:, -1:] ** 2 + 0.05 * rng.normal(size=(n, targets or 1))
    return problem_of(Phi, waves if targets else waves[:, 0])


def well_conditioned(features: int = 60) -> Problem:
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(500, features))
    return problem_of(Phi, Phi[:, :5] @ rng.normal(size=5) + rng.normal(size=500))


def duplicates() -> Problem:
    Phi, y, _, _ = cosines(features=80)
    return problem_of(np.hstack((Phi, Phi[:, ::2], -Phi[:, ::5])), y)


def zero_columns() -> Problem:
    Phi, y, _, _ = cosines(features=80)
    Phi = np.hstack((Phi, np.zeros((len(Phi), 3))))
    return problem_of(Phi[:, np.random.default_rng(1).permutation(83)], y)


HARD = {
    "1-d": cosines(dimensions=1),
    "5-d": cosines(features=600),
    "10-d": cosines(dimensions=10, features=300),
    "duplicates": duplicates(),
    "zero columns": zero_columns(),
    "more features than rows": cosines(n=100, features=300),
}


@pytest.fixture(params=HARD.values(), ids=HARD.keys())
def hard(request) -> Problem:
    return request.param


def by_sklearn(problem: Problem, lam: float, tol: float, max_iter: int) -> np.ndarray:
    n = len(problem.y)
    model = Lasso(alpha=lam / n, fit_intercept=False, precompute=problem.G, tol=tol, max_iter=max_iter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(problem.Phi, problem.y).coef_


def test_the_grams_are_as_bad_as_those_we_meet():
    assert np.linalg.cond(HARD["1-d"].G) > 1e12
    assert np.linalg.cond(HARD["5-d"].G) > 1e12


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("share", SHARES)
def test_the_residual_is_what_was_asked_for(hard, share):
    lam = share * largest_penalty(hard.b)
    solution = solve(hard.G, hard.b, lam)
    assert residual(hard.G, hard.b, solution.weights, lam) <= 1e-6
    assert kkt_residual(hard.G, hard.b, solution.weights, lam) == solution.residual


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("share", SHARES)
def test_the_dual_problem_proves_the_minimum(hard, share):
    """No weights reach less than the dual of any residuals that are short enough; here the two meet."""
    lam = share * largest_penalty(hard.b)
    weights = solve(hard.G, hard.b, lam).weights
    r = hard.y - hard.Phi @ weights
    r_short = r * min(1.0, lam / np.abs(hard.Phi.T @ r).max())
    reached = 0.5 * r @ r + lam * np.abs(weights).sum()
    bound = 0.5 * (hard.y @ hard.y - (hard.y - r_short) @ (hard.y - r_short))
    assert bound <= reached * (1 + 1e-12)
    assert bound == pytest.approx(reached, rel=1e-5)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("share", SHARES)
def test_scikit_learn_never_finds_less(hard, share):
    lam = share * largest_penalty(hard.b)
    ours = objective(hard.G, hard.b, solve(hard.G, hard.b, lam).weights, lam)
    assert ours <= objective(hard.G, hard.b, by_sklearn(hard, lam, tol=1e-8, max_iter=3000), lam) + 1e-12 * abs(ours)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("share", [0.3, 1e-1, 3e-2])
def test_equal_to_scikit_learn_where_that_converges_at_all(hard, share):
    lam = share * largest_penalty(hard.b)
    ours = objective(hard.G, hard.b, solve(hard.G, hard.b, lam).weights, lam)
    theirs = objective(hard.G, hard.b, by_sklearn(hard, lam, tol=1e-12, max_iter=50_000), lam)
    assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("share", SHARES)
def test_equal_to_others_where_the_gram_is_good(share):
    problem = well_conditioned()
    lam = share * largest_penalty(problem.b)
    ours = solve(problem.G, problem.b, lam, tolerance=1e-10).weights
    for theirs in (by_sklearn(problem, lam, tol=1e-15, max_iter=10**5), fista(problem.G, problem.b, lam)):
        assert objective(problem.G, problem.b, ours, lam) == pytest.approx(
            objective(problem.G, problem.b, theirs, lam), rel=1e-9
        )
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("share", SHARES)
def test_more_features_never_raise_the_minimum(hard, share):
    lam = share * largest_penalty(hard.b)
    some = np.random.default_rng(0).random(len(hard.b)) < 0.5
    part = solve(hard.G[np.ix_(some, some)], hard.b[some], lam).weights
    padded = np.zeros(len(hard.b))
    padded[some] = part
    best = objective(hard.G, hard.b, solve(hard.G, hard.b, lam).weights, lam)
    assert best <= objective(hard.G, hard.b, padded, lam) + 1e-12 * abs(best)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e3])
def test_where_it_starts_does_not_matter(hard, scale):
    lam = 1e-3 * largest_penalty(hard.b)
    start = scale * np.random.default_rng(0).normal(size=len(hard.b))
    warm, cold = solve(hard.G, hard.b, lam, start), solve(hard.G, hard.b, lam)
    assert warm.residual <= 1e-6
    expected = objective(hard.G, hard.b, cold.weights, lam)
    assert objective(hard.G, hard.b, warm.weights, lam) == pytest.approx(expected, rel=1e-9)


def test_a_solution_is_its_own_best_start(hard, monkeypatch):
    lam = 1e-3 * largest_penalty(hard.b)
    solution = solve(hard.G, hard.b, lam)
    monkeypatch.setattr(kernels, "descend", None)  # there is nothing to do
    again = solve(hard.G, hard.b, lam, solution.weights)
    assert np.array_equal(again.weights, solution.weights)


def test_several_targets_are_each_of_them_alone():
    problem = cosines(targets=4)
    lam = 1e-3 * largest_penalty(problem.b)
    together = solve(problem.G, problem.b, lam)
    alone = [solve(problem.G, problem.b[:, c], lam) for c in range(4)]
    assert np.array_equal(together.weights, np.stack([one.weights for one in alone], axis=1))
    assert together.residual == max(one.residual for one in alone)
    assert set(together.support) == set().union(*(one.support for one in alone))
    assert objective(problem.G, problem.b, together.weights, lam) == pytest.approx(
        sum(objective(problem.G, problem.b[:, c], one.weights, lam) for c, one in enumerate(alone))
    )


def test_the_order_of_features_does_not_matter(hard):
    lam = 1e-3 * largest_penalty(hard.b)
    order = np.random.default_rng(0).permutation(len(hard.b))
    plain, turned = solve(hard.G, hard.b, lam), solve(hard.G[np.ix_(order, order)], hard.b[order], lam)
    expected = objective(hard.G, hard.b, plain.weights, lam)
    assert objective(hard.G[np.ix_(order, order)], hard.b[order], turned.weights, lam) == pytest.approx(expected)
    np.testing.assert_allclose(hard.Phi @ plain.weights, hard.Phi[:, order] @ turned.weights, atol=1e-4)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("start", [None, 1.0])
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_from_the_largest_penalty_on_all_is_exactly_zero(hard, factor, start):
    given = None if start is None else np.full(len(hard.b), start)
    assert not solve(hard.G, hard.b, factor * largest_penalty(hard.b), given).weights.any()
    assert solve(hard.G, hard.b, (1 - 1e-6) * largest_penalty(hard.b), given).weights.any()


def test_a_zero_column_is_never_used():
    problem = HARD["zero columns"]
    dead = problem.G.diagonal() == 0
    assert dead.sum() == 3
    solution = solve(problem.G, problem.b, 1e-4 * largest_penalty(problem.b), start=np.ones(83))
    assert not solution.weights[dead].any()


def test_same_bits_again_and_inputs_stay_as_they_were(hard):
    lam = 1e-4 * largest_penalty(hard.b)
    given = hard.G.copy(), hard.b.copy(), np.ones(len(hard.b))
    for array in given:
        array.flags.writeable = False
    first, second = (solve(given[0], given[1], lam, given[2]) for _ in range(2))
    assert first.weights.tobytes() == second.weights.tobytes()
    assert np.array_equal(given[0], hard.G)
    assert not np.shares_memory(first.weights, given[2])


@pytest.mark.parametrize("order", [np.asfortranarray, lambda G: np.repeat(G, 2, axis=1)[:, ::2]], ids=["F", "strided"])
def test_any_layout_of_the_gram(order):
    problem = HARD["5-d"]
    lam = 1e-3 * largest_penalty(problem.b)
    expected = solve(problem.G, problem.b, lam).weights
    np.testing.assert_allclose(solve(order(problem.G), problem.b, lam).weights, expected, rtol=1e-6, atol=1e-9)


def test_a_tolerance_below_rounding_ends_and_is_owned_up_to(hard):
    solution = solve(hard.G, hard.b, 1e-5 * largest_penalty(hard.b), tolerance=1e-18)
    assert 1e-18 < solution.residual <= 1e-6


@pytest.mark.parametrize("noise", [1e-12, 1e-8])
def test_a_gram_that_rounding_made_indefinite_ends_all_the_same(noise):
    """As it comes of products in float32."""
    problem = HARD["1-d"]
    error = np.random.default_rng(0).normal(size=problem.G.shape) * noise * problem.G.max()
    G = problem.G + error + error.T
    assert np.linalg.eigvalsh(G)[0] < 0
    lam = 1e-3 * largest_penalty(problem.b)
    solution = solve(G, problem.b, lam)
    assert solution.residual <= 1e-6
    exact = solve(problem.G, problem.b, lam).weights
    assert objective(problem.G, problem.b, solution.weights, lam) == pytest.approx(
        objective(problem.G, problem.b, exact, lam), rel=1e-3
    )


def test_the_intercept_is_removed_and_found_again():
    rng = np.random.default_rng(0)
    Phi, y, D = rng.random((300, 8)) + 5, rng.normal(size=(300, 2)) + 3, rng.random(300)
    Phi[:, 3] = 7.0
    y += Phi[:, :2]
    n, s, t = D.sum(), D @ Phi, D @ y
    gram, b = remove_intercept(Phi.T @ (D[:, None] * Phi), Phi.T @ (D[:, None] * y), s, n, t)
    assert not gram[3].any()
    assert not gram[:, 3].any()
    lam = 0.1 * largest_penalty(b)
    weights = solve(gram, b, lam, tolerance=1e-10).weights
    for c in range(2):
        model = Lasso(alpha=lam / n, tol=1e-14, max_iter=10**5).fit(Phi, y[:, c], sample_weight=D)
        np.testing.assert_allclose(weights[:, c], model.coef_, atol=1e-6)
        assert ((t - s @ weights) / n)[c] == pytest.approx(model.intercept_, abs=1e-5)


@pytest.mark.parametrize("targets", [None, 3])
def test_ridge_is_least_squares(targets):
    Phi, y, G, b = cosines(dimensions=30, features=4, targets=targets)
    weights = ridge(G, b, alpha=0.0)
    np.testing.assert_allclose(weights, np.linalg.lstsq(Phi, y)[0], rtol=1e-8, atol=1e-8)
    assert weights.shape == b.shape


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("alpha", [0.0, 1e-10, 1e-4, 1.0])
def test_ridge_on_collinear_features(hard, alpha):
    G, b = hard.G[::2, ::2], hard.b[::2]
    weights = ridge(G, b, alpha)
    shrunk = G + alpha * G.diagonal().mean() * np.eye(len(G))
    assert np.abs(shrunk @ weights - b).max() <= 1e-6 * np.abs(hard.b).max()


def test_ridge_on_nothing_is_nothing():
    assert not ridge(np.zeros((2, 2)), [0.0, 0.0], alpha=0.1).any()
    assert ridge(np.zeros((0, 0)), np.zeros((0, 3)), alpha=0.1).shape == (0, 3)


@pytest.mark.parametrize(
    ("G", "b", "lam", "says"),
    [
        (np.eye(3), np.ones(2), 1.0, "do not fit"),
        (np.eye(2), np.ones(2), 0.0, "above 0"),
        (np.eye(2), np.array([1.0, np.nan]), 1.0, "finite"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), np.array([5.0, 4.0]), 0.1, "no Gram"),
    ],
)
def test_what_cannot_work_is_said(G, b, lam, says):
    with pytest.raises(OptionError, match=says):
        solve(G, b, lam)


@pytest.mark.parametrize("j", [0, 4, 8])
def test_a_factor_without_one_feature(j):
    G = well_conditioned(features=9).G
    U = np.linalg.cholesky(G).T.copy()
    kernels.drop(U, 9, j)
    left = np.delete(np.delete(G, j, 0), j, 1)
    upper = np.triu(U[:8, :8])
    np.testing.assert_allclose(upper.T @ upper, left, rtol=1e-12, atol=1e-9)
    x = np.arange(8.0)
    kernels.substitute(U, 8, x)
    np.testing.assert_allclose(left @ x, np.arange(8.0), atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_step_is_the_best_of_many(seed):
    rng = np.random.default_rng(seed)
    w, d = rng.normal(size=6), rng.normal(size=6)
    slope, curvature, lam = -rng.random() * 4 - lam_slope(w, d), rng.random() * 4, 1.0

    def along(t):
        return 0.5 * curvature * t**2 + slope * t + lam * np.abs(w + np.multiply.outer(t, d)).sum(axis=-1)

    t, _, zero = kernels.best_step(w, d, slope, curvature, lam)
    assert along(t) <= along(np.linspace(0, 1, 10_001)).min() + 1e-12
    assert zero < 0 or abs(w[zero] + t * d[zero]) < 1e-12


def lam_slope(w: np.ndarray, d: np.ndarray) -> float:
    """The slope of Σ|w + t d| at 0: with less of it than that the whole slope is negative, as a Newton step's is."""
    return float(d @ np.sign(w))


def test_weights_that_grow_without_end_are_given_up():
    G = np.array([[1.0, 2.0], [2.0, 1.0]])  # an eigenvalue is -1
    given_up = solve(G, np.array([1.0, -1.0]), 0.01, max_norm=1.0)
    assert given_up.residual > 1e-6
    assert 0.01 * np.abs(given_up.weights).sum() > 1.0
