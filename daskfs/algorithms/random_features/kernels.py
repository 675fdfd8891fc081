"""Kernels of Sparse Random Features: float32 sums of a tile, added to float64 totals."""

from __future__ import annotations

import numpy as np

from daskfs.jit import kernel, warms


@kernel
def add_rows(product, first, G):
    """Add float32 sums to the first columns of rows `first`, … of float64 totals."""
    for i in range(product.shape[0]):
        source, target = product[i], G[first + i]
        for j in range(len(source)):
            target[j] += source[j]


@kernel
def add_lower(product, first, column, G):
    """The same of a square on the diagonal, whose left edge is `column`, and only up to the diagonal."""
    for i in range(product.shape[0]):
        source, target = product[i], G[first + i, column:]
        for j in range(i + 1):
            target[j] += source[j]


@warms
def _warm_up() -> None:
    product = np.ones((2, 2), np.float32)
    for total in (np.zeros((2, 2)), np.zeros((3, 3))[:2, :2]):  # a panel of its own, and a part of a larger one
        add_rows(product, 0, total)
        add_lower(product, 0, 0, total)
