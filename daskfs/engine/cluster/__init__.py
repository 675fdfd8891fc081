"""Dask clusters: starting or connecting to a cluster, preparing its workers, and noticing workers that leave."""
