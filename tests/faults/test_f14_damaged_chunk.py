"""F14: a chunk that was cut short, or in which a single bit was flipped, is found: 100 of 100."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from faults.reading import read_everything
from faults.samples import MAKERS

import daskfs
from daskfs.cli import main
from daskfs.errors import ChunkError
from daskfs.store.dataset.reader import ArrayReader


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    for kind in ("both", "sparse", "sparse_columns"):
        MAKERS[kind](folder / kind)
    return folder


def flipped(file: bytes, rng: np.random.Generator) -> bytes:
    altered = bytearray(file)
    altered[rng.integers(len(file))] ^= 1 << rng.integers(8)
    return bytes(altered)


def cut(file: bytes, rng: np.random.Generator) -> bytes:
    return file[: rng.integers(len(file))]


KINDS = ("both", "sparse", "sparse_columns")
HUNDRED = [
    pytest.param(*case, marks=[pytest.mark.slow] if case[0] > 3 else [])
    for case in product(range(17), KINDS, (flipped, cut))
][:100]


@pytest.mark.parametrize(("seed", "kind", "damage"), HUNDRED)
def test_f14_damage_is_found(made, monkeypatch, kind, damage, seed):
    rng = np.random.default_rng([seed, len(kind), len(damage.__name__)])
    folder = made / kind
    specs = daskfs.open_dataset(folder).arrays.values()
    keys = [key for spec in specs for key in map(spec.key, range(spec.n_chunks))]
    key = rng.choice(keys)
    kept = (folder / key).read_bytes()
    (folder / key).write_bytes(damage(kept, rng))
    try:
        with pytest.raises(ChunkError) as caught:
            read_everything(daskfs.open_dataset(folder))
        assert caught.value.chunk == key
        with monkeypatch.context() as patch:
            patch.setattr(
                daskfs.Dataset,
                "_reader",
                lambda self, name: ArrayReader(self.location, self.arrays[name], direct=False),
            )
            with pytest.raises(ChunkError) as caught:
                read_everything(daskfs.open_dataset(folder))
            assert caught.value.chunk == key
        told = CliRunner().invoke(main, ["verify", str(folder)])
        assert told.exit_code == 2
        assert told.output.count("chunk ") == told.output.count(f"chunk {key}") == 1
    finally:
        (folder / key).write_bytes(kept)


@pytest.mark.parametrize("kind", KINDS)
def test_f14_nothing_is_found_where_nothing_is_wrong(made, kind):
    assert read_everything(daskfs.open_dataset(made / kind)) > 0
    assert daskfs.verify_dataset(made / kind) == []
    assert CliRunner().invoke(main, ["verify", str(made / kind)]).exit_code == 0


def test_f14_the_command_itself(made):
    key = "X_rows/c/1/0"
    kept = (made / "both" / key).read_bytes()
    (made / "both" / key).write_bytes(kept[:-1])
    try:
        command = [sys.executable, "-c", "from daskfs.cli import main; main()", "verify", str(made / "both")]
        told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    finally:
        (made / "both" / key).write_bytes(kept)
    assert told.returncode == 2
    assert f"chunk {key}: {len(kept) - 1} bytes where {len(kept)} belong" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_f14_a_chunk_in_the_place_of_another_is_found(made, kind, seed):
    """Each has a checksum that is right, so only the manifest can tell."""
    rng = np.random.default_rng(seed)
    folder = made / kind
    specs = [spec for spec in daskfs.open_dataset(folder).content.values() if spec.n_chunks > 1]
    spec = specs[rng.integers(len(specs))]
    one, other = (spec.key(int(number)) for number in rng.choice(spec.n_chunks, 2, replace=False))
    kept = (folder / one).read_bytes()
    (folder / one).write_bytes((folder / other).read_bytes())
    try:
        with pytest.raises(ChunkError) as caught:
            read_everything(daskfs.open_dataset(folder))
        assert caught.value.chunk == one
        assert [found.key for found in daskfs.verify_dataset(folder)] == [one]
    finally:
        (folder / one).write_bytes(kept)


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "zarr"])
@pytest.mark.parametrize("key", ["X/c/0/1", "feature/c/1", "y/c/0"])
def test_f14_a_chunk_the_system_cannot_read_is_named(made, key, direct):
    path = made / "both" / key
    kept = path.read_bytes()
    path.unlink()
    path.symlink_to(path.name)  # to itself: even root cannot open it
    try:
        ds = daskfs.open_dataset(made / "both")
        name, _, number = key.partition("/c/")
        reader = ArrayReader(ds.location, ds.arrays[name], direct=direct)
        with pytest.raises(ChunkError, match=f"chunk {key}: cannot be read") as caught:
            reader.read(int(number[-1]))
        assert caught.value.chunk == key
    finally:
        path.unlink()
        path.write_bytes(kept)
