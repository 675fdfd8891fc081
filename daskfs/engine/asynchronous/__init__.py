"""The asynchronous schedule: workers send offers to the dask actor that owns the state, and do not wait for it."""
