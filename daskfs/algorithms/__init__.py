"""The algorithms, one folder for each paper, written with numpy, scipy and numba only.

Algorithms share only `daskfs.protocol` with the engine, which import-linter enforces.
"""
