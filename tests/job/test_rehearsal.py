"""Kernels are compiled before the clock of a run starts: those of the loss that the data ask for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

import daskfs
from daskfs.job.request import Request
from daskfs.store.places.location import Location


def test_a_run_rehearses_with_the_loss_of_the_data(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, losses = np.random.default_rng(0), []
    X, y = rng.normal(size=(60, 8)), np.repeat(["a", "b", "c"], 20)
    daskfs.write_dataset(tmp_path / "rows.zarr", X, y, layout="rows")
    monkeypatch.setattr(daskfs.Mission, "rehearse", lambda self, meta: losses.append(self.loss) or True)
    request = Request(
        daskfs.open_dataset(tmp_path / "rows.zarr"), daskfs.Mission(3), Location(tmp_path / "out"), 0, False
    )
    assert len(request.run(None, {}).features) == 3
    assert losses == ["softmax"]


REHEARSED_RUN = """
import sys
import daskfs
from daskfs import jit

def compiled():
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("daskfs.algorithms")]
    found = [value for module in modules for value in vars(module).values() if hasattr(value, "signatures")]
    return {(kernel.__name__, str(each)) for kernel in found for each in kernel.signatures if kernel._cache.cache_path}

dataset = daskfs.open_dataset(sys.argv[1])
algorithm = getattr(daskfs, sys.argv[2])(2)
assert algorithm.resolve(dataset.meta).rehearse(dataset.meta)
before = compiled()
daskfs.select(dataset, algorithm)
print(len(before), *(compiled() - before), sep="|")
"""


@pytest.mark.slow_but_first
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("algorithm", ["Mission"])
def test_after_a_rehearsal_a_run_compiles_nothing(tmp_path, algorithm, kind, n_classes) -> None:
    X = np.random.default_rng(0).normal(size=(90, 8)).astype(np.float32)
    cells = scipy.sparse.csr_array(X * (X > 0)) if kind == "sparse" else X
    daskfs.write_dataset(tmp_path / "d.zarr", cells, np.argmax(X[:, :n_classes], axis=1).astype(str), layout="rows")
    command = [sys.executable, "-c", REHEARSED_RUN, str(tmp_path / "d.zarr"), algorithm]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    rehearsed, *later = done.stdout.strip().split("|")
    assert int(rehearsed) > 3, done.stderr
    assert later == []
