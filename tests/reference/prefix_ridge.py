"""Ridge on the first columns of a matrix in memory, the ridge by generalised cross-validation: one fit at a time."""

import numpy as np
from sklearn.linear_model import Ridge


def scaled(X, weight):
    """Columns of mean 0 and variance 1; constants become 0."""
    mean = np.average(X, axis=0, weights=weight)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    constant = deviation < 1e-9 * np.abs(mean) + 1e-300
    return mean, np.where(constant, np.inf, deviation)


def gcv(Z, Y, weight, ridge):
    """Golub, Heath and Wahba's score, by the hat matrix; the intercept takes one degree of freedom."""
    share = np.sqrt(weight / weight.sum())[:, None]
    A, B = share * Z, share * (Y - np.average(Y, axis=0, weights=weight))
    hat = A @ np.linalg.solve(A.T @ A + ridge * np.eye(A.shape[1]), A.T)
    rows = weight.sum() ** 2 / (weight**2).sum()
    free = 1 - (np.trace(hat) + 1) / rows
    return ((B - hat @ B) ** 2).sum() / free**2 if free > 1e-3 else np.inf


def fitted(X, Y, weight, ridges):
    """A function that predicts, and the ridge that was chosen."""
    mean, deviation = scaled(X, weight)
    Z = (X - mean) / deviation
    scores = [gcv(Z, Y, weight, ridge) for ridge in ridges]
    ridge = ridges[int(np.argmin(scores))] if np.isfinite(scores).any() else ridges[-1]
    model = Ridge(alpha=ridge * weight.sum(), solver="cholesky").fit(Z, Y, sample_weight=weight)
    return lambda X: model.predict((X - mean) / deviation).reshape(len(X), -1), ridge
