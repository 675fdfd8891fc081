"""Columns by their ids: every chunk that holds one of them is read once, ahead of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfs.errors import OptionError
from daskfs.protocol import ColumnBlock, SparseColumnBlock
from daskfs.store.places.read_ahead import Prefetcher

B = TypeVar("B", ColumnBlock, SparseColumnBlock)


class ColumnCut(Protocol[B]):
    """A dataset cut into blocks of whole columns."""

    width: int
    """Columns of the widest block."""
    nbytes: int
    """Bytes of the largest block."""

    def new_buffers(self) -> Any: ...

    def read(self, number: int, buffers: Any, /) -> B: ...

    def holding(self, ids: NDArray[np.uint64], /) -> NDArray[np.integer[Any]]:
        """The number of the block that each column is in."""

    def picked(self, block: B, ids: NDArray[np.uint64], /) -> B:
        """Some columns of a block, in memory of their own."""

    def joined(self, parts: list[B], /) -> B:
        """The columns of several blocks in one."""


def check_column_ids(ids: ArrayLike, size: int) -> NDArray[np.uint64]:
    """Feature ids in ascending order; an error names one that is there twice, or not below `size`."""
    asked = np.asarray(ids).reshape(-1)
    if len(asked) and asked.dtype.kind not in "iu":
        raise OptionError(f"columns are asked for by feature id, a whole number, not {asked.dtype}")
    if len(asked) and asked.min() < 0:
        raise IndexError(f"feature {asked.min()}: ids are not negative")
    wanted = np.sort(asked.astype(np.uint64))
    if len(wanted) and int(wanted[-1]) >= size:
        raise IndexError(f"feature {wanted[-1]} of {size}")
    twice = wanted[1:][wanted[1:] == wanted[:-1]]
    if len(twice):
        raise OptionError(f"feature {twice[0]} is asked for twice; ask once")
    return wanted


def read_columns(cut: ColumnCut[B], wanted: NDArray[np.uint64], most: int | None) -> Iterator[B]:
    """Blocks of the wanted columns, none larger than a block of the dataset nor wider than `most` columns."""
    if most is not None and most < 1:
        raise OptionError(f"columns_per_block: {most} columns are no block; 1 is the least")
    width = min(most or cut.width, cut.width)
    numbers, starts = np.unique(cut.holding(wanted), return_index=True)
    groups = np.split(wanted, starts[1:])

    def read(i: int, buffers: Any) -> list[B]:
        block = cut.read(int(numbers[i]), buffers)
        pieces = (groups[i][start : start + width] for start in range(0, len(groups[i]), width))
        return [cut.picked(block, ids) for ids in pieces]

    return _gathered(cut, Prefetcher[list[B], Any](read, range(len(numbers)), cut.new_buffers, 1), width)


def _gathered(cut: ColumnCut[B], found: Prefetcher[list[B], Any], width: int) -> Iterator[B]:
    """What several chunks held, put together as far as it fits."""
    held: list[B] = []
    columns, nbytes = 0, 0
    for parts in found:
        for part in parts:
            if held and (columns + len(part.ids) > width or nbytes + part.nbytes > cut.nbytes):
                yield cut.joined(held)
                held, columns, nbytes = [], 0, 0
            held.append(part)
            columns, nbytes = columns + len(part.ids), nbytes + part.nbytes
    if held:
        yield cut.joined(held)
