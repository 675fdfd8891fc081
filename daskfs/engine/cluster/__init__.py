"""Dask clusters: starting one, connecting to one, preparing its workers and watching that they stay."""
