"""daskfs: choose the features that matter from data too large for any memory."""

from daskfs.errors import DaskfsError
from daskfs.store.dataset import Dataset, open_dataset
from daskfs.stream.ingest import ingest
from daskfs.stream.verify import verify_dataset
from daskfs.stream.write import write_dataset

__version__ = "0.1.0"

__all__ = ["DaskfsError", "Dataset", "ingest", "open_dataset", "verify_dataset", "write_dataset"]
