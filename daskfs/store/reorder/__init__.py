"""Rewrite a dataset in another order: one external sort behind shuffle, split and transpose.

The external sort moves *records*, which are rows or the columns of a sparse dataset. Shuffle, split and transpose
differ in the 64-bit sort key of a record. A shuffle sorts rows by a random key, and a transpose sorts columns by
feature id. A split keeps the rows whose random key lies in a range, in the order of the source dataset.

1. `runs`: tasks write groups of source blocks as sorted runs, files of records sorted by key, except for a split.
2. `rows` and `columns`: the sizes of the records in key order decide how the new dataset is cut into blocks.
3. `plan`: every task merges one range of keys from all sorted runs and writes the blocks of that range. Short columns
   are merged before their tasks if the tasks are threads, so that they are merged once.

The content of the new dataset depends on the source, the seed and the block size, but not on the memory or the number
of workers.
"""
