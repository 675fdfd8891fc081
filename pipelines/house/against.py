"""Compare two checkouts of daskfs in one run: CPU seconds of the same work, in turns, the best of several.

    python pipelines/house/against.py OLD_CHECKOUT [--rounds 7] [--only substitution,mission]
    python pipelines/house/against.py OLD_CHECKOUT --only default       # what a user gets who sets no options

Each checkout runs in a process of its own, which does every piece of work once to compile kernels and is then asked
in turns. A ratio above 1 means that this checkout is slower. Noise on a shared machine is a few per cent: a ratio
counts only beside the one in brackets, which compares the second best with the best of the *same* checkout.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[2]

SERVER = r"""
import sys, time, tempfile, os, warnings
import numpy as np, scipy.sparse as sp
import daskfs
warnings.simplefilter("ignore")
folder = tempfile.mkdtemp()
os.chdir(folder)
rng = np.random.default_rng(0)

X = rng.normal(size=(1000, 20_000)).astype("float32")
y = X[:, :40] @ rng.normal(size=40) + 0.1 * rng.normal(size=1000)
daskfs.write_dataset("wide.zarr", X, y)
ids = np.minimum(rng.pareto(0.7, size=60_000 * 80) * 20, 199_999).astype(np.int64)
values = rng.random(len(ids)).astype(np.float32)
rows = sp.csr_array((values, ids, np.arange(0, len(ids) + 1, 80)), shape=(60_000, 200_000))
rows.sum_duplicates()
w = np.zeros(200_000); w[rng.integers(0, 200_000, 2000)] = rng.normal(size=2000)
daskfs.write_dataset("rows.zarr", rows, rows @ w > 0)
Z = rng.uniform(size=(40_000, 12))
daskfs.write_dataset("few.zarr", Z, np.sin(6 * Z[:, 1]) * Z[:, 4], layout="rows")
some, few = rows[:3000], Z[:2000]
daskfs.write_dataset("some-rows.zarr", some, some @ w > 0)
daskfs.write_dataset("some-few.zarr", few, np.sin(6 * few[:, 1]) * few[:, 4], layout="rows")
daskfs.write_dataset("some-wide.zarr", X[:100, :2000], y[:100])
with open("table.csv", "w") as file:
    file.write(",".join(f"c{j}" for j in range(20)) + ",y\n")
    for line in rng.normal(size=(40_000, 21)).round(4).tolist():
        file.write(",".join(map(str, line)) + "\n")
with open("rows.svm", "w") as file:
    for i in range(20_000):
        row = rows[[i]]
        file.write("1 " + " ".join(f"{j}:{v:.4f}" for j, v in zip(row.indices.tolist(), row.data.tolist())) + "\n")
with open("rows.vw", "w") as file:
    for i in range(10_000):
        row = rows[[i]]
        entries = zip(row.indices.tolist(), row.data.tolist())
        file.write("1 |f " + " ".join(f"name{j}:{v:.4f}" for j, v in entries) + "\n")
model = daskfs.select("rows.zarr", daskfs.Mission(1000))

select, OS, Mission, SRF = daskfs.select, daskfs.OnlineSubstitution, daskfs.Mission, daskfs.SparseRandomFeatures
WORK = {
    "default, mission, small": lambda: select("some-rows.zarr", Mission(1000)),
    "default, mission, large": lambda: select("rows.zarr", Mission(1000)),
    "default, mission without refit, small": lambda: select("some-rows.zarr", Mission(1000, refit=0)),
    "default, mission without refit, large": lambda: select("rows.zarr", Mission(1000, refit=0)),
    "default, substitution, small": lambda: select("some-wide.zarr", OS(40)),
    "default, substitution, large": lambda: select("wide.zarr", OS(40)),
    "default, random features, small": lambda: select("some-few.zarr", SRF()),
    "default, random features, large": lambda: select("few.zarr", SRF()),
    "default, csv": lambda: daskfs.ingest(
        "table.csv", "csv.zarr", format="csv", label="y", workers=1, overwrite=True
    ),
    "substitution, block": lambda: select("wide.zarr", OS(40, ridge=0.1)),
    "substitution, ridge by itself": lambda: select("wide.zarr", OS(40)),
    "substitution, paper": lambda: select("wide.zarr", OS(40, method="paper")),
    "substitution, async": lambda: select("wide.zarr", OS(40, method="async", workers=2)),
    "mission, active": lambda: select("rows.zarr", Mission(1000, learning_rate=0.5)),
    "mission, rate by itself": lambda: select("rows.zarr", Mission(1000, passes=2)),
    "mission, refit and idf": lambda: select("rows.zarr", Mission(1000, learning_rate=0.5, refit=1, idf=True)),
    "mission, paper": lambda: select("rows.zarr", Mission(1000, learning_rate=0.5, method="paper")),
    "random features": lambda: select("few.zarr", SRF(penalty=0.1, rounds=3, per_round=150)),
    "random features, 40 of them": lambda: select("few.zarr", SRF(n_select=40, rounds=2, per_round=100)),
    "evaluate": lambda: model.evaluate("rows.zarr"),
    "ingest svmlight": lambda: daskfs.ingest("rows.svm", "svm.zarr", format="svmlight", workers=1, overwrite=True),
    "ingest vw": lambda: daskfs.ingest("rows.vw", "vw.zarr", format="vw", workers=1, overwrite=True),
    "shuffle": lambda: daskfs.shuffle("rows.zarr", "shuffled.zarr", seed=0, overwrite=True),
    "split": lambda: daskfs.split("rows.zarr", "train.zarr", "test.zarr", 0.2, overwrite=True),
    "transpose": lambda: daskfs.transpose("rows.zarr", "columns.zarr", overwrite=True),
}
print(daskfs.__file__, *WORK, sep="\t", flush=True)
for line in sys.stdin:
    begun, wall = time.process_time(), time.perf_counter()
    WORK[line.strip()]()
    print(time.process_time() - begun, time.perf_counter() - wall, flush=True)
import shutil; os.chdir("/"); shutil.rmtree(folder, ignore_errors=True)
"""


class Checkout:
    """A process that runs the work with the daskfs of one checkout."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-c", SERVER]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        file, *self.work = self._read().split("\t")
        assert Path(file).is_relative_to(folder), f"{file} is not of {folder}"

    def seconds(self, name: str) -> float:
        """Return the CPU seconds of one piece of work."""
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._read().split()[0])

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            sys.exit(f"a process ended with exit code {self._process.wait(10)}")
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("old", type=Path, help="a checkout to compare with")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--only", default="", help="beginnings of names, separated by commas")
    given = arguments.parse_args()
    old, new = (Checkout(folder.resolve()) for folder in (given.old, HERE))
    print(f"{'CPU seconds, best of ' + str(given.rounds):40} {'old':>8} {'new':>8}  new/old  (noise)")
    for name in new.work:
        if not name.startswith(tuple(given.only.split(","))):
            continue
        took: dict[Checkout, list[float]] = {old: [], new: []}
        for number in range(given.rounds + 1):
            for checkout in (old, new) if number % 2 else (new, old):
                seconds = checkout.seconds(name)
                if number:  # the first time compiles
                    took[checkout].append(seconds)
        best = {checkout: sorted(times) for checkout, times in took.items()}
        noise = max(times[min(1, len(times) - 1)] / times[0] for times in best.values())
        print(
            f"{name:40} {best[old][0]:8.3f} {best[new][0]:8.3f} {best[new][0] / best[old][0]:8.3f}  ({noise:.3f})",
            flush=True,
        )
    old.close()
    new.close()


if __name__ == "__main__":
    main()
