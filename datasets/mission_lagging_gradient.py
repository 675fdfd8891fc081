"""The simulations of MISSION (ICML 2018, section 5): table 1, figure 2 and figure 3.

One design with three settings. X is n x p, Gaussian; β is k-sparse on a random support I; the columns of
X in I are divided by an attenuation factor α; then y = X β, without noise. A gradient method sees the
attenuated columns late: their gradients lag, and hard thresholding drops them.

=========  ====================================================  ========================================
           what the paper says                                   what we took where it is silent
=========  ====================================================  ========================================
table 1    X is 900 x 1000 in the text, while the rows of the    β of ones on its support (as figure 2
           table are (n, k) = (100, 2) … (200, 7);               has it); the table's n by `--n`; the
           α = 1, 1.25, 1.5, … 5, 100 trials                     smallest α an algorithm fails at is
                                                                 found by one dataset for each α
figure 2   p = 1000, binary β, Gaussian X, α = 1, recovery in    unit variance: a common scale of X only
           more than half of 20 trials, over n and k             changes the best learning rate
figure 3   n = 100, k = 5, independent entries of mean 0 and     β of ones; `--coefficients normal`
           variance 1, p growing, 1000 trials, α = 1             draws them instead
=========  ====================================================  ========================================

One seed draws one X and one support for every α, so that only α changes along a row of table 1.
Rows are stored as sparse rows with every entry present, the form MISSION streams.

Known truth: I and β, in OUT.truth.npz (`ids`, `weights`).

    python datasets/mission_lagging_gradient.py lag.zarr --n 900 --p 1000 --k 5 --alpha 2.5
    python datasets/mission_lagging_gradient.py row4.zarr --n 200 --k 5 --alpha 1.25       # table 1, row 4
    python datasets/mission_lagging_gradient.py fig3.zarr --n 100 --k 5 --p 10000          # figure 3
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import click
import numpy as np
import scipy.sparse
from _recipe import announce, recipe, save_truth, seed_option
from numpy.typing import NDArray

import daskfs

Coefficients = Literal["ones", "normal"]


class Simulation(NamedTuple):
    """One draw of the design."""

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    support: NDArray[np.int64]
    weights: NDArray[np.float64]


def simulate(n: int, p: int, k: int, alpha: float, coefficients: Coefficients, seed: int) -> Simulation:
    """Draw X, β and y = X β, the columns of X on β's support attenuated by `alpha`."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p), np.float32)
    support = np.sort(rng.choice(p, k, replace=False))
    weights = rng.standard_normal(k) if coefficients == "normal" else np.ones(k)
    X[:, support] /= np.float32(alpha)
    return Simulation(X, X[:, support] @ weights, support, weights)


@recipe
@click.option("--n", type=click.IntRange(min=1), default=900, help="Samples.")
@click.option("--p", type=click.IntRange(min=1), default=1000, help="Features.")
@click.option("--k", type=click.IntRange(min=1), default=5, help="Features that make the target.")
@click.option("--alpha", type=click.FloatRange(min=0, min_open=True), default=1.0, help="Attenuation of their columns.")
@click.option("--coefficients", type=click.Choice(["ones", "normal"]), default="ones", help="The non-zeros of β.")
@seed_option
def main(
    out: str, n: int, p: int, k: int, alpha: float, coefficients: Coefficients, seed: int, overwrite: bool
) -> None:
    """Noise-free sparse recovery with attenuated columns, as in MISSION's simulations."""
    if k > p:
        raise click.UsageError(f"--k {k} informative features do not fit among --p {p}")
    drawn = simulate(n, p, k, alpha, coefficients, seed)
    daskfs.write_dataset(out, scipy.sparse.csr_array(drawn.X), drawn.y, overwrite=overwrite)
    save_truth(out, drawn.support, drawn.weights)
    announce(out)


if __name__ == "__main__":
    main()
