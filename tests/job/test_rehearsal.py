"""Kernels are compiled before the clock of a run starts: those of the loss that the data ask for."""

from __future__ import annotations

import numpy as np
import pytest

import daskfs
from daskfs.job.request import Request
from daskfs.store.places.location import Location


def test_a_run_rehearses_with_the_loss_of_the_data(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, losses = np.random.default_rng(0), []
    X, y = rng.normal(size=(60, 8)), np.repeat(["a", "b", "c"], 20)
    daskfs.write_dataset(tmp_path / "rows.zarr", X, y, layout="rows")
    monkeypatch.setattr(daskfs.Mission, "rehearse", lambda self: losses.append(self.loss) or True)
    request = Request(
        daskfs.open_dataset(tmp_path / "rows.zarr"), daskfs.Mission(3), Location(tmp_path / "out"), 0, False
    )
    assert len(request.run(None, {}).features) == 3
    assert losses == ["softmax"]
