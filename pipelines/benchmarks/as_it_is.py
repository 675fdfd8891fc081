"""How daskfs does on data as people have them: sorted, unscaled, with gaps, dates and ids, in several classes.

Run `python pipelines/benchmarks/as_it_is.py [PART ...] [--data DIR] [--json docs/as-it-is.json]`, all parts by default:

trials   what once went wrong without a warning, on data made here
sets     features chosen by default against SelectKBest, an L1 path and a random forest, after the same refit; every
         method's own predictions; own weights against a cross-validated refit of the same columns
texts    MISSION's own weights against a refit of the same features, on sparse rows
wide     Online Substitution on wide sets of few rows: `ridge="auto"` against 1.0, squared against logistic loss
passes   MISSION's passes on iris and digits
gamma    Sparse Random Features: gamma by itself against multiples of the median heuristic
quarter  the first quarter of the features against all of them, and against as many selected anew
rare     balanced accuracy where one row in sixteen is positive, with and without `balanced=True`
damage   what sorting, other units, gaps, dates and ids take from the score of a clean table
memory   what selections use beside what they promise

With `--data DIR`, public sets in files anywhere below that folder are used as well (see `datasets/README.md`); what is
not there is left out with a line. Everything runs with defaults: nothing is scaled, shuffled or filled before daskfs
sees it. With `--json FILE`, every figure is written to a file as soon as it is known, in the place of an older one of
the same set; `python pipelines/docs/as_it_is.py` draws docs/as-it-is.md from it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _as_it_is_fits import area, quality, refit, refit_sparse, rivals, select
from _as_it_is_tables import WIDE, Source, Table, sources, texts
from _as_it_is_trials import DAMAGES, TRIALS, from_csv, logistic_of_true_columns, messy_table
from memory import SELECTIONS, promised_and_used
from sklearn.linear_model import LogisticRegressionCV

import daskfs
from daskfs.algorithms.random_features.inputs import median_gamma

Record = dict[str, Any]
SEEDS = range(3)


@dataclass(frozen=True)
class Options:
    """What a run is limited to."""

    folder: Path | None = None
    only: tuple[str, ...] = ()
    """Beginnings of the names of sets, or nothing for all."""
    splits: int = 12
    """The most splits of a set."""

    def of(self, known: list[Source]) -> Iterator[Source]:
        return (source for source in known if not self.only or source.name.startswith(self.only))


def sizes(columns: int) -> list[int]:
    return [k for k in (2, 5, 10, 20, 50) if k < columns][-2:]


def run_trials(options: Options) -> Iterator[Record]:
    """What each trial gives now beside what it gave when it was wrong without a warning."""
    for trial, once, run in TRIALS:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield {"trial": trial, "once": once, "now": run(Path(folder))}


def compare_sets(options: Options) -> Iterator[Record]:
    """For every set and k, scores after the same refit of our columns and of others', and of own predictions."""
    for source in options.of(sources(options.folder)):
        columns = source.table(0).train.shape[1]
        for k in sizes(columns):
            refitted: dict[str, list[float]] = {}
            own: dict[str, list[float]] = {}
            splits = source.splits(options.splits)
            for seed in splits:
                table = source.table(seed)
                ours = {"Online Substitution": daskfs.OnlineSubstitution(k), "MISSION": daskfs.Mission(k)}
                for name, algorithm in ours.items():
                    selection = select(table, algorithm)
                    refitted.setdefault(name, []).append(refit(table, selection.features.astype(int)))
                    own.setdefault(name, []).append(quality(table, selection.predict(table.unseen)))
                if columns <= 100 and k == sizes(columns)[-1]:
                    selection = select(table, daskfs.SparseRandomFeatures())
                    own.setdefault("Sparse Random Features", []).append(quality(table, selection.predict(table.unseen)))
                    refitted.setdefault("Sparse Random Features", []).append(refit_waves(table, selection))
                by_rivals, own_of_rivals = rivals(table, k, seed)
                for name, some in by_rivals.items():
                    refitted.setdefault(name, []).append(refit(table, some))
                for name, score in own_of_rivals.items():
                    own.setdefault(name, []).append(score)
            yield {"set": source.name, "k": k, "splits": len(splits), "refitted": _means(refitted), "own": _means(own)}


def refit_waves(table: Table, selection: daskfs.Selection) -> float:
    """Return the score of a cross-validated linear model of a selection's random features and columns."""
    train, unseen = selection.transform(table.train), selection.transform(table.unseen)
    return refit(Table(table.name, train, unseen, table.y, table.y_unseen), np.arange(train.shape[1]))


def compare_texts(options: Options) -> Iterator[Record]:
    """AUC of MISSION's own weights, and of a cross-validated refit of its features, by default and otherwise.

    Without a refit, MISSION selects the features of the largest weights.
    """
    kinds: dict[str, Record] = {"own": {}, "without a refit": {"refit": 0}, "idf": {"idf": True}}
    for source in options.of(texts(options.folder)):
        table = source.table(0)
        known = np.asarray((table.train != 0).sum(axis=0)).ravel() > 0
        for k in (50, 100, 1000, 10_000):
            if k >= known.sum():
                continue
            selections = {name: select(table, daskfs.Mission(k, **fields)) for name, fields in kinds.items()}
            scores = {name: area(table, of.decision_function(table.unseen)) for name, of in selections.items()}
            again = {name: refit_sparse(table, of.features.astype(int)) for name, of in selections.items()}
            yield {"set": source.name, "k": k, **scores} | {f"{name}, refitted": of for name, of in again.items()}


def compare_wide(options: Options) -> Iterator[Record]:
    """Own scores of Online Substitution on wide sets: by default, with ridge 1.0, and with the other loss."""
    known = [wide.source(name) for name, wide in WIDE.items()]
    for source in options.of(known + [source for source in sources(options.folder) if source.name == "dexter"]):
        for k in (10, 50):
            found: dict[str, list[float]] = {}
            splits = range(min(options.splits, 8))
            for seed in splits:
                table = source.table(seed)
                if k >= len(table.y):
                    continue
                kinds: dict[str, Record] = {"own": {}, "ridge 1.0": {"ridge": 1.0}}
                if not table.is_real:
                    kinds |= {"squared": {"loss": "squared"}, "logistic": {"loss": "logistic"}}
                for name, fields in kinds.items():
                    selection = select(table, daskfs.OnlineSubstitution(k, **fields))
                    found.setdefault(name, []).append(quality(table, selection.predict(table.unseen)))
                    if name == "own":
                        found.setdefault("refitted", []).append(refit(table, selection.features.astype(int)))
            if found:
                yield {"set": source.name, "k": k, "splits": len(splits), **_means(found)}


def compare_passes(options: Options) -> Iterator[Record]:
    """Own scores of MISSION with some numbers of passes."""
    for name, k in (("iris", 4), ("digits", 20)):
        source = next(source for source in sources(None) if source.name == name)
        for passes in ("auto", 1, 3, 20):
            tables = [source.table(seed) for seed in range(min(options.splits, 8))]
            algorithm = daskfs.Mission(k, passes=passes)
            scores = [quality(table, select(table, algorithm).predict(table.unseen)) for table in tables]
            yield {"set": name, "k": k, "passes": passes, "splits": len(scores), "own": float(np.mean(scores))}


def compare_gamma(options: Options) -> Iterator[Record]:
    """Own scores of Sparse Random Features with gamma by itself and with multiples of the median heuristic."""
    names = ("diabetes", "breast cancer", "compactiv", "ijcnn1")
    for source in options.of([source for source in sources(options.folder) if source.name in names]):
        found: dict[str, list[float]] = {}
        splits = range(min(options.splits, 4))
        for seed in splits:
            table = source.table(seed)
            spread = table.train.std(axis=0)
            heuristic = median_gamma("gaussian", table.train[:512] / np.where(spread > 0, spread, 1.0))
            gammas: dict[str, Any] = {"auto": "auto"} | {f"x {by}": by * heuristic for by in (1, 4, 16)}
            for name, gamma in gammas.items():
                selection = select(table, daskfs.SparseRandomFeatures(gamma=gamma))
                found.setdefault(name, []).append(quality(table, selection.predict(table.unseen)))
        yield {"set": source.name, "splits": len(splits), **_means(found)}


QUARTERED = {"iris": 4, "wine": 12, "breast cancer": 20, "digits": 40, "diabetes": 8, "friedman 1": 20}
"""The number of features of which the first quarter is compared, where it is not the largest of `sizes`."""


def compare_quarters(options: Options) -> Iterator[Record]:
    """How far the first k/4 of k features come from chance to all k, beside k/4 features selected anew."""
    for source in options.of(sources(options.folder)):
        tables = [source.table(seed) for seed in source.splits(min(options.splits, len(SEEDS)))]
        k = QUARTERED.get(source.name, sizes(tables[0].train.shape[1])[-1])
        chance = 0.0 if tables[0].is_real else 1 / len(np.unique(tables[0].y))
        for name, algorithm in (("Online Substitution", daskfs.OnlineSubstitution), ("MISSION", daskfs.Mission)):
            scores = []
            for table in tables:
                features = select(table, algorithm(k)).features.astype(int)
                anew = select(table, algorithm(k // 4)).features.astype(int)
                scores.append([refit(table, columns) for columns in (features, features[: k // 4], anew)])
            whole, first, again = np.mean(scores, axis=0).tolist()
            figures = {"all": whole, "first quarter": first, "selected anew": again}
            share = (first - chance) / (whole - chance)
            yield {"set": source.name, "k": k, "algorithm": name, "splits": len(tables), **figures, "share": share}


def compare_rare(options: Options) -> Iterator[Record]:
    """The balanced accuracy of a rare class, by default and balanced, beside a balanced refit."""
    kinds: dict[str, Callable[[bool], Any]] = {
        "Online Substitution": lambda balanced: daskfs.OnlineSubstitution(5, balanced=balanced),
        "MISSION": lambda balanced: daskfs.Mission(5, balanced=balanced),
        "Sparse Random Features": lambda balanced: daskfs.SparseRandomFeatures(balanced=balanced),
    }
    for name, algorithm in kinds.items():
        scores = np.mean([_rare_scores(algorithm, seed) for seed in SEEDS], axis=0).tolist()
        yield dict(zip(("algorithm", "default", "balanced", "refitted"), (name, *scores), strict=True))


def _rare_scores(algorithm: Callable[[bool], Any], seed: int) -> tuple[float, float, float]:
    """Return the balanced accuracy by default, with `balanced=True`, and of a balanced refit of the same features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7500, 50))
    y = np.where(rng.random(7500) < 1 / (1 + np.exp(4.5 - X[:, :5].sum(axis=1))), "yes", "no")
    table = Table("rare", X[:1500], X[1500:], y[:1500], y[1500:])
    plain, balanced = (select(table, algorithm(is_on)) for is_on in (False, True))
    model = LogisticRegressionCV(Cs=10, cv=5, scoring="balanced_accuracy", class_weight="balanced", max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(plain.transform(table.train), table.y)
        again = quality(table, model.predict(plain.transform(table.unseen)))
        return quality(table, plain.predict(table.unseen)), quality(table, balanced.predict(table.unseen)), again


def compare_damage(options: Options) -> Iterator[Record]:
    """The scores from CSV files, by default, with each kind of damage; and what gaps leave to the true columns."""
    for damage, spoil in DAMAGES.items():
        for name in ("substitution", "mission"):
            scores, hits = [], []
            for seed in SEEDS:
                frame, true = messy_table(seed)
                score, names = from_csv(spoil(frame, np.random.default_rng(seed)), name, seed)
                scores.append(score)
                hits.append(len(set(names) & set(true)))
            figures = {"accuracy": float(np.mean(scores)), "true": float(np.mean(hits))}
            yield {"damage": damage, "algorithm": name, **figures}
    known = float(np.mean([logistic_of_true_columns(seed) for seed in SEEDS]))
    yield {"damage": "5 % gaps", "algorithm": "logistic regression of the true columns", "accuracy": known}


def measure_memory(options: Options) -> Iterator[Record]:
    """What every selection promised and used, in a process of its own."""
    for name in SELECTIONS:
        promised, used = promised_and_used(name)
        yield {"run": name, "promised MiB": promised, "used MiB": used}


def _means(scores: dict[str, list[float]]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in scores.items()}


PARTS: dict[str, Callable[[Options], Iterator[Record]]] = {
    "trials": run_trials,
    "sets": compare_sets,
    "texts": compare_texts,
    "wide": compare_wide,
    "passes": compare_passes,
    "gamma": compare_gamma,
    "quarter": compare_quarters,
    "rare": compare_rare,
    "damage": compare_damage,
    "memory": measure_memory,
}
_IDENTITY = ("trial", "set", "k", "passes", "algorithm", "damage", "run")


def put(records: list[Record], record: Record) -> None:
    """Add a record to others, or put it in the place of that with the same set, size and algorithm.

    >>> records = [{"set": "iris", "k": 2, "own": 0.9}, {"set": "iris", "k": 3, "own": 0.8}]
    >>> put(records, {"set": "iris", "k": 3, "own": 0.95})
    >>> [record["own"] for record in records]
    [0.9, 0.95]
    """

    def identity(of: Record) -> list[Any]:
        return [of.get(name) for name in _IDENTITY]

    known = [identity(of) for of in records]
    if identity(record) in known:
        records[known.index(identity(record))] = record
    else:
        records.append(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--data", type=Path, help="a folder with public files")
    parser.add_argument("--only", default="", help="beginnings of the names of sets, separated by commas")
    parser.add_argument("--splits", type=int, default=12, help="the most splits of a set")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    given = parser.parse_args()
    options = Options(given.data, tuple(name for name in given.only.split(",") if name), given.splits)
    for part in given.parts or PARTS:
        for record in PARTS[part](options):
            print(part, json.dumps(rounded(record), ensure_ascii=False), flush=True)
            if given.json is not None:
                figures = json.loads(given.json.read_text()) if given.json.exists() else {}
                put(figures.setdefault(part, []), rounded(record))
                given.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


def rounded(value: Any) -> Any:
    """Return a record with numbers of four digits after the point."""
    if isinstance(value, dict):
        return {name: rounded(of) for name, of in value.items()}
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
