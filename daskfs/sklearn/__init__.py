"""The algorithms as scikit-learn estimators: in pipelines, grid searches and wherever else those go.

Whatever takes an X takes numpy, scipy.sparse, pandas, xarray, dask arrays, or a daskfs dataset or where one is:

* What is in memory is read from there block by block, by this process alone; nothing goes through the disk.
* Dask arrays stay lazy: `fit` writes them chunk by chunk into a temporary folder (``TMPDIR``; on a cluster, where all
  workers see it), which is gone when it returns; `predict` and `transform` look at a chunk at a time.
* Datasets are read where they are and bring their labels: ``fit("genes.zarr")``. Nothing is copied, and a current Dask
  client is made use of, as by `daskfs.select`.

A fitted estimator has `selection_`, the very `daskfs.Selection` that `daskfs.select` gives for the same data written
by `daskfs.write_dataset`, bit for bit. ``selection_.to_sklearn()`` makes a model of it that needs no daskfs.
"""

from daskfs.sklearn.mission import MissionClassifier, MissionRegressor, MissionSelector
from daskfs.sklearn.random_features import (
    SparseRandomFeaturesClassifier,
    SparseRandomFeaturesRegressor,
    SparseRandomFeaturesTransformer,
)
from daskfs.sklearn.substitution import (
    OnlineSubstitutionClassifier,
    OnlineSubstitutionRegressor,
    OnlineSubstitutionSelector,
)

__all__ = [
    "MissionClassifier",
    "MissionRegressor",
    "MissionSelector",
    "OnlineSubstitutionClassifier",
    "OnlineSubstitutionRegressor",
    "OnlineSubstitutionSelector",
    "SparseRandomFeaturesClassifier",
    "SparseRandomFeaturesRegressor",
    "SparseRandomFeaturesTransformer",
]
