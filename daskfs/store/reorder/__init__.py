"""Rewriting a dataset in another order: shuffled rows, a split into two datasets, rows transposed to columns."""
