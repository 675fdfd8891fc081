"""daskfs evaluate and daskfs predict: what is printed, what is written, and that nothing is left of what went wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from click.testing import CliRunner, Result
from faults.samples import small_blocks
from selections import selection_of

import daskfs
from daskfs.cli import main
from daskfs.errors import OptionError
from daskfs.selection import predictions
from daskfs.selection.profiles import feature_profiles
from daskfs.selection.records import METRICS, PROFILES, SIZES, read_record
from daskfs.store.places.location import Location

RNG = np.random.default_rng(8)
X = RNG.normal(size=(300, 5)).astype(np.float32)
WEIGHTS = RNG.normal(size=(2, 3))
MODELS: dict[str, dict[str, Any]] = {
    "words": {"weights": [1.0, -2.0], "classes": ("ham", "spam")},
    "signs": {"weights": [1.0, -2.0], "classes": (-1.0, 1.0)},
    "value": {"weights": [1.0, -2.0]},
    "three words": {"weights": WEIGHTS, "intercept": [0.0, 0.1, 0.2], "classes": ("blue", "grün", "red")},
    "three numbers": {"weights": WEIGHTS, "intercept": [0.0, 0.1, 0.2], "classes": (2.0, 5.0, 9.0)},
}


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "150"}).invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(params=MODELS)
def model(request, tmp_path, monkeypatch) -> dict[str, Any]:
    """A run, and a dataset in rows whose labels it mostly gets right."""
    monkeypatch.chdir(tmp_path)
    model = MODELS[request.param]
    save(model)
    return model


@pytest.fixture
def words(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(MODELS["words"])


def save(model: dict[str, Any], layout: str = "rows") -> None:
    selection = selection_of([3, 1], **model)
    selection.save("run")
    truth = np.where(np.arange(300) % 4, selection.predict(X), selection.predict(X[::-1]))
    daskfs.write_dataset("d.zarr", X, truth, layout=layout, chunk_bytes=1000)


def names_here() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_evaluate_for_machines(model):
    done = run("evaluate", "run", "d.zarr", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    found = daskfs.load_selection("run").evaluate("d.zarr")
    assert record == {"run": "run", "dataset": "d.zarr", "digest": selection_digest(), **found.record()}
    assert record["rows"] == 300
    assert record["metrics"] == found.metrics
    assert done.stderr == ""  # no progress bar in a pipe


def test_evaluate_for_people(model):
    done = run("evaluate", "run", "d.zarr")
    assert done.exit_code == 0, done.output
    found = daskfs.load_selection("run").evaluate("d.zarr")
    for name, value in found.metrics.items():
        low, high = found.intervals[name]
        assert low < value < high
        shown = re.escape(f"{value:.4f}") + " +" + re.escape(f"{low:.4f} to {high:.4f}")
        assert re.search(rf" {shown} +(0\.\d+|[\d.]+|-)\s*$", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("run on d.zarr: 300 rows\n")
    classes = model.get("classes", ())
    assert ("(spam)" in done.stdout) == (classes == ("ham", "spam"))
    assert ("mean over classes" in done.stdout) == (len(classes) > 2)
    for number, label in enumerate(classes if len(classes) > 2 else ()):
        shown = label if isinstance(label, str) else f"{label:g}"
        recall = found.per_class.recall.values[number]
        low, high = found.per_class.recall_interval.values[number]
        line = rf"^ +{shown} +{found.per_class.rows.values[number]} .* {recall:.4f} .* {low:.4f} to {high:.4f}\s*$"
        assert re.search(line, done.stdout, re.M)


def test_evaluate_keeps_what_it_found(model):
    train = daskfs.open_dataset("d.zarr")
    selection = daskfs.load_selection("run")
    before = Path("run/selection.json").read_bytes()
    assert run("evaluate", "run", "d.zarr").exit_code == 0
    assert sorted(os.listdir("run")) == ["history.zarr", "selection.json"]
    assert run("evaluate", "run", "d.zarr", "--keep").exit_code == 0
    assert sorted(os.listdir("run")) == ["history.zarr", "metrics.json", "profiles.json", "selection.json"]
    found = selection.evaluate(train)
    about = {"dataset": "d.zarr", "digest": train.digest}
    expected = {**about, **found.record(), "curves": found.curves}
    assert read_record(Location("run"), PROFILES) == feature_profiles(selection, train)
    assert read_record(Location("run"), METRICS) == expected
    done = run("evaluate", "run", "d.zarr", "--keep", "--json", "--sizes", "d.zarr")
    assert done.exit_code == 0, done.output
    path = daskfs.size_path(selection, train, train)
    assert read_record(Location("run"), SIZES) == path.record() == json.loads(done.stdout)["sizes"]
    assert read_record(Location("run"), METRICS) == expected
    assert Path("run/selection.json").read_bytes() == before
    assert daskfs.load_selection("run").names == selection.names


def test_sizes_for_people(words):
    done = run("evaluate", "run", "d.zarr", "--sizes", "d.zarr")
    assert done.exit_code == 0, done.output
    path = daskfs.size_path(daskfs.load_selection("run"), "d.zarr", "d.zarr")
    assert path.sizes == [1, 2]
    for size, score, (low, high) in zip(
        ["1", "2", "as selected, 2"],
        [*path.scores, path.as_selected[0]],
        [*path.intervals, path.as_selected[1]],
        strict=True,
    ):
        assert re.search(rf"^ +{size} +{score:.4f} +{low:.4f} to {high:.4f}\s*$", done.stdout, re.MULTILINE)
    assert not Path("run/sizes.json").exists()


def test_evaluate_that_fails_keeps_nothing(words):
    daskfs.write_dataset("other.zarr", X, ["ham", "spam", "eggs"] * 100)
    done = run("evaluate", "run", "d.zarr", "--keep", "--sizes", "other.zarr")
    assert done.exit_code == 2
    assert "error: other.zarr: has labels that the selection does not know" in done.stderr
    assert sorted(os.listdir("run")) == ["history.zarr", "selection.json"]


def test_what_cannot_be_told_is_null_and_a_dash(words):
    daskfs.write_dataset("one.zarr", X[:1], ["spam"])
    metrics = json.loads(run("evaluate", "run", "one.zarr", "--json").stdout)["metrics"]
    assert metrics["roc_auc"] is None
    assert re.search(r"ROC AUC \(spam\) +- +- +0\.5000\s*$", run("evaluate", "run", "one.zarr").stdout, re.MULTILINE)


def test_labels_the_run_does_not_know(words):
    daskfs.write_dataset("e.zarr", X, ["ham", "eggs", "spam"] * 100)
    assert run("evaluate", "run", "e.zarr").stdout.endswith("300 rows, 100 with labels it does not know\n")


def test_hostile_labels_of_two_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    selection_of([0], [1.0], classes=("[bold]", "[red]x[/red]\x1b[2J")).save("run")
    daskfs.write_dataset("d.zarr", X[:2], ["[bold]", "[red]x[/red]\x1b[2J"])
    shown = run("evaluate", "run", "d.zarr").stdout
    assert "ROC AUC ([red]x[/red]?[2J)" in shown


def test_many_classes_and_hostile_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    classes = (*(f"class{i}" for i in range(70)), "\x1b[2J", "[red]x[/red]" + "y" * 10**5)
    selection_of([0], RNG.normal(size=(1, 72)), intercept=np.zeros(72), classes=tuple(sorted(classes))).save("run")
    daskfs.write_dataset("d.zarr", X, RNG.choice(classes, 300))
    done = run("evaluate", "run", "d.zarr")
    assert done.exit_code == 0, done.output
    assert "and 22 more" in done.stdout
    assert "[red]x[/red]" in done.stdout
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    assert len(done.stdout) < 20_000


@pytest.mark.parametrize("chunk_cells", [predictions.CHUNK_CELLS, 100])
def test_predict(model, chunk_cells, monkeypatch):
    monkeypatch.setattr(predictions, "CHUNK_CELLS", chunk_cells)
    done = run("predict", "run", "d.zarr", "--out", "out.zarr")
    assert done.exit_code == 0, done.output
    assert done.stdout == "300 predictions in out.zarr\n"
    selection = daskfs.load_selection("run")
    with xarray.open_zarr("out.zarr") as found:
        assert set(found.data_vars) == {"prediction", "score"}
        assert found.prediction.values.tolist() == selection.predict("d.zarr").tolist()
        np.testing.assert_array_equal(found.score.values, selection.decision_function("d.zarr"))
        assert found.score.dims == ("sample", "class")[: found.score.ndim]
        if found.score.ndim == 2:
            assert found["class"].values.tolist() == list(model["classes"])
        assert (found.prediction.chunksizes["sample"][0] < 300) == (chunk_cells == 100)
        assert found.attrs["daskfs"]["made"]["source"] == {"url": "d.zarr", "digest": selection_digest()}
    assert names_here() == ["d.zarr", "out.zarr", "run"]
    assert "_unfinished" not in os.listdir("out.zarr")


def selection_digest() -> str:
    return daskfs.open_dataset("d.zarr").digest


@pytest.mark.parametrize("layout", ["columns", "both"])
def test_predict_a_dataset_in_columns(tmp_path, monkeypatch, layout):
    monkeypatch.chdir(tmp_path)
    save(MODELS["three words"], layout)
    assert run("predict", "run", "d.zarr", "--out", "out.zarr").exit_code == 0
    expected = daskfs.load_selection("run").predict("d.zarr").tolist()
    assert xarray.open_zarr("out.zarr").prediction.values.tolist() == expected


def test_predictions_and_reports_for_machines(words):
    told = json.loads(run("predict", "run", "d.zarr", "--out", "out.zarr", "--json").stdout)
    assert told == {"run": "run", "dataset": "d.zarr", "predictions": "out.zarr", "rows": 300}
    assert json.loads(run("report", "run", "--json").stdout) == {"report": "run/report.html"}


def test_predict_sparse_rows(words):
    (Path("x.svm")).write_text("".join(f"1 1:{i} 3:{i % 7}\n-1 2:5\n" for i in range(1, 60)))
    with small_blocks(entries=20):
        daskfs.ingest("x.svm", "x.zarr", "svmlight", workers=1)
    assert run("predict", "run", "x.zarr", "--out", "out.zarr").exit_code == 0
    expected = daskfs.load_selection("run").predict("x.zarr").tolist()
    assert xarray.open_zarr("out.zarr").prediction.values.tolist() == expected


def test_predictions_are_replaced_only_if_told(words):
    assert run("predict", "run", "d.zarr", "--out", "out.zarr").exit_code == 0
    before = xarray.open_zarr("out.zarr").load()
    again = run("predict", "run", "d.zarr", "--out", "out.zarr")
    assert (again.exit_code, again.stderr) == (
        2,
        "error: out.zarr: already holds predictions; --overwrite replaces them\n",
    )
    xarray.testing.assert_identical(xarray.open_zarr("out.zarr").load(), before)
    daskfs.write_dataset("d.zarr", X[:7], ["ham"] * 7, overwrite=True)
    assert run("predict", "run", "d.zarr", "--out", "out.zarr", "--overwrite").exit_code == 0
    assert xarray.open_zarr("out.zarr").sizes == {"sample": 7}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("evaluate", "none", "d.zarr"), "none: no selection here"),
        (("evaluate", "d.zarr", "d.zarr"), "d.zarr: no selection here"),
        (("evaluate", "run", "none.zarr"), "none.zarr: no dataset here"),
        (("evaluate", "run", "d.zarr", "--keep", "--sizes", "none.zarr"), "none.zarr: no dataset here"),
        (("evaluate", "run", "named.zarr"), "named.zarr: feature 3 is 'd' there and 'x3' in the selection"),
        (("evaluate", "run", "narrow.zarr"), "narrow.zarr: has 2 columns, none of them feature 3 ('x3')"),
        (("evaluate", "run", "other.zarr"), "labels such as 'cat' are none of the selection's classes, such as 'ham'"),
        (("evaluate", "run", "real.zarr"), "real.zarr: its labels are real numbers, the selection tells classes apart"),
        (("predict", "none", "d.zarr", "--out", "out.zarr"), "none: no selection here"),
        (("predict", "run", "none.zarr", "--out", "out.zarr"), "none.zarr: no dataset here"),
        (("predict", "run", "named.zarr", "--out", "out.zarr"), "named.zarr: feature 3 is 'd' there and 'x3'"),
        (("predict", "run", "d.zarr", "--out", "d.zarr"), "d.zarr: is the dataset to be predicted, or lies in it"),
        (("predict", "run", "d.zarr", "--out", "./d.zarr/in"), "./d.zarr/in: is the dataset to be predicted, or lies"),
        (
            ("predict", "run", "d.zarr", "--out", "real.zarr", "--overwrite"),
            "real.zarr: holds something other than pre",
        ),
        (("predict", "run", "d.zarr", "--out", "run", "--overwrite"), "run: exists and is not a daskfs dataset"),
        (("predict", "run", "d.zarr", "--out", "file"), "file: is a file; predictions are a folder"),
        (("predict", "run", "d.zarr", "--out", "no-such://x"), "no-such://x: "),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, arguments, reason):
    daskfs.write_dataset("named.zarr", X, ["ham", "spam"] * 150, ["a", "b", "c", "d", "e"])
    daskfs.write_dataset("narrow.zarr", X[:, :2], ["ham", "spam"] * 150)
    daskfs.write_dataset("other.zarr", X, ["cat", "dog"] * 150)
    daskfs.write_dataset("real.zarr", X, X[:, 0])
    Path("file").write_text("precious")
    before = names_here(), sorted(os.listdir("run")), sorted(os.listdir("d.zarr")), sorted(os.listdir("real.zarr"))
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert f"error: {reason}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    after = names_here(), sorted(os.listdir("run")), sorted(os.listdir("d.zarr")), sorted(os.listdir("real.zarr"))
    assert after == before


@pytest.mark.parametrize("command", [("evaluate", "run", "d.zarr"), ("predict", "run", "d.zarr", "--out", "out.zarr")])
def test_a_damaged_chunk_half_way(words, command, monkeypatch):
    monkeypatch.setattr(predictions, "CHUNK_CELLS", 20)
    Path("d.zarr/X/c/4/0").write_bytes(b"nonsense")
    done = run(*command)
    assert done.exit_code == 2
    assert "d.zarr: chunk X/c/4/0" in done.stderr
    assert names_here() == ["d.zarr", "run"]


def test_predictions_stay_as_they_were_if_new_ones_fail(words, monkeypatch):
    monkeypatch.setattr(predictions, "CHUNK_CELLS", 20)
    run("predict", "run", "d.zarr", "--out", "out.zarr")
    before = xarray.open_zarr("out.zarr").load()
    Path("d.zarr/X/c/4/0").unlink()
    assert run("predict", "run", "d.zarr", "--out", "out.zarr", "--overwrite").exit_code == 2
    xarray.testing.assert_identical(xarray.open_zarr("out.zarr").load(), before)
    assert "_unfinished" not in os.listdir("out.zarr")


def test_an_unfinished_ingest_is_not_touched(words):
    """It may have taken hours."""
    Path("out.zarr/_unfinished").mkdir(parents=True)
    Path("out.zarr/_unfinished/plan.json").write_text("{}")
    done = run("predict", "run", "d.zarr", "--out", "out.zarr")
    assert (done.exit_code, "holds an unfinished ingest" in done.stderr) == (2, True)
    assert Path("out.zarr/_unfinished/plan.json").exists()


def test_no_rows(words):
    with pytest.raises(OptionError, match="no rows"):
        daskfs.load_selection("run").write_predictions(X[:0], "out.zarr")
    assert names_here() == ["d.zarr", "run"]


SLOW = """
import time
from daskfs.cli import main
from daskfs.selection import predictions
from daskfs.store.places.location import Location
from daskfs.selection.records import METRICS, SIZES, read_record
from daskfs.selection.predictions import write_chunk

def slowly(*arguments):
    time.sleep(0.05)
    return write_chunk(*arguments)

predictions.CHUNK_CELLS, predictions.write_chunk = 2, slowly
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "left"), [(signal.SIGINT, []), (signal.SIGKILL, ["out.zarr"])])
def test_interrupted(words, sent, left):
    """A real process. Ctrl-C leaves nothing; what a kill leaves does not open, and the next run takes its place."""
    command = [sys.executable, "-c", SLOW, "predict", "run", "d.zarr", "--out", "out.zarr"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not Path("out.zarr/score/c/3").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == (75 if sent == signal.SIGINT else -sent), errors
    assert names_here() == sorted(["d.zarr", "run", *left])
    with pytest.raises(FileNotFoundError):
        xarray.open_zarr("out.zarr")
    assert run("predict", "run", "d.zarr", "--out", "out.zarr").exit_code == 0
    assert xarray.open_zarr("out.zarr").sizes == {"sample": 300}


def test_predictions_on_s3(words, s3):
    url, selection = s3.url("out.zarr"), daskfs.load_selection("run")
    selection.write_predictions("d.zarr", url, storage_options=s3.options)
    found = xarray.open_zarr(url, storage_options=s3.options)
    assert found.prediction.values.tolist() == selection.predict(X).tolist()
    with pytest.raises(OptionError, match="already holds predictions"):
        selection.write_predictions("d.zarr", url, storage_options=s3.options)
