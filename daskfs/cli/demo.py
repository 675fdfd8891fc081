"""The command `daskfs demo`: three selections by `daskfs select`, one for each algorithm, beside scikit-learn."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from daskfs.algorithms.registry import registrations
from daskfs.cli.select import select
from daskfs.cli.types import PATH
from daskfs.errors import OptionError
from daskfs.observe.tables import ValueTable, terminal_table
from daskfs.observe.terminal import messages, output, program
from daskfs.protocol import SparseBlock
from daskfs.selection.column_slices import slice_columns
from daskfs.selection.records import METRICS, REPORT, read_record
from daskfs.selection.run_folder import resolve_run
from daskfs.selection.selection import Selection, load_selection
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.places.location import Location

MARK = "made-by-daskfs-demo.txt"
"""A file in the folder of the demo, by which the folder is known."""
PACKAGES = ("numpy", "scipy", "sklearn")
MOST_DOCSTRINGS = 1_500
METRIC_TITLES = {"roc_auc": "AUC", "r2": "R²"}
SHUFFLED = 33
"""How many shuffled copies of every measurement stand beside the real one."""


@dataclass(frozen=True)
class DemoTable:
    """A file of the demo, the flags of the selection from it, and a model of scikit-learn to compare with."""

    name: str
    file: str
    title: str
    flags: str
    metric: str
    write: Callable[[Path], None]
    rival: str
    """The name of the model of scikit-learn, which uses all features."""
    model: Callable[[], Any]
    check: Callable[[Selection], str]
    """Says how the selection compares with what is known about the data."""

    def command(self, folder: Path) -> list[str]:
        """Return the arguments of `daskfs select`."""
        return [str(folder / self.file), *self.flags.split(), "--out", str(folder / self.name)]


def write_tumours(path: Path) -> None:
    """Write the Wisconsin breast cancer data with shuffled copies of all measurements as noise."""
    from sklearn.datasets import load_breast_cancer

    data, rng = load_breast_cancer(), np.random.default_rng(0)
    names = [name.replace(" ", "_") for name in data.feature_names]
    columns = [data.data, *(rng.permuted(data.data, axis=0) for _ in range(SHUFFLED))]
    titles = [*names, *(f"{name}_shuffled{copy}" for copy in range(1, SHUFFLED + 1) for name in names)]
    rows = (",".join(map(repr, row)) for row in np.hstack(columns).tolist())
    labels = data.target_names[data.target]
    lines = [f"{row},{label}\n" for row, label in zip(rows, labels, strict=True)]
    path.write_text("".join([",".join([*titles, "diagnosis"]), "\n", *lines]))


def write_words(path: Path) -> None:
    """Write the words of docstrings of installed packages, a line for each, after the name of the package."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for package in PACKAGES:
            texts = docstrings(package)
            for number in rng.permutation(len(texts))[:MOST_DOCSTRINGS]:
                file.write(f"{package}\t{texts[number]}\n")


def docstrings(package: str) -> list[str]:
    """Return the words, in lower case, of all longer docstrings in the source files of a package."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    files = [file for file in sorted(Path(spec.origin).parent.rglob("*.py")) if "tests" not in file.parts]
    raw = [text for file in files for text in re.findall(r'"""(.*?)"""', file.read_text("utf-8", "replace"), re.S)]
    texts = [" ".join(re.findall("[a-z_]{2,}", text.lower())) for text in raw]
    return [text for text in texts if len(text) > 80]


def write_friedman(path: Path) -> None:
    """Write data of Friedman's first function: ten times a sine of two inputs, a parabola and two straight lines."""
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(5_000, 20, noise=1.0, random_state=0)
    titles = [*(f"x{i}" for i in range(1, 21)), "y"]
    np.savetxt(path, np.column_stack([X, y]), "%.5f", ",", header=",".join(titles), comments="")


def _logistic(scaler: str) -> Any:
    from sklearn import preprocessing
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(getattr(preprocessing, scaler)(), LogisticRegression(max_iter=1000))


def _boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=0)


def _count_real(selection: Selection) -> str:
    real = sum("_shuffled" not in name for name in selection.names)
    return (
        f"{real} of the {len(selection.names)} are real measurements, {len(selection.names) - real} are shuffled ones"
    )


def _find_names(selection: Selection) -> str:
    names = [f"'{name.removeprefix('w:')}'" for name in selection.names if set(name[2:].split()) & set(PACKAGES)]
    return f"names of packages are among the words: {', '.join(names)}"


def _share_of_inputs(selection: Selection) -> str:
    shares = selection.input_importance
    share = float(shares.sel(input=[f"x{i}" for i in range(1, 6)]).sum() / shares.sum())
    return f"the five inputs of the function have {share:.1%} of the importance"


TABLES = (
    DemoTable(
        name="tumours",
        file="tumours.csv",
        title=(
            "569 tumours, benign or malignant (Wisconsin, from scikit-learn): 30 measurements,\n"
            f"   and {30 * SHUFFLED} columns that are the same measurements with their rows shuffled"
        ),
        flags="-k 10 --label diagnosis",
        metric="roc_auc",
        write=write_tumours,
        rival="logistic regression",
        model=lambda: _logistic("StandardScaler"),
        check=_count_real,
    ),
    DemoTable(
        name="words",
        file="words.txt",
        title=(
            "docstrings of numpy, scipy and scikit-learn, as installed here:\n"
            "   which words and pairs of words show the package?"
        ),
        flags="-k 60 --set ingest.words=[1,2]",
        metric="roc_auc",
        write=write_words,
        rival="logistic regression",
        model=lambda: _logistic("MaxAbsScaler"),
        check=_find_names,
    ),
    DemoTable(
        name="friedman",
        file="friedman.csv",
        title=(
            "Friedman's function (made by scikit-learn): y = 10 sin(π x1 x2) + 20 (x3 - ½)²\n"
            "   + 10 x4 + 5 x5 + noise, and x6 … x20 say nothing"
        ),
        flags="-k 60 --label y --algorithm random-features",
        metric="r2",
        write=write_friedman,
        rival="gradient boosting",
        model=_boosting,
        check=_share_of_inputs,
    ),
)


@click.command()
@click.option("--out", type=PATH, default="demo", show_default=True, help="The folder for data and results.")
def demo(out: str) -> None:
    """Select features from three small tables, one for each algorithm, and compare with scikit-learn on all features.

    The data come with installed packages, or are made on the spot. Every selection is one command, which is printed
    first and can be run again.
    """
    folder, rows = Path(out), []
    prepare(folder)
    for number, table in enumerate(TABLES, 1):
        output.print(f"\n{number}. {table.title}", style="bold", markup=False, soft_wrap=True)
        path = folder / table.file
        if not path.exists():
            part = path.with_suffix(".part")  # an interrupted demo leaves no half of a table
            table.write(part)
            part.rename(path)
        command = table.command(folder)
        output.print(f"$ {program()} select {shlex.join(command)}", style="cyan", markup=False, soft_wrap=True)
        with select.make_context("select", command) as ctx:
            select.invoke(ctx)
        rows.append(summary(table, folder))
    output.print("\nOn rows that no model has seen, beside a guess (always the same answer)")
    output.print("and a model of scikit-learn with all features, fitted to the same rows:")
    output.print(terminal_table(ValueTable(("data", "algorithm", "features", "score", "guess", "all"), rows)))
    _print_commands(folder)


def prepare(folder: Path) -> None:
    """Create the folder of the demo, or raise OptionError if it has files that are not the demo's."""
    if folder.exists() and not (folder / MARK).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"--out {folder}: is there already, and is not the demo's; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("The data and results of `daskfs demo`. This folder can be deleted.\n")


def summary(table: DemoTable, folder: Path) -> list[str]:
    """Return a row of the last table of the demo: the scores of a selection, of a guess and of scikit-learn."""
    run = resolve_run(Location(str(folder / table.name)))
    selection, record = load_selection(run.url), read_record(run, METRICS) or {}
    output.print(f"known:  {table.check(selection)}", style="bold", markup=False, soft_wrap=True)
    (low, high), value = record["intervals"][table.metric], record["metrics"][table.metric]
    guess = record["baseline"]["metrics"][table.metric]
    n_features = selection.source["n_features"]
    size = f"{len(selection.features)} of {n_features:,}" if selection.inputs is None else f"{len(selection.features)}"
    messages.print(f"for comparison: {table.rival} of scikit-learn with all features", style="dim")
    rival = rival_score(table, open_dataset(selection.source["url"]), open_dataset(record["dataset"]))
    return [
        table.name,
        next(
            name for name, entry in registrations().items() if entry.algorithm.__name__ == selection.algorithm["name"]
        ),
        size,
        f"{METRIC_TITLES[table.metric]} {value:.3f} ({low:.2f}–{high:.2f})",
        f"{guess:.3f}",
        f"{rival:.3f}",
    ]


def rival_score(table: DemoTable, train: Dataset, test: Dataset) -> float:
    """Return the score of the model of scikit-learn with all features, fitted to the same rows."""
    from sklearn.metrics import r2_score, roc_auc_score

    columns = np.arange(train.n_features, dtype=np.uint64)
    if train.kind == "sparse":
        columns = np.unique(np.concatenate([rows.ids for rows in train.blocks() if isinstance(rows, SparseBlock)]))
    names = train.names(columns)
    (X, y), (X_test, y_test) = (
        (slice_columns(rows, columns, names).to_array(), np.concatenate(list(rows.targets()))) for rows in (train, test)
    )
    model = table.model().fit(X, y)
    if table.metric == "r2":
        return float(r2_score(y_test, model.predict(X_test)))
    shares = model.predict_proba(X_test)
    return float(roc_auc_score(y_test, shares if shares.shape[1] > 2 else shares[:, 1], multi_class="ovr"))


def _print_commands(folder: Path) -> None:
    reports = [resolve_run(Location(str(folder / table.name))).url for table in TABLES]
    lines = ["", "Reports to look at in a browser:", *(f"   {report}/{REPORT}" for report in reports)]
    names = {table.name: shlex.quote(str(folder / table.name)) for table in TABLES}
    source = shlex.quote(str(folder / TABLES[0].file))
    lines += ["What to try next:"]
    lines += [f"   {program()} show {names['friedman']}", f"   {program()} plan {source} -k 5 --label diagnosis"]
    lines += [f"   {program()} select {source} -k 5 --label diagnosis --out {names['tumours']}"]
    for line in lines:
        output.print(line, markup=False, soft_wrap=True)
