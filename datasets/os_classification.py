"""Sparse linear classification, as in the experiments of Online Substitution (KDD 2016, section 5, figure 2).

The design: X (n x p, standard normal) and w (s non-zeros at random places, standard normal) as in
`os_regression`; y = sign(X w), without noise. The paper takes p = 1,000 … 5,000, s = 100 and
n = 1.2 s log2 p, repeated 30 times (here: 30 seeds); its Asy-OS runs have n = 1,000, p = 8,192, s = 32.
The test set has other rows and the same w, as many rows as the training set, and is written beside it.

Known truth: the support and the weights, in OUT.truth.npz (`ids`, `weights`).

    python datasets/os_classification.py signs.zarr --p 2000 --seed 0      # and signs.test.zarr
"""

from __future__ import annotations

import click
import numpy as np
from _gaussian import GaussianDesign, linear_truth, paper_rows, signal_of
from _recipe import announce, beside, recipe, save_truth, seed_option

import daskfs

TRAIN, TEST = 0, 1


@recipe
@click.option("--p", type=click.IntRange(min=2), default=2000, help="Features.")
@click.option("--s", type=click.IntRange(min=1), default=100, help="Features that make the labels.")
@click.option("--n", type=click.IntRange(min=1), show_default="1.2 s log2 p", help="Samples, in each of the two sets.")
@seed_option
def main(out: str, p: int, s: int, n: int | None, seed: int, overwrite: bool) -> None:
    """Signs of a sparse linear function of Gaussian columns, as in the Online Substitution paper."""
    if s > p:
        raise click.UsageError(f"--s {s} informative features do not fit among --p {p}")
    rows = n or paper_rows(p, s)
    train, test = (GaussianDesign(rows, p, seed, part) for part in (TRAIN, TEST))
    truth, signal = linear_truth(train, s)
    test_out = beside(out, "test.zarr")
    daskfs.write_dataset(out, train.to_dask(), np.sign(signal), overwrite=overwrite)
    daskfs.write_dataset(test_out, test.to_dask(), np.sign(signal_of(test, truth)), overwrite=overwrite)
    save_truth(out, *truth)
    announce(out)
    announce(test_out)


if __name__ == "__main__":
    main()
