"""MISSION as the paper lists it: every row, the gradient of all its features into a count-sketch, the top k read back.

Plain Python over dictionaries and a short list: the top k are found among all features seen so far, after every row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

MASK = 2**64 - 1


def murmur(x: int) -> int:
    """The 64-bit finaliser of MurmurHash3."""
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ (x >> 33)


def cells(feature: int, depth: int, bits: int) -> list[tuple[int, int]]:
    """Cell and sign of a feature in every row of the sketch."""
    found = []
    for row in range(depth):
        h = murmur(feature)
        if row > 2:
            h = murmur((h + row // 3) & MASK)
        g = h * 0x9E3779B97F4A7C15 & MASK
        g ^= g >> 32
        place = (h >> (64 - bits), g & (2**bits - 1), g >> (64 - bits))[row % 3]
        found.append((row * 2**bits + place, 1 - 2 * (h >> (row % 3) & 1)))
    return found


def residual(loss: str, score: float, y: float) -> float:
    """−dL/du of one row."""
    if loss == "squared":
        return 2 * (y - score)  # the paper's loss has no ½
    if loss == "squared_hinge":
        return y * max(0.0, 1 - y * score)
    return y / (1 + math.exp(y * score))


def mission(
    rows: Sequence[dict[int, float]], y: Sequence[float], k: int, depth: int, bits: int, rate: float, loss: str
) -> dict[int, float]:
    """The k largest weights, by feature."""
    sketch = [0.0] * (depth << bits)
    where = {feature: cells(feature, depth, bits) for row in rows for feature in row}

    def weight(feature: int) -> float:
        return median(sign * sketch[cell] for cell, sign in where[feature])

    top: dict[int, float] = {}
    seen: set[int] = set()
    for row, target in zip(rows, y, strict=True):
        score = sum(top[feature] * value for feature, value in row.items() if feature in top)
        step = rate * residual(loss, score, target)
        for feature, value in row.items():
            for cell, sign in where[feature]:
                sketch[cell] += sign * step * value
        seen |= row.keys()
        ranked = sorted(seen, key=lambda feature: (-abs(weight(feature)), feature))
        top = {feature: weight(feature) for feature in ranked[:k]}
    return top


def iht(rows: Sequence[dict[int, float]], y: Sequence[float], k: int, rate: float) -> dict[int, float]:
    """Equation 3, squared loss: a step by one row, then the k largest weights and nothing else."""
    top: dict[int, float] = {}
    for row, target in zip(rows, y, strict=True):
        score = sum(top.get(feature, 0.0) * value for feature, value in row.items())
        step = rate * residual("squared", score, target)
        stepped = {feature: top.get(feature, 0.0) + step * row.get(feature, 0.0) for feature in top.keys() | row.keys()}
        ranked = sorted(stepped, key=lambda feature: (-abs(stepped[feature]), feature))
        top = {feature: stepped[feature] for feature in ranked[:k]}
    return top


def batch_iht(rows: Sequence[dict[int, float]], y: Sequence[float], k: int, rate: float, room: int) -> dict[int, float]:
    """The same where gradients add up, at fixed weights, until `room` features are not enough for the next row."""
    top: dict[int, float] = {}
    pending: dict[int, float] = {}
    for row, target in [*zip(rows, y, strict=True), ({}, 0.0)]:
        if not row or len(top.keys() | pending.keys()) + len(row) > room:
            stepped = {feature: top.get(feature, 0.0) + pending.get(feature, 0.0) for feature in top.keys() | pending}
            ranked = sorted(stepped, key=lambda feature: (-abs(stepped[feature]), feature))
            top, pending = {feature: stepped[feature] for feature in ranked[:k]}, {}
        score = sum(top.get(feature, 0.0) * value for feature, value in row.items())
        step = rate * residual("squared", score, target)
        for feature, value in row.items():
            pending[feature] = pending.get(feature, 0.0) + step * value
    return top


def softmax_sgd(
    rows: Sequence[dict[int, float]], y: Sequence[int], n_classes: int, rate: float
) -> dict[int, np.ndarray]:
    """Exact weights of softmax regression by plain steps: what a sketch without collisions must give."""
    weights: dict[int, np.ndarray] = {}
    nothing = np.zeros(n_classes)
    for row, target in zip(rows, y, strict=True):
        scores = sum((weights.get(feature, nothing) * value for feature, value in row.items()), nothing)
        p = np.exp(scores - scores.max())
        pull = np.eye(n_classes)[target] - p / p.sum()
        for feature, value in row.items():
            weights[feature] = weights.get(feature, nothing) + rate * value * pull
    return weights


def averaged_refit(
    rows: Sequence[dict[int, float]], y: Sequence[float], weights: dict[int, float], rate: float, beta: float
) -> dict[int, float]:
    """Logistic regression on the features of `weights`, from there on: implicit steps that get smaller the more was
    learned of a feature, v·g/√(1 + Σv²g²/β), and the mean of the weights after every row."""
    weights, sums = dict(weights), dict.fromkeys(weights, 0.0)
    total = dict.fromkeys(weights, 0.0)
    for row, target in zip(rows, y, strict=True):
        known = {feature: value for feature, value in row.items() if feature in weights}
        score = sum(weights[feature] * value for feature, value in known.items())
        reach = rate * sum(value**2 / math.sqrt(1 + sums[feature] / beta) for feature, value in known.items())
        pull = implicit_pull("logistic", score, target, reach)
        for feature, value in known.items():
            sums[feature] += (value * pull) ** 2
            weights[feature] += rate * pull * value / math.sqrt(1 + sums[feature] / beta)
        for feature in weights:
            total[feature] += weights[feature]
    return {feature: value / len(rows) for feature, value in total.items()}


class ActiveCells:
    """The method "active" in float64: a table of exact weights, and cells with the weights of all other features.

    A cell is the signed weights of C classes and the sum of squared gradients. With one score, steps follow from the
    cells as they were before the row; with several, from the cells after the features before.
    """

    def __init__(self, n_scores: int, n_select: int, room: int, bits: int, rate: float, decay: float) -> None:
        self.n_scores, self.n_select, self.room, self.bits = n_scores, n_select, room, bits
        self.rate, self.decay = rate, decay
        self.table: dict[int, tuple[np.ndarray, float]] = {}
        self.cells = np.zeros((2**bits, n_scores))
        self.sums = np.zeros(2**bits)
        self.threshold = 0.0

    def place(self, feature: int) -> tuple[int, int]:
        """The cell and the sign of a feature."""
        h = murmur(feature)
        return h >> (64 - self.bits), 1 - 2 * (h >> 32 & 1)

    def step(self, value: float, total: float) -> float:
        """The factor of the residual in the step of a feature."""
        return self.rate * value / math.sqrt(1 + self.decay * total)

    def learn(self, row: dict[int, float], target: float, loss: str) -> None:
        """Learn one row; `target` is −1 or +1 for one score, and a class number for several."""
        inside = {feature: value for feature, value in row.items() if feature in self.table}
        scores = sum((self.table[f][0] * v for f, v in inside.items()), np.zeros(self.n_scores))
        if self.n_scores > 1:
            p = np.exp(scores - scores.max())
            pull = np.eye(self.n_scores)[int(target)] - p / p.sum()
        else:
            reach = sum(value * self.step(value, self.table[feature][1]) for feature, value in inside.items())
            pull = np.array([implicit_pull(loss, float(scores[0]), target, reach)])
        square = float(pull @ pull)
        for feature, value in inside.items():
            weights, total = self.table[feature]
            total += value**2 * square
            self.table[feature] = weights + self.step(value, total) * pull, total
        large = []
        before, sums = (self.cells.copy(), self.sums.copy()) if self.n_scores == 1 else (self.cells, self.sums)
        for feature, value in row.items():
            if feature in inside:
                continue
            cell, sign = self.place(feature)
            step = sign * self.step(value, sums[cell] + value**2 * square) * pull
            large += [feature] if np.linalg.norm(before[cell] + step) > self.threshold else []
            self.cells[cell] += step
            self.sums[cell] += value**2 * square
        for feature in large:
            self.admit(feature)

    def admit(self, feature: int) -> None:
        """Move a feature into the table if its cell has large weights; prune the table if it is full."""
        cell, sign = self.place(feature)
        if feature in self.table or np.linalg.norm(self.cells[cell]) <= self.threshold:
            return
        self.table[feature] = sign * self.cells[cell], self.sums[cell]
        self.cells[cell] = 0
        if len(self.table) < self.room:
            return
        ranked = sorted(self.table, key=lambda f: (-np.linalg.norm(self.table[f][0]), f))
        self.threshold = float(np.linalg.norm(self.table[ranked[self.n_select - 1]][0]))
        for feature in ranked[self.n_select :]:
            weights, total = self.table.pop(feature)
            cell, sign = self.place(feature)
            self.cells[cell] += sign * weights
            self.sums[cell] = max(self.sums[cell], total)


def implicit_pull(loss: str, score: float, y: float, reach: float) -> float:
    """The residual t = −dL/du at score + reach · t, by halving; the squared loss has a ½ here."""
    if loss == "squared":
        return (y - score) / (1 + reach)
    if loss == "squared_hinge":
        return residual(loss, score, y) / (1 + reach)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        fits = middle <= 1 / (1 + math.exp(y * score + reach * middle))
        low, high = (middle, high) if fits else (low, middle)
    return y * low
