"""Who finds the support of a noise-free target: MISSION and its baselines as functions of a problem and a rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np
from _judge import recall
from _problems import Problem
from numpy.typing import NDArray

import daskfs
from daskfs.protocol import Meta, SparseBlock

Ids = NDArray[np.int64]
Method = Callable[[Problem, float], Ids]
"""From a problem and a rate to as many ids as the problem has true columns."""

RATES = (0.3, 1.0, 3.0, 10.0, 30.0)
"""The one grid for everybody: of rows of unit norm for those that stream rows, of columns for the others."""
EXPLAINED = 1e-5  # of the target's energy: a pass that leaves no more has nothing left to learn
DIVERGED = 1e3  # times that energy


def streamed(rows: int, **fields: Any) -> Method:
    """MISSION over as many rows as given, in passes over those there are.

    The engine's loop over one block in memory: there are thousands of tiny problems, and writing each as a dataset
    would take longer than to solve it. The loop ends early where a pass had next to nothing to learn, or diverged.
    """

    def choose(problem: Problem, rate: float) -> Ids:
        passes = max(1, rows // len(problem.y))
        fixed = {"loss": "squared", "passes": passes, "learning_rate": rate, "intercept": False}
        algorithm = daskfs.Mission(len(problem.truth), refit=0, **fixed, **fields)  # the refit could find what it lacks
        (meta, block), energy = _stored(problem), np.mean(problem.y**2) / 2
        state, go_on = algorithm.start(meta, seed=0), True
        while go_on:
            try:
                state, go_on = algorithm.end_pass(algorithm.update(state, block))
            except daskfs.errors.OptionError:  # the rate of the grid is so large that weights are no numbers any more
                return np.empty(0, np.int64)
            result = algorithm.result(state)
            go_on = go_on and EXPLAINED < result.history[-1]["objective"] / energy < DIVERGED
        return result.features.astype(np.int64)

    return choose


def in_memory(choose: Callable[..., Ids]) -> Method:
    """A function of `thresholding`."""
    return lambda problem, rate: choose(problem.X.astype(np.float64), problem.y, len(problem.truth), rate)


def tuned(score: Callable[[float], float]) -> float:
    """The rate of the best score, of equals the smallest; scores come from problems that nobody is judged by."""
    return max(RATES, key=score)


def until_it_fails(choose: Method, rate: float, problems: Iterable[Problem]) -> Iterator[float]:
    """The recall on one problem after the other, up to the first where it is not complete."""
    for problem in problems:
        share = recall(problem, choose(problem, rate))
        yield share
        if share < 1:
            return


def recovers_most(choose: Method, rate: float, problems: Iterable[Problem], n_problems: int) -> bool:
    """Whether all true columns are found in more than half of the problems; no more are tried than decide on it."""
    enough, successes = n_problems // 2 + 1, 0
    for left, problem in zip(count(n_problems, -1), problems, strict=False):
        if successes == enough or successes + left < enough:
            break
        successes += recall(problem, choose(problem, rate)) == 1
    return successes >= enough


def last_that_holds(holds: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` for which it holds, 0 if none, where it holds up to some number and then not.

    >>> last_that_holds(lambda k: k <= 13, most=100)
    13
    """
    low, high = 0, 1
    while high <= most and holds(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _stored(problem: Problem) -> tuple[Meta, SparseBlock]:
    """All rows as one block, with every entry present, and what an algorithm is told of it."""
    n, p = problem.X.shape
    ids = np.tile(np.arange(p, dtype=np.uint64), n)
    block = SparseBlock(0, np.arange(0, n * p + 1, p), ids, np.ravel(problem.X), problem.y)
    return Meta("sparse", n, p, n * p, p - 1, None, block.nbytes), block
