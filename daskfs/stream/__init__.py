"""Who reads what, when and where: the only folder that imports dask and distributed."""
