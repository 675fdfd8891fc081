"""Operations on datasets with Dask: ingest, write, verify, shuffle, split, transpose."""
