"""python pipelines/gallery/genes.py OUT.csv: made-up expressions of 4,000 genes in 500 patients, with an outcome.

Genes come in modules of 20 that rise and fall together, on log scale, with a level of their own. Half of the patients
were measured by another laboratory, which shifts a third of the genes. The outcome depends on eight genes, each of
another module: GENE0000, GENE0020, … GENE0140. Correlated neighbours and the laboratory are there to mislead.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

PATIENTS, MODULES, PER_MODULE, TRUE = 500, 200, 20, 8


def main(out: str) -> None:
    rng = np.random.default_rng(0)
    genes = MODULES * PER_MODULE
    modules = np.repeat(rng.normal(size=(PATIENTS, MODULES)), PER_MODULE, axis=1)
    expression = 0.7 * modules + 0.7 * rng.normal(size=(PATIENTS, genes))
    risk = 1.6 * expression[:, : TRUE * PER_MODULE : PER_MODULE] @ np.resize([1, -1], TRUE)
    laboratory = rng.integers(0, 2, PATIENTS)
    expression += np.outer(laboratory, 1.5 * (rng.random(genes) < 1 / 3))
    frame = pd.DataFrame(
        (expression * rng.lognormal(0, 1, genes) + rng.normal(8, 2, genes)).round(3),
        columns=[f"GENE{gene:04}" for gene in range(genes)],
    )
    frame.insert(0, "outcome", np.where(risk + rng.logistic(size=PATIENTS) > 0, "relapse", "well"))
    frame.insert(1, "laboratory", np.where(laboratory, "north", "south"))
    frame.to_csv(out, index=False)


if __name__ == "__main__":
    main(sys.argv[1])
