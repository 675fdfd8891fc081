"""Dense columns of normal numbers, 3,000 rows: the 100 columns that make the target, by tools that choose exactly 100.

The shape is that of biglasso's example, which has 1,340,000 columns. Rivals get standardised columns in memory (they
have no other way), daskfs a dataset on disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from _rivals import Outcome, Rival
from numpy.typing import NDArray

import daskfs

K, N, NOISE, CHUNK = 100, 3000, 0.5, 1000


def write(folder: Path, p: int) -> None:
    """Write columns, the target and the places of the true columns, with new rows to judge by."""
    rng = np.random.default_rng(p)
    truth = np.sort(rng.choice(p, min(K, p // 4), replace=False))
    weights = rng.choice([-1.0, 1.0], len(truth)) * rng.uniform(0.5, 1.5, len(truth))
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (N, p), fortran_order=True)
    for first in range(0, p, CHUNK):
        X[:, first : first + CHUNK] = rng.standard_normal((N, min(CHUNK, p - first)), np.float32)
    test = rng.standard_normal((N // 3, len(truth)), np.float32)
    y = X[:, truth] @ weights + NOISE * rng.standard_normal(N)
    np.savez(folder / "rest.npz", y=y, truth=truth, test=test, y_test=test @ weights)
    daskfs.write_dataset(folder / "data.zarr", X, y, overwrite=True)


def _judged(folder: Path, chosen: NDArray[np.integer[Any]]) -> Outcome:
    """The share of the true columns that were chosen, and of the target's variance in new rows without noise."""
    saved, X = np.load(folder / "rest.npz"), np.load(folder / "X.npy", mmap_mode="r")
    w, *_ = np.linalg.lstsq(X[:, np.sort(chosen)].astype(np.float64), saved["y"], rcond=None)
    weight = dict(zip(np.sort(chosen).tolist(), w.tolist(), strict=True))
    own = np.array([weight.get(j, 0.0) for j in saved["truth"].tolist()])
    false = sum(w * w for j, w in weight.items() if j not in set(saved["truth"].tolist()))  # columns have variance 1
    error = np.mean((saved["y_test"] - saved["test"] @ own) ** 2) + false
    recall = float(np.isin(saved["truth"], chosen).mean())
    return Outcome(recall, {"recall": recall, "R²": float(1 - error / np.var(saved["y_test"]))})


def _substitution(folder: Path, **fields: Any) -> Outcome:
    k = len(np.load(folder / "rest.npz")["truth"])
    selection = daskfs.select(str(folder / "data.zarr"), daskfs.OnlineSubstitution(k, **fields))
    return _judged(folder, selection.features.astype(np.int64))


def _peer(folder: Path, name: str) -> Outcome:
    import sys

    sys.path.append(str(Path(__file__).parents[1] / "papers"))
    import peers

    saved = np.load(folder / "rest.npz")
    Z = np.load(folder / "X.npy").astype(np.float64)
    Z -= Z.mean(axis=0)
    Z /= Z.std(axis=0)
    return _judged(folder, getattr(peers, name)(Z, saved["y"], len(saved["truth"])))


def _skglm(folder: Path) -> Outcome:
    """The path of skglm's LASSO down to the first penalty with k weights, the largest of them."""
    from skglm import Lasso

    saved, X = np.load(folder / "rest.npz"), np.load(folder / "X.npy")
    y, k = saved["y"] - saved["y"].mean(), len(saved["truth"])
    penalty = float(np.abs(X.T @ y.astype(np.float32)).max()) / len(y)
    model = Lasso(warm_start=True, fit_intercept=False, tol=1e-3)
    while model.alpha == 1.0 or np.count_nonzero(model.coef_) < k:
        penalty *= 0.8
        model.set_params(alpha=penalty).fit(X, y.astype(np.float32))
    return _judged(folder, np.argsort(-np.abs(model.coef_))[:k])


RIVALS = {
    "daskfs, Online Substitution": Rival(_substitution),
    "skglm, LASSO path": Rival(_skglm),
    "scikit-learn, LASSO path": Rival(_peer, ({"name": "lasso"},)),
    "abess": Rival(_peer, ({"name": "abess"},)),
    "scikit-learn, OMP": Rival(_peer, ({"name": "omp"},)),
    "SelectKBest": Rival(_peer, ({"name": "select_k_best"},)),
}
