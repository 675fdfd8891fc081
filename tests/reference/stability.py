"""Nogueira, Sechidis and Brown (2018): the index and its variance, over a whole matrix of 0 and 1."""

import numpy as np


def index(Z):
    """1 minus the mean variance of a column, unbiased, against that of rows with as many ones drawn at random."""
    density = Z.mean()
    return 1 - Z.var(axis=0, ddof=1).mean() / (density * (1 - density))


def variance(Z):
    """Of the index: how much each row contributes, as the paper writes it."""
    M, d = Z.shape
    p, k, kbar = Z.mean(axis=0), Z.sum(axis=1), Z.sum(axis=1).mean()
    phi = np.empty(M)
    for i in range(M):
        own = sum(Z[i, f] * p[f] for f in range(d)) / d - k[i] * kbar / d**2
        phi[i] = own + index(Z) / 2 * (2 * k[i] * kbar / d**2 - k[i] / d - kbar / d + 1)
    phi /= kbar / d * (1 - kbar / d)
    return 4 / M**2 * ((phi - phi.mean()) ** 2).sum()
