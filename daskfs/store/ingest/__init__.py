"""From source files to a dataset: finding sources, parsing formats, staging pieces, publishing the result."""
