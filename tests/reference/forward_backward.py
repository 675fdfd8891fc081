"""Selection of columns for several scores at once, in plain numpy: one column in, the least useful out, by exact loss.

For the squared loss with a ridge on standardised columns everything has a closed form: the objective of a set is found
by solving its normal equations, with no inverse that is kept up to date and no block of columns.
"""

import numpy as np


def indicators(labels):
    """(n, classes): +1 in the rows of a class, −1 in the others."""
    return np.where(labels[:, None] == np.unique(labels), 1.0, -1.0)


def standardised(X):
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=0)


def objective(X, Y, S, ridge):
    """½ ‖Y − X_S W − intercept‖² + ½ ridge ‖W‖², at its minimum, and W."""
    Y, X_S = Y - Y.mean(axis=0), X[:, S]
    W = np.linalg.solve(X_S.T @ X_S + ridge * np.eye(len(S)), X_S.T @ Y)
    return 0.5 * ((Y - X_S @ W) ** 2).sum() + 0.5 * ridge * (W**2).sum(), W


def ranking(X, Y, S, ridge):
    """Columns of S as they join, always the one with which the objective falls most; and the falls."""
    order, falls = [], []
    while len(order) < len(S):
        before = objective(X, Y, order, ridge)[0]
        value, best = min((objective(X, Y, [*order, j], ridge)[0], j) for j in S if j not in order)
        order.append(best)
        falls.append(before - value)
    return order, np.array(falls)


def substitute(X, Y, S, ridge):
    """Exchange a column of S for another as long as that lowers the objective: a set no exchange improves."""
    best = objective(X, Y, S, ridge)[0]
    while True:
        trials = [
            (objective(X, Y, [*S[:i], j, *S[i + 1 :]], ridge)[0], [*S[:i], j, *S[i + 1 :]])
            for i in range(len(S))
            for j in range(X.shape[1])
            if j not in S
        ]
        value, better = min(trials)
        if value >= best - 1e-9:
            return S
        best, S = value, better
