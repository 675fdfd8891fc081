"""The dataset on disk: its layout, how chunks are encoded, checked, written and read, and the names of features."""
