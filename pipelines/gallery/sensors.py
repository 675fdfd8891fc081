"""python pipelines/gallery/sensors.py OUT.parquet: Friedman's first function, a classic, as readings of 25 sensors.

The yield of a plant depends on five of them: 10·sin(π·s0·s1) + 20·(s2 − ½)² + 10·s3 + 5·s4 + noise. s2 has no
correlation with the yield at all, and s0 and s1 act together; scores of single columns do not see that.
"""

from __future__ import annotations

import sys

import pandas as pd
from sklearn.datasets import make_friedman1


def main(out: str) -> None:
    X, y = make_friedman1(6000, 25, noise=1.0, random_state=0)
    frame = pd.DataFrame(X, columns=[f"s{sensor}" for sensor in range(25)])
    frame.assign(**{"yield": y}).to_parquet(out, index=False)


if __name__ == "__main__":
    main(sys.argv[1])
