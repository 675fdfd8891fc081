"""daskfs: choose the features that matter from data too large for any memory.

Names are imported on first use, since numba, dask and zarr take seconds that `daskfs --help` should not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from daskfs.algorithms.registry import ALGORITHMS as _ALGORITHMS
from daskfs.algorithms.registry import registration as _registration

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission
    from daskfs.algorithms.random_features import SparseRandomFeatures
    from daskfs.algorithms.substitution import OnlineSubstitution
    from daskfs.algorithms.univariate import Univariate
    from daskfs.engine.data.ingest import ingest
    from daskfs.engine.data.reorder import shuffle, transpose
    from daskfs.engine.data.split import split
    from daskfs.engine.data.verify import verify_dataset
    from daskfs.engine.data.write import write_dataset
    from daskfs.errors import DaskfsError
    from daskfs.job.anything import select
    from daskfs.selection.evaluation import Evaluation
    from daskfs.selection.selection import Selection, load_selection
    from daskfs.selection.sizes import SizePath, size_path
    from daskfs.selection.stability import Stability, stability
    from daskfs.store.dataset.dataset import Dataset, open_dataset

__version__ = "0.1.0"

_HOMES = {
    "DaskfsError": "errors",
    "Dataset": "store.dataset.dataset",
    "Evaluation": "selection.evaluation",
    "Selection": "selection.selection",
    "SizePath": "selection.sizes",
    "Stability": "selection.stability",
    "ingest": "engine.data.ingest",
    "load_selection": "selection.selection",
    "open_dataset": "store.dataset.dataset",
    "select": "job.anything",
    "shuffle": "engine.data.reorder",
    "size_path": "selection.sizes",
    "split": "engine.data.split",
    "stability": "selection.stability",
    "transpose": "engine.data.reorder",
    "verify_dataset": "engine.data.verify",
    "write_dataset": "engine.data.write",
}

__all__ = [
    "DaskfsError",
    "Dataset",
    "Evaluation",
    "Mission",
    "OnlineSubstitution",
    "Selection",
    "SizePath",
    "SparseRandomFeatures",
    "Stability",
    "Univariate",
    "ingest",
    "load_selection",
    "open_dataset",
    "select",
    "shuffle",
    "size_path",
    "split",
    "stability",
    "transpose",
    "verify_dataset",
    "write_dataset",
]


__all__.extend(name for name in _ALGORITHMS if name not in __all__)  # those above are for type checkers, too


def __getattr__(name: str) -> Any:
    if name in _ALGORITHMS:
        value: Any = _registration(name).algorithm
    elif name in _HOMES:
        value = getattr(import_module(f"daskfs.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'daskfs' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
