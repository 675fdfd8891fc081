"""The comparison with other tools: BEAR against definitions, and sentences of the page that follow from numbers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from reference.mission import mission
from scipy.special import expit

ROOT = Path(__file__).parents[2]


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "pipelines" / "benchmarks"))
    return importlib.import_module


def some_rows(n=60, p=12):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((n, p), density=0.4, random_state=rng, format="csr")
    y = (X @ rng.normal(size=p) + 0.3 * rng.normal(size=n) > 0).astype(float)
    return X, y


def test_bear_without_pairs_is_gradient_descent(load):
    X, y = some_rows()
    bear = load("_bear").Bear(k=12, width=2**16, rate=0.7, batch=20, memory=0).learn(X, y)
    w, A = np.zeros(12), X.toarray()
    for first in range(0, 60, 20):
        rows = slice(first, first + 20)
        w -= 0.7 * A[rows].T @ (expit(A[rows] @ w) - y[rows]) / 20
    assert np.allclose([bear.weights[j] for j in range(12)], w, atol=1e-6)


def test_the_direction_of_bear_is_that_of_the_bfgs_update_of_the_inverse_hessian(load):
    rng, bear = np.random.default_rng(1), load("_bear").Bear(k=5, width=64, rate=1.0)
    ids = np.arange(5)
    curvature = np.diag([1.0, 2, 3, 4, 5])
    pairs = [(s, curvature @ s) for s in rng.normal(size=(3, 5))]
    bear._pairs.extend((ids, s, r) for s, r in pairs)
    s, r = pairs[-1]
    H = np.eye(5) * (s @ r) / (r @ r)
    for s, r in pairs:
        left = np.eye(5) - np.outer(s, r) / (s @ r)
        H = left @ H @ left.T + np.outer(s, s) / (s @ r)
    g = rng.normal(size=5)
    assert np.allclose(bear._direction(ids, g), H @ g)


def test_a_sketch_gives_back_what_was_added(load):
    sketch, ids = load("_bear").CountSketch(2**14, seed=0), np.arange(100) * 10**7
    sketch.add(ids, np.arange(100.0))
    assert np.allclose(sketch.read(ids), np.arange(100.0))
    assert not sketch.read(ids + 1).any()


def records(cpu, other_cpu, auc, other_auc):
    ours = {"task": "_rivals_rows", "rows": 10, "method": "daskfs, MISSION", "AUC": auc, "CPU s": cpu, "MiB": 1.0}
    other = {"task": "_rivals_rows", "rows": 10, "method": "theirs", "AUC": other_auc, "CPU s": other_cpu, "MiB": 2.0}
    return [ours, other, {"task": "_rivals_rows", "rows": 10, "method": "late", "note": "stopped after 900 s"}]


def test_the_page_says_where_we_are_first_and_where_not(load):
    text = load("_rivals_page").section_of("_rivals_rows", records(2.0, 1.0, 0.9, 0.8))
    assert "AUC: daskfs, MISSION is first: 0.900, theirs has 0.800." in text
    assert "CPU s: no other tool is as good by AUC." in text
    assert "| 10 | late |  | stopped after 900 s |" in text
    text = load("_rivals_page").section_of("_rivals_rows", records(2.0, 1.0, 0.805, 0.8))
    assert "CPU s, among those as good: daskfs, MISSION **is not first**: 2 times what theirs takes." in text
    assert "MiB, among those as good: daskfs, MISSION is first: 0.5 times what theirs takes." in text
    text = load("_rivals_page").section_of("_rivals_rows", records(1.0, 2.0, 0.801, 0.802))
    assert "AUC: daskfs, MISSION and theirs are level, 0.801 and 0.802." in text
    assert "CPU s, among those as good: daskfs, MISSION is first" in text


def test_the_page_has_settings_and_circumstances(load):
    shared = {"form": "quick", "setting": {"-l": 0.5, "--sgd": ""}}
    pair = zip(records(1.0, 2.0, 0.9, 0.9), (0.5, 4.0), strict=False)
    own = [record | shared | {"load": busy} for record, busy in pair]
    text = load("_rivals_page").section_of("_rivals_rows", own)
    assert "Measured in the quick form, with seed 0, at 0.5 to 4 processes for each core." in text
    assert "| -l 0.5, --sgd |" in text


def test_a_record_takes_the_place_of_that_of_the_same_rival_and_form(load):
    merged = load("rivals").merged
    first = {"task": "_rivals_rows", "rows": 10, "method": "a", "form": "quick", "CPU s": 1.0}
    other = first | {"method": "b"}
    assert merged([first, other], first | {"CPU s": 2.0}) == [other, first | {"CPU s": 2.0}]
    full = first | {"form": "full", "rows": 99}
    assert merged([first, other], full) == [full]
    curves = first | {"task": "_rivals_curves"}
    assert merged([curves], first) == [curves, first]


def test_the_published_mission_is_that_of_the_listing(load):
    """Beside plain Python that has other hashes, in sketches where nothing collides, with room for all features."""
    X, y = some_rows()
    ours = load("_mission_numpy").PublishedMission(k=12, width=2**16, rate=0.3).learn(X, y)
    rows = [dict(zip(X[[r]].indices.tolist(), X[[r]].data.tolist(), strict=True)) for r in range(60)]
    expected = mission(rows, 2 * y - 1, k=12, depth=3, bits=16, rate=0.3, loss="logistic")
    assert ours.weights == pytest.approx(expected, abs=1e-4)


def test_the_published_mission_scores_with_the_largest_weights_alone(load):
    """Of two rows that are alike, the second is learned at the weights of the two features that remain."""
    X = scipy.sparse.csr_array(np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]))
    ours = load("_mission_numpy").PublishedMission(k=2, width=2**16, rate=0.1).learn(X, np.ones(2))
    first = 0.1 * 0.5 * np.array([3.0, 2.0, 1.0])
    second = first + 0.1 * (1 - expit(first[0] * 3 + first[1] * 2)) * np.array([3.0, 2.0, 1.0])
    assert ours.weights == pytest.approx({0: second[0], 1: second[1]}, abs=1e-6)


def test_a_size_that_only_we_manage_is_said_and_others_are_compared_below_it(load):
    later = {"task": "_rivals_rows", "rows": 20, "method": "daskfs, MISSION", "AUC": 0.9, "CPU s": 4.0}
    late = {"task": "_rivals_rows", "rows": 20, "method": "theirs", "note": "needs more than 4 GiB"}
    lines = load("_rivals_page").sentences_of("_rivals_rows", [*records(2.0, 1.0, 0.9, 0.8), later, late])
    assert lines[0] == "daskfs, MISSION alone managed 20 rows."
    assert "CPU s: no other tool is as good by AUC." in lines


def test_a_rival_that_needs_more_memory_than_there_is_for_it_is_said_to(load, tmp_path, monkeypatch):
    """In a process of its own: what is asked for is never touched."""
    text = "import numpy as np\nfrom _rivals import MEMORY, Outcome, Rival\n"
    text += "def run(folder, size=1):\n    np.empty(size, np.int8)\n    return Outcome(0.0, {'AUC': 0.5})\n"
    text += "hungry = {'size': MEMORY}\n"
    text += "RIVALS = {'modest': Rival(run, ({}, hungry)), 'hungry': Rival(run, (hungry,))}\n"
    (tmp_path / "rivals_of_memory.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    measured = load("_rivals").measured
    assert measured("rivals_of_memory", "modest", tmp_path, tmp_path)["AUC"] == 0.5
    assert measured("rivals_of_memory", "hungry", tmp_path, tmp_path)["note"] == "needs more than 4 GiB"


def test_times_are_extrapolated_by_their_growth_and_said_to_be(load):
    own = [{"method": "ours", "columns": p, "CPU s": p / 1000} for p in (10_000, 20_000, 50_000)]
    (line,) = load("_rivals_page").extrapolated("_rivals_columns", own)
    assert line == "ours: CPU time grows as columns^1.00; with 1,340,000 columns, *extrapolated*, 1,340 s."
    assert load("_rivals_page").extrapolated("_rivals_columns", own[:2]) == []


def test_a_slower_commit_shows(load, tmp_path):
    page, rivals = load("_rivals_page"), load("rivals")
    first, second = (page.ratios_of(records(cpu, 1.0, 0.9, 0.8)) for cpu in (1.0, 1.3))
    assert page.slower(first, first) == []
    (line,) = page.slower(first, second)
    assert line == "slower than the run before: daskfs, MISSION / theirs, 10 rows: 1.3 where it was 1"
    for cpu in (1.0, 1.3):
        rivals.add_to_history(tmp_path / "history.jsonl", records(cpu, 1.0, 0.9, 0.8))
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [line["ratios"]["daskfs, MISSION / theirs, 10 rows"] for line in lines] == [1.0, 1.3]


def test_a_ratio_is_compared_with_the_last_run_that_has_it(load, tmp_path, capsys):
    """A run of another table in between does not hide that a commit is slower."""
    rivals, history = load("rivals"), tmp_path / "history.jsonl"
    rivals.add_to_history(history, records(1.0, 1.0, 0.9, 0.8))
    rivals.add_to_history(history, [])
    assert not capsys.readouterr().err
    rivals.add_to_history(history, records(1.3, 1.0, 0.9, 0.8))
    assert "1.3 where it was 1" in capsys.readouterr().err


def test_the_page_is_that_of_the_saved_numbers(load, tmp_path):
    """`python pipelines/benchmarks/rivals.py --draw` writes it anew."""
    saved = json.loads((ROOT / "docs" / "rivals.json").read_text("utf-8"))
    load("_rivals_page").write_page(saved, tmp_path / "rivals.md")
    assert (tmp_path / "rivals.md").read_text("utf-8") == (ROOT / "docs" / "rivals.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of few rows
@pytest.mark.parametrize(("task", "size"), [("_rivals_rows", 300), ("_rivals_columns", 80), ("_rivals_curves", 300)])
def test_every_rival_runs(load, tmp_path, task, size):
    """Each in this process, on a few rows: quality is none of its business."""
    module = load(task)
    module.write(tmp_path, size)
    for name, rival in module.RIVALS.items():
        if name != "skglm, LASSO path":  # an option that the tests do not install
            assert rival.run(tmp_path, **rival.settings[0]).scores, name
