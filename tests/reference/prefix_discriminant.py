"""Linear discriminant analysis with equal priors on the first columns of a matrix in memory: one fit at a time."""

import numpy as np
from reference.prefix_ridge import gcv


def fitted(X, codes, n_classes, weight, ridges):
    """A function that scores, ``(rows, classes)``, and the ridge that was chosen; classes without rows score -inf."""
    there = [c for c in range(n_classes) if weight[codes == c].sum() > 0]
    means = np.full((n_classes, X.shape[1]), np.nan)
    for c in there:
        means[c] = np.average(X[codes == c], axis=0, weights=weight[codes == c])
    rows = weight > 0
    X, codes, weight = X[rows], codes[rows], weight[rows]
    mean, apart = np.average(X, axis=0, weights=weight), X - means[codes]
    deviation = np.sqrt(np.average(apart**2, axis=0, weights=weight))
    W = (apart / deviation).T @ (weight[:, None] * apart / deviation) / weight.sum()
    shares = np.array([weight[codes == c].sum() for c in there]) / weight.sum()
    indicators = (codes[:, None] == there) / np.sqrt(shares)
    scores = [gcv((X - mean) / deviation, indicators, weight, ridge) for ridge in ridges]
    ridge = ridges[int(np.argmin(scores))]

    def predict(X):
        found = np.full((len(X), n_classes), -np.inf)
        for c in there:
            w = np.linalg.solve(W + ridge * np.eye(len(W)), means[c] / deviation)
            found[:, c] = X / deviation @ w - w @ (means[c] / deviation) / 2
        return found

    return predict, ridge
