"""The papers: numpy and numba only, one paper per file, its kernels beside it.

They meet the engine in `daskfs.protocol` alone; import-linter holds them to it.
"""
