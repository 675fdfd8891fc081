"""daskfs demo: the main job end to end, on data it makes itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import numpy as np

from daskfs.algorithms.mission import Mission
from daskfs.algorithms.random_features import SparseRandomFeatures
from daskfs.algorithms.substitution import OnlineSubstitution
from daskfs.cli.show import print_selection
from daskfs.jit import is_cold
from daskfs.observe.describe import describe, info_table
from daskfs.observe.terminal import output
from daskfs.store.dataset import Dataset, open_dataset
from daskfs.stream.ingest import ingest
from daskfs.stream.run import select
from daskfs.stream.transpose import transpose
from daskfs.stream.verify import verify_dataset
from daskfs.stream.write import write_dataset


@click.command(short_help="See it work on data made on the spot.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to put the files; a temporary folder by default.")
def demo(out: Path | None) -> None:
    """Make a small text file, turn it into a dataset, and select the features that matter."""
    folder = out or Path(tempfile.mkdtemp(prefix="daskfs-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    source, target = folder / "clicks.vw", folder / "clicks.zarr"

    output.print("[bold]1. A source[/]: 20,000 ad impressions, string features, Vowpal Wabbit's format")
    write_impressions(source, rows=20_000)
    output.print(f"   {source}", soft_wrap=True)

    output.print(f"[bold]2. daskfs ingest[/] {source.name} {target.name} --format vw")
    if is_cold():
        output.print("   (compiling, once on this machine: some 15 seconds)")
    dataset = ingest(source, target, "vw", overwrite=True)
    output.print(info_table(describe(dataset)))

    output.print(f"[bold]3. daskfs verify[/] {target.name}")
    damage = verify_dataset(target)
    chunks = sum(spec.n_chunks for spec in dataset.content.values())
    output.print(f"   {chunks} chunks read, {len(damage)} damaged")

    output.print("[bold]4. Any id gets its name back[/]: the most frequent features")
    for name, count in most_frequent(target):
        output.print(f"   {count:>6,}  {name}", markup=False)

    columns, run = folder / "clicks-columns.zarr", folder / "run"
    output.print(
        f"[bold]5. daskfs transpose[/] {target.name} {columns.name}: columns, for an algorithm that reads them"
    )
    turned = transpose(target, columns, overwrite=True)
    output.print(f"   {turned.n_features:,} columns in {turned.n_blocks()} blocks")

    output.print(f"[bold]6. daskfs select[/] {columns.name} --algorithm substitution -k 8 --loss logistic --out run")
    output.print("   clicks were drawn to depend on jp, on mobile and on word3 … word7", markup=False)
    selection = select(turned, OnlineSubstitution(8, loss="logistic"))
    selection.save(run)
    print_selection(selection)
    output.print(f"[bold]7. daskfs select[/] {target.name} --algorithm mission -k 8 --width 4096 --out run-rows")
    output.print("   the same question to an algorithm that reads rows, as they were ingested, in a sketch of 48 KiB")
    from_rows = select(dataset, Mission(8, width=2**12))
    from_rows.save(folder / "run-rows")
    print_selection(from_rows)
    output.print("[bold]8. daskfs select[/] waves.zarr --algorithm random-features -k 60 --out run-waves")
    output.print("   a target that is no straight line: sin(6 x2) x4, of ten columns", markup=False)
    waves = select(write_waves(folder / "waves.zarr"), SparseRandomFeatures(n_select=60, rounds=6))
    waves.save(folder / "run-waves")
    print_selection(waves, top=3)
    output.print(
        f"[bold]Done.[/] Look again: daskfs show {run}\nOr open the data yourself: xarray.open_zarr('{target}')",
        soft_wrap=True,
    )


def write_impressions(path: Path, rows: int) -> None:
    """Clicks that depend on a country, a device and a few words of the advertisement."""
    rng = np.random.default_rng(0)
    countries = np.array(["de", "fr", "in", "jp", "uk", "us"])
    words = np.array([f"word{i}" for i in range(5_000)])
    frequency = 1.0 / np.arange(1, len(words) + 1)
    frequency /= frequency.sum()
    with open(path, "w") as file:
        for _ in range(rows):
            country, mobile = rng.choice(countries), rng.random() < 0.6
            ad = rng.choice(words, size=8, p=frequency)
            score = (country == "jp") - 0.5 * mobile + 0.8 * np.isin(ad, words[3:8]).sum() - 1
            label = 1 if rng.random() < 1 / (1 + np.exp(-score)) else -1
            device = "mobile" if mobile else "desktop"
            file.write(
                f"{label} |user country={country} device={device} age:{rng.integers(18, 80)} |ad {' '.join(ad)}\n"
            )


def write_waves(path: Path) -> Dataset:
    """Ten columns of which two matter, and only together."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 10)).astype(np.float32)
    y = np.sin(6 * X[:, 2]) * X[:, 4] + 0.05 * rng.normal(size=len(X))
    write_dataset(path, X, y, layout="rows", overwrite=True)
    return open_dataset(path)


def most_frequent(target: Path, count: int = 5) -> list[tuple[str, int]]:
    """The features that stand in most rows, by name."""
    dataset = open_dataset(target)
    rows: dict[int, int] = {}
    for block in dataset.blocks():
        ids, seen = np.unique(block.ids, return_counts=True)  # type: ignore[union-attr]  # a sparse dataset
        for feature, times in zip(ids.tolist(), seen.tolist(), strict=True):
            rows[feature] = rows.get(feature, 0) + times
    top = sorted(rows, key=lambda feature: -rows[feature])[:count]
    return list(zip(dataset.names(np.array(top, np.uint64)), (rows[feature] for feature in top), strict=True))
