"""Sparse linear regression, as in the experiments of Online Substitution (KDD 2016, section 5, figure 1).

The design: X is n x p with independent standard normal entries; w has s non-zeros at random places with
standard normal values; y = X w + e with e ~ N(0, .1²). The paper takes p = 2,000 … 6,000, s = 100 and
n = 1.2 s log2 p, repeated 30 times (here: 30 seeds); its Asy-OS runs have n = 1,000, p = 8,192, s = 64.

Beyond the paper, `--correlation` makes neighbouring columns AR(ρ), and `--scales` multiplies the columns
with 1 / their norm or with lognormal factors. The weights are divided by the same factors, so that y and
each column's share in it stay the same: only the scales differ.

Known truth: the support and the weights, in OUT.truth.npz (`ids`, `weights`).

    python datasets/os_regression.py os.zarr --p 2000 --s 100 --seed 0
    python datasets/os_regression.py asy.zarr --p 8192 --s 64 --n 1000
"""

from __future__ import annotations

from typing import get_args

import click
from _gaussian import GaussianDesign, Scales, linear_truth, noise_of, paper_rows
from _recipe import announce, recipe, save_truth, seed_option

import daskfs


@recipe
@click.option("--p", type=click.IntRange(min=2), default=2000, help="Features.")
@click.option("--s", type=click.IntRange(min=1), default=100, help="Features that make the target.")
@click.option("--n", type=click.IntRange(min=1), show_default="1.2 s log2 p", help="Samples.")
@click.option("--noise", type=click.FloatRange(min=0), default=0.1, help="Standard deviation of the noise.")
@click.option("--correlation", type=click.FloatRange(0, 1, max_open=True), default=0.0, help="ρ of AR(ρ) columns.")
@click.option("--scales", type=click.Choice(get_args(Scales)), default="none", help="Factors of the columns.")
@seed_option
def main(
    out: str,
    p: int,
    s: int,
    n: int | None,
    noise: float,
    correlation: float,
    scales: Scales,
    seed: int,
    overwrite: bool,
) -> None:
    """Sparse linear regression on Gaussian columns, as in the Online Substitution paper."""
    if s > p:
        raise click.UsageError(f"--s {s} informative features do not fit among --p {p}")
    design = GaussianDesign(n or paper_rows(p, s), p, seed, correlation=correlation, scales=scales)
    truth, signal = linear_truth(design, s)
    daskfs.write_dataset(out, design.to_dask(), signal + noise_of(design, noise), overwrite=overwrite)
    save_truth(out, *truth)
    announce(out)


if __name__ == "__main__":
    main()
