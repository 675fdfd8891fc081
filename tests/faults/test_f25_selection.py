"""F25: a hostile selection folder gives one clear line, takes no memory to speak of, and executes nothing."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selections import selection_of

import daskfs
from daskfs.errors import DaskfsError
from daskfs.store.dataset.codec import append_crc


@pytest.fixture
def run(tmp_path) -> Path:
    selection_of([3, 1, 4], classes=("ham", "spam")).save(tmp_path / "run")
    return tmp_path / "run"


def line_of(run: Path) -> str:
    """The one line that loading it gives."""
    with pytest.raises(DaskfsError) as caught:
        daskfs.load_selection(run)
    message = str(caught.value)
    assert message.startswith(str(run))
    assert "\n" not in message
    assert len(message) < 500
    return message


def change(run: Path, edit: Callable[[Any], Any]) -> None:
    record = json.loads((run / "selection.json").read_text())
    (run / "selection.json").write_text(json.dumps(edit(record) or record))


def test_the_sample_loads(run):
    change(run, lambda record: None)  # or the tests below would show nothing
    assert daskfs.load_selection(run).features.tolist() == [3, 1, 4]


def test_f25_json_cut_anywhere(run):
    raw = (run / "selection.json").read_bytes()
    for size in range(len(raw) - 2):  # the last two bytes are a brace and the end of a line
        (run / "selection.json").write_bytes(raw[:size])
        line_of(run)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
PLACES = [
    *((key,) for key in ("version", "algorithm", "seed", "source", "classes", "intercept", "features")),
    *(("source", key) for key in ("url", "digest", "n_samples", "n_features")),
    *(("features", 1, key) for key in ("rank", "id", "name", "weight")),
    ("features", 1),
    ("classes", 0),
]


@given(place=st.sampled_from(PLACES), value=ANYTHING)
def test_f25_anything_anywhere(tmp_path_factory, place, value):
    """Either it is a selection nevertheless, or an error of ours says why not."""
    run = tmp_path_factory.mktemp("run")
    selection_of([3, 1, 4], classes=("ham", "spam")).save(run)

    def put(record: Any) -> None:
        for key in place[:-1]:
            record = record[key]
        record[place[-1]] = value

    change(run, put)
    with suppress(DaskfsError):
        selection = daskfs.load_selection(run)
        assert len(repr(selection)) < 500
        selection.save(run)


WRONG = {
    "no object": lambda record: [record],
    "another version": lambda record: record | {"version": 2},
    "a number as a word": lambda record: record["features"][0].update(weight="1.5"),
    "true as a number": lambda record: record["features"][0].update(weight=True),
    "an id as a word": lambda record: record["features"][0].update(id="3"),
    "a negative id": lambda record: record["features"][0].update(id=-1),
    "an id of 65 bits": lambda record: record["features"][0].update(id=2**64),
    "an id as a fraction": lambda record: record["features"][0].update(id=3.0),
    "an id twice": lambda record: record["features"][0].update(id=1),
    "a number as a name": lambda record: record["features"][0].update(name=7),
    "half a character as a name": lambda record: record["features"][0].update(name="\ud800"),
    "half a character as a class": lambda record: record.update(classes=["\ud800", "b"]),
    "half a character in a field": lambda record: record["algorithm"].update(ridge=["\udfff"]),
    "ranks out of order": lambda record: record["features"].reverse(),
    "statistics of fewer features": lambda record: record.update(statistics={"score": [1.0, 2.0]}),
    "a word among statistics": lambda record: record.update(statistics={"score": [1.0, "2", 3.0]}),
    "statistics without names": lambda record: record.update(statistics=[1.0, 2.0, 3.0]),
    "half a character as the name of statistics": lambda record: record.update(statistics={"\ud800": [1, 2, 3]}),
    "an endless weight": lambda record: record["features"][0].update(weight=10**400),
    "ragged weights": lambda record: record["features"][0].update(weight=[1, 2]),
    "nested weights": lambda record: record["features"][0].update(weight=[[1]]),
    "more classes than weights": lambda record: record["classes"].append("eggs"),
    "classes of two kinds": lambda record: record.update(classes=["ham", 1]),
    "no source": lambda record: record.pop("source") and None,
    "half a source": lambda record: record["source"].pop("url") and None,
    "a seed as a word": lambda record: record.update(seed="0"),
    "an intercept a class": lambda record: record.update(intercept=[1, 2]),
    "fills without numbers": lambda record: record.update(missing={"how": "mean"}),
    "error control that is a list": lambda record: record.update(error_control=[1, 2]),
    "no importance": lambda record: record["features"][0].pop("importance") and None,
}


@pytest.mark.parametrize("edit", WRONG.values(), ids=WRONG)
def test_f25_wrong_types(run, edit):
    change(run, edit)
    line_of(run)


RAW = {
    "empty": b"",
    "a pickle": pickle.dumps({"version": 1}),
    "NaN": b'{"version": 1, "seed": NaN}',
    "Infinity": b'{"version": 1, "seed": -Infinity}',
    "an endless number": b'{"version": ' + b"9" * 100_000 + b"}",
    "a well of brackets": b"[" * 1_000_000,
    "a well of braces": b'{"a":' * 1_000_000,
    "no text": b"\xff\xfe\x00\xd8{",
    "an archive": b"PK\x03\x04" + bytes(1000),
}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW)
def test_f25_files_that_are_no_record(run, raw):
    (run / "selection.json").write_bytes(raw)
    line_of(run)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_f25_weights_that_are_no_numbers(run, word):
    text = (run / "selection.json").read_text()
    assert '"weight": 1.0' in text
    (run / "selection.json").write_text(text.replace('"weight": 1.0', f'"weight": {word}'))
    line_of(run)


@pytest.mark.parametrize("part", ["history.zarr", "history.zarr/zarr.json", "history.zarr/objective/c/0"])
def test_f25_missing_parts(run, part):
    shutil.rmtree(run / part) if (run / part).is_dir() else (run / part).unlink()
    assert "missing" in line_of(run)


@pytest.mark.parametrize("part", ["selection.json", "history.zarr/zarr.json", "history.zarr/objective/c/0"])
def test_f25_folders_in_place_of_files(run, part):
    (run / part).unlink()
    (run / part).mkdir()
    line_of(run)


def change_history(run: Path, edit: Callable[[Any], None]) -> None:
    root = json.loads((run / "history.zarr/zarr.json").read_text())
    edit(root)
    (run / "history.zarr/zarr.json").write_text(json.dumps(root))


def members(root: Any) -> dict[str, Any]:
    return root["consolidated_metadata"]["metadata"]


HISTORIES = {
    "a huge table": lambda root: root["attributes"]["daskfs"].update(rows=10**12),
    "a huge shape": lambda root: members(root)["objective"].update(shape=[10**12]),
    "a huge chunk": lambda root: members(root)["objective"]["chunk_grid"]["configuration"].update(chunk_shape=[10**12]),
    "one row more": lambda root: root["attributes"]["daskfs"].update(rows=3),
    "rows less than none": lambda root: root["attributes"]["daskfs"].update(rows=-1),
    "rows as a word": lambda root: root["attributes"]["daskfs"].update(rows="2"),
    "a codec that unpickles": lambda root: members(root)["objective"].update(codecs=[{"name": "numcodecs.pickle"}]),
    "a compressing codec": lambda root: members(root)["objective"]["codecs"].insert(1, {"name": "zstd"}),
    "objects": lambda root: members(root)["objective"].update(data_type="object"),
    "no objective": lambda root: members(root).pop("objective"),
    "members as a list": lambda root: root["consolidated_metadata"].update(metadata=[]),
    "too many members": lambda root: members(root).update({f"m{i}": {} for i in range(1000)}),
    "another version": lambda root: root["attributes"]["daskfs"].update(version=9),
    "a dataset": lambda root: root["attributes"]["daskfs"].update(kind="dense"),
    "no attributes": lambda root: root.pop("attributes"),
}


@pytest.mark.parametrize("edit", HISTORIES.values(), ids=HISTORIES)
def test_f25_hostile_histories(run, edit):
    change_history(run, edit)
    assert "history" in line_of(run)


@pytest.mark.parametrize("name", ["../../outside", "{}/outside"], ids=["climbs", "from the root"])
def test_f25_a_history_does_not_reach_outside(run, tmp_path, name):
    """Not even to a column that is sound."""
    shutil.copytree(run / "history.zarr/objective", tmp_path / "outside")
    change_history(run, lambda root: members(root).update({name.format(tmp_path): members(root)["objective"]}))
    assert "not a table" in line_of(run)


def test_f25_a_history_of_zarr_version_2_with_a_pickle_in_it(run, tmp_path):
    """zarr would unpickle such objects when it reads them; nothing here does."""
    import numcodecs

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "exploded",)

    objective = run / "history.zarr/objective"
    shutil.rmtree(run / "history.zarr")
    (objective / "x").parent.mkdir(parents=True)
    (run / "history.zarr/.zgroup").write_text('{"zarr_format": 2}')
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "order": "C", "fill_value": 0}
    array |= {"compressor": None, "filters": [{"id": "pickle", "protocol": 5}]}
    (objective / ".zarray").write_text(json.dumps(array))
    (objective / "0").write_bytes(numcodecs.Pickle().encode(np.array([Bomb(), 1], object)))
    line_of(run)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "file",
    [b"", bytes(20), *(append_crc(np.zeros(n)) for n in (3, 1)), append_crc(np.zeros(2))[:-1], bytes(10**7)],
)
def test_f25_hostile_columns(run, file):
    (run / "history.zarr/objective/c/0").write_bytes(file)
    assert "chunk objective/c/0" in line_of(run)


def test_f25_every_flipped_bit_of_a_column_is_noticed(run):
    column = run / "history.zarr/objective/c/0"
    raw = column.read_bytes()
    for bit in range(8 * len(raw)):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        column.write_bytes(flipped)
        line_of(run)


MEMORY = """
import resource, sys, daskfs
daskfs.load_selection(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    daskfs.load_selection(sys.argv[2])
except daskfs.DaskfsError as error:
    assert "\\n" not in str(error)
else:
    sys.exit("it loaded")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def sparse_file(path: Path) -> None:
    """Three gigabytes that take no space on the disk."""
    with open(path, "wb") as file:
        os.truncate(file.fileno(), 3 << 30)


def endless(path: Path) -> None:
    """A link to a file that has the size 0 and does not end."""
    path.unlink()
    path.symlink_to("/dev/zero")


def waiting(path: Path) -> None:
    """A FIFO, whose reader waits for a writer."""
    path.unlink()
    os.mkfifo(path)


LARGE = {
    "a record without end": lambda run: endless(run / "selection.json"),
    "a record that waits": lambda run: waiting(run / "selection.json"),
    "metadata without end": lambda run: endless(run / "history.zarr/zarr.json"),
    "a column without end": lambda run: endless(run / "history.zarr/objective/c/0"),
    "a record of 3 GB": lambda run: sparse_file(run / "selection.json"),
    "metadata of 3 GB": lambda run: sparse_file(run / "history.zarr/zarr.json"),
    "a column of 3 GB": lambda run: sparse_file(run / "history.zarr/objective/c/0"),
    "a table that says so": lambda run: change_history(run, HISTORIES["a huge table"]),
    "a list of a million numbers": lambda run: change(run, lambda record: record.update(features=[0] * 10**6)),
    "a weight for a million classes": lambda run: change(
        run, lambda record: record["features"][0].update(weight=[0] * 10**6)
    ),
}


@pytest.mark.slow_but_first
@pytest.mark.parametrize("edit", LARGE.values(), ids=LARGE)
def test_f25_no_memory_is_taken(run, tmp_path, edit):
    shutil.copytree(run, tmp_path / "sound")
    edit(run)
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "sound"), str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100 << 10  # KiB


@pytest.mark.slow_but_first
@pytest.mark.parametrize("name", ["run.json", "metrics.json", "profiles.json", "sizes.json", "stability.json"])
def test_f25_records_without_end(run, name):
    """Every record beside a selection that the report reads."""
    (run / name).symlink_to("/dev/zero")
    limited = f"ulimit -v 8000000; exec {sys.executable} -c 'from daskfs.cli import main; main()' report {run}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    assert (done.returncode, f"{run}/{name}: cannot be read: is a device" in done.stderr) == (2, True), done.stderr
