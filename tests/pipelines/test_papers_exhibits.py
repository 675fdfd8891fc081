"""Tables and figures of the papers that need no public files, run for real in sizes of seconds."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

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
    one = [{"q": 1, "passes": n, "seconds": float(n), "error": e} for n, e in ((1, 0.5), (2, 0.1), (3, 0.1))]
    two = [{"q": 2, "passes": n, "seconds": n / 2, "error": e} for n, e in ((1, 0.4), (2, 0.104), (3, 0.09))]
    never = [{"q": 4, "passes": n, "seconds": 0.1, "error": 0.5} for n in (1, 2, 3)]
    assert figure.time_to_threshold([*one, *two, *never]) == [
        {"workers": 1, "time": 2.0, "speed-up": 1.0},
        {"workers": 2, "time": 1.0, "speed-up": 2.0},
    ]


def test_iht_is_left_out_where_it_would_take_too_long(load, monkeypatch):
    learned = load("_learned")
    monkeypatch.setattr(learned, "IHT_MOST", 10)

    class Task:
        n_scores = 2
        train = type("Train", (), {"n_samples": 3})

    assert learned.learned(Task, "IHT", k=2, width=8) == []


def test_windows_are_thinned_record_by_record(load):
    lines = [">a\n", "AC\n", "GT\n", ">b\n", "CC\n", ">c\n", "GG\n"]
    assert list(load("mission_table5")._records(iter(lines))) == [">a\nAC\nGT\n", ">b\nCC\n", ">c\nGG\n"]
