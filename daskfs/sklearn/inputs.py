"""What estimators are given, as scikit-learn sees it or as the engine does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from dask.array import Array as DaskArray
from numpy.typing import NDArray

from daskfs.engine.data.write import write_dataset
from daskfs.protocol import Axis
from daskfs.store.dataset.dataset import Dataset, open_dataset


def is_lazy(X: Any) -> bool:
    """Whether X is a dask array, or an xarray.DataArray with one inside."""
    return isinstance(X, DaskArray) or (_is_labelled(X) and isinstance(X.data, DaskArray))


def in_memory(X: Any) -> Any:
    """X in a form that scikit-learn knows: an xarray.DataArray becomes a DataFrame where its columns have names."""
    if not _is_labelled(X):
        return X
    names = column_names(X)
    return X.values if names is None else pd.DataFrame(X.values, columns=names, copy=False)


def column_names(X: Any) -> NDArray[Any] | None:
    """The names of columns that an xarray.DataArray brings."""
    coordinate = X.coords.get(X.dims[-1]) if _is_labelled(X) else None
    return coordinate.values.astype(object) if coordinate is not None and coordinate.dtype.kind in "OUT" else None


def picked(X: Any, columns: NDArray[np.intp]) -> Any:
    """Some columns of a lazy array, lazy themselves."""
    return X.isel({X.dims[-1]: columns}) if _is_labelled(X) else X[:, columns]


@contextmanager
def written(X: Any, y: NDArray[Any], axis: Axis) -> Iterator[Dataset]:
    """A lazy array as a dataset in a temporary folder, written a chunk at a time."""
    with TemporaryDirectory(prefix="daskfs-") as folder:
        write_dataset(Path(folder) / "X", X, y, layout=axis)
        yield open_dataset(Path(folder) / "X")


def _is_labelled(X: Any) -> bool:
    return hasattr(X, "dims") and hasattr(X, "coords") and not hasattr(X, "data_vars")
