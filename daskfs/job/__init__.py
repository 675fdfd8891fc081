"""Jobs: all steps from source files to a published selection of features, described by one job file."""
