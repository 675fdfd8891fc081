"""F16: an ingest that stops at any single operation on the store goes on to the very bytes it would have written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from faults.reading import files_of
from faults.samples import small_blocks, vw_lines

import daskfs
from daskfs.errors import DatasetError
from daskfs.store.places.location import Location


class Killed(BaseException):
    """Where a real process would have ended."""


class Operations:
    """Counts what is done to a store, and stops for good before operation `last`; a write stops half-way."""

    def __init__(self, last: int) -> None:
        self.last, self.count = last, 0

    def step(self) -> bool:
        self.count += 1
        return self.count >= self.last


@contextmanager
def dying(last: int) -> Iterator[Operations]:
    operations = Operations(last)
    write, move, delete = Location.write, Location.move, Location.delete

    def dying_write(self: Location, key: str, data: bytes) -> None:
        if operations.step():
            target = self.path / key
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(f"{target.name}.00000000.part").write_bytes(bytes(data[: len(data) // 2]))
            raise Killed
        write(self, key, data)

    def dying_move(self: Location, key: str, target: str) -> None:
        if operations.step():
            raise Killed
        move(self, key, target)

    def dying_delete(self: Location, key: str) -> None:
        if operations.step():
            if (self.path / key).is_dir():  # cut short in the middle, too
                shutil.rmtree(next(iter(sorted((self.path / key).iterdir()))), ignore_errors=True)
            raise Killed
        delete(self, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Location, "write", dying_write)
        patch.setattr(Location, "move", dying_move)
        patch.setattr(Location, "delete", dying_delete)
        yield operations


def svmlight_lines(rows: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    return "".join(
        f"{rng.integers(0, 3)} " + " ".join(f"{i}:{rng.normal():.3f}" for i in rng.integers(0, 90, 6)) + "\n"
        for _ in range(rows)
    )


def csv_lines(rows: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    return "y,a,b,c\n" + "".join(
        f"{rng.integers(0, 2)},{rng.normal():.3f},{rng.normal():.3f},{row}.5\n" for row in range(rows)
    )


SOURCES = {
    "svmlight": (svmlight_lines, {}),
    "vw": (vw_lines, {}),
    "csv": (csv_lines, {"label": "y", "table": "dense", "layout": "both"}),
}


class Ingest:
    """One ingest of a few small files, cut into several pieces."""

    def __init__(
        self, folder: Path, kind: str, files: dict[str, str] | None = None, options: dict[str, str] | None = None
    ) -> None:
        self.lines, usual = SOURCES[kind]
        self.kind, self.folder, self.options = kind, folder, usual if options is None else options
        for name, text in (files or {f"{i}.txt": self.lines(rows, i) for i, rows in enumerate((7, 3, 5))}).items():
            (folder / name).write_text(text)

    def run(self, name: str = "out.zarr", **more) -> Path:
        out = self.folder / name
        with small_blocks(entries=24, part_bytes=200):
            daskfs.ingest(self.folder / "*.txt", out, self.kind, workers=1, **self.options, **more)
        return out

    def killed_at(self, last: int, **more) -> bool:
        """True if it was killed; False if it had fewer operations than that."""
        with dying(last):
            try:
                self.run(**more)
            except Killed:
                return True
        return False

    def check_does_not_open_half_written(self, expected: dict[str, bytes]) -> None:
        out = self.folder / "out.zarr"
        if (out / "zarr.json").exists():
            written = files_of(out)
            assert {name: written[name] for name in expected} == expected
        else:
            with pytest.raises(DatasetError, match=r"incomplete|no dataset here"):
                daskfs.open_dataset(out)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_f16_killed_at_every_operation_and_resumed(tmp_path, kind):
    ingest = Ingest(tmp_path, kind)
    expected = files_of(ingest.run("whole.zarr"))
    last = 0
    while ingest.killed_at(last := last + 1):
        ingest.check_does_not_open_half_written(expected)
        assert files_of(ingest.run()) == expected, f"killed at operation {last}"
        shutil.rmtree(tmp_path / "out.zarr")
    assert last > 30


@pytest.mark.parametrize("kind", SOURCES)
def test_f16_killed_again_and_again(tmp_path, kind):
    """Each run gets a little further than the one before; what the earlier ones did is kept."""
    ingest = Ingest(tmp_path, kind)
    expected = files_of(ingest.run("whole.zarr"))
    runs = 0
    while ingest.killed_at(last=5 * (runs := runs + 1)):
        ingest.check_does_not_open_half_written(expected)
    assert runs > 3
    assert files_of(tmp_path / "out.zarr") == expected


ARRAYS = {
    "numpy": lambda: np.random.default_rng(0).normal(size=(12, 6)),
    "scipy": lambda: sp.random_array((12, 90), density=0.3, rng=0),
    "dask": lambda: da.from_array(np.random.default_rng(0).normal(size=(12, 6)), chunks=(5, 4)),
}


def check_nothing_opens_half(out: Path, *states: dict[str, bytes]) -> None:
    """What stands there does not open, or is one of the datasets in full."""
    files = files_of(out)
    if "zarr.json" in files:
        (state,) = [state for state in states if state["zarr.json"] == files["zarr.json"]]
        assert {name: files.get(name) for name in state} == state
    else:
        with pytest.raises(DatasetError, match=r"incomplete|no dataset here"):
            daskfs.open_dataset(out)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["svmlight", "csv"])
def test_f16_killed_at_every_operation_of_an_overwrite(tmp_path, kind):
    """What was there stays whole until it goes; the same command finishes."""
    ingest = Ingest(tmp_path, kind)
    expected = files_of(ingest.run("whole.zarr"))
    (tmp_path / "old.svm").write_text(svmlight_lines(9, 9))
    daskfs.ingest(tmp_path / "old.svm", tmp_path / "old.zarr", "svmlight")
    old = files_of(tmp_path / "old.zarr")
    last, again = 0, True
    while again:
        shutil.copytree(tmp_path / "old.zarr", tmp_path / "out.zarr")
        again = ingest.killed_at(last := last + 1, overwrite=True)
        check_nothing_opens_half(tmp_path / "out.zarr", old, expected)
        assert files_of(ingest.run(overwrite=True)) == expected, f"killed at operation {last}"
        shutil.rmtree(tmp_path / "out.zarr")
    assert last > 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numpy", "scipy", "dask"])
def test_f16_write_dataset_killed_at_every_operation_of_an_overwrite(tmp_path, kind):
    X, y = ARRAYS[kind](), np.arange(12) % 2
    daskfs.write_dataset(tmp_path / "old.zarr", np.eye(5), np.arange(5), layout="both", chunk_bytes=100)
    daskfs.write_dataset(tmp_path / "whole.zarr", X, y, chunk_bytes=200)
    old, expected = files_of(tmp_path / "old.zarr"), files_of(tmp_path / "whole.zarr")
    last, killed = 0, True
    while killed:
        killed = False
        shutil.copytree(tmp_path / "old.zarr", tmp_path / "out.zarr")
        with dying(last := last + 1):
            try:
                daskfs.write_dataset(tmp_path / "out.zarr", X, y, chunk_bytes=200, overwrite=True)
            except Killed:
                killed = True
        check_nothing_opens_half(tmp_path / "out.zarr", old, expected)
        daskfs.write_dataset(tmp_path / "out.zarr", X, y, chunk_bytes=200, overwrite=True)
        assert files_of(tmp_path / "out.zarr") == expected, f"killed at operation {last}"
        shutil.rmtree(tmp_path / "out.zarr")
    assert last > 20


@pytest.mark.slow_but_first
@pytest.mark.parametrize("changed", [0, 2])
@pytest.mark.parametrize("rows", [2, 7, 20])
@pytest.mark.parametrize("kind", SOURCES)
def test_f16_a_source_that_changes_before_the_resume_is_parsed_again(tmp_path, kind, rows, changed):
    ingest = Ingest(tmp_path, kind)
    source = tmp_path / f"{changed}.txt"
    before, after = source.read_text(), ingest.lines(rows, seed=77)
    source.write_text(after)
    expected = without_content(files_of(ingest.run("whole.zarr")))
    last, again = 0, True
    while again:
        source.write_text(before)
        again = ingest.killed_at(last := last + 9)
        source.write_text(after)
        finished = (tmp_path / "out.zarr" / "zarr.json").exists()
        if finished:  # then it is a dataset like any other, and not replaced without a word
            with pytest.raises(DatasetError, match="overwrite"):
                ingest.run()
        assert without_content(files_of(ingest.run(overwrite=finished))) == expected, f"killed at operation {last}"
        shutil.rmtree(tmp_path / "out.zarr")


def without_content(files: dict[str, bytes]) -> dict[str, bytes]:
    """Files without the note of the sources' times of change."""
    lines = files["zarr.json"].splitlines()
    return files | {"zarr.json": b"\n".join(line for line in lines if b'"content"' not in line)}


OTHER_PLANS = {
    "longer rows": ("svmlight", "1 2:3\n" * 9, "1 " + " ".join(f"{i}:1" for i in range(40)) + "\n"),
    "longer rows, for other files, too": ("vw", "red |n a\n" * 9, "blue |n " + " ".join("abcdefghij") + "\n"),
    "words for numbers": ("svmlight", "1 2:3\n" * 9, "yes 2:3\nno 4:5\n" * 4),
    "other columns": ("csv", "y,a,b\n1,2,3\n" + 9 * "0,4,5\n", "y,a,c,d\n1,2,3,9\n" + 9 * "0,4,5,8\n"),
    "words for a column": ("csv", "y,a,b\n1,2,3\n" + 9 * "0,4,5\n", "y,a,b\n1,2,x\n" + 9 * "0,4,z\n"),
}


@pytest.mark.slow_but_first
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize(("kind", "before", "after"), OTHER_PLANS.values(), ids=OTHER_PLANS)
def test_f16_a_source_that_changes_so_that_another_plan_is_right(tmp_path, kind, before, after, share):
    files = {"0.txt": before} | {f"{i}.txt": vw_lines(4, i) for i in (1, 2) if kind == "vw"}
    ingest = Ingest(tmp_path, kind, files, {"label": "y"} if kind == "csv" else {})
    with dying(10**9) as operations:
        ingest.run("counted.zarr")
    assert ingest.killed_at(max(1, int(share * operations.count)))
    (tmp_path / "0.txt").write_text(after)
    expected = files_of(ingest.run("whole.zarr"))
    assert files_of(ingest.run(overwrite=(tmp_path / "out.zarr" / "zarr.json").exists())) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("share", [0.4, 0.7, 0.85])
def test_f16_killed_while_another_ingest_is_dropped(tmp_path, kind, share):
    """What is half deleted, staged or published, is not taken for whole by the one it belonged to."""
    ingest = Ingest(tmp_path, kind)
    with dying(10**9) as operations:
        expected = files_of(ingest.run("whole.zarr"))
    for last in range(1, 14):
        assert ingest.killed_at(int(share * operations.count))
        assert ingest.killed_at(last, overwrite=True, compression="zstd")
        plan = tmp_path / "out.zarr" / "_unfinished" / "plan.json"
        other_has_begun = plan.exists() and "zstd" in plan.read_text()
        assert files_of(ingest.run(overwrite=other_has_begun)) == expected, f"killed at operation {last}"
        shutil.rmtree(tmp_path / "out.zarr")


def test_f16_a_source_that_changes_and_changes_back(tmp_path):
    """Pieces of the other state, half staged over the first ones, are not taken for them."""
    ingest = Ingest(tmp_path, "svmlight")
    source = tmp_path / "0.txt"
    before, times = source.read_text(), (source.stat().st_atime_ns, source.stat().st_mtime_ns)
    expected = files_of(ingest.run("whole.zarr"))
    assert ingest.killed_at(12)  # when something is staged
    for other in range(2, 12):
        source.write_text(svmlight_lines(14, seed=78))
        assert ingest.killed_at(other)
        source.write_text(before)
        os.utime(source, ns=times)
        shutil.copytree(tmp_path / "out.zarr", tmp_path / "copy.zarr")
        assert files_of(ingest.run()) == expected, f"killed at operation {other}"
        shutil.rmtree(tmp_path / "out.zarr")
        (tmp_path / "copy.zarr").rename(tmp_path / "out.zarr")


@pytest.mark.parametrize(
    "options", [{"on_bad_line": "skip"}, {"compression": "zstd"}, {"labels": "strings"}], ids=lambda o: next(iter(o))
)
@pytest.mark.parametrize("last", [3, 15, 40])
def test_f16_an_unfinished_ingest_with_other_options_is_refused(tmp_path, last, options):
    ingest = Ingest(tmp_path, "svmlight")
    assert ingest.killed_at(last)
    before = files_of(tmp_path / "out.zarr")
    with pytest.raises(DatasetError, match="unfinished ingest of other sources or options"):
        ingest.run(**options)
    assert files_of(tmp_path / "out.zarr") == before
    assert files_of(ingest.run()) == files_of(ingest.run("whole.zarr"))


def test_f16_an_unfinished_ingest_of_other_sources_is_refused(tmp_path):
    ingest = Ingest(tmp_path, "svmlight")
    assert ingest.killed_at(15)
    (tmp_path / "3.txt").write_text("1 2:3\n")
    with pytest.raises(DatasetError, match="unfinished ingest of other sources or options"):
        ingest.run()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ARRAYS)
def test_f16_write_dataset_killed_at_every_operation(tmp_path, kind):
    def write(name: str) -> None:
        names = [f"c{i}" for i in range(X.shape[1])]
        with small_blocks():
            daskfs.write_dataset(tmp_path / name, X, np.arange(12) % 2, names, "both", chunk_bytes=200)

    X = ARRAYS[kind]()
    write("whole.zarr")
    expected = files_of(tmp_path / "whole.zarr")
    last, killed = 0, True
    while killed:
        killed = False
        with dying(last := last + 1):
            try:
                write("out.zarr")
            except Killed:
                killed = True
        if not (tmp_path / "out.zarr" / "zarr.json").exists():
            with pytest.raises(DatasetError, match=r"incomplete|no dataset here"):
                daskfs.open_dataset(tmp_path / "out.zarr")
            write("out.zarr")
            assert files_of(tmp_path / "out.zarr") == expected, f"killed at operation {last}"
        shutil.rmtree(tmp_path / "out.zarr")
    assert last > 20
