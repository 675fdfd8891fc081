"""Checkpoints: resuming is not interrupting, at any block; and no checkpoint is taken for one of another run."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from toy_algorithms import LargestColumns, Tangled, TangledState
from toy_runs import KINDS, Stop, always_due, check_same, small_dataset, stopping_after, tangled

import daskfs
from daskfs.engine.checkpoint import Checkpoint, PassCost, Snapshot
from daskfs.errors import CheckpointError, DatasetError, OptionError
from daskfs.store.dataset.container import read_container, write_container
from daskfs.store.places.location import Location

__all__ = ["always_due"]
PASSES = 3


@pytest.mark.slow_but_first
@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stopped_at_any_block_resumes_to_the_same_bits(tmp_path, kind):
    dataset, algorithm = small_dataset(tmp_path / "d", kind), tangled(kind, passes=PASSES, revisits=kind == "columns")
    expected = daskfs.select(dataset, algorithm, seed=5)
    for events in range(1, PASSES * dataset.n_blocks() + 1):
        with pytest.raises(Stop):
            daskfs.select(dataset, algorithm, seed=5, checkpoint=tmp_path / "c", progress=stopping_after(events))
        resumed = []
        given = daskfs.select(
            dataset, algorithm, seed=5, checkpoint=tmp_path / "c", resume=True, progress=resumed.append
        )
        check_same(given, expected)
        # The event comes before the checkpoint, so that one block is read again; at an end of a pass nothing else.
        assert len(resumed) == PASSES * dataset.n_blocks() - events + 1


@pytest.mark.usefixtures("always_due")
def test_a_run_may_be_stopped_many_times(tmp_path):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled()
    expected = daskfs.select(dataset, algorithm)
    for stops in range(100):
        try:
            given = daskfs.select(
                dataset, algorithm, checkpoint=tmp_path / "c", resume=True, progress=stopping_after(4)
            )
        except Stop:
            continue
        check_same(given, expected)
        assert stops > 10
        return
    raise AssertionError("no progress")


def test_without_time_passing_only_ends_of_passes_are_kept(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(Checkpoint, "write", lambda self, now: written.append((now.stage, now.passes, now.position)))
    daskfs.select(small_dataset(tmp_path / "d"), Tangled(passes=2), checkpoint=tmp_path / "c")
    assert written == [("passes", 0, 0), ("passes", 1, 0), ("revisit", 2, 0), ("finished", 2, 0)]


def test_time_makes_a_checkpoint_due(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("daskfs.engine.checkpoint.monotonic", lambda: now[0])
    checkpoint = Checkpoint(Location(tmp_path), {})
    assert not checkpoint.is_due()
    now[0] = 30.0
    assert checkpoint.is_due()
    checkpoint.write(Snapshot(None))
    assert not checkpoint.is_due()


def test_a_finished_run_returns_at_once(tmp_path):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(revisits=True)
    expected = daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c")
    shutil.rmtree(tmp_path / "d" / "X")  # nothing of it is read again
    given = daskfs.select(tmp_path / "d", algorithm, checkpoint=tmp_path / "c", resume=True)
    check_same(given, expected)
    assert given.history.identical(expected.history)  # not even the seconds differ


def test_there_is_one_file_and_it_holds_no_pickle(tmp_path):
    daskfs.select(small_dataset(tmp_path / "d"), Tangled(), checkpoint=tmp_path / "c")
    (file,) = (tmp_path / "c").iterdir()
    assert file.read_bytes().startswith(b"daskfs record 1 ")
    about, values = read_container(Location(tmp_path / "c"), "checkpoint")
    assert about["of"]["algorithm"] == {"name": "Tangled"} | vars(Tangled())
    assert values["state.motto"] == "a ≠ b"
    assert len(values["seconds"]) == 4


def test_resume_without_a_checkpoint_starts(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    check_same(
        daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c", resume=True), daskfs.select(dataset, Tangled())
    )


def test_without_resume_a_checkpoint_is_replaced(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c", seed=1)
    given = daskfs.select(dataset, Tangled(passes=1), checkpoint=tmp_path / "c", seed=2)
    check_same(given, daskfs.select(dataset, Tangled(passes=1), seed=2))
    check_same(daskfs.select(dataset, Tangled(passes=1), checkpoint=tmp_path / "c", seed=2, resume=True), given)


OTHERS = {
    "seed": (Tangled(), 8, "seed=7, now 8"),
    "a field": (Tangled(n_select=4), 7, "n_select=3, now 4"),
    "two fields": (Tangled(n_select=4, passes=9), 7, "n_select=3, now 4; passes=3, now 9"),
    "algorithm": (LargestColumns(3), 7, "'Tangled', now 'LargestColumns'"),
}


@pytest.mark.parametrize(("algorithm", "seed", "said"), OTHERS.values(), ids=OTHERS)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, algorithm, seed, said):
    dataset = small_dataset(tmp_path / "d")
    daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c", seed=7)
    with pytest.raises(CheckpointError) as caught:
        daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", seed=seed, resume=True)
    assert str(caught.value).startswith(f"{tmp_path}/c: the checkpoint is of another run: {said}; start over")


def test_fields_of_numpy_and_tuples_are_recognised(tmp_path):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(n_select=np.int64(3), seconds=(0, 0)[0])
    daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c")
    daskfs.select(dataset, Tangled(n_select=3, seconds=0), checkpoint=tmp_path / "c", resume=True)


def test_a_place_that_cannot_be_written_shows_before_anything_is_read(tmp_path):
    (tmp_path / "c").write_text("in the way")
    events = []
    with pytest.raises(CheckpointError, match=r"/c: no place for a checkpoint"):
        daskfs.select(small_dataset(tmp_path / "d"), Tangled(), checkpoint=tmp_path / "c", progress=events.append)
    assert events == []


def test_a_second_run_at_the_same_place_is_refused(tmp_path):
    dataset, said = small_dataset(tmp_path / "d"), []

    def another(event: object) -> None:
        if not said:
            with pytest.raises(DatasetError, match="another process is writing here") as caught:
                daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c")
            said.append(caught.value)

    given = daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c", progress=another)
    assert said
    check_same(given, daskfs.select(dataset, Tangled()))


def test_what_a_killed_run_left_half_written_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "checkpoint.0badcafe.part").write_text("half")
    (tmp_path / "c" / "other.0badcafe.part").write_text("of somebody else")
    daskfs.select(small_dataset(tmp_path / "d"), Tangled(), checkpoint=tmp_path / "c")
    assert sorted(file.name for file in (tmp_path / "c").iterdir()) == ["checkpoint", "other.0badcafe.part"]


def test_a_checkpoint_may_be_anywhere_fsspec_reaches(tmp_path):
    dataset, place = small_dataset(tmp_path / "d"), "memory://checkpoints/a"
    expected = daskfs.select(dataset, Tangled())
    with pytest.raises(Stop):
        daskfs.select(dataset, Tangled(), checkpoint=place, progress=stopping_after(30))
    resumed = []
    check_same(daskfs.select(dataset, Tangled(), checkpoint=place, resume=True, progress=resumed.append), expected)
    assert len(resumed) == dataset.n_blocks()  # two passes were kept


def test_a_checkpoint_in_object_storage(s3, tmp_path):
    dataset, options = small_dataset(tmp_path / "d"), {"checkpoint": s3.url("c"), "storage_options": s3.options}
    with pytest.raises(Stop):
        daskfs.select(dataset, Tangled(), **options, progress=stopping_after(30))
    resumed = []
    given = daskfs.select(dataset, Tangled(), **options, resume=True, progress=resumed.append)
    check_same(given, daskfs.select(dataset, Tangled()))
    assert len(resumed) == dataset.n_blocks()


@pytest.mark.parametrize("value", [{1, 2}, {"a": 1}, (1, 2), 1j])
def test_a_state_that_cannot_be_stored_is_refused_at_once(tmp_path, value):
    class Untidy(Tangled):
        def start(self, meta, seed):
            return replace(super().start(meta, seed), motto=value)

    with pytest.raises(TypeError, match=r"'state\.motto' is a " + type(value).__name__):
        daskfs.select(small_dataset(tmp_path / "d"), Untidy(), checkpoint=tmp_path / "c")


def test_resume_needs_a_place(tmp_path):
    with pytest.raises(OptionError, match="without a checkpoint"):
        daskfs.select(small_dataset(tmp_path / "d"), Tangled(), resume=True)


def test_seconds_of_a_pass_are_summed_over_interruptions(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.engine.checkpoint.EVERY_SECONDS", 0.0)
    dataset = small_dataset(tmp_path / "d")
    with pytest.raises(Stop):
        daskfs.select(dataset, Tangled(passes=1, seconds=0.02), checkpoint=tmp_path / "c", progress=stopping_after(10))
    at_stop = Checkpoint(Location(tmp_path / "c"), {})
    monkeypatch.setattr("daskfs.engine.checkpoint._differences", lambda *_: [])
    assert (kept := at_stop.read(TangledState)) is not None
    assert kept.costs[-1].seconds >= 9 * 0.02
    assert kept.costs[-1].bytes == int(dataset.block_sizes()[:9].sum())
    assert kept.costs == [PassCost(kept.costs[-1].seconds, kept.costs[-1].bytes)]
    after = daskfs.select(dataset, Tangled(passes=1, seconds=0.02), checkpoint=tmp_path / "c", resume=True)
    assert after.history.seconds.values[0] >= kept.costs[-1].seconds + (dataset.n_blocks() - 9) * 0.02


@pytest.mark.parametrize("spent", [np.zeros((2, 2)), np.full((2, 5), np.inf), np.zeros(2), np.full((2, 5), np.nan)])
def test_times_that_are_none_are_refused(tmp_path, spent):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled()
    with pytest.raises(Stop):
        daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", progress=stopping_after(2 * dataset.n_blocks()))
    place = Location(tmp_path / "c")
    about, values = read_container(place, "checkpoint")
    write_container(place, "checkpoint", about, {**values, "spent": spent})
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", resume=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("state.another", 1.0), ("state.sets", 0), ("state.sets", -1), ("state.sets/0/ridge", "high")],
    ids=["a name of another version", "fewer sets than there are", "less than none", "text for a number"],
)
def test_a_state_with_other_values_is_refused(tmp_path, name, value):
    dataset, place = small_dataset(tmp_path / "d"), Location(tmp_path / "c")
    algorithm = daskfs.OnlineSubstitution(3, ridge=0.1, passes=1)
    daskfs.select(dataset, algorithm, checkpoint=place.path)
    about, values = read_container(place, "checkpoint")
    write_container(place, "checkpoint", about, {**values, name: value})
    with pytest.raises(CheckpointError, match="not a checkpoint as daskfs writes them; start over"):
        daskfs.select(dataset, algorithm, checkpoint=place.path, resume=True)
