"""Reading, writing and reordering of datasets, the only package of daskfs that uses zarr, obstore and fsspec."""
