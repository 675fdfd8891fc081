"""The selection that an algorithm returns, its saved form, its evaluation and its export to scikit-learn."""
