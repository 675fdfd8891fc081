"""Select from a foreign Zarr array in place, beside the same data as a dataset of daskfs.

    python pipelines/benchmarks/in_place.py [--megabytes 400] [--compress [zstd]] [--dtype float64] [--tiles]

Every selection runs in a process of its own, in turn, and the least time of several rounds counts. Printed are the
seconds of each, their ratio, the bytes read in a pass as a share of the array's bytes (by the kernel's count of bytes
that the process asked for), the rise of memory beside the promise, and what was written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import zarr

import daskfs

TRIAL = """
import json, sys, time
from pathlib import Path
import psutil
import daskfs
from daskfs.engine.run import memory_plan
from daskfs.jit import warm_up
from daskfs.store.in_place import InPlace
from daskfs.store.matrix import open_matrix
from daskfs.store.places.location import Location

path, name = sys.argv[1:]
select = daskfs.select  # imports Dask, which is not to be timed
algorithm = {
    "columns": daskfs.OnlineSubstitution(20, loss="squared"),
    "rows": daskfs.Mission(20, passes=3, refit=0),
}[name]
warm_up(type(algorithm).__module__)
place = Location(path)
dataset = InPlace(open_matrix(place), algorithm.axis) if path.endswith("foreign.zarr") else daskfs.open_dataset(path)
plan = memory_plan(dataset, algorithm)
Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins again
peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
asked = lambda: psutil.Process().io_counters()
first, begun = asked(), time.perf_counter()
selection = select(dataset, algorithm)
seconds, last = time.perf_counter() - begun, asked()
passes = round(float(selection.history.bytes.sum()) / sum(dataset.block_sizes(algorithm.axis)), 2)
print(json.dumps({
    "seconds": seconds, "names": sorted(selection.names), "passes": passes, "promised": plan.promised,
    "read": last.read_chars - first.read_chars, "written": last.write_chars - first.write_chars,
    "used": 1024 * (peak() - before),
}))
"""


def trial(path: Path, axis: str) -> dict:
    done = subprocess.run([sys.executable, "-c", TRIAL, str(path), axis], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def write(folder: Path, axis: str, megabytes: int, compression: str, dtype: str, tiles: bool) -> int:
    """Write the same numbers as a foreign Zarr group and as a dataset, and return the bytes of the matrix."""
    megabytes = megabytes * 4 // np.dtype(dtype).itemsize
    rng = np.random.default_rng(0)
    rows, columns = (5000, megabytes * 50) if axis == "columns" else (megabytes * 1000, 250)
    X = rng.normal(size=(rows, columns)).astype(dtype)
    y = X[:, :20] @ rng.choice([-1.0, 1.0], 20) + rng.normal(size=rows)
    chunks = (1000 if tiles else rows, 400) if axis == "columns" else (8000, 100 if tiles else columns)
    group = zarr.open_group(folder / "foreign.zarr", mode="w")
    options = {"compressors": None} if compression == "none" else {}
    group.create_array("X", shape=X.shape, chunks=chunks, dtype=dtype, **options)[:] = X
    group.create_array("y", shape=y.shape, dtype="float64")[:] = y
    daskfs.write_dataset(folder / "ours.zarr", X, y, layout=axis, compression=compression)
    return X.nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--compress",
        nargs="?",
        choices=("none", "lz4", "zstd"),
        default="none",
        const="lz4",
        help="compress the array as Zarr does by default (zstd), and the dataset with lz4 or zstd",
    )
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--tiles", action="store_true", help="chunks of the array hold no whole columns or rows")
    parser.add_argument("--axis", choices=("columns", "rows"), action="append", help="by default both")
    arguments = parser.parse_args()
    for axis in arguments.axis or ("columns", "rows"):
        with TemporaryDirectory() as name:
            folder = Path(name)
            nbytes = write(folder, axis, arguments.megabytes, arguments.compress, arguments.dtype, arguments.tiles)
            best: dict[str, dict] = {}
            for _ in range(arguments.rounds):
                for kind in ("ours", "foreign"):
                    result = trial(folder / f"{kind}.zarr", axis)
                    if kind not in best or result["seconds"] < best[kind]["seconds"]:
                        best[kind] = result
            ours, foreign = best["ours"], best["foreign"]
            stored = sum(path.stat().st_size for path in (folder / "foreign.zarr" / "X").rglob("c/*/*"))
            print(
                f"{axis:8} dataset {ours['seconds']:.2f} s, in place {foreign['seconds']:.2f} s, "
                f"speed {ours['seconds'] / foreign['seconds']:.2f} of the dataset's; same features: "
                f"{ours['names'] == foreign['names']}; read {foreign['read'] / stored:.2f} times the stored bytes in "
                f"{foreign['passes']} passes ({nbytes / 1e6:.0f} MB of numbers); memory "
                f"{foreign['used'] / 2**20:.0f} of {foreign['promised'] / 2**20:.0f} MiB; "
                f"written {foreign['written']:,} bytes",
                flush=True,
            )


if __name__ == "__main__":
    main()
