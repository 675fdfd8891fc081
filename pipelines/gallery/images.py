"""python pipelines/gallery/images.py OUT.zarr: 1,797 real handwritten digits of 8 x 8 pixels, as xarray writes them.

They are the test set of the UCI ML hand-written digits datasets, which scikit-learn carries with it.
"""

from __future__ import annotations

import sys
import warnings

import xarray as xr
from sklearn.datasets import load_digits


def main(out: str) -> None:
    digits = load_digits()
    warnings.simplefilter("ignore")  # zarr's, about texts of fixed length
    names = [f"row {row}, column {column}" for row in range(8) for column in range(8)]
    xr.Dataset(
        {"pixels": (("image", "pixel"), digits.data), "digit": ("image", [str(label) for label in digits.target])},
        coords={"pixel": names},
    ).to_zarr(out, mode="w")


if __name__ == "__main__":
    main(sys.argv[1])
