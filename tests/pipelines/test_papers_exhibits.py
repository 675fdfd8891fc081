"""Tables and figures of the papers that need no public files, run for real in sizes of seconds."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import daskfs

TINY = {
    "substitution_figure1": {"p": [60, 90], "s": 4, "scans": [1, 2], "workers": [1, 2], "seeds": 1},
    "substitution_figure2": {"p": [60, 90], "s": 4, "scans": [1, 2], "workers": [1, 2], "seeds": 1},
    "mission_figure2": {"n": [15, 30], "p": 60, "rows_seen": 300, "trials": 1},
    "mission_figure3": {"n": 40, "k": 2, "p": [60, 90], "widths": [16, 256], "rows_seen": 400, "trials": 1},
    "mission_table1": {"rows": [[40, 2]], "p": 60, "most": 2.0, "rows_seen": 400, "trials": 1},
}


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "pipelines" / "papers"))
    return importlib.import_module


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TINY))
def test_every_view_and_every_sentence_has_its_numbers(load, tmp_path, name):
    exhibit, places = load(name).EXHIBIT, load("_exhibit").Places(None, tmp_path)
    records = [record for cell in exhibit.cells(places, **TINY[name]).values() for record in cell()]
    for view in exhibit.views:
        assert view.means(records), view.title
    for claim in exhibit.claims:
        assert claim.verdict(records) is not None, claim.says


def test_time_to_a_threshold_and_speed_up(load):
    figure = load("substitution_figure3")
    one = [{"q": 1, "passes": n, "cpu": float(n), "error": e} for n, e in ((1, 0.5), (2, 0.1), (3, 0.1))]
    two = [{"q": 2, "passes": n, "cpu": n / 2, "error": e} for n, e in ((1, 0.4), (2, 0.104), (3, 0.09))]
    never = [{"q": 4, "passes": n, "cpu": 0.1, "error": 0.5} for n in (1, 2, 3)]
    assert figure.time_to_threshold([*one, *two, *never]) == [
        {"workers": 1, "time": 2.0, "speed-up": 1.0},
        {"workers": 2, "time": 1.0, "speed-up": 2.0},
    ]


@pytest.fixture
def reads(load, tmp_path):
    """A task with the five classes and k-mers of 300 tiny reads, and a task of two classes from the same reads."""
    real, rng = load("_real"), np.random.default_rng(0)
    species = rng.integers(0, 5, 300)
    X = scipy.sparse.csr_array((rng.random((300, 64)) < 0.1 + 0.5 * (np.arange(64) % 5 == species[:, None])) * 1.0)

    def task(name, y, *metrics):
        daskfs.write_dataset(tmp_path / name, X, y, layout="rows")
        dataset = daskfs.open_dataset(tmp_path / name)
        judge = real.accuracy if "accuracy" in metrics else real.area_under_curve
        return real.Task(name, dataset, dict.fromkeys(metrics, dataset), judge, passes=1)

    two = ("AUC", "average precision")
    return task("species", species, "accuracy", "on strains"), task("two", (species > 2) * 1, *two)


def test_feature_hashing_scores_rows_as_a_selection_of_all_features_does(load, reads):
    learned = load("_learned")
    for task in reads:
        algorithm = daskfs.Mission(64, method="hashing", width=2**10, learning_rate=0.5)
        expected = daskfs.select(task.train, algorithm).decision_function(task.train)
        scores = learned.hashed(task, replace(algorithm, n_select=1))(task.train)
        np.testing.assert_allclose(scores, expected, atol=1e-4)
        assert np.ptp(scores) > 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["quick", "full"])
@pytest.mark.parametrize("name", ["figure4_dna", "figure4_text", "figure5", "figure6", "table4", "table5", "table6"])
def test_every_method_runs_with_the_sizes_of_both_forms(load, reads, monkeypatch, tmp_path, name, form):
    """With the widths and numbers of features of the form, on a few rows."""
    pytest.importorskip("vowpalwabbit") if name == "table4" else None
    module, (species, two) = load(f"mission_{name}"), reads
    for factory, task in (("dna", species), ("news20", species), ("clicks", two), ("splice", two)):
        monkeypatch.setattr(load("_real"), factory, lambda *_, task=task, **__: task)
    monkeypatch.setattr(load("mission_table5"), "thinned", lambda *_: None)
    cells = module.EXHIBIT.cells(load("_exhibit").Places(tmp_path, tmp_path), **module.EXHIBIT.sizes(form))
    records = [record for cell in cells.values() for record in cell()]
    for view in module.EXHIBIT.views:
        assert view.means(records), view.title


def test_windows_are_thinned_record_by_record(load):
    lines = [">a\n", "AC\n", "GT\n", ">b\n", "CC\n", ">c\n", "GG\n"]
    assert list(load("mission_table5")._records(iter(lines))) == [">a\nAC\nGT\n", ">b\nCC\n", ">c\nGG\n"]
