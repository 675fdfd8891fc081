"""The function `select`, which takes data as people have them: arrays, DataFrames, xarray, Zarr, files, datasets.

Data are opened as a dataset of the axis that the algorithm reads: in memory, in place, or as a temporary copy, which is
announced by a warning before it is made.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

from daskfs.algorithms.registry import classes_that, fields_of, registrations
from daskfs.engine.data.in_text import can_read_in_place, open_text
from daskfs.engine.data.ingest import ingest
from daskfs.engine.data.reorder import transpose
from daskfs.engine.passes import PassProgress
from daskfs.engine.run import check_targets
from daskfs.engine.run import select as select_from_dataset
from daskfs.errors import OptionError, check_whole, nearest, public_url, some_names
from daskfs.job.choice import choose_algorithm
from daskfs.job.request import must_transpose
from daskfs.protocol import Algorithm, Axis, Kind
from daskfs.selection.frames import is_frame, names_of
from daskfs.selection.selection import Selection
from daskfs.store.dataset.dataset import Dataset, is_dataset, open_dataset
from daskfs.store.dataset.label_order import RowOrder
from daskfs.store.in_memory import InMemory
from daskfs.store.in_place import Gap, InPlace
from daskfs.store.ingest.arrays import check_finite, encode_target
from daskfs.store.ingest.formats import make_format
from daskfs.store.ingest.formats.dates import in_words
from daskfs.store.ingest.formats.tabular import IDENTIFIER, arrow
from daskfs.store.ingest.gaps import Missing, complete_rows, fill_matrix
from daskfs.store.ingest.recognise import Recognised, recognise
from daskfs.store.ingest.sources import find_sources
from daskfs.store.matrix import Matrix, find_in_group, is_matrix, matrix_of, open_matrix
from daskfs.store.places.location import Location

if TYPE_CHECKING:
    from distributed import Client

MOST_TABLE_COLUMNS = 2000
"""DataFrames of whole numbers with more columns are matrices; of those with fewer, identifiers are left out."""


def select(
    data: Any,
    algorithm: Algorithm | int,
    y: Any = None,
    *,
    missing: Missing = "auto",
    order: RowOrder = "auto",
    error_control: Literal["permuted", "halves"] | None = None,
    max_fdr: float | None = None,
    max_false: float | None = None,
    groups: Any = None,
    client: Client | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    seed: int = 0,
    synchronous: bool = False,
    progress: Callable[[PassProgress], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Selection:
    """Select features of any data, by an algorithm or with the algorithm that suits the data.

    Parameters
    ----------
    data
        A matrix (numpy, scipy.sparse, dask.array, a Zarr array, any array with slices); a DataFrame (pandas, polars,
        dask, anything that Arrow reads); an xarray.DataArray or Dataset; an object with `X`, `obs` and `var_names`,
        such as AnnData; a dataset; or the path or URL of a dataset, a Zarr group, a ``.npy`` file, or of files that
        `ingest` reads. Columns of DataFrames and files may be categories and dates, and have gaps.
    algorithm
        An algorithm such as ``daskfs.OnlineSubstitution(100)``, or the number of features to select.
    y
        The target of every row; or the name of the column, variable or array with the target. Not for a dataset, which
        has its own.
    missing
        What becomes of missing values, as for `ingest`; not for a dataset, which has none.
    order
        ``"auto"`` to read rows that are sorted by label in random order if the algorithm learns row by row, as MISSION
        does: from a copy, unless they are in memory. ``"as-is"`` to read them as they come.
    error_control, max_fdr, max_false
        How many of the features are false, and how many to report: see `OnlineSubstitution` ("permuted") and `Mission`
        ("halves").
    groups
        With error control: which rows belong together, as a name or number for every row, or the name of a column.
    client
        The Dask cluster to use; by default the current one, if there is one, else this process. One worker gives
        exactly the result of this process; several share every pass. Data in memory are read in this process.
    checkpoint
        A folder or URL where the state is saved every half minute and after every pass.
    resume
        Continue from the checkpoint, if there is one, to the result of an uninterrupted run. Otherwise an existing
        checkpoint is replaced.
    seed
        The seed of random choices.
    synchronous
        Let workers wait for each other even if the algorithm does not need it, so that the result can be repeated.
    progress
        Called with a `PassProgress` after every block or round of blocks.
    storage_options
        Options to reach the stores of data and checkpoint; see `open_dataset`.

    Returns
    -------
    Selection
        The features, with names, weights and history.

    Notes
    -----
    Zarr arrays and dask arrays are read in place, block by block, where their chunks make up blocks of whole columns
    (or rows, as the algorithm reads) of at most 256 MB. Otherwise, and for DataFrames with other columns than numbers,
    a copy is written to the folder for temporary files, chunk by chunk, and a warning says so first.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> df = pd.DataFrame({"age": rng.integers(18, 90, 200), "height": rng.normal(170, 10, 200)})
    >>> df["clicked"] = df.age > 50
    >>> daskfs.select(df, 1, y="clicked").names
    ['age']
    """
    if isinstance(algorithm, int | np.integer) and not isinstance(algorithm, bool):
        check_whole("the number of features", algorithm, 1)
    elif not isinstance(algorithm, Algorithm):
        raise OptionError(f"{algorithm!r:.80} is no algorithm: pass daskfs.OnlineSubstitution(100), or a number")
    errors: dict[str, Any] = {"error_control": error_control, "max_fdr": max_fdr, "max_false": max_false}
    errors["groups"] = groups if isinstance(groups, str) else None
    run: dict[str, Any] = {"client": client, "checkpoint": checkpoint, "resume": resume, "seed": seed}
    run |= {"synchronous": synchronous, "progress": progress, "storage_options": storage_options, "order": order}
    if groups is not None and not isinstance(groups, str):  # they are in the order of the rows
        run |= {"groups": groups, "order": (order := "as-is")}
    with ExitStack() as stack:
        opener = _Opener(stack, missing, order, storage_options, client)
        errors = {name: value for name, value in errors.items() if value is not None}
        if isinstance(algorithm, Algorithm):
            algorithm = _with_error_control(algorithm, errors)
        dataset, chosen = opener.open(data, y, algorithm)
        chosen = _with_error_control(chosen, errors)
        if dataset.target_names is not None:
            check_targets(chosen.resolve(dataset.meta), dataset, classes_that(lambda entry: entry.several_targets))
        try:
            selection = select_from_dataset(dataset, chosen, **run)
        except Gap:
            if missing == "error" or not isinstance(dataset, InPlace):
                raise
            selection = select_from_dataset(opener.copy(dataset.matrix, chosen.axis, "it has gaps"), chosen, **run)
        if opener.is_copy:  # of a dataset that is gone after this
            selection = replace(selection, source={**selection.source, "url": opener.name})
    return selection


def _with_error_control(algorithm: Algorithm, errors: Mapping[str, Any]) -> Algorithm:
    """Return an algorithm with the options of error control that were given."""
    if not errors:
        return algorithm
    if "error_control" not in fields_of(algorithm):
        others = classes_that(lambda entry: "error_control" in fields_of(entry.algorithm))
        raise OptionError(f"{next(iter(errors))}: {algorithm.name} cannot say how many are false: use {others}")
    return replace(algorithm, **errors)  # type: ignore[type-var]


class _Opener:
    """Opens data as a dataset, and holds temporary copies until the exit of a stack.

    Parameters
    ----------
    stack
        The stack whose exit removes temporary copies.
    missing
        What becomes of missing values.
    order
        Whether rows that are sorted by label may be read in random order.
    storage
        Options of the stores of paths and URLs.
    client
        The Dask client to use for copies.
    """

    def __init__(
        self,
        stack: ExitStack,
        missing: Missing,
        order: RowOrder,
        storage: Mapping[str, Any] | None,
        client: Client | None,
    ) -> None:
        self._stack, self._missing, self._order = stack, missing, order
        self._storage, self._client = storage, client
        self.name, self.is_copy = "data", False
        """What records call the data, and whether the dataset is a temporary copy."""

    def open(self, data: Any, y: Any, algorithm: Algorithm | int) -> tuple[Dataset, Algorithm]:
        """Return data as a dataset that the algorithm can read, and the algorithm, chosen if it is a number."""
        source = self._find(data, y)
        if isinstance(source, Matrix):
            kind: Kind = "sparse" if scipy.sparse.issparse(source.cells) else "dense"
            chosen = _chosen(algorithm, kind, *source.cells.shape)
            return self._open_matrix(source, chosen.axis), chosen
        dataset = source if isinstance(source, Dataset) else source(algorithm)
        chosen = _chosen(algorithm, dataset.kind, dataset.n_samples, dataset.n_features)
        if must_transpose(dataset, chosen):
            if dataset is source:
                self._announce_copy("it is sparse and laid out in rows")
            dataset = transpose(dataset, self._folder() / "columns", client=self._client)
        return dataset, chosen

    def _find(self, data: Any, y: Any) -> Dataset | Matrix | Callable[[Algorithm | int], Dataset]:
        """Return data as a dataset or as a matrix with a target, or a function that opens files for an algorithm."""
        if isinstance(data, str | os.PathLike):
            return self._find_path(os.fspath(data), y)
        if isinstance(data, Dataset):
            if y is not None:
                raise OptionError("y: a dataset has its own target; leave it out")
            return data
        if hasattr(data, "npartitions") and hasattr(data, "to_parquet"):
            return partial(self._ingest_dask_frame, data, y)
        if names_of(data):
            return self._find_frame(data, y)
        if hasattr(data, "var_names") and hasattr(data, "X"):  # AnnData, or like it
            names, target = list(map(str, data.var_names)), data.obs[y] if isinstance(y, str) else y
            return matrix_of(data.X, target, names)
        if hasattr(data, "data_vars"):
            return _from_xarray(data, y)
        if hasattr(data, "dims") and hasattr(data, "coords"):
            return _from_data_array(data, y)
        if hasattr(data, "arrays") and hasattr(data, "store"):  # a Zarr group
            return find_in_group(data, "", *((y, None) if isinstance(y, str) else ("", y)))
        return matrix_of(data, y)

    def _find_path(self, path: str, y: Any) -> Dataset | Matrix | Callable[[Algorithm | int], Dataset]:
        self.name = public_url(path)
        location = Location(path, self._storage)
        if is_dataset(location):
            return self._find(open_dataset(path, self._storage), y)
        target = None if y is None or isinstance(y, str) else np.asarray(y)
        if is_matrix(location):
            return open_matrix(location, "", y if isinstance(y, str) else "", target)
        if target is not None:
            raise OptionError(f"y: the target of {self.name} is one of its columns; pass the name of the column")
        return partial(self._read_files, path, y)

    def _find_frame(self, frame: Any, y: Any) -> Matrix | Callable[[Algorithm | int], Dataset]:
        names = [str(name) for name in names_of(frame)]
        if isinstance(y, str) and y not in names:
            raise OptionError(f"y={y!r}: no such column{nearest(y, names)}")
        if not hasattr(frame, "iloc"):
            return partial(self._ingest_frame, frame, y)
        _check_same_order(frame, y)
        features = frame.drop(columns=[y]) if isinstance(y, str) else frame
        kinds = {getattr(kind, "kind", "O") for kind in features.dtypes}
        if kinds <= set("bf") or (kinds <= set("biuf") and len(names) > MOST_TABLE_COLUMNS):
            named = list(features.columns) if is_frame(features) else None  # else columns are only numbered
            from daskfs.engine.data.write import cells_of_frame  # here, since it imports pandas and dask.array

            return matrix_of(cells_of_frame(features), frame[y] if isinstance(y, str) else y, named)
        return partial(self._ingest_frame, frame, y)

    def _read_files(self, path: str, label: str | None, algorithm: Algorithm | int) -> Dataset:
        """Return files as a dataset: text of sparse rows in place if the algorithm can read it, or else a copy."""
        sources = find_sources([path], self._storage)
        recognised = recognise(sources)
        kind = make_format(recognised.format, recognised.options)
        if label is None and isinstance(algorithm, Algorithm) and can_read_in_place(kind, sources, algorithm):
            text = open_text(sources, kind, self._client)
            if text.meta.mixed is not False or self._order == "as-is":
                return text
        return self._ingest([path], recognised, label, algorithm)

    def _ingest_frame(self, frame: Any, y: Any, algorithm: Algorithm | int) -> Dataset:
        """Ingest a table in memory by way of a Parquet file, as files with the same columns would be."""
        pa, parquet = arrow(), arrow("pyarrow.parquet")
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False) if hasattr(frame, "iloc") else pa.table(frame)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            reason, *where = map(str, error.args)  # "Conversion failed for column …" comes last
            raise OptionError(f"data: {'; '.join([*where, reason])}: give every column one type") from error
        table = _plain(table)
        label = y if isinstance(y, str) else "y"
        if not isinstance(y, str):
            if y is None:
                raise OptionError("y: pass the target of the rows, or the name of the column with the target")
            if label in table.column_names:
                raise OptionError("y: the table has a column 'y' already; pass the name of the target's column")
            table = table.append_column(label, pa.array(np.asarray(y)))
        file = self._folder() / "table.parquet"
        try:
            parquet.write_table(table, file)
        except pa.ArrowNotImplementedError as error:  # categories that are no texts or numbers, such as pd.cut makes
            raise OptionError(f"data: {error}: make the categories texts, as with .astype(str)") from error
        return self._ingest([str(file)], Recognised("parquet", ""), label, algorithm)

    def _ingest_dask_frame(self, frame: Any, y: Any, algorithm: Algorithm | int) -> Dataset:
        if not isinstance(y, str) or y not in frame.columns:
            raise OptionError(
                f"y: of a Dask DataFrame it is the name of a column{nearest(str(y), map(str, frame.columns))}"
            )
        self._announce_copy("it is a Dask DataFrame")
        folder = self._folder() / "parts"
        frame.to_parquet(folder, write_index=False)
        return self._ingest([str(folder)], Recognised("parquet", ""), y, algorithm)

    def _ingest(
        self, sources: Sequence[str], recognised: Recognised, label: str | None, algorithm: Algorithm | int
    ) -> Dataset:
        axis = algorithm.axis if isinstance(algorithm, Algorithm) else "columns"
        options = {**recognised.options, "order": self._order, **({} if label is None else {"label": label})}
        if make_format(recognised.format, {}).is_table:
            options["missing"] = self._missing
        self.is_copy = True
        place = self._folder() / "data"
        dataset = ingest(
            sources, place, recognised.format, layout=axis, client=self._client, source_options=self._storage, **options
        )
        columns = dataset.attributes.get("columns") or ()
        if unused := [row["column"] for row in columns if row["kind"] == IDENTIFIER]:
            warnings.warn(
                f"left out, as identifiers of rows: {some_names(unused)}; drop them from the data, or ingest the data "
                "with include=[...] to select from them",
                stacklevel=5,
            )
        for row in columns:
            if "gap_number" in row:
                warnings.warn(
                    f"column {row['column']!r:.80}: {row['gap_number']:.15g} is read as a number; make it NaN "
                    "if it means a gap",
                    stacklevel=5,
                )
            if "unsure" in row:
                warnings.warn(
                    f"column {row['column']!r:.80} is read as {in_words(row['format'])}, since no day is above 12 in "
                    "the first rows; give dates in place of texts for another order",
                    stacklevel=5,
                )
        return dataset

    def _open_matrix(self, matrix: Matrix, axis: Axis) -> Dataset:
        """Return a matrix as a dataset: in memory, in place, or as a temporary copy."""
        if not matrix.is_lazy:
            return self._in_memory(matrix, axis)
        if not matrix.fits(axis):
            return self.copy(matrix, axis, f"its chunks do not make up blocks of whole {axis}")
        return InPlace(matrix, axis)

    def _in_memory(self, matrix: Matrix, axis: Axis) -> Dataset:
        X, target = matrix.cells, matrix.target
        if self._missing == "drop" and not (complete := complete_rows(X)).all():
            X, target = X[complete], target[complete]
        X, names, fills = fill_matrix(X, self._missing, matrix.names)
        check_finite(X, names)
        return InMemory(X, *encode_target(target, matrix.target_names), axis, names, fills=fills)

    def copy(self, matrix: Matrix, axis: Axis, reason: str) -> Dataset:
        """Return a temporary copy of a matrix, written chunk by chunk."""
        self._announce_copy(reason)
        from daskfs.engine.data.write import write_matrix  # here, since it imports pandas and dask.array

        return write_matrix(Location(self._folder() / "data"), matrix, axis, self._missing)

    def _announce_copy(self, reason: str) -> None:
        self.is_copy = True
        folder = tempfile.gettempdir()
        warnings.warn(f"{self.name}: a copy is written to {folder} first, since {reason}", stacklevel=4)

    def _folder(self) -> Path:
        return Path(self._stack.enter_context(TemporaryDirectory(prefix="daskfs-")))


def _chosen(algorithm: Algorithm | int, kind: Kind, n_samples: int, n_features: int) -> Algorithm:
    """Return an algorithm, or the algorithm for a number of features that suits the data."""
    if isinstance(algorithm, Algorithm):
        return algorithm
    entries = registrations()
    name, _ = choose_algorithm(kind, n_samples, n_features, algorithm, list(entries))
    return entries[name].algorithm(algorithm)


def _from_xarray(data: Any, y: Any) -> Matrix:
    """Return the matrix of an xarray.Dataset, its only variable of two dimensions, with the variable y as target."""
    matrices = [str(name) for name, variable in data.data_vars.items() if variable.ndim == 2]
    if len(matrices) != 1:
        raise OptionError(f"which variable is the matrix ({', '.join(matrices)})? Pass it alone, as data['NAME']")
    if isinstance(y, str):
        if y not in data.variables:
            raise OptionError(f"y={y!r}: no such variable{nearest(y, map(str, data.variables))}")
        y = data[y].values
    return _from_data_array(data[matrices[0]], y)


def _from_data_array(data: Any, y: Any) -> Matrix:
    """Return the matrix of an xarray.DataArray with the names of its columns; y may name a coordinate of the rows."""
    if isinstance(y, str):
        if y not in data.coords:
            raise OptionError(f"y={y!r}: no such coordinate{nearest(y, map(str, data.coords))}")
        y = data.coords[y].values
    columns = data.coords.get(data.dims[-1])
    names = None if columns is None or columns.dtype.kind not in "OUST" else [str(name) for name in columns.values]
    return matrix_of(data.data, y, names)


def _check_same_order(frame: Any, y: Any) -> None:
    """Raise OptionError if a target has the rows of a pandas DataFrame in another order than the DataFrame."""
    if not hasattr(y, "reindex") or y.index.equals(frame.index) or len(y) != len(frame):
        return
    if frame.index.is_unique and y.index.is_unique and not len(frame.index.difference(y.index)):
        raise OptionError("y: has the rows in another order than the data, by its index: pass y.reindex(data.index)")


def _plain(table: Any) -> Any:
    """Return an Arrow table without columns of type string_view, which polars makes, since Arrow cannot filter them."""
    pa = arrow()
    fields = [
        field.with_type(pa.large_string()) if pa.types.is_string_view(field.type) else field for field in table.schema
    ]
    return table.cast(pa.schema(fields))
