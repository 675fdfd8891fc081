"""A small table as a Zarr group that xarray can open: columns of numbers of equal length, one chunk per column.

A column is read only if its file has the length that the table states and a correct crc32c. Columns are decoded by the
codec of daskfs, whatever codec the metadata names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.store.dataset.codec import CRC_BYTES, PLAIN
from daskfs.store.dataset.layout import ATTRIBUTE, ROOT, VERSION, ArraySpec, root_metadata
from daskfs.store.dataset.reader import chunk_errors
from daskfs.store.dataset.writer import write_array
from daskfs.store.places.location import Location

MOST_ROWS, MOST_COLUMNS, MOST_METADATA = 1 << 20, 256, 1 << 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

TableColumns = dict[str, NDArray[np.float64]]


def write_table(location: Location, columns: Mapping[str, NDArray[np.float64]], rows: str) -> None:
    """Write columns of equal length along the dimension `rows`, and the root metadata last."""
    length = len(next(iter(columns.values()), ()))
    if len(columns) > MOST_COLUMNS or length > MOST_ROWS or not all(map(_NAME.fullmatch, columns)):
        raise DatasetError(f"{location.url}: no table: {len(columns)} columns of {length} rows ({', '.join(columns)})")
    specs = [_spec(name, length, rows) for name in columns]
    for spec in specs:
        write_array(location, spec, columns[spec.name])
        location.write(f"{spec.name}/{ROOT}", json.dumps(spec.metadata()).encode())
    location.write(ROOT, root_metadata({"version": VERSION, "kind": "table", "rows": length}, specs))


def read_table(location: Location, rows: str) -> TableColumns:
    """Return the columns of a table. Raise DatasetError if the table was not written by `write_table`."""
    try:
        raw = location.read(ROOT, 0, MOST_METADATA + 1)
    except FileNotFoundError:
        raise DatasetError(f"{location.url}: missing") from None
    except OSError as error:
        raise DatasetError(f"{location.url}: cannot be read: {error}") from error
    try:
        specs = _parse_columns(raw, rows)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(f"{location.url}: not a table that daskfs wrote") from error
    return {spec.name: _column(location, spec) for spec in specs}


def _spec(name: str, length: int, rows: str) -> ArraySpec:
    return ArraySpec(name, (length,), (max(length, 1),), np.dtype(np.float64), (rows,))


def _parse_columns(raw: bytes, rows: str) -> list[ArraySpec]:
    """Return the columns in a root zarr.json. Raise an error if `write_table` would have written another zarr.json."""
    root = json.loads(raw) if len(raw) <= MOST_METADATA else {}
    table, members = root["attributes"][ATTRIBUTE], root["consolidated_metadata"]["metadata"]
    length = table["rows"]
    if type(length) is not int or not 0 <= length <= MOST_ROWS or len(members) > MOST_COLUMNS:
        raise ValueError(length)
    specs = [_spec(name, length, rows) for name in members if _NAME.fullmatch(name)]
    expected = {spec.name: spec.metadata() for spec in specs}
    if (table["kind"], table["version"], members) != ("table", VERSION, expected):
        raise ValueError(table)
    return specs


def _column(location: Location, spec: ArraySpec) -> NDArray[np.float64]:
    column = np.empty(spec.shape, np.float64)
    if spec.n_chunks == 0:
        return column
    with chunk_errors(location, spec.key(0)):
        PLAIN.decode(location.read(spec.key(0), 0, column.nbytes + CRC_BYTES + 1), column)
    return column
