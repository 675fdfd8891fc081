"""What comes out of a run: the selection, its saved form, its evaluation and its export to scikit-learn."""
