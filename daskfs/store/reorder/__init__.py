"""Rewrite a dataset in another order: one external sort behind shuffle, split and transpose.

The sort moves *records*: rows, or the columns of a sparse dataset. A record has a 64-bit key, and the three commands
differ in the key. A shuffle sorts rows by a random key, a transpose sorts columns by their feature id, and a split
keeps the rows whose random key lies in a range, in the order of the source.

1. `runs`: tasks turn groups of source blocks into runs, files of records sorted by key. A split needs none.
2. `rows` and `columns`: the sizes of the records in key order decide how the new dataset is cut into blocks.
3. `plan`: tasks each merge one range of keys from all runs and write its blocks straight to their place.

The content of the new dataset depends on the source, the seed and the size of blocks, and not on the memory or the
number of workers.
"""
