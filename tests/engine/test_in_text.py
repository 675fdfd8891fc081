"""Selections straight from text: the same features, weights and names as from the dataset of the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from toy_runs import local_cluster

import daskfs
from daskfs.cli import main
from daskfs.engine.data import in_text
from daskfs.engine.data.in_text import open_text
from daskfs.selection.selection import Selection
from daskfs.store.in_text import InText
from daskfs.store.ingest import text_parts
from daskfs.store.ingest.formats import make_format
from daskfs.store.ingest.sources import find_sources

MISSION = daskfs.Mission(10, width=256)


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """VW text of 3,000 rows, cut into many blocks; words 0 to 9 decide the label."""
    monkeypatch.setattr(text_parts, "PART_BYTES", 10_000)
    rng, lines = np.random.default_rng(0), []
    for _ in range(3000):
        words = np.unique(rng.zipf(1.3, 12) % 500)
        label = 1 if (words < 10).sum() > 2 else -1
        lines.append(f"{label} {rng.integers(1, 3)} |f {' '.join(f'word{w}:{rng.random():.3f}' for w in words)}")
    file = tmp_path / "rows.vw"
    file.write_text("\n".join(lines))
    return file


def opened(path: Path, format: str = "vw") -> InText:
    return open_text(find_sources([str(path)]), make_format(format, {}))


def assert_equal(one: Selection, other: Selection) -> None:
    assert one.names == other.names
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.importance, other.importance)


@pytest.mark.parametrize("whole", [0, 1 << 24])
@pytest.mark.parametrize("refit", [0, 2, "auto"])
def test_the_selection_is_that_of_the_dataset(path, refit, whole, monkeypatch):
    monkeypatch.setattr(in_text, "HELD_BYTES", whole)
    algorithm = daskfs.Mission(10, width=256, refit=refit)
    dataset = daskfs.ingest(path, path.with_suffix(".zarr"), "vw")
    text = opened(path)
    assert text.n_blocks() > 10
    assert_equal(daskfs.select(text, algorithm), daskfs.select(dataset, algorithm))


ODD_LINES = {
    "vw": [
        "{0} |f {1}",
        "{0}|f\t{2}",
        "  {0} 2 row7|a {1}|f {1}\r",
        "{0} 'tag |f:2 {1} |g x^y  {1}\t",
        "{0} |",
        "",
    ],
    "svmlight": [
        "{0} {1}",
        "{0}\t{2}",
        "  {0} qid:3 {1} # doc 999999999:1\r",
        "# {0} 888888888:1",
        "{0}# 777777777:1",
        "",
    ],
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("format", ["vw", "svmlight"])
def test_odd_lines_give_the_selection_of_the_dataset(format, seed, tmp_path, monkeypatch):
    """Ids are unsorted; separators, comments, tags, weights and namespaces differ from line to line."""
    monkeypatch.setattr(text_parts, "PART_BYTES", 5000)
    monkeypatch.setattr(in_text, "HELD_BYTES", 0)
    rng, lines = np.random.default_rng(seed), []
    for _ in range(600):
        ids = rng.choice(300, 12, replace=False) + 1
        features = [f"{i}:{rng.random():.3f}" for i in ids]
        label = 1 if (ids < 30).any() else -1
        form = ODD_LINES[format][rng.integers(6)]
        lines.append(form.format(label, " ".join(features), "\t".join(features)))
    path = tmp_path / f"rows.{format}"
    path.write_text("\n".join(lines), newline="")
    dataset = daskfs.ingest(path, tmp_path / "rows.zarr", format, order="as-is")
    assert_equal(daskfs.select(opened(path, format), MISSION), daskfs.select(dataset, MISSION))


def test_a_path_is_read_in_place(path, monkeypatch):
    dataset = daskfs.ingest(path, path.with_suffix(".zarr"), "vw")
    monkeypatch.setattr("daskfs.job.anything.ingest", lambda *_, **__: pytest.fail("a dataset is written"))
    selection = daskfs.select(path, MISSION)
    assert_equal(selection, daskfs.select(dataset, MISSION))
    assert selection.source["url"] == str(path)


@pytest.mark.parametrize("lines", ["sorted", "mixed"])
def test_sorted_labels_are_written_in_random_order(path, lines):
    text = path.read_text().splitlines()
    path.write_text("\n".join(sorted(text) if lines == "sorted" else text))
    algorithm = daskfs.Mission(10, width=256)
    dataset = daskfs.ingest(path, path.with_suffix(".zarr"), "vw")
    assert_equal(daskfs.select(path, algorithm), daskfs.select(dataset, algorithm))


@pytest.mark.slow
def test_workers_parse_text(path, monkeypatch):
    monkeypatch.setattr(in_text, "HELD_BYTES", 0)
    monkeypatch.setattr("daskfs.engine.run.n_shards_for", lambda *_: 2)
    text = opened(path)
    with local_cluster(2, processes=True) as client:
        assert opened(path).classes == text.classes
        assert_equal(daskfs.select(text, MISSION, client=client), daskfs.select(text, MISSION))


def test_the_command_writes_no_dataset(path, tmp_path):
    out = tmp_path / "out"
    command = ["select", str(path), "-k", "10", "-a", "mission", "--width", "256", "--out"]
    runs = [
        CliRunner().invoke(main, arguments)
        for arguments in (
            [*command, str(out)],
            [*command, str(out)],
            [*command, str(tmp_path / "copy"), "--set", "ingest.in_place=false"],
        )
    ]
    assert [run.exit_code for run in runs] == [0, 0, 0]
    assert "read in place" in runs[0].stderr
    assert "select: there already" in runs[1].stderr
    assert not (out / "data").exists()
    assert (tmp_path / "copy" / "data").exists()
    first, again, copied = (run.stdout.split("report:")[0] for run in runs)
    assert first == again == copied
