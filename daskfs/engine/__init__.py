"""The engine, which decides where and when blocks are read: runs, schedules, clusters and events, built on Dask."""
