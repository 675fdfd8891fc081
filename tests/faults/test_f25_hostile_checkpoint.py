"""F25: a checkpoint made by somebody else to do harm is refused in one line, before it takes memory."""

from __future__ import annotations

import json
import pickle
import tracemalloc

import google_crc32c
import numpy as np
import pytest
from toy_algorithms import Tangled
from toy_runs import small_dataset

import daskfs
from daskfs.errors import CheckpointError
from daskfs.store.dataset.container import read_container, write_container
from daskfs.store.places.location import Location


class Explosive:
    """Unpickled, it would leave a mark."""

    def __reduce__(self):
        return exec, ("open('exploded', 'w').close()",)


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A dataset with the checkpoint of a finished run."""
    monkeypatch.chdir(tmp_path)
    dataset = small_dataset(tmp_path / "d")
    daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c")
    return dataset


def check_refused(dataset) -> str:
    tracemalloc.start()
    with pytest.raises(CheckpointError) as caught:
        daskfs.select(dataset, Tangled(), checkpoint="c", resume=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    said = str(caught.value)
    assert peak < 100 << 20
    assert "\n" not in said
    assert len(said) < 400
    assert said.startswith("c: ")
    return said


def header(described: dict[str, object], about: object = None) -> bytes:
    text = json.dumps({"about": about or {}, "values": described}).encode()
    data = b"daskfs record 1 " + f"{len(text):08x}\n".encode() + text
    return data + google_crc32c.value(data).to_bytes(4, "little")


FILES = {
    "pickle": pickle.dumps(Explosive()),
    "numpy pickle": b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    + pickle.dumps(Explosive()),
    "zip": b"PK\x03\x04" + bytes(100),
    "empty": b"",
    "a petabyte": header({"state.memory": {"array": "<f8", "shape": [1 << 47]}}),
    "objects": header({"state.memory": {"array": "|O", "shape": [1]}}),
    "cut JSON": header({})[:40],
    "other facts": header({}, {"at": {}, "of": {}}),
    "no facts": header({}),
}


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_f25_a_file_that_is_no_checkpoint(tmp_path, finished, file):
    (tmp_path / "c" / "checkpoint").write_bytes(file)
    check_refused(finished)
    assert not (tmp_path / "exploded").exists()


CHANGES = {
    "lanes of text": lambda about, values: about["at"].update(lanes="../../etc"),
    "a position before the start": lambda about, values: about["at"].update(position=-5),
    "no such stage": lambda about, values: about["at"].update(stage=["finished"]),
    "no position": lambda about, values: about["at"].pop("position"),
    "costs that are a number": lambda about, values: values.update(seconds=1.0),
    "costs of two lengths": lambda about, values: values.update(seconds=np.zeros(9)),
    "no costs": lambda about, values: values.update(seconds=np.zeros(0), bytes=np.zeros(0, int)),
    "an algorithm of another kind": lambda about, values: about["of"].update(algorithm=7),
    "a seed of a megabyte": lambda about, values: about["of"].update(seed="x" * 900_000),
    "terminal codes": lambda about, values: about["of"]["algorithm"].update(n_select="\x1b[2J\n" * 10),
    "a name with terminal codes": lambda about, values: about["of"]["algorithm"].update(name="\x1b[2J\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_f25_a_checkpoint_that_was_tampered_with(finished, change):
    about, values = read_container(Location("c"), "checkpoint")
    change(about, values)
    write_container(Location("c"), "checkpoint", about, values)
    assert "\x1b" not in check_refused(finished)


def test_the_untouched_checkpoint_is_not_refused(finished):
    about, values = read_container(Location("c"), "checkpoint")
    write_container(Location("c"), "checkpoint", about, values)
    daskfs.select(finished, Tangled(), checkpoint="c", resume=True)
