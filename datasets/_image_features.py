"""Features of small grey images, as matrices with a name for every column: pixels, products, gradients, HOG."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.float32]  # (image, row, column), 0 … 1

ORIENTATIONS = 9  # bins of 20° over half a turn
CELL = 4  # pixels along the side of a cell
BLOCK = 2  # cells along the side of a block


class Features(NamedTuple):
    """One column for each feature, in column-major order, and its name."""

    X: NDArray[np.float32]
    names: list[str]


def pixels(images: Images) -> Features:
    """The pixels themselves: ``pixel(3,17)`` is row 3, column 17, from 0."""
    _, height, width = images.shape
    names = [f"pixel({r},{c})" for r in range(height) for c in range(width)]
    return Features(np.asfortranarray(images.reshape(len(images), -1)), names)


def products(images: Images, pairs: NDArray[np.int64]) -> Features:
    """Products of pairs of pixels, given by their numbers: ``pixel(3,17)*pixel(4,17)``."""
    X, names = pixels(images)
    made = np.empty((len(images), len(pairs)), np.float32, order="F")
    for column, (a, b) in enumerate(pairs):
        np.multiply(X[:, a], X[:, b], out=made[:, column])
    return Features(made, [f"{names[a]}*{names[b]}" for a, b in pairs])


def near_pairs(height: int, width: int, radius: int) -> NDArray[np.int64]:
    """Every pair of pixels at most `radius` rows and columns apart, each pair once."""
    number = np.arange(height * width).reshape(height, width)
    down, across = min(radius, height - 1), min(radius, width - 1)
    shifts = [(dr, dc) for dr in range(down + 1) for dc in range(-across, across + 1) if (dr, dc) > (0, 0)]
    pairs = []
    for dr, dc in shifts:
        here = number[: height - dr, max(0, -dc) : width - max(0, dc)]
        there = number[dr:, max(0, dc) : width + min(0, dc)]
        pairs.append(np.stack([here.ravel(), there.ravel()], axis=1))
    return np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)


def random_pairs(height: int, width: int, count: int, seed: int) -> NDArray[np.int64]:
    """Some of all pairs of different pixels, none of them twice."""
    n = height * width
    chosen = np.sort(np.random.default_rng(seed).choice(n * (n - 1) // 2, count, replace=False))
    first, second = np.triu_indices(n, 1)
    return np.stack([first[chosen], second[chosen]], axis=1)


def gradients(images: Images) -> Features:
    """AsynchronousAlgorithm differences down and across: ``dy(3,17)``, ``dx(3,17)``; one-sided at the border."""
    _, height, width = images.shape
    names = [f"{d}({r},{c})" for d in ("dy", "dx") for r in range(height) for c in range(width)]
    flat = [d.reshape(len(images), -1) for d in np.gradient(images, axis=(1, 2))]
    return Features(np.asfortranarray(np.concatenate(flat, axis=1)), names)


def hog(images: Images) -> Features:
    """Histograms of oriented gradients (Dalal and Triggs, 2005).

    Each pixel votes with the length of its gradient for the two nearest of 9 directions, in cells of 4 x 4
    pixels; blocks of 2 x 2 cells, one cell apart, are scaled to unit length. ``hog(block 2,3 cell 0,1; 40°)``
    is the share of edges whose gradient points at 40° (from "across" towards "down") in one cell of a block.
    """
    histograms = _cell_histograms(images)
    _, rows, columns, _ = histograms.shape
    blocks, names = [], []
    for r in range(rows - BLOCK + 1):
        for c in range(columns - BLOCK + 1):
            block = histograms[:, r : r + BLOCK, c : c + BLOCK].reshape(len(images), -1)
            blocks.append(block / np.sqrt(np.sum(block**2, axis=1, keepdims=True) + 1e-6))
            names += [f"hog(block {r},{c} cell {i},{j}; {angle}°)" for i, j, angle in _block_places()]
    return Features(np.asfortranarray(np.concatenate(blocks, axis=1)), names)


def _cell_histograms(images: Images) -> NDArray[np.float32]:
    """Votes for each direction in each cell: (image, cell row, cell column, direction)."""
    dy, dx = np.gradient(images, axis=(1, 2))
    length = np.hypot(dy, dx)
    position = np.mod(np.arctan2(dy, dx), np.float32(np.pi)) * np.float32(ORIENTATIONS / np.pi)
    lower = np.floor(position)
    share = position - lower
    n, height, width = images.shape
    cells = np.empty((n, height // CELL, width // CELL, ORIENTATIONS), np.float32)
    for bin in range(ORIENTATIONS):
        votes = (lower % ORIENTATIONS == bin) * (1 - share) + ((lower + 1) % ORIENTATIONS == bin) * share
        whole = (votes * length)[:, : height // CELL * CELL, : width // CELL * CELL]
        cells[..., bin] = whole.reshape(n, height // CELL, CELL, width // CELL, CELL).sum(axis=(2, 4))
    return cells


def _block_places() -> list[tuple[int, int, int]]:
    return [
        (i, j, 180 // ORIENTATIONS * bin) for i in range(BLOCK) for j in range(BLOCK) for bin in range(ORIENTATIONS)
    ]
