"""Jobs: a selection from sources to a published result, described by one file, with every step run once."""
