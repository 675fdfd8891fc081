"""The engine, which reads blocks on Dask workers: selection runs, schedules, clusters and events."""
