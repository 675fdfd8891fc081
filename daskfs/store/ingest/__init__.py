"""Ingest of source files into a dataset: find sources, parse formats, stage pieces, publish the dataset."""
