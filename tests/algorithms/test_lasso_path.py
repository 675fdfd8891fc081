"""Paths of penalties: they descend, features come in, and the first solution with k of them is found."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms.test_lasso import HARD, cosines, solve

from daskfs.algorithms.random_features.lasso import (
    kkt_residual,
    largest_penalty,
    objective,
    solve_for_count,
    solve_path,
)
from daskfs.errors import OptionError

pytestmark = pytest.mark.kernels


def test_a_path_descends_and_its_minima_are_those_of_cold_starts():
    problem = HARD["5-d"]
    penalties = largest_penalty(problem.b) * np.geomspace(1, 1e-5, 20)
    solutions = list(solve_path([(problem.G, problem.b)], penalties))
    losses = [0.5 * one.weights @ problem.G @ one.weights - problem.b @ one.weights for one in solutions]
    norms = [np.abs(one.weights).sum() for one in solutions]
    assert [one.penalty for one in solutions] == penalties.tolist()
    assert len(solutions[0].support) == 0
    assert np.all(np.diff(losses) < 0)
    assert np.all(np.diff(norms) > 0)
    for one in solutions[5::7]:
        cold = solve(problem.G, problem.b, one.penalty)
        assert objective(problem.G, problem.b, one.weights, one.penalty) == pytest.approx(
            objective(problem.G, problem.b, cold.weights, one.penalty), rel=1e-10
        )


def test_penalties_that_rise_are_refused():
    with pytest.raises(OptionError, match="descend"):
        list(solve_path([(np.eye(2), np.ones(2))], [0.5, 0.7]))


@pytest.mark.parametrize("n_features", [1, 2, 3, 7, 20, 60, 100])
@pytest.mark.parametrize("name", ["5-d", "10-d", "more features than rows"])
def test_the_first_with_so_many_features(name, n_features):
    problem = HARD[name]
    n_features = min(n_features, 60 if name == "more features than rows" else 100)
    found = solve_for_count([(problem.G, problem.b)], n_features)
    assert n_features <= len(found.support) <= n_features + 1
    assert kkt_residual(problem.G, problem.b, found.weights, found.penalty) <= 1e-6
    descent = largest_penalty(problem.b) * 0.7 ** np.arange(60)
    before = solve_path([(problem.G, problem.b)], descent[descent > found.penalty])
    assert all(len(one.support) < n_features for one in before)


@pytest.mark.parametrize("n_features", [1, 5, 30])
def test_a_feature_counts_if_any_target_uses_it(n_features):
    problem = cosines(targets=3)
    found = solve_for_count([(problem.G, problem.b)], n_features)
    assert n_features <= len(found.support) <= n_features + 2
    assert np.array_equal(found.support, np.flatnonzero(found.weights.any(axis=1)))


@pytest.mark.parametrize("n_features", [1, 5, 30])
def test_problems_with_a_gram_each_descend_together(n_features):
    first, second = (cosines(seed=seed) for seed in (0, 1))
    problems = [(one.G, one.b[:, None]) for one in (first, second)]
    found = solve_for_count(problems, n_features)
    assert n_features <= len(found.support) <= n_features + 2
    for (G, b), weights in zip(problems, found.weights.T, strict=True):
        assert kkt_residual(G, b[:, 0], weights, found.penalty) <= 1e-6


def test_features_that_come_together_are_not_parted():
    found = solve_for_count([(np.eye(4), np.array([3.0, 2.0, 2.0, 1.0]))], n_features=2)
    assert found.support.tolist() == [0, 1, 2]


def test_where_there_are_too_few_the_most_are_returned():
    one = np.ones((3, 3))
    one[2] = one[:, 2] = 0.0
    assert 1 <= len(solve_for_count([(one, np.array([1.0, 1.0, 0.0]))], n_features=3).support) <= 2


@pytest.mark.parametrize(
    ("b", "n_features", "says"),
    [([1.0, 2.0], 0, "n_features"), ([1.0, 2.0], 3, "n_features"), ([0.0, 0.0], 1, "zeros")],
)
def test_what_cannot_be_found_is_said(b, n_features, says):
    with pytest.raises(OptionError, match=says):
        solve_for_count([(np.eye(2), np.array(b))], n_features)
