"""Bytes: the only folder that touches zarr and fsspec. Sources in, checked datasets out, blocks on demand."""
