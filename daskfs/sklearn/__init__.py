"""The algorithms as scikit-learn estimators: in pipelines, grid searches and wherever else those go.

Whatever takes an X takes numpy, scipy.sparse, pandas, xarray, dask arrays, or a daskfs dataset or its path:

* An X in memory is read from there block by block, by this process alone; nothing goes through the disk.
* Dask arrays stay lazy: `fit` writes them chunk by chunk into a temporary folder (``TMPDIR``; on a cluster, where all
  workers see it), which is gone when it returns; `predict` and `transform` look at a chunk at a time.
* Datasets are read in their place and bring their labels: ``fit("genes.zarr")``. Nothing is copied, and the current
  Dask client is used, as by `daskfs.select`.

A fitted estimator has `selection_`, the very `daskfs.Selection` that `daskfs.select` gives for the same data written
by `daskfs.write_dataset`, bit for bit. ``selection_.to_sklearn()`` returns a model that needs no daskfs.

The classes are generated from the registered algorithms: parameters are the fields of the algorithm.
"""

from __future__ import annotations

from typing import Any

from daskfs.sklearn.generate import estimator_names, make_estimator

__all__ = sorted(estimator_names())


def __getattr__(name: str) -> Any:
    if name not in estimator_names():
        raise AttributeError(f"module 'daskfs.sklearn' has no attribute {name!r}")
    estimator = globals()[name] = make_estimator(name)
    return estimator


for _name in __all__:  # now, so that help() and doctest see them
    __getattr__(_name)
