"""How much a metric varies, from its definition: every row's weight is moved a little, and the metric looked at."""

import numpy as np


def pulls(metric, truth, values, weight, step=1e-5):
    """What a row adds to the metric, by central differences: weight times the derivative by it."""
    found = np.empty(len(truth))
    for row in range(len(truth)):
        ends = []
        for sign in (1, -1):
            moved = weight.astype(np.float64)
            moved[row] *= 1 + sign * step
            ends.append(metric(truth, values, sample_weight=moved))
        found[row] = (ends[0] - ends[1]) / (2 * step)
    return found


def kish(weight):
    """How many rows without weights vary as much as these."""
    return weight.sum() ** 2 / (weight**2).sum()


def jackknife(metric, truth, values, weight):
    """The infinitesimal jackknife's standard error of a metric (Efron, 1982), n - 1 in place of n."""
    n = kish(weight)
    return np.sqrt((pulls(metric, truth, values, weight) ** 2).sum() * n / (n - 1))


def delong(member, scores):
    """The standard error of the AUC as DeLong, DeLong and Clarke-Pearson (1988) define it, over all pairs."""
    above = scores[member][:, None] - scores[~member][None, :]
    psi = (above > 0) + 0.5 * (above == 0)
    v10, v01 = psi.mean(axis=1), psi.mean(axis=0)
    return np.sqrt(v10.var(ddof=1) / len(v10) + v01.var(ddof=1) / len(v01))
