"""The dataset on disk: array layout, chunk encoding and checksums, readers and writers, and feature names."""
