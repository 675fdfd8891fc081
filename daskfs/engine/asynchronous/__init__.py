"""The asynchronous schedule: workers send offers to the dask actor that owns the state, without waiting."""
