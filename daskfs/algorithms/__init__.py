"""The algorithms of the papers, with one paper per file or folder, written with numpy and numba only.

Algorithms share only `daskfs.protocol` with the engine, which import-linter enforces.
"""
