"""daskfs: choose the features that matter from data too large for any memory.

Names are imported when they are first asked for: numba, dask and zarr take seconds that `daskfs --help` should not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission
    from daskfs.algorithms.random_features import SparseRandomFeatures
    from daskfs.algorithms.substitution import OnlineSubstitution
    from daskfs.engine.data.ingest import ingest
    from daskfs.engine.data.reorder import shuffle, transpose
    from daskfs.engine.data.split import split
    from daskfs.engine.data.verify import verify_dataset
    from daskfs.engine.data.write import write_dataset
    from daskfs.engine.run import select
    from daskfs.errors import DaskfsError
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
    "Mission": "algorithms.mission",
    "OnlineSubstitution": "algorithms.substitution",
    "Selection": "selection.selection",
    "SizePath": "selection.sizes",
    "SparseRandomFeatures": "algorithms.random_features",
    "Stability": "selection.stability",
    "ingest": "engine.data.ingest",
    "load_selection": "selection.selection",
    "open_dataset": "store.dataset.dataset",
    "select": "engine.run",
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'daskfs' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"daskfs.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
