"""jit.py: kernels are cached, safely; a checked run is really checked."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from daskfs import jit

KERNEL = """
import numpy as np
import daskfs.jit as jit

@jit.kernel
def last(x, i):
    return x[i]

print(last(np.arange(3.0), {index}), last.stats.cache_hits[()] if False else sum(last.stats.cache_hits.values()))
"""


def run(folder: Path, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script_kernels.py"
    path.write_text(script)
    env = {**os.environ, "DASKFS_CACHE_DIR": str(folder / "cache"), **environment}
    return subprocess.run([sys.executable, str(path), *arguments], env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_the_second_process_loads_what_the_first_compiled(tmp_path):
    first, second = (run(tmp_path, KERNEL.format(index=1)) for _ in range(2))
    assert first.stdout.split() == ["1.0", "0"], first.stderr
    assert second.stdout.split() == ["1.0", "1"], second.stderr


THREADS = """
import sys, threading, numba
import daskfs.jit as jit

sys.setswitchinterval(1e-6)
before, places = numba.config.CACHE_DIR, set()

def make():
    for _ in range(100):
        @jit.kernel
        def one(x):
            return x
        places.add(one._cache.cache_path)

threads = [threading.Thread(target=make) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
root = str(jit.cache_folder())
print([place for place in places if not place.startswith(root)], numba.config.CACHE_DIR == before)
"""


def test_threads_that_import_kernels_side_by_side_keep_them_in_one_place(tmp_path):
    """numba has one setting for all; put back by another thread, it meant the working folder."""
    done = run(tmp_path, THREADS)
    assert done.stdout.split() == ["[]", "True"], done.stdout + done.stderr


SUMS = """
import hashlib, numpy as np
from daskfs.algorithms.substitution import kernels

rng = np.random.default_rng(0)
for dtype in ("f4", "f8"):
    X = np.asfortranarray(rng.standard_normal((3000, 9)).astype(dtype))
    r, one, sums, out = rng.standard_normal(3000).astype(dtype), np.ones(9), np.empty((9, kernels.N_SUMS)), np.empty(9)
    for kernel, given in {"sweep": (r, r, sums), "sweep_uniform": (r, sums)}.items():
        getattr(kernels, kernel)(X, *given)
        print(hashlib.md5(sums.tobytes()).hexdigest())
    kernels.products(X, np.arange(9), one, one, r, out)
    print(hashlib.md5(out.tobytes()).hexdigest())
"""


LEARNED = """
import hashlib, numpy as np, daskfs
from daskfs.protocol import Meta, SparseBlock

rng = np.random.default_rng(0)
ids, values = np.sort(rng.integers(0, 500, (400, 20)), axis=1).astype(np.uint64), rng.normal(size=8000).astype("f4")
block = SparseBlock(0, np.arange(0, 8001, 20), ids.ravel(), values, rng.integers(0, 2, 400).astype(float))
for method in ("active", "paper"):
    chosen = daskfs.Mission(50, method=method, width=64)
    state = chosen.update(chosen.start(Meta("sparse", 400, 500, 8000, 499, (0.0, 1.0), 10**5), 0), block)
    result = chosen.result(chosen.end_pass(state)[0])
    print(hashlib.md5(result.features.tobytes() + result.weights.tobytes()).hexdigest())
"""


SOLVED = """
import hashlib, numpy as np
from daskfs.algorithms.random_features.lasso import solve

rng = np.random.default_rng(0)
Phi = np.cos(rng.random((500, 3)) @ rng.normal(size=(3, 150)) + 6 * rng.random(150))
b = Phi.T @ rng.normal(size=500)
print(hashlib.md5(solve([(Phi.T @ Phi, b)], 1e-4 * abs(b).max()).weights.tobytes()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("script", "lines"), [(SUMS, 6), (LEARNED, 2), (SOLVED, 1)], ids=["sums", "learned", "solved"])
def test_sums_have_the_same_bits_where_they_were_compiled_and_where_they_were_loaded(tmp_path, script, lines):
    """A caller that was compiled separately from its helper may run another copy of it than one from the cache."""
    compiled, loaded = (run(tmp_path, script) for _ in range(2))
    assert len(compiled.stdout.split()) == lines, compiled.stderr
    assert compiled.stdout == loaded.stdout


@pytest.mark.slow
def test_bounds_checked_runs_do_not_load_unchecked_code(tmp_path):
    assert run(tmp_path, KERNEL.format(index=7)).returncode == 0
    checked = run(tmp_path, KERNEL.format(index=7), NUMBA_BOUNDSCHECK="1")
    assert checked.returncode != 0
    assert "IndexError" in checked.stderr


@pytest.mark.slow
def test_many_processes_at_once_compile_into_one_cache(tmp_path):
    path = tmp_path / "script_kernels.py"
    path.write_text(KERNEL.format(index=2) + "\nassert last(np.arange(5, 9), 2) == 7\n")
    env = {**os.environ, "DASKFS_CACHE_DIR": str(tmp_path / "cache")}
    processes = [subprocess.Popen([sys.executable, str(path)], env=env, stderr=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors


@pytest.mark.parametrize("cache", ["file", "nowhere"])
def test_f29_a_cache_that_cannot_be_written_is_done_without(tmp_path, cache):
    """A file where the folder should be: not even root can write there."""
    (tmp_path / "file").write_text("")
    where = str(tmp_path / cache / "x") if cache == "file" else "/proc/nowhere"
    env = {"XDG_CACHE_HOME": where, "HOME": where, "TMPDIR": str(tmp_path)}
    done = run(tmp_path, KERNEL.format(index=1), DASKFS_CACHE_DIR=where, **env)
    assert done.stdout.split()[0] == "1.0", done.stderr


def test_a_torn_cache_file_is_compiled_anew(tmp_path):
    run(tmp_path, KERNEL.format(index=1))
    torn = list((tmp_path / "cache").rglob("*.nbc"))
    assert torn
    for file in torn:
        file.write_bytes(file.read_bytes()[:40])
    assert run(tmp_path, KERNEL.format(index=1)).stdout.split()[0] == "1.0"


def test_warm_up_runs_every_registered_kernel():
    for name in ("substitution", "random_features"):
        importlib.import_module(f"daskfs.algorithms.{name}")
    assert jit.warm_up() >= 4


LED_TO = """
import importlib, sys
from daskfs import jit

called = []

def noted(warmer):  # in its place, since compiling in earnest takes long
    note = lambda: called.append(warmer.__module__.removeprefix("daskfs."))
    note.__module__ = warmer.__module__
    return note

for module in sys.argv[1:]:
    importlib.import_module(module)
jit._warmers[:] = map(noted, jit._warmers)
for module in sys.argv[1:]:
    called.clear()
    assert jit.warm_up(module) == len(called)
    print(*called)
"""
WARM = {
    "daskfs.algorithms.mission": {
        "algorithms.mission",
        "algorithms.mission.feature_kernels",
        "algorithms.mission.unit_kernels",
        "algorithms.loss_kernels",
    },
    "daskfs.algorithms.substitution": {"algorithms.substitution.kernels", "algorithms.loss_kernels"},
    "daskfs.algorithms.random_features": {
        "algorithms.random_features.kernels",
        "algorithms.loss_kernels",
        "basis.kernels",
    },
    "daskfs.store.ingest.formats.vw": {
        "store.ingest.formats.vw_kernels",
        "store.ingest.formats.label_kernels",
        "store.ingest.gaps_kernels",
        "store.ingest.rows_kernels",
        "store.dataset.names_kernels",
        "store.dataset.hashing_kernels",
    },
    "daskfs.store.ingest.formats.delimited": {
        "store.ingest.formats.tabular_kernels",
        "store.ingest.gaps_kernels",
        "store.ingest.rows_kernels",
        "store.dataset.names_kernels",
        "store.dataset.hashing_kernels",
    },
}


def test_warm_up_is_for_what_a_module_leads_to_and_for_nothing_else(tmp_path):
    done = run(tmp_path, LED_TO, *WARM)
    assert [set(line.split()) for line in done.stdout.splitlines()] == [*WARM.values()], done.stderr


ANNOUNCED = (
    KERNEL.format(index=1)
    + """
from daskfs import jit

jit._SECONDS_BETWEEN_LINES = 0.0
lines = []
with jit.announced(lines.append):
    last(np.arange(5), 1)  # of another dtype
print("|".join(lines))
"""
)


def test_compilation_is_announced_and_counted_and_what_is_cached_is_not(tmp_path):
    first, again = (run(tmp_path, ANNOUNCED).stdout.splitlines()[-1] for _ in range(2))
    assert first == f"{jit.COMPILING}|compiled 1 kernels so far"
    assert again == ""


REHEARSED = """
import numpy as np
import daskfs
from daskfs.protocol import Meta
from daskfs.algorithms.mission import active_kernels, paper_kernels

algorithm = daskfs.Mission(2, loss={loss!r}, method={method!r}, refit=0, width=2**6)
assert algorithm.rehearse(Meta("dense", 10**6, 9, 9 * 10**6, 8, ("a", "b"), 10**6))
kernels = (active_kernels.learn_active, active_kernels.learn_active_classes, paper_kernels.learn_sketch_fast)
print(*[kernel.__name__ for kernel in kernels if kernel.signatures])
"""


@pytest.mark.slow_but_first
@pytest.mark.parametrize(
    ("method", "loss", "kernel"),
    [
        ("active", "logistic", "learn_active"),
        ("active", "softmax", "learn_active_classes"),
        ("paper", "squared", "learn_sketch_fast"),
    ],
)
def test_a_rehearsal_compiles_what_a_run_needs_and_no_more(tmp_path, method, loss, kernel):
    path = tmp_path / "rehearsed.py"
    path.write_text(REHEARSED.format(method=method, loss=loss))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == [kernel], done.stderr
