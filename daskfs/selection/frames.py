"""Features of a DataFrame by the names of its columns, which may have any order and include other columns.

Texts, dates and booleans become numbers as they do in an ingest: ``colour=red`` is 1 where the column ``colour`` is
``red``, and a date is a number of seconds.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, nearest
from daskfs.store.ingest.formats.dates import first_day_of, with_first_day
from daskfs.store.ingest.formats.tabular import (
    BOOLEAN,
    CATEGORICAL,
    DATE,
    DATE_PARTS,
    TIME,
    arrow,
    as_booleans,
    as_numbers,
    as_seconds,
    as_texts,
    kind_of,
)
from daskfs.store.ingest.gaps import GAP


class FrameColumn(NamedTuple):
    """The column of a DataFrame from which a feature is computed, and how.

    With a `text` such as "red", the feature is 1 where the column has this text, and else 0. With a `part` such as
    "weekday", it is this part of the column's dates. The `date_format` is the format of the dates if it is not
    ISO 8601, with the day from which they are counted (see `dates`).
    """

    column: str
    text: str | None = None
    part: str = ""
    date_format: str = ""


def is_frame(X: Any) -> bool:
    """Return True for a DataFrame (pandas, polars, Dask, an Arrow table) whose columns have names, not only numbers."""
    names = names_of(X)
    return len(names) > 0 and all(isinstance(name, str) for name in names)


def names_of(frame: Any) -> list[Any]:
    """Return the names of the columns of a DataFrame or an Arrow table; no names for any other object."""
    if hasattr(frame, "column_names"):
        return list(frame.column_names)
    is_table = hasattr(frame, "iloc") or hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "partitions")
    return list(getattr(frame, "columns", ())) if is_table else []


def find_column(frame: Any, name: str, date_formats: Mapping[str, str]) -> FrameColumn:
    """Return the column and the rule from which a feature is computed. Raise OptionError if the frame lacks the column.

    >>> import pandas as pd
    >>> find_column(pd.DataFrame({"age": [1], "colour": ["red"]}), "colour=red", {})
    FrameColumn(column='colour', text='red', part='', date_format='')
    """
    known = set(names_of(frame))
    if name in known:
        return FrameColumn(name, date_format=date_formats.get(name, ""))
    column, colon, part = name.rpartition(":")
    if colon and column in known and part in DATE_PARTS:
        return FrameColumn(column, part=part, date_format=date_formats.get(column, ""))
    starts = [at for at, sign in enumerate(name) if sign == "=" and name[:at] in known]
    if starts:
        return FrameColumn(name[: starts[-1]], text=name[starts[-1] + 1 :])
    wanted = name.split("=")[0]
    raise OptionError(f"X has no column {wanted!r:.80}{nearest(wanted, known)}, which the selection needs")


def row_slices(frame: Any, columns: Sequence[str], step: int) -> tuple[int, Iterator[tuple[slice, Any]]]:
    """Return the number of rows of a frame, and slices of rows with some columns: partitions if it is a Dask frame."""
    wanted = list(dict.fromkeys(columns))
    if hasattr(frame, "partitions"):
        lengths = [int(length) for length in frame.map_partitions(len).compute()]
        edges = pairwise(accumulate([0, *lengths]))
        parts = ((slice(*ends), frame.partitions[i][wanted].compute()) for i, ends in enumerate(edges))
        return sum(lengths), parts
    n_rows = len(frame)
    some = frame.select(wanted) if hasattr(frame, "column_names") else frame[wanted]
    return n_rows, ((slice(at, min(at + step, n_rows)), some[at : at + step]) for at in range(0, n_rows, step))


def numbers_of(frame: Any, feature: FrameColumn) -> NDArray[np.float64]:
    """Return a feature of some rows of a frame as numbers, NaN where the value is missing."""
    column = frame[feature.column]
    plain = getattr(column, "dtype", None)
    if feature.text is None and not feature.part and hasattr(frame, "iloc") and getattr(plain, "kind", "") in "biuf":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)  # type: ignore[no-any-return]
    values = _as_arrow(column)
    if feature.text is not None:
        return _matches(values, feature.text)
    kind = kind_of(values.type)
    try:
        if kind == CATEGORICAL:
            numbers = _from_texts(values, feature)
        elif kind in (DATE, TIME) or feature.part:
            numbers = as_seconds(values, kind if kind == TIME else DATE, feature.date_format, feature.part)
        else:
            numbers = as_booleans(values) if kind == BOOLEAN else as_numbers(values)
    except arrow().ArrowInvalid as error:
        raise OptionError(f"X: column {feature.column!r:.80} is not what it was in the data: {error}") from error
    result: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    return result


def _as_arrow(column: Any) -> Any:
    """Return a column of a DataFrame of any kind as an Arrow array."""
    if hasattr(column, "to_arrow"):  # of polars
        column = column.to_arrow()
    values = column if hasattr(column, "type") else arrow().Array.from_pandas(column)
    return values.combine_chunks() if hasattr(values, "combine_chunks") else values


class CategoryCheck:
    """Detects columns whose categories are written in another form than in the training data.

    An example is a column with the numbers 7 and 8 in place of the texts 007 and 008.
    """

    def __init__(self, features: Sequence[FrameColumn]) -> None:
        self._known: dict[str, set[str]] = {}
        self._forms: dict[str, set[str]] = {}
        for feature in features:
            if feature.text is not None and feature.text != GAP:
                self._known.setdefault(feature.column, set()).add(feature.text)

    def look(self, frame: Any) -> None:
        """Compare the texts in a slice with the categories; a column with a known category is watched no longer."""
        for column, known in list(self._known.items()):
            texts = set(as_texts(_as_arrow(frame[column]).unique().drop_null()).to_pylist())
            self._forms.setdefault(column, set()).update(map(_form, texts))
            if texts & known:
                del self._known[column]

    def warn(self) -> None:
        """Warn of each column without any known category whose texts all have another form than the categories."""
        for column, known in self._known.items():
            forms = self._forms.get(column)
            if forms and not forms & set(map(_form, known)):
                warnings.warn(
                    f"X: no value of column {column!r:.80} is one of the categories that the selection knows, such as "
                    f"{min(known)!r:.40}; give the column in the form of the data that was selected from",
                    stacklevel=2,
                )


def _form(text: str) -> str:
    """Return "number" or "boolean" if a number or a boolean is written like the text, else "text".

    >>> _form("7"), _form("007"), _form("true")
    ('number', 'text', 'boolean')
    """
    if text in ("true", "false"):
        return "boolean"
    return "number" if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?", text) else "text"


def _from_texts(values: Any, feature: FrameColumn) -> Any:
    """Convert texts to numbers, all of them as numbers, booleans, dates or times, whichever is possible first."""
    formats = dict.fromkeys((feature.date_format, _without_form(feature.date_format)))
    conversions: list[Any] = [partial(as_seconds, kind=DATE, date_format=each, part=feature.part) for each in formats]
    if not feature.part:
        conversions = [as_numbers, as_booleans, *conversions, partial(as_seconds, kind=TIME)]
    *others, last = conversions
    for convert in others:
        try:
            return convert(values)
        except arrow().ArrowInvalid:
            continue
    return last(values)


def _without_form(date_format: str) -> str:
    """Return the date format of ISO 8601 with the same first day."""
    form, day = first_day_of(date_format)
    return with_first_day("", day) if form != date_format else ""


def _matches(values: Any, text: str) -> NDArray[np.float64]:
    """Return 1 where a value is this text, or missing for the text `GAP`, and else 0."""
    compute = arrow("pyarrow.compute")
    if text == GAP:
        hits = values.is_null(nan_is_null=True)
    else:
        hits = compute.fill_null(compute.equal(as_texts(values), text), False)
    result: NDArray[np.float64] = hits.to_numpy(zero_copy_only=False).astype(np.float64)
    return result
