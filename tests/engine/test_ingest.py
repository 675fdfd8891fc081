"""ingest: the same dataset whoever parses it, resumable, refusing what it should."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest

import daskfs
import daskfs.engine.data.ingest
from daskfs.engine.data.ingest import IngestProgress
from daskfs.engine.memory import IngestMemory
from daskfs.errors import BadLineError, DatasetError, OptionError, SourceError
from daskfs.store.dataset.names_kernels import name_list
from daskfs.store.ingest.formats import FORMATS
from daskfs.store.ingest.staging import SparsePieceWriter


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def sources(tmp_path, monkeypatch) -> list[Path]:
    """A few VW files, plain and compressed, and parts so small that each gives several pieces."""
    monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", 4000)
    rng = np.random.default_rng(0)
    paths = []
    for number in range(3):
        lines = [
            f"{rng.choice(['cat', 'dog', 'eel'][: number + 1])} |w "
            + " ".join(f"w{i}:{rng.integers(1, 9)}" for i in rng.integers(0, 500, rng.integers(1, 30)))
            for _ in range(200)
        ]
        text = "\n".join(lines).encode()
        path = tmp_path / f"part-{number}.vw"
        if number == 1:
            path = path.with_suffix(".vw.gz")
            text = gzip.compress(text)
        path.write_bytes(text)
        paths.append(path)
    return paths


def test_a_cluster_writes_the_same_bytes_as_threads(tmp_path, sources, two_workers):
    for name, where in {"one": {"workers": 1}, "three": {"workers": 3}, "cluster": {"client": two_workers}}.items():
        daskfs.ingest(sources, tmp_path / name, "vw", order="as-is", **where)
    one = files_of(tmp_path / "one")
    assert one == files_of(tmp_path / "three")
    assert one == files_of(tmp_path / "cluster")
    assert len([key for key in one if key.startswith("ids/c/")]) > 3


def test_a_worker_stages_every_name_once(tmp_path, sources, monkeypatch):
    staged = []
    take = SparsePieceWriter.take_names
    monkeypatch.setattr(
        SparsePieceWriter, "take_names", lambda self, names: (staged.extend(name_list(names)), take(self, names))
    )
    ds = daskfs.ingest(sources, tmp_path / "x.zarr", "vw", workers=1)
    assert len(staged) == len(set(staged)) == ds.n_features


@pytest.mark.slow_but_first
@pytest.mark.parametrize("memory", [1, 1 << 12, 1 << 25], ids=["a few names", "some", "all"])
@pytest.mark.parametrize("most_runs", [1, 32])
def test_however_many_names_a_worker_knows_all_come_back(tmp_path, sources, monkeypatch, memory, most_runs):
    monkeypatch.setattr("daskfs.store.ingest.rows.MOST_RUNS", most_runs)
    expected = files_of(Path(daskfs.ingest(sources, tmp_path / "whole", "vw", workers=1).url))
    plan = replace(IngestMemory.of(None, 2), names_bytes=memory)
    monkeypatch.setattr(IngestMemory, "of", lambda *_: plan)
    assert files_of(Path(daskfs.ingest(sources, tmp_path / "x.zarr", "vw").url)) == expected


@pytest.mark.parametrize("lost", [0, 3])
def test_names_of_a_piece_that_was_parsed_twice(tmp_path, sources, monkeypatch, lost):
    """As Dask does when it loses a worker: others rely on the first attempt, which is no part of the dataset."""
    expected = files_of(Path(daskfs.ingest(sources, tmp_path / "whole", "vw", workers=1).url))
    stage, calls = daskfs.engine.data.ingest.stage_piece, []

    def twice(job, work):
        calls.append(work.number)
        if calls == list(range(lost + 1)):
            stage(job, work)
        return stage(job, work)

    monkeypatch.setattr("daskfs.engine.data.ingest.stage_piece", twice)
    assert files_of(Path(daskfs.ingest(sources, tmp_path / "x.zarr", "vw", workers=1).url)) == expected
    assert len(calls) == 2 * len(set(calls)) - lost


def test_names_of_a_piece_that_is_gone_before_a_resume(tmp_path, sources, monkeypatch):
    expected = files_of(Path(daskfs.ingest(sources, tmp_path / "whole", "vw", workers=1).url))
    with monkeypatch.context() as patch:
        patch.setattr("daskfs.store.ingest.plan.begin_publishing", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            daskfs.ingest(sources, tmp_path / "x.zarr", "vw", workers=1)
    (tmp_path / "x.zarr/_unfinished/000001.json").unlink()
    assert files_of(Path(daskfs.ingest(sources, tmp_path / "x.zarr", "vw").url)) == expected


def test_the_labels_of_all_pieces_share_one_numbering(tmp_path, sources):
    ds = daskfs.ingest(sources, tmp_path / "x.zarr", "vw", order="as-is")
    assert ds.classes == ("cat", "dog", "eel")
    written = [line.split(" ")[0] for path in sources for line in _lines(path)]
    y = np.concatenate([y.copy() for y in ds.targets()])
    assert [ds.classes[int(code)] for code in y] == written


def _lines(path: Path) -> list[str]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().splitlines()


def test_every_name_comes_back(tmp_path, sources):
    ds = daskfs.ingest(sources, tmp_path / "x.zarr", "vw", workers=2, order="as-is")
    rows = [line.split("|w ")[1].split() for path in sources for line in _lines(path)]
    number = 0
    for block in ds.blocks():
        names = ds.names(block.ids)
        for start, stop in zip(block.indptr[:-1], block.indptr[1:], strict=True):
            expected: dict[str, float] = {}
            for word in rows[number]:
                name, value = word.split(":")
                expected[f"w^{name}"] = expected.get(f"w^{name}", 0) + float(value)
            assert dict(zip(names[start:stop], block.values[start:stop].tolist(), strict=True)) == expected
            number += 1
    assert number == len(rows)


def test_the_same_request_again_does_nothing(tmp_path, sources, monkeypatch):
    first = daskfs.ingest(sources, tmp_path / "x.zarr", "vw")
    monkeypatch.setattr("daskfs.engine.data.ingest.stage_piece", None)  # would fail if it were called
    assert daskfs.ingest(sources, tmp_path / "x.zarr", "vw").digest == first.digest


def test_another_request_does_not_replace_a_dataset(tmp_path, sources):
    daskfs.ingest(sources, tmp_path / "x.zarr", "vw")
    with pytest.raises(DatasetError, match="--overwrite"):
        daskfs.ingest(sources[:1], tmp_path / "x.zarr", "vw")
    assert daskfs.ingest(sources[:1], tmp_path / "x.zarr", "vw", overwrite=True).n_samples == 200


def test_progress_reaches_the_end(tmp_path, sources):
    seen: list[IngestProgress] = []
    ds = daskfs.ingest(sources, tmp_path / "x.zarr", "vw", progress=seen.append)
    assert seen[0].pieces_done == 0
    assert (seen[-1].pieces_done, seen[-1].bytes_done) == (seen[-1].pieces, seen[-1].bytes)
    assert (seen[-1].rows, seen[-1].entries) == (ds.n_samples, ds.n_entries)
    assert seen[-1].bytes == sum(path.stat().st_size for path in sources)


def test_bad_lines_are_skipped_counted_and_capped(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", 200)
    lines = ["1 1:1"] * 200
    lines[7] = lines[150] = "1 x"
    (tmp_path / "x.svm").write_text("\n".join(lines))
    with pytest.raises(BadLineError, match=r"x\.svm:(8|151): "):
        daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight")
    skip = {"on_bad_line": "skip", "overwrite": True}
    ds = daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight", **skip)
    assert (ds.n_samples, ds.attributes["made"]["bad_lines"]) == (198, 2)
    with pytest.raises((DatasetError, SourceError), match="more than 1 bad lines"):
        daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight", max_bad_lines=1, **skip)


def test_sources_and_datasets_behind_urls(sources):
    for path in sources:
        fsspec.filesystem("memory").pipe_file(f"/in/{path.name}", path.read_bytes())
    ds = daskfs.ingest("memory://in/*", "memory://out/x.zarr", "vw")
    assert ds.n_samples == 600
    assert ds.names(ds.read(0).ids[:1])[0].startswith("w^w")
    assert daskfs.verify_dataset("memory://out/x.zarr") == []


@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
def test_a_dense_table_in_every_layout(tmp_path, monkeypatch, layout):
    monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", 5000)
    X = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    header = ",".join([*(f"c{i}" for i in range(8)), "target"])
    rows = [",".join([*(repr(float(v)) for v in row), "yes" if row[0] > 0 else "no"]) for row in X]
    (tmp_path / "x.csv").write_text("\n".join([header, *rows]))
    ds = daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="target", layout=layout)
    assert (ds.kind, ds.classes, ds.names([7])) == ("dense", ("no", "yes"), ["c7"])
    opened = ds.to_xarray()
    np.testing.assert_array_equal(opened.X.values, X)
    np.testing.assert_array_equal(opened.y.values, X[:, 0] > 0)
    if layout == "both":
        np.testing.assert_array_equal(opened.X_rows.values, X)


@pytest.mark.slow_but_cover(2)
@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
@pytest.mark.parametrize("rows_bytes", [1, 3000, 10**6])
@pytest.mark.parametrize("chunk_bytes", [1, 2500, 10**6])
def test_segments_and_groups_of_chunks_do_not_show(tmp_path, monkeypatch, layout, rows_bytes, chunk_bytes):
    monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", 4000)
    sizes = IngestMemory(2, window_bytes=1000, names_bytes=1 << 20, rows_bytes=rows_bytes, chunk_bytes=chunk_bytes)
    monkeypatch.setattr("daskfs.engine.memory.IngestMemory.of", lambda memory, workers: sizes)
    X = np.random.default_rng(1).integers(0, 999, size=(300, 7)).astype(np.float32)
    rows = ["y,a,b,c,d,e,f,g", *(",".join([f"class{i % 3}", *(f"{v:g}" for v in row)]) for i, row in enumerate(X))]
    (tmp_path / "x.csv").write_text("\n".join(rows))
    ds = daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="y", table="dense", layout=layout)
    for axis in ("columns", "rows") if layout == "both" else (layout,):
        parts = [block.X.copy() for block in ds.blocks(axis=axis)]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1 if axis == "columns" else 0), X)
    y = np.concatenate([y.copy() for y in ds.targets()])
    np.testing.assert_array_equal(y, np.arange(300) % 3)


def test_a_gap_found_late_in_a_dense_table_is_named(tmp_path):
    rows = [f"{i % 2},{i % 7}" for i in range(1000)]
    rows[900] = "0,"
    (tmp_path / "x.csv").write_text("\n".join(["y,a", *rows]))
    with pytest.raises(BadLineError, match=r"x\.csv:902: "):
        daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="y", missing="error")


def test_f22_no_rows_at_all(tmp_path):
    (tmp_path / "x.svm").write_text("# nothing\n\n")
    with pytest.raises(SourceError, match="no rows"):
        daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight")
    with pytest.raises(DatasetError):
        daskfs.open_dataset(tmp_path / "x.zarr")


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("svmlite", {}, "did you mean 'svmlight'"),
        ("svmlight", {"label": "auto"}, "did you mean 'labels'"),
        ("fasta", {"coverage": 1.0}, "read_length"),
        ("csv", {}, "label"),
    ],
)
def test_wrong_words_get_the_right_one(tmp_path, kind, options, reason):
    (tmp_path / "x").write_text("a,b\n1,2\n")
    with pytest.raises(OptionError, match=reason):
        daskfs.ingest(tmp_path / "x", tmp_path / "x.zarr", kind, **options)


def test_every_format_is_known_by_its_name():
    assert set(FORMATS) == {"svmlight", "vw", "csv", "tsv", "parquet", "fasta", "text"}


@pytest.mark.parametrize("memory", ["1MB", 10])
def test_too_little_memory_is_said_before_anything_is_written(tmp_path, sources, memory):
    with pytest.raises(OptionError, match="needs at least"):
        daskfs.ingest(sources, tmp_path / "x.zarr", "vw", memory=memory)
    assert not (tmp_path / "x.zarr").exists()


def test_overwriting_keeps_the_old_dataset_until_the_new_one_is_certain(tmp_path, sources):
    old = daskfs.ingest(sources, tmp_path / "x.zarr", "vw")
    (tmp_path / "bad.svm").write_text("1 1:1\n1 x\n")
    with pytest.raises(BadLineError):
        daskfs.ingest(tmp_path / "bad.svm", tmp_path / "x.zarr", "svmlight", overwrite=True)
    assert daskfs.open_dataset(tmp_path / "x.zarr").digest == old.digest
    (tmp_path / "good.svm").write_text("1 1:1\n1 2:1\n")
    daskfs.ingest(tmp_path / "good.svm", tmp_path / "x.zarr", "svmlight", overwrite=True)
    fresh = daskfs.ingest(tmp_path / "good.svm", tmp_path / "fresh.zarr", "svmlight")
    assert files_of(tmp_path / "x.zarr") == files_of(tmp_path / "fresh.zarr")
    assert fresh.n_samples == 2


def test_an_error_before_anything_was_finished_leaves_nothing_behind(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:1\n1 x\n")
    with pytest.raises(BadLineError):
        daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight")
    assert daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight", on_bad_line="skip").n_samples == 1


def test_write_dataset_does_not_destroy_an_unfinished_ingest(tmp_path, sources):
    sources[2].write_text("cat |w a\ncat w:1:2\n")
    with pytest.raises(BadLineError):
        daskfs.ingest(sources, tmp_path / "x.zarr", "vw")
    staged = files_of(tmp_path / "x.zarr")
    assert staged
    with pytest.raises(DatasetError, match="unfinished ingest"):
        daskfs.write_dataset(tmp_path / "x.zarr", np.eye(3), [1, 2, 3])
    assert files_of(tmp_path / "x.zarr") == staged


def test_hidden_files_and_the_output_itself_are_no_sources(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.svm").write_text("1 1:1\n")
    (tmp_path / "in" / ".DS_Store").write_text("junk")
    for _ in range(2):
        ds = daskfs.ingest(tmp_path / "in", tmp_path / "in" / "out.zarr", "svmlight", overwrite=True)
        assert ds.n_samples == 1


def test_names_that_look_like_patterns(tmp_path):
    (tmp_path / "data [1].svm").write_text("1 1:1\n")
    assert daskfs.ingest(tmp_path / "data [1].svm", tmp_path / "x.zarr", "svmlight").n_samples == 1


def test_rows_without_any_feature_are_the_wrong_format(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(SourceError, match="is this svmlight"):
        daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "svmlight")


def test_labels_that_are_not_utf8_stay_apart(tmp_path):
    (tmp_path / "x.svm").write_bytes(b"caf\xe9 1:1\ncaf\xe8 1:1\n")
    assert len(daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight").classes) == 2


def test_inside_a_task_of_a_busy_cluster(tmp_path, sources, two_workers):
    """Waiting for tasks of the same cluster would never end: threads of the worker do the work."""
    urls = [str(source) for source in sources]
    futures = [
        two_workers.submit(lambda n: daskfs.ingest(urls, f"{tmp_path}/{n}.zarr", "vw").n_samples, n) for n in range(4)
    ]
    assert two_workers.gather(futures) == [600] * 4


def test_staged_data_that_rots_before_a_resume_is_parsed_again(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", 300)
    rows = "\n".join(f"{i},{i % 7}" for i in range(200))
    (tmp_path / "x.csv").write_text(f"y,a\n{rows}\n")
    with monkeypatch.context() as patch:
        patch.setattr("daskfs.store.ingest.plan.begin_publishing", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="y", table="dense")
    staged = sorted((tmp_path / "x.zarr/_unfinished").rglob("columns.*"))
    assert len(staged) > 2
    staged[1].write_bytes(bytes(len(staged[1].read_bytes())))
    ds = daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="y", table="dense")
    np.testing.assert_array_equal(ds.to_xarray().X.values[:, 0], np.arange(200) % 7)


def test_a_source_that_changes_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    path = tmp_path / "x.svm"
    path.write_text("1 1:1\n")
    parse = daskfs.engine.data.ingest._parse_piece

    def change_meanwhile(job, work):
        piece = parse(job, work)
        path.write_text("1 1:1\n1 2:1\n")
        return piece

    monkeypatch.setattr("daskfs.engine.data.ingest._parse_piece", change_meanwhile)
    with pytest.raises(SourceError, match="changed while it was read"):
        daskfs.ingest(path, tmp_path / "x.zarr", "svmlight")


@pytest.mark.parametrize("option", ["layout", "compression", "on_bad_line"])
def test_a_wrong_word_for_an_option_is_refused(tmp_path, option):
    (tmp_path / "x.svm").write_text("1 1:1\n")
    with pytest.raises(OptionError, match=f"{option}: 'nonsense' is none of"):
        daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight", **{option: "nonsense"})
