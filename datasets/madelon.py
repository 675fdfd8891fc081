"""Madelon: an artificial set of the NIPS 2003 feature selection challenge, with a non-linear signal.

2,600 points with 500 features: clusters on the corners of a five-dimensional hypercube, labelled at random
1 or -1. 5 features span the cube, 15 are linear combinations of them, 480 are probes. No feature tells
anything alone: linear selection is near chance, products or random features find it.

Known truth: the labels; which 20 features carry the signal was never published with the data.

    python datasets/madelon.py madelon.zarr --from DIR
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.io
from _recipe import RecipeError, announce, find_files, recipe, source_folder

import daskfs

ORIGIN = (
    'UCI machine learning repository, "Madelon", or the scikit-feature collection (expected: madelon.mat with X, Y)'
)


@recipe
@source_folder
def main(out: str, folder: Path | None, overwrite: bool) -> None:
    """2,600 points with 500 features, 20 of them informative, only together."""
    (path,) = find_files(folder, ["madelon.mat"], ORIGIN)
    arrays = scipy.io.loadmat(path)
    if not {"X", "Y"} <= arrays.keys():
        raise RecipeError(f"{path}: no arrays X and Y in this file; its public origin: {ORIGIN}")
    X, y = arrays["X"].astype(np.float32), arrays["Y"].ravel().astype(np.float64)
    names = [f"x{j}" for j in range(X.shape[1])]
    daskfs.write_dataset(out, X, y, feature_names=names, layout="both", overwrite=overwrite)
    announce(out)


if __name__ == "__main__":
    main()
