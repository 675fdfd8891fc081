"""F24: the same seed gives the same bytes, another seed others."""

from __future__ import annotations

import pytest
from toy_runs import KINDS, check_same, small_dataset, tangled

import daskfs
from daskfs.store.dataset.container import read_container
from daskfs.store.places.location import Location


@pytest.mark.slow_but_first
@pytest.mark.parametrize("where", ["here", "cluster"])
@pytest.mark.parametrize("kind", KINDS)
def test_f24_the_same_seed_twice(tmp_path, kind, where, two_workers):
    dataset, client = small_dataset(tmp_path / "d", kind), two_workers if where == "cluster" else None
    first, second, other = (
        daskfs.select(dataset, tangled(kind), seed=seed, client=client, checkpoint=tmp_path / name)
        for seed, name in ((1, "a"), (1, "b"), (2, "c"))
    )
    check_same(first, second)
    assert kept(tmp_path / "a") == kept(tmp_path / "b") != kept(tmp_path / "c")
    assert first.weights.tobytes() != other.weights.tobytes()


def kept(folder) -> dict[str, object]:
    """All that a checkpoint holds, but for the time it took."""
    about, values = read_container(Location(folder), "checkpoint")
    del values["seconds"], values["spent"], about["of"]["seed"]
    return {"about": about} | {name: getattr(value, "tobytes", lambda v=value: v)() for name, value in values.items()}
