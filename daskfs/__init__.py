"""daskfs: choose the features that matter from data too large for any memory."""

from daskfs.algorithms.mission import Mission
from daskfs.algorithms.random_features import SparseRandomFeatures
from daskfs.algorithms.substitution import OnlineSubstitution
from daskfs.errors import DaskfsError
from daskfs.evaluation import Evaluation
from daskfs.selection import Selection, load_selection
from daskfs.store.dataset import Dataset, open_dataset
from daskfs.stream.ingest import ingest
from daskfs.stream.run import select
from daskfs.stream.shuffle import shuffle
from daskfs.stream.transpose import transpose
from daskfs.stream.verify import verify_dataset
from daskfs.stream.write import write_dataset

__version__ = "0.1.0"

__all__ = [
    "DaskfsError",
    "Dataset",
    "Evaluation",
    "Mission",
    "OnlineSubstitution",
    "Selection",
    "SparseRandomFeatures",
    "ingest",
    "load_selection",
    "open_dataset",
    "select",
    "shuffle",
    "transpose",
    "verify_dataset",
    "write_dataset",
]
