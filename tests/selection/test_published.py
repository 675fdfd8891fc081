"""The pointer to the run that counts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from selections import selection_of

import daskfs
from daskfs.errors import SelectionError
from daskfs.selection.run_folder import publish, resolve_run
from daskfs.store.places.location import Location


@pytest.fixture
def job(tmp_path) -> Path:
    for name, features in {"old": [3, 1], "new": [5]}.items():
        selection_of(features).save(tmp_path / f"job/runs/{name}")
    return tmp_path / "job"


def pointed(job: Path, run: str, to: str = "published.json") -> bool:
    return publish(Location(job / to), Location(job / f"runs/{run}"), ["selection.json"], "clicks")


def test_a_job_is_the_run_it_has_published(job):
    assert pointed(job, "old")
    assert daskfs.load_selection(job).features.tolist() == [3, 1]
    assert pointed(job, "new")
    assert daskfs.load_selection(job).features.tolist() == [5]
    assert not pointed(job, "new")  # as it was
    record = json.loads((job / "published.json").read_text())
    digest = hashlib.sha256((job / "runs/new/selection.json").read_bytes()).hexdigest()
    assert record == {"files": {"selection.json": digest}, "job": "clicks", "run": "runs/new", "version": 1}


def test_a_pointer_in_another_place(job, tmp_path):
    pointed(job, "old", "../served/clicks.json")
    assert daskfs.load_selection(tmp_path / "served/clicks.json").features.tolist() == [3, 1]


@pytest.mark.parametrize("to", ["./published.json", "../job/published.json", "runs/../runs/it.json", "../link/it.json"])
def test_other_spellings_of_the_place(job, tmp_path, to):
    (tmp_path / "link").symlink_to(job)
    publish(Location(f"{job}/{to}"), Location(f"{job}/runs/new"), ["selection.json"], "clicks")
    assert daskfs.load_selection(f"{job}/{to}").features.tolist() == [5]


def test_a_job_may_move(job, tmp_path):
    pointed(job, "old")
    job.rename(tmp_path / "elsewhere")
    assert daskfs.load_selection(tmp_path / "elsewhere").features.tolist() == [3, 1]


def test_a_run_is_itself(job):
    run = Location(job / "runs/old")
    assert resolve_run(run) == run
    assert daskfs.load_selection(run.url).features.tolist() == [3, 1]


@pytest.mark.parametrize(
    "raw", ["{", "[]", "null", '{"version": 2, "run": "x"}', '{"version": 1}', '{"version": 1, "run": "../../x"}']
)
def test_what_points_nowhere(job, raw):
    (job / "published.json").write_text(raw)
    with pytest.raises(SelectionError, match=r"published\.json: does not point to a run .*; run the job again"):
        daskfs.load_selection(job)


def test_no_pointer(job):
    with pytest.raises(SelectionError, match="no selection here"):
        daskfs.load_selection(job)
    with pytest.raises(SelectionError, match=r"none\.json: cannot be read"):
        daskfs.load_selection(job / "none.json")
