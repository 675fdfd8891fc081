"""The algorithms of daskfs as scikit-learn estimators, for pipelines and grid searches.

All methods accept X as a numpy, scipy.sparse, pandas, xarray or dask array, or as a daskfs dataset or its path:

* An X in memory is read block by block by this process, without writing to disk.
* A Dask array stays lazy, because `fit` writes the array chunk by chunk to a temporary folder in ``TMPDIR`` (on a
  cluster, a folder that all workers can read), and `predict` and `transform` compute one chunk at a time.
* A dataset is read from its location with the labels stored in the dataset, as in ``fit("genes.zarr")``. For a dataset,
  the current Dask client is used, as by `daskfs.select`.

A fitted estimator has an attribute `selection_`, which is bit for bit the `daskfs.Selection` that `daskfs.select`
returns for the same data. The method ``selection_.to_sklearn()`` returns a model that does not need daskfs.

The estimator classes are generated from the registered algorithms, with the fields of the algorithm as parameters.
`SelectKBest` and `VarianceThreshold` are those of scikit-learn for data of any size, with scikit-learn's parameters.
"""

from __future__ import annotations

from typing import Any

from daskfs.sklearn.generate import estimator_names, make_estimator
from daskfs.sklearn.univariate import SelectKBest as SelectKBest
from daskfs.sklearn.univariate import VarianceThreshold as VarianceThreshold

__all__ = sorted([*estimator_names(), "SelectKBest", "VarianceThreshold"])


def __getattr__(name: str) -> Any:
    if name not in estimator_names():
        raise AttributeError(f"module 'daskfs.sklearn' has no attribute {name!r}")
    estimator = globals()[name] = make_estimator(name)
    return estimator


for _name in estimator_names():  # now, so that help() and doctest see them
    __getattr__(_name)
