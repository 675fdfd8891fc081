"""Who reads which block, when and where: runs, their three schedules, clusters and events. The only user of Dask."""
