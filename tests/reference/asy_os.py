"""Asy-OS (KDD 2016), algorithms 2 and 3: q workers and a centre as plain Python, with the conventions of algorithm 1.

Columns are dealt to workers like cards (worker t has t, t + q, …) and stay with them in every pass; budgets are s/q,
one more for the first s mod q. A worker pulls u_C and pauses; when its turn comes again it steps, pushes, and pulls for
its next column. Turns go round, so a push is q - 1 pushes old, as in the paper's simulation. gamma is the same for all,
from L of the union of all S(t), which a simulation can see; with L of S(t) alone, the steps of workers whose columns
are alike add up and diverge.
"""

import numpy as np
from reference.online_substitution import CURVATURE, SLOPE, power_step, prepared, substitute


class Centre:
    """Algorithm 2: u_C, and how old each push was, in pushes of others since its pull; and L."""

    def __init__(self, u0, workers):
        self.u, self.staleness, self.L, self.workers = u0, [], 1.0, workers

    def push(self, delta, version):
        self.staleness.append(len(self.staleness) - version)
        self.u = self.u + delta

    def follow(self, X):
        sizes = [len(worker.S) for worker in self.workers]
        v = np.concatenate([worker.v[:size] for worker, size in zip(self.workers, sizes, strict=True)])
        self.L = power_step(self.L, v, X[:, [j for worker in self.workers for j in worker.S]])
        for worker, part in zip(self.workers, np.split(v, np.cumsum(sizes)[:-1]), strict=True):
            worker.v[: len(part)] = part


class Worker:
    """Algorithm 3."""

    def __init__(self, budget):
        self.S, self.w, self.v, self.budget = [], np.zeros(0), np.ones(budget), budget

    def run(self, centre, X, y, columns, loss, step):
        """One column per turn; what others push during the pause after line 4 is not seen."""
        for j in (j for j in columns if j not in self.S):  # line 3
            u_C, version = centre.u, len(centre.staleness)  # line 4
            yield
            gamma = step / (CURVATURE[loss] * centre.L)
            u, r = X[:, self.S] @ self.w, SLOPE[loss](u_C, y)  # line 5, and the slope of the loss at u_C
            w_S, w_j = self.w - gamma * X[:, self.S].T @ r, -gamma * X[:, j] @ r  # lines 6 and 7
            self.S, self.w, slot = substitute(self.S, w_S, j, w_j, self.budget)  # lines 8 to 10
            if slot is not None:
                self.v[slot] += 0.01
                centre.follow(X)
            centre.push(X[:, self.S] @ self.w - u, version)  # line 12


def asy_os(X, y, s, q, loss="squared", passes=2, step=0.9):
    """The ids selected, worker by worker, their weights, and the staleness of every push."""
    X, varying, y, u0 = prepared(X, y, loss)
    workers = [Worker(s // q + (t < s % q)) for t in range(q)]
    centre = Centre(np.full(len(y), u0), workers)
    turns = [worker.run(centre, X, y, [*varying[t::q]] * passes, loss, step) for t, worker in enumerate(workers)]
    while turns:
        turns = [turn for turn in turns if next(turn, "done") != "done"]
    return np.concatenate([worker.S for worker in workers]), np.concatenate([w.w for w in workers]), centre.staleness
