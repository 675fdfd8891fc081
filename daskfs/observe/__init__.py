"""Output for people: progress bars, descriptions, the report, the tab in Dask's dashboard and Prometheus metrics."""
