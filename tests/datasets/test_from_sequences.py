"""DNA fragments and splice windows, from look-alikes of the public files, against k-mers counted with dicts."""

from __future__ import annotations

import bz2
import gzip
import math
import random
from collections import Counter
from itertools import pairwise

import pytest

BASES = "ACGT"


def bases(seed, n):
    return "".join(random.Random(seed).choices(BASES, k=n))


def kmers(text, k):
    return [text[i : i + k] for i in range(len(text) - k + 1)]


@pytest.fixture
def genomes(tmp_path):
    """Three genomes of two species in `genomes`, and another strain in `strains`; their sequences by species."""
    made = [
        ("genomes/a", ">NC_1.1 Alpha una K-12, complete genome", bases(1, 3000)),
        ("genomes/b", ">gi|7|ref|NC_2.1| Beta duo subsp. duo G27 chromosome", bases(2, 2000)),
        ("genomes/c", ">CP3.1 Beta duo ATCC 3", bases(3, 1000)),
        ("strains/d", ">NC_4 Alpha una 536", bases(4, 900)),
        ("strains/e", ">NC_5 Beta duo 9", bases(5, 800)),
    ]
    for name, header, text in made:
        path = tmp_path / "data" / f"{name}.fna.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [text[i : i + 80] for i in range(0, len(text), 80)]
        path.write_bytes(gzip.compress("\n".join([header, *lines, ""]).encode()))
    return tmp_path / "data", {"Alpha una": [made[0][2]], "Beta duo": [made[1][2], made[2][2]]}


def test_reads_are_pieces_of_their_genome(write, genomes):
    folder, species = genomes
    written = write(
        "dna_fragments", "--from", folder, "--coverage", 2, "--read-length", 50, "--k", 8, "--weighting", "count"
    )
    rows = written.rows_by_name()
    assert written.dataset.classes == ("Alpha una", "Beta duo")
    assert Counter(label for label, _ in rows) == {"Alpha una": 2 * 3000 / 50, "Beta duo": 2 * 3000 / 50}
    possible = {
        label: {tuple(sorted(Counter(kmers(read, 8)).items())) for text in texts for read in kmers(text, 50)}
        for label, texts in species.items()
    }
    for label, row in rows:
        assert tuple(sorted(row.items())) in possible[label]


def test_seed_and_coverage_make_another_sample(write, genomes):
    folder, _ = genomes
    options = "--from", folder, "--read-length", 50, "--k", 6
    sets = [
        write("dna_fragments", *options, "--coverage", coverage, "--seed", seed, out=f"{i}").dataset
        for i, (coverage, seed) in enumerate([(0.5, 0), (0.5, 0), (0.5, 1), (1, 0)])
    ]
    assert [ds.n_samples for ds in sets] == [60, 60, 60, 120]
    assert sets[0].digest == sets[1].digest != sets[2].digest


def test_another_strain_has_the_label_of_its_species(write, genomes):
    folder, _ = genomes
    options = "--from", folder, "--coverage", 1, "--read-length", 50, "--k", "4,6", "--canonical"
    strains = write("dna_fragments", *options, "--folder", "strains")
    assert strains.dataset.classes == ("Alpha una", "Beta duo")
    assert {len(name) for _, row in strains.rows_by_name() for name in row} == {4, 6}


def test_rows_of_counts_have_unit_norm(write, genomes):
    folder, _ = genomes
    X, _ = write("dna_fragments", "--from", folder, "--coverage", 1, "--read-length", 50, "--k", 3).sparse()
    assert X.multiply(X).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_shuffled_reads_are_pieces_of_their_genome_too(write, genomes):
    folder, species = genomes
    options = "--from", folder, "--coverage", 2, "--read-length", 50, "--k", 8, "--weighting", "count", "--shuffle"
    rows = write("dna_fragments", *options).rows_by_name()
    labels = [label for label, _ in rows]
    assert Counter(labels) == {"Alpha una": 2 * 3000 / 50, "Beta duo": 2 * 3000 / 50}
    assert sum(a != b for a, b in pairwise(labels)) > len(labels) / 3
    of_species = {label: {kmer for text in texts for kmer in kmers(text, 8)} for label, texts in species.items()}
    assert all(row.keys() <= of_species[label] for label, row in rows)


def test_shuffled_reads_know_no_file(invoke, genomes, tmp_path):
    folder, _ = genomes
    result = invoke("dna_fragments", tmp_path / "out.zarr", "--from", folder, "--shuffle", "--label", "file")
    assert result.exit_code == 2
    assert "by species" in result.output


def test_label_by_file(write, genomes):
    folder, _ = genomes
    written = write("dna_fragments", "--from", folder, "--coverage", 1, "--read-length", 50, "--label", "file")
    assert written.dataset.classes == ("a", "b", "c")


def test_one_genome_is_too_few(invoke, genomes, tmp_path):
    folder, _ = genomes
    for name in "bc":
        (folder / "genomes" / f"{name}.fna.gz").unlink()
    result = invoke("dna_fragments", tmp_path / "out.zarr", "--from", folder)
    assert result.exit_code == 2
    assert "a.fna.gz" in result.output


@pytest.fixture
def windows(tmp_path):
    """12 windows of 30 bases with their labels, as the public file has them."""
    made = [(1 if i % 5 == 0 else -1, bases(i, 30)) for i in range(12)]
    records = [f"> chr_num=1, strand=+, position={i}, label={label}\n{text}\n" for i, (label, text) in enumerate(made)]
    (tmp_path / "C_elegans_acc_12.fasta.bz2").write_bytes(bz2.compress("".join(records).encode()))
    return made


def expected_window(text, lengths, weight):
    return {f"{kmer}@{i}": pytest.approx(weight) for k in lengths for i, kmer in enumerate(kmers(text, k))}


def test_windows_become_kmers_at_their_positions(write, windows, tmp_path):
    written = write("splice", "--from", tmp_path)
    norm = math.sqrt(sum(30 - k + 1 for k in range(1, 7)))
    assert written.dataset.classes == (-1, 1)
    assert written.rows_by_name() == [(label, expected_window(text, range(1, 7), 1 / norm)) for label, text in windows]


def test_runs_of_windows_are_held_back_for_the_test(recipe, write, windows, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe("splice"), "RUN", 2)  # windows 8 and 9 are the fifth run
    parts = {
        part: write("splice", "--from", tmp_path, "--part", part, "--k", "2", "--weighting", "binary", out=part)
        for part in ("train", "test")
    }
    test = {8, 9}
    for part, numbers in [("train", set(range(12)) - test), ("test", test)]:
        expected = [(windows[i][0], expected_window(windows[i][1], [2], 1)) for i in sorted(numbers)]
        assert parts[part].rows_by_name() == expected


def test_the_last_windows_are_held_back_for_the_test(write, windows, tmp_path):
    for part, expected in ("train", windows[:9]), ("test", windows[9:]):  # 12 windows: 9 are four fifths, rounded down
        options = "--from", tmp_path, "--part", part, "--split", "position", "--k", "2"
        assert [label for label, _ in write("splice", *options, out=part).rows_by_name()] == [y for y, _ in expected]
