"""Bytes: the only folder that touches zarr, obstore and fsspec. Sources in, checked datasets out, blocks on demand."""
