"""The tables of MISSION on real data, run for real on small look-alikes of the public files."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import json
import random
import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import daskfs
from daskfs.algorithms.mission.state import empty_memory, room_of

SMALL = "0.05"  # MiB
MISSION = {"hashing", "IHT", "MISSION, paper", "MISSION, active"}


@pytest.fixture
def tables(monkeypatch, tmp_path):
    """The tables of a command, from public files below `public`, as records by title."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "pipelines" / "papers"))
    main = importlib.import_module("mission_real").main

    def run(command, *options):
        where = "--from", str(tmp_path / "public"), "--work", str(tmp_path / "work"), "--json"
        result = CliRunner().invoke(main, [command, *where, *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return [json.loads(line)["records"] for line in result.stdout.splitlines()]

    return run


@pytest.fixture
def draws():
    return random.Random(0)


def by_method(records, column):
    return {record["method"]: record for record in records if record["features"] == column}


@pytest.fixture
def windows(tmp_path, draws):
    """400 windows of 20 bases; a true site has AG in the middle, a decoy has CG there."""
    records = []
    for number in range(400):
        label = 1 if number % 4 == 0 else -1
        text = "".join(draws.choices("ACGT", k=20))
        text = f"{text[:9]}{'AG' if label == 1 else 'CG'}{text[11:]}"
        records.append(f"> chr_num=1, strand=+, position={number}, label={label}\n{text}\n")
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "C_elegans_acc_400.fasta.bz2").write_bytes(bz2.compress("".join(records).encode()))


def test_splice_sites(tables, windows, tmp_path):
    options = "--split", "position", "--setting", "8", SMALL, "--passes", "1"
    (records,) = tables("splice", *options)
    limited = by_method(records, "8 in 0.05 MiB")
    assert limited.keys() >= MISSION
    assert by_method(records, "any memory").keys() == {"SGD, exact weights"}
    assert limited["MISSION, active"]["average precision"] > 0.99
    assert all(record["MiB"] <= 0.05 for name, record in limited.items() if name != "IHT")
    shutil.rmtree(tmp_path / "public")  # the datasets are kept: a second call reads no public file
    assert tables("splice", *options) == [records]


@pytest.fixture
def messages(tmp_path, draws):
    """Messages of three groups, with a word of their own among those they share."""
    (tmp_path / "public").mkdir()
    with tarfile.open(tmp_path / "public" / "20news-bydate.tar.xz", "w:xz") as tar:
        for part, count in ("train", 60), ("test", 20):
            for number, group in ((number, group) for number in range(count) for group in ("cars", "moon", "chips")):
                text = " ".join([*draws.choices(["the", "of", "and", "to", "in"], k=6), group]).encode()
                member = tarfile.TarInfo(f"20news-bydate-{part}/{group}/{number}")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))


def test_newsgroups(tables, messages):
    (records,) = tables("news20", "--setting", "20", SMALL)
    limited, free = by_method(records, "20 in 0.05 MiB"), by_method(records, "any memory")
    assert limited.keys() >= MISSION | {"LinearSVC tf-idf, cut"}
    assert free.keys() >= {"LinearSVC tf-idf"}
    for record in (limited["MISSION, active"], limited["hashing"], free["LinearSVC tf-idf"]):
        assert record["accuracy"] > 0.95


@pytest.fixture
def genomes(tmp_path, draws):
    """Three species, each rich in one base, and strains of two of them."""
    made = [("genomes", "Alpha una", "A"), ("genomes", "Beta duo", "C"), ("genomes", "Gamma tres", "G")]
    for number, (folder, species, base) in enumerate(
        [*made, ("genomes_strains", *made[0][1:]), ("genomes_strains", *made[1][1:])]
    ):
        path = tmp_path / "public" / folder / f"{number}.fna.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        bases = "".join(draws.choices(f"ACGT{base * 3}", k=20_000))
        path.write_bytes(gzip.compress(f">NC_{number} {species} strain {number}\n{bases}\n".encode()))


def test_species(tables, genomes):
    mixed, per_class = tables("dna", "--setting", "50", "0.2", "--per-class", "20", "0.2")
    limited, free = by_method(mixed, "50 in 0.2 MiB"), by_method(mixed, "any memory")
    assert limited.keys() >= MISSION
    assert free.keys() >= {"naive Bayes, 8-mers"}
    for record in (limited["MISSION, active"], limited["hashing"], free["naive Bayes, 8-mers"]):
        assert record["accuracy"] > 0.9
        assert record["on strains"] > 0.9
    assert by_method(per_class, "20 in 0.2 MiB").keys() == {"MISSION, paper, per class", "MISSION, active, per class"}


def test_memory_is_that_of_the_arrays_a_run_keeps(tables):
    contenders = importlib.import_module("_contenders")
    for loss, n_scores in (("logistic", 1), ("softmax", 15)):
        algorithm = daskfs.Mission(1000, loss=loss, width=2**16)
        memory = empty_memory(algorithm, n_scores, room_of(algorithm, 0))
        a_slot = sum(array[:, :1].nbytes for array in (memory.keys, memory.weights, memory.pace))
        assert contenders.kept_bytes(n_scores, 1000, 2**16, {}) == memory.cells.nbytes + 1000 * a_slot
    assert contenders.kept_bytes(20, 1000, 2**16, {"method": "hashing"}) == 20 * 4 * 2**16
