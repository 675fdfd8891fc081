"""Text files that are read in place: rows, labels, names and errors are those of the ingested dataset."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import daskfs
from daskfs.engine.data import in_text
from daskfs.engine.data.in_text import open_text
from daskfs.errors import BadLineError, DatasetError, SourceError
from daskfs.store.in_text import InText
from daskfs.store.ingest import text_parts
from daskfs.store.ingest.formats import make_format
from daskfs.store.ingest.formats.label_kernels import copy_vw_labels
from daskfs.store.ingest.formats.vw_kernels import parse_vw
from daskfs.store.ingest.rows_kernels import rows_with_new_ids
from daskfs.store.ingest.sources import find_sources

LINES = {
    "vw": [
        "{} |f apple:2 pear:-.5 plum",
        "{} 2.5 row7| apple nut:1e-3 |g x^pear |g pear:3 pear:4",
        "  {}\t'tag |f pear   plum:7 \t",
        "{} |",
        "",
        "\r",
        "{} |f:2 été:.25 nut |h x|i y z\r",
        "{}|f\tapple\tkiwi:2|g\tfig",
        "{} |f " + " ".join(f"word{i}" for i in range(40)),
    ],
    "svmlight": [
        "{} 3:2 7:-.5 900:1",
        "  {}\t9223372036854775807:1 2:1e-3",
        "{} qid:7 5:1 5:2 # 9:1 |",
        "{}",
        "",
        "# 1 2:3",
        "{} 4:2\t5:6 \r",
        "{}\t812:1\t6:1# doc 999999999:1",
        "{}# 1000:1",
        "{} " + " ".join(f"{i}:1" for i in range(40, 0, -1)),
    ],
}


def opened(paths: list[Path], format: str) -> InText:
    return open_text(find_sources([str(path) for path in paths]), make_format(format, {}))


def rows_of(dataset: daskfs.Dataset) -> tuple[np.ndarray, ...]:
    """All rows of a dataset as arrays: lengths of rows, ids, values, labels, weights."""
    parts = [
        [np.diff(block.indptr), block.ids, block.values, block.y, np.ones(0) if block.weight is None else block.weight]
        for block in dataset.blocks()
        for block in [pickle.loads(pickle.dumps(block))]  # the memory of a block is reused
    ]
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def assert_same(text: daskfs.Dataset, dataset: daskfs.Dataset) -> None:
    for ours, theirs in zip(rows_of(text), rows_of(dataset), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert text.classes == dataset.classes
    assert (text.n_samples, text.meta.weighted) == (dataset.n_samples, dataset.meta.weighted)


@settings(deadline=None, max_examples=25)
@given(
    format=st.sampled_from(["vw", "svmlight"]),
    lines=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=40),
    words=st.booleans(),
    files=st.integers(1, 3),
    part_bytes=st.integers(20, 300),
    whole=st.booleans(),
    held=st.booleans(),
)
def test_rows_labels_and_names_are_those_of_the_dataset(format, lines, words, files, part_bytes, whole, held):
    labels = ["red", "green", "blue"] if words else ["-1", "1", "2"]
    texts = [LINES[format][kind % len(LINES[format])].format(labels[label]) for kind, label in lines]
    texts.insert(0, LINES[format][0].format(labels[0]))  # of which the kind of the labels is seen
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_parts, "PART_BYTES", part_bytes)
        patch.setattr(in_text, "HELD_BYTES", (1 << 20) * whole)
        paths = [Path(folder) / f"{number}.{format}" for number in range(files)]
        for number, path in enumerate(paths):
            path.write_text("\n".join(texts[number::files]) or "\n", newline="")
        dataset = daskfs.ingest(paths, Path(folder) / "rows.zarr", format, order="as-is")
        text = opened(paths, format)
        if not (whole or held):
            text.text._free = 0
        assert_same(text, dataset)
        assert_same(pickle.loads(pickle.dumps(text)), dataset)
        assert_same(text, dataset)  # now some blocks are in memory
        ids = np.unique(rows_of(dataset)[1])
        assert text.names(ids[::-1]) == dataset.names(ids[::-1])
        repeated = sum("pear:3 pear:4" in line or "5:1 5:2" in line for line in texts)  # in a row: counted twice
        assert dataset.n_entries <= text.n_entries <= dataset.n_entries + repeated * (not whole)
        assert text.n_features_is_limit == (format == "vw" and not whole)
        assert text.n_features == (text.n_entries if text.n_features_is_limit else dataset.n_features)
        assert text.attributes["max_id"] >= dataset.attributes["max_id"]
        np.testing.assert_array_equal(np.concatenate([*text.targets()]), np.concatenate([*dataset.targets()]))


def test_the_rows_held_back_are_those_of_a_split(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(2)} |f {' '.join(f'w{w}' for w in rng.integers(0, 50, 5))}" for _ in range(300)]
    (tmp_path / "a.vw").write_text("\n".join(lines))
    dataset = daskfs.ingest(tmp_path / "a.vw", tmp_path / "a.zarr", "vw")
    parts = daskfs.split(dataset, tmp_path / "train", tmp_path / "test", 0.2, seed=3)
    for text, part in zip(opened([tmp_path / "a.vw"], "vw").held_back(0.2, 3), parts, strict=True):
        assert_same(text, part)
        assert [block.first for block in text.blocks()] == [0]


@pytest.mark.parametrize("whole", [0, 1 << 20])
@pytest.mark.parametrize(
    ("format", "line", "reason"),
    [
        ("vw", "x |f a", "the label is not a number"),
        ("vw", "1 |f a:b", "the feature's value is not a number"),
        ("svmlight", "nan 1:1", "the label is NaN"),
        ("svmlight", "1 a:1", "the feature id is not a whole number"),
    ],
)
def test_a_bad_line_is_named(format, line, reason, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(text_parts, "PART_BYTES", 64)
    monkeypatch.setattr(in_text, "HELD_BYTES", whole)
    lines = ["1 |f a b" if format == "vw" else "1 1:1 2:2"] * 100
    lines[76] = line
    path = tmp_path / f"a.{format}"
    path.write_text("\n".join(lines))
    with pytest.raises(BadLineError, match=rf"a\.{format}:77: {reason}"):
        rows_of(opened([path], format))


def test_a_text_that_changes_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(in_text, "HELD_BYTES", 0)
    path = tmp_path / "a.vw"
    path.write_text("1 |f a\n" * 10)
    text = opened([path], "vw")
    path.write_text("1 |f a\n" * 11)
    with pytest.raises((SourceError, DatasetError), match=r"changed|when first read"):
        rows_of(text)


def test_the_parser_is_compiled_once(tmp_path, monkeypatch):
    """Names are read by the code that is compiled for blocks, although not from a window of a file."""
    monkeypatch.setattr(in_text, "HELD_BYTES", 0)
    (tmp_path / "a.vw").write_text("1 |f a\n0 |f b\n")
    text = opened([tmp_path / "a.vw"], "vw")
    assert text.names([block.ids[0] for block in text.blocks()]) == ["f^a"]
    assert {len(kernel.signatures) for kernel in (parse_vw, copy_vw_labels)} == {1}


def test_memory_that_no_block_fits_in_stays_free(tmp_path, monkeypatch):
    monkeypatch.setattr(text_parts, "PART_BYTES", 50)
    monkeypatch.setattr(in_text, "HELD_BYTES", 0)
    (tmp_path / "a.vw").write_text("1 |f a\n" * 20)
    text = opened([tmp_path / "a.vw"], "vw").text
    text._free = 0
    text._free = left = text.block(1, text.new_parser()).nbytes - 1
    text.block(1, text.new_parser())
    assert (text._free, list(text.held)) == (left, [])
    text._free += 1
    text.block(1, text.new_parser())
    assert (text._free, list(text.held)) == (0, [1])


@pytest.mark.parametrize("content", ["\n\n", "1 |\n0 |\n"])
def test_a_text_without_rows_or_features_is_an_error(content, tmp_path):
    (tmp_path / "a.vw").write_text(content)
    with pytest.raises(SourceError, match=r"no rows|no row has a feature"):
        opened([tmp_path / "a.vw"], "vw")


def test_a_feature_of_other_data_has_no_name(tmp_path):
    (tmp_path / "a.vw").write_text("1 |f a\n0 |f b\n")
    with pytest.raises(DatasetError, match="feature 12345 has no name here"):
        opened([tmp_path / "a.vw"], "vw").names([12345])


@pytest.mark.kernels
@pytest.mark.parametrize("n_wanted", [1, 7, 200])
def test_the_rows_where_features_come_in(n_wanted):
    rng = np.random.default_rng(n_wanted)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, 80))])
    ids = rng.integers(0, 300, indptr[-1]).astype(np.uint64) * np.uint64(1 << 40)  # the low bits are equal
    wanted = rng.permutation(300)[:n_wanted].astype(np.uint64) * np.uint64(1 << 40)
    rows = np.repeat(np.arange(80), np.diff(indptr))
    expected = sorted({int(rows[ids == feature][0]) for feature in wanted if feature in ids})
    assert rows_with_new_ids(indptr, ids, wanted).tolist() == expected
