"""daskfs: choose the features that matter from data too large for any memory.

Names are imported when they are first asked for: numba, dask and zarr take seconds that `daskfs --help` should not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daskfs.agreement import Stability, stability
    from daskfs.algorithms.mission import Mission
    from daskfs.algorithms.random_features import SparseRandomFeatures
    from daskfs.algorithms.substitution import OnlineSubstitution
    from daskfs.errors import DaskfsError
    from daskfs.evaluation import Evaluation
    from daskfs.selection import Selection, load_selection
    from daskfs.sizes import SizePath, size_path
    from daskfs.store.dataset import Dataset, open_dataset
    from daskfs.stream.ingest import ingest
    from daskfs.stream.run import select
    from daskfs.stream.shuffle import shuffle
    from daskfs.stream.split import split
    from daskfs.stream.transpose import transpose
    from daskfs.stream.verify import verify_dataset
    from daskfs.stream.write import write_dataset

__version__ = "0.1.0"

_HOMES = {
    "DaskfsError": "errors",
    "Dataset": "store.dataset",
    "Evaluation": "evaluation",
    "Mission": "algorithms.mission",
    "OnlineSubstitution": "algorithms.substitution",
    "Selection": "selection",
    "SizePath": "sizes",
    "SparseRandomFeatures": "algorithms.random_features",
    "Stability": "agreement",
    "ingest": "stream.ingest",
    "load_selection": "selection",
    "open_dataset": "store.dataset",
    "select": "stream.run",
    "shuffle": "stream.shuffle",
    "size_path": "sizes",
    "split": "stream.split",
    "stability": "agreement",
    "transpose": "stream.transpose",
    "verify_dataset": "stream.verify",
    "write_dataset": "stream.write",
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
