"""Jobs: a selection with everything around it, from sources to a published result, made once and kept in a folder."""
