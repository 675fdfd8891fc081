"""F11: a disk that is full, a real one of a few megabytes: the place and what to do in one line, then it goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import daskfs

IN_NAMESPACE = ["unshare", "--map-root-user", "--mount"]
SCRIPT = """
import os, subprocess, sys, json
disk, checked, *command = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=True)
def run():
    program = [sys.executable, "-c", "from daskfs.cli import main; main()", *command]
    done = subprocess.run(program, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stderr
with open(f"{disk}/ballast", "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(4096))
    except OSError:
        pass
os.truncate(f"{disk}/ballast", os.path.getsize(f"{disk}/ballast") - 8 * 4096)
full = run()
published = os.path.exists(f"{disk}/{checked}")
os.remove(f"{disk}/ballast")
again = run()
parts = [name for _, _, names in os.walk(disk) for name in names if name.endswith(".part")]
print(json.dumps([full, published, again, os.path.exists(f"{disk}/{checked}"), parts]))
"""


def has_namespaces() -> bool:
    unshare = shutil.which("unshare")
    return unshare is not None and subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    X = np.random.default_rng(0).normal(size=(400, 200)).astype(np.float32)
    daskfs.write_dataset(folder / "x.zarr", X, X[:, 0] > 0, layout="rows", chunk_bytes=20_000)
    rows = (" ".join(f"{i}:{x:.4f}" for i, x in enumerate(row, 1)) for row in X)
    (folder / "x.svm").write_text("".join(f"{n % 2} {row}\n" for n, row in enumerate(rows)))
    return folder


SMALL = ("-k", "5", "--width", "4096", "--serial")
COMMANDS = {
    "ingest": (["ingest", "{data}/x.svm", "{disk}/y.zarr", "-f", "svmlight"], "y.zarr/zarr.json"),
    "shuffle": (["shuffle", "{data}/x.zarr", "{disk}/y.zarr"], "y.zarr/zarr.json"),
    "split": (["split", "{data}/x.zarr", "{disk}/a.zarr", "{disk}/b.zarr"], "b.zarr/zarr.json"),
    "select": (
        ["select", "{data}/x.zarr", "--out", "{disk}/run", "--algorithm", "mission", *SMALL],
        "run/selection.json",
    ),
}


@pytest.mark.slow_but_first
@pytest.mark.skipif(not has_namespaces(), reason="no disk of its own without namespaces")
@pytest.mark.parametrize(("command", "checked"), COMMANDS.values(), ids=COMMANDS)
def test_f11_a_full_disk_is_named_and_the_same_command_goes_on(data, tmp_path, command, checked):
    disk = tmp_path / "disk"
    disk.mkdir()
    words = [word.format(data=data, disk=disk) for word in command]
    program = [*IN_NAMESPACE, sys.executable, "-c", SCRIPT, str(disk), checked, *words]
    done = subprocess.run(program, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    (code, said), published, again, is_there, parts = json.loads(done.stdout)
    line = said.strip().splitlines()[-1]
    assert (code, published) == (2, False), said
    assert line.startswith("error: ")
    assert f"{disk}/" in line
    assert "no space left on device; free some space there" in line
    assert "Traceback" not in said
    assert (again[0], is_there, parts) == (0, True, []), again
