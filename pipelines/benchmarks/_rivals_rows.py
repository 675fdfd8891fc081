"""Sparse rows of two classes, about 85 of a million words each: 1,000 words in 4 MiB of weights or cells.

Rivals that hash words into columns keep a weight for every column; cut to 1,000 features, they name columns, each of
which may stand for several words.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from _bear import Bear
from _mission_numpy import PublishedMission
from _rivals import Outcome, Rival
from numpy.typing import NDArray
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import roc_auc_score

import daskfs

RECIPES = Path(__file__).parents[2] / "datasets"
K, WIDTH = 1000, 2**18  # 16 bytes a cell of "active", 12 of the published sketch: 4 and 3 MiB
HASHED = 2**19  # columns of 8 bytes: 4 MiB
PARTS = ("train", "validation", "test")
Rows = tuple[scipy.sparse.csr_array, NDArray[np.float64]]


def write(folder: Path, rows: int) -> None:
    """Write the rows of all parts as datasets, arrays and, to learn from, as text of Vowpal Wabbit."""
    sys.path.insert(0, str(RECIPES))
    from rcv1_like import Language
    from rcv1_like import rows as rows_of

    language = Language.invent(seed=0)
    for number, (part, count) in enumerate(zip(PARTS, (rows, rows // 5, rows // 5), strict=True)):
        blocks = list(rows_of(count, 0, language, number + 1))
        X, y = scipy.sparse.vstack([X for X, _ in blocks], format="csr"), np.concatenate([y for _, y in blocks])
        y = (y > 0).astype(np.float64)
        np.savez(folder / f"{part}.npz", indptr=X.indptr, ids=X.indices, values=X.data.astype(np.float32), y=y)
        daskfs.write_dataset(folder / f"{part}.zarr", X, y)
        _write_vw(folder / f"{part}.vw", X, y)
    informative = language.weights != 0
    np.save(folder / "truth.npy", language.ids[informative])


def _write_vw(path: Path, X: scipy.sparse.csr_array, y: NDArray[np.float64]) -> None:
    with path.open("w") as file:
        for r, label in enumerate(2 * y.astype(int) - 1):
            cells = slice(X.indptr[r], X.indptr[r + 1])
            words = " ".join(f"{i}:{v:.4f}" for i, v in zip(X.indices[cells], X.data[cells], strict=True))
            file.write(f"{label} |f {words}\n")


def _rows(folder: Path, part: str, columns: int | None = None) -> Rows:
    """Read a part, with words hashed into some number of columns if that is given."""
    with np.load(folder / f"{part}.npz") as saved:
        ids = saved["ids"] if columns is None else _hashed(saved["ids"], columns)
        shape = len(saved["y"]), columns or 2**30
        return scipy.sparse.csr_array((saved["values"], ids, saved["indptr"]), shape=shape), saved["y"]


def _hashed(ids: NDArray[np.integer[Any]], columns: int) -> NDArray[np.int32]:
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(64 - columns.bit_length() + 1)).astype(np.int32)


def _outcome(folder: Path, scores: Any, chosen: NDArray[np.integer[Any]] | None, columns: int | None = None) -> Outcome:
    """Judge a function from a part to the scores of its rows, and the features that were chosen."""
    labels = {part: np.load(folder / f"{part}.npz")["y"] for part in PARTS[1:]}
    validation, test = (float(roc_auc_score(labels[part], scores(part))) for part in PARTS[1:])
    judged = {"AUC": test}
    if chosen is not None:
        truth = np.load(folder / "truth.npy")
        judged["recall"] = float(np.isin(truth if columns is None else _hashed(truth, columns), chosen).mean())
    return Outcome(validation, judged)


def _mission(folder: Path, **fields: Any) -> Outcome:
    selection = daskfs.select(str(folder / "train.zarr"), daskfs.Mission(K, width=WIDTH, **fields))
    return _outcome(
        folder,
        lambda part: selection.decision_function(daskfs.open_dataset(folder / f"{part}.zarr")),
        selection.features,
    )


def _sgd(folder: Path, cut: bool, epochs: int, **settings: Any) -> Outcome:
    X, y = _rows(folder, "train", HASHED)
    model = SGDClassifier(loss="log_loss", random_state=0, average=False, **settings)
    for _ in range(epochs):
        model.partial_fit(X, y, classes=[0, 1])
    w = model.coef_[0]
    chosen = np.argsort(-np.abs(w))[:K] if cut else None
    if chosen is not None:
        w = np.where(np.isin(np.arange(HASHED), chosen), w, 0)
    return _outcome(folder, lambda part: _rows(folder, part, HASHED)[0] @ w, chosen, HASHED)


def _vw(folder: Path, **settings: Any) -> Outcome:
    from vowpalwabbit import Workspace

    cache, model, said = folder / "train.cache", folder / "vw.model", folder / "vw.scores"
    always = "--hash all --loss_function logistic --quiet --no_stdin"
    if not cache.exists():  # written before the clock starts: the first run has the settings to choose from
        Workspace(f"{always} -d {folder / 'train.vw'} --cache_file {cache} -k -b 18").finish()
    options = " ".join(f"{name} {value}" for name, value in settings.items())
    Workspace(f"{always} -d {folder / 'train.vw'} --cache_file {cache} -b 18 {options} -f {model}").finish()

    def scores(part: str) -> NDArray[np.float64]:
        Workspace(f"{always} -d {folder / f'{part}.vw'} -t -i {model} -p {said}").finish()
        return np.loadtxt(said)

    return _outcome(folder, scores, None)


def _published(folder: Path, model: type[Bear | PublishedMission], rate: float) -> Outcome:
    X, y = _rows(folder, "train")
    learned = model(K, WIDTH, rate).learn(X, y)
    chosen = np.array(sorted(learned.weights), dtype=np.int64)
    weights = np.array([learned.weights[i] for i in chosen.tolist()])

    def scores(part: str) -> NDArray[np.float64]:
        rows, _ = _rows(folder, part)
        places = np.minimum(np.searchsorted(chosen, rows.indices), len(chosen) - 1)
        terms = np.where(chosen[places] == rows.indices, rows.data * weights[places], 0.0)
        return np.add.reduceat(np.append(terms, 0.0), rows.indptr[:-1])

    return _outcome(folder, scores, chosen)


def _chi_squared(folder: Path, C: float) -> Outcome:
    X, y = _rows(folder, "train", HASHED)
    best = SelectKBest(chi2, k=K).fit(X, y)
    model = LogisticRegression(C=C, max_iter=200).fit(best.transform(X), y)
    return _outcome(
        folder,
        lambda part: model.decision_function(best.transform(_rows(folder, part, HASHED)[0])),
        np.flatnonzero(best.get_support()),
        HASHED,
    )


_RATES = tuple({"learning_rate": rate} for rate in (0.5, 2.0, 8.0))
_SGD = tuple({"alpha": alpha, "epochs": epochs} for alpha in (1e-7, 1e-6, 1e-5) for epochs in (1, 5))
_PASSES = {"--passes": 10, "--holdout_off": ""}
_CONSTANT = {"--sgd": "", "--power_t": 0}  # a rate that neither adapts nor falls
_VW = (
    *({"-l": rate} | passes for rate in (0.5, 1.5) for passes in ({}, _PASSES)),
    *({"-l": rate} | _CONSTANT | passes for rate in (0.5, 2.0) for passes in ({}, _PASSES)),
)
RIVALS = {
    "daskfs, MISSION": Rival(_mission),
    "daskfs, MISSION in one pass": Rival(_mission, ({"refit": 0},)),
    "MISSION as published (daskfs)": Rival(_mission, tuple({"method": "paper", "refit": 0} | r for r in _RATES)),
    "MISSION as published (numpy)": Rival(
        _published, tuple({"model": PublishedMission, "rate": rate} for rate in (0.1, 0.5, 2.0))
    ),
    "BEAR as published (numpy)": Rival(
        _published, tuple({"model": Bear, "rate": rate} for rate in (0.03, 0.1, 0.3, 1.0, 3.0))
    ),
    "Vowpal Wabbit, all weights": Rival(_vw, _VW),
    "SGDClassifier, all weights": Rival(_sgd, tuple({"cut": False} | setting for setting in _SGD)),
    "SGDClassifier, cut": Rival(_sgd, tuple({"cut": True} | setting for setting in _SGD)),
    "SGDClassifier, L1, cut": Rival(_sgd, tuple({"cut": True, "penalty": "l1"} | setting for setting in _SGD)),
    "chi², then logistic": Rival(_chi_squared, tuple({"C": C} for C in (1.0, 10.0, 100.0))),
}
