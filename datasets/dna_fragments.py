"""Fragments of bacterial genomes, to be told apart by species: MISSION's DNA (ICML 2018, section 6.1, figure 4).

The design: reads of 200 bases start at random places of each genome until every base is covered c times
on average, c = .1 for training and 1 for the test; a read becomes the counts of its k-mers, k = 12, and
its label is the species. The paper has 15 species and 14.9 million features, from the collection of
Vervier et al. (2016). Any folder of genomes will do: one FASTA file each, as RefSeq has them. (Its table 2
has 207,468 test reads, coverage 1 of 41 million bases, but 1,590,000 training reads: coverage 7.7.)

The species is the first "Genus species" in a record's header, so that another strain of the same
species has the same label (`--label file` takes the file's name instead).

Reads come genome by genome. `--shuffle` draws them from all genomes at once, as whatever learns from one row after the
other needs them (of which the genomes are read into memory, and the draws are others).

Known truth: the labels; which k-mers tell species apart is not known.

    python datasets/dna_fragments.py dna.zarr --from DIR
    python datasets/dna_fragments.py dna-test.zarr --from DIR --coverage 1 --seed 1
    python datasets/dna_fragments.py strains.zarr --from DIR --folder genomes_strains --coverage 1
    python datasets/dna_fragments.py mixed.zarr --from DIR --k 6,8,10 --coverage .25 --shuffle
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
from _recipe import (
    RecipeError,
    announce,
    find_all,
    lengths_option,
    mixed,
    recipe,
    seed_option,
    shuffle_option,
    source_folder,
    weighting_option,
)

import daskfs

ORIGIN = (
    "NCBI RefSeq, one complete genome per species, e.g. accession NC_000913 for Escherichia coli K-12 "
    "(expected: FASTA files *.fna, *.fna.gz in one folder)"
)
LABELS = {"species": r"header:([A-Z][a-z]+ [a-z]+)", "file": "file"}


@recipe
@source_folder
@click.option("--folder", "genomes", default="genomes", help="The folder of genomes, below --from or --from itself.")
@lengths_option("--k", "12", "Lengths of the k-mers.")
@click.option("--coverage", type=click.FloatRange(min=0, min_open=True), default=0.1, help="Reads over each base.")
@click.option("--read-length", type=click.IntRange(min=1), default=200, help="Bases of a read.")
@click.option("--canonical", is_flag=True, help="Count a k-mer and its reverse complement as one.")
@click.option("--label", type=click.Choice(list(LABELS)), default="species", help="What a read is labelled with.")
@weighting_option("unit")
@seed_option
@shuffle_option
def main(
    out: str,
    folder: Path | None,
    genomes: str,
    k: tuple[int, ...],
    coverage: float,
    read_length: int,
    canonical: bool,
    label: str,
    weighting: str,
    seed: int,
    shuffle: bool,
    overwrite: bool,
) -> None:
    """Reads sampled from genomes, as counts of their k-mers, labelled with the species."""
    files = _genome_files(folder, genomes)
    options = {"format": "fasta", "k": k, "canonical": canonical, "weighting": weighting, "overwrite": overwrite}
    labels = {"label": LABELS[label], "labels": "strings"}
    if shuffle:
        if label == "file":
            raise RecipeError("--shuffle puts the reads of all files into one: label them by species")
        with tempfile.TemporaryDirectory() as temporary:
            reads = Path(temporary) / "reads.fasta"
            with reads.open("w") as file:
                file.writelines(mixed(_reads(files, read_length, coverage, seed), seed))
            daskfs.ingest([str(reads)], out, **options, **labels)
    else:
        daskfs.ingest(files, out, read_length=read_length, coverage=coverage, seed=seed, **options, **labels)
    announce(out)


def _reads(files: Sequence[str], length: int, coverage: float, seed: int) -> Iterator[str]:
    """Reads of all genomes as FASTA records, which begin at random places; each has the header of its genome."""
    draws = np.random.default_rng(seed)
    for file in files:
        for header, bases in _records(file):
            places = len(bases) - length + 1
            count = round(coverage * len(bases) / length) if places > 0 else 0
            for start in draws.integers(0, max(1, places), count).tolist():
                yield f"{header}\n{bases[start : start + length]}\n"


def _records(file: str) -> Iterator[tuple[str, str]]:
    """Header and bases of every record of a file, plain or gzipped."""
    with gzip.open(file, "rt") if file.endswith(".gz") else open(file) as text:
        for record in text.read().split(">")[1:]:
            header, _, lines = record.partition("\n")
            yield f">{header}", lines.replace("\n", "")


def _genome_files(folder: Path | None, genomes: str) -> list[str]:
    if folder is not None and (folder / genomes).is_dir():
        folder = folder / genomes
    files = [str(path) for path in find_all(folder, "*.fna*", ORIGIN)]
    if len(files) < 2:
        raise RecipeError(f"only one genome, {files[0]}; it takes two or more to tell species apart")
    return files


if __name__ == "__main__":
    main()
