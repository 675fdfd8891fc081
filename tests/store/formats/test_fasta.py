"""FASTA against k-mers counted with strings and dicts."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store.formats.rows_of import Rows, rows_of

from daskfs.errors import BadLineError, OptionError
from daskfs.store.dataset.names import kmer_name
from daskfs.store.ingest.formats.fasta import Fasta

pytestmark = pytest.mark.kernels

MESSY = (
    b">one label=1 a->b\r\nACGTACGTTGCA\r\nacgtNacgt\r\n"
    b">two label=-1\nGATTACA\n\nGAT TACA*RYK\tcc-cc\n"
    b">three label=2.5\nAUGGCUUAAUGG\n"
    b">four label=1\nNNNNNNNN\n"
    b">five label=0\nT\n"
    b">six label=1\n" + b"ACGTTGCAAC" * 30 + b"\n" + b"TTGACCAGTA" * 20  # the last line has no end
)


@pytest.fixture
def fasta(tmp_path: Path) -> Callable[..., Path]:
    def write(text: bytes, name: str = "reads.fa") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return write


def sequences(text: bytes) -> list[str]:
    """The sequence of each record, in upper case, T for U."""
    records = ("\n" + text.decode()).split("\n>")[1:]
    return ["".join("".join(record.split("\n")[1:]).split()).upper().replace("U", "T") for record in records]


def kmer_counts(
    sequence: str, k: tuple[int, ...], canonical: bool = False, position: bool = False
) -> Mapping[str, int]:
    """The slow way: every window of every length as a string."""
    counts: Counter[str] = Counter()
    windows = [(start, start + length) for length in k for start in range(len(sequence) - length + 1)]
    for start, stop in windows:
        kmer = sequence[start:stop]
        if set(kmer) <= set("ACGT"):
            if canonical:
                kmer = min(kmer, kmer[::-1].translate(str.maketrans("ACGT", "TGCA")))
            counts[f"{kmer}@{start}" if position else kmer] += 1
    return counts


def named(rows: Rows, format: Fasta) -> list[dict[str, float]]:
    shift = format.names_from["shift"]
    return [{kmer_name(i, shift): value for i, value in row.items()} for row in rows.as_dicts()]


@pytest.mark.parametrize("k", [(1,), (3,), (12,), (31,), (2, 5, 9), (1, 31)])
@pytest.mark.parametrize("options", [{}, {"canonical": True}], ids=["as is", "canonical"])
def test_counts_every_kmer(fasta: Callable[..., Path], k: tuple[int, ...], options: dict[str, Any]) -> None:
    format = Fasta(k=k, **options)
    rows = rows_of(format, [fasta(MESSY)])
    assert named(rows, format) == [kmer_counts(sequence, k, **options) for sequence in sequences(MESSY)]
    edges = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    assert all((np.diff(rows.ids[a:b].astype(np.int64)) > 0).all() for a, b in edges)


@pytest.mark.parametrize("k", [(1,), (7,), (25,), (2, 5)])
def test_counts_kmers_at_positions(fasta: Callable[..., Path], k: tuple[int, ...]) -> None:
    format = Fasta(k=k, position=True)
    expected = [kmer_counts(sequence, k, position=True) for sequence in sequences(MESSY)]
    assert named(rows_of(format, [fasta(MESSY)]), format) == expected


def test_one_length_needs_no_tuple() -> None:
    assert Fasta(k=5) == Fasta(k=(5,))  # type: ignore[arg-type]
    assert Fasta(k=[5, 3]) == Fasta(k=(3, 5))  # type: ignore[arg-type]  # as a job file has it


def test_weightings(fasta: Callable[..., Path]) -> None:
    path = fasta(b">a\nAAAACA\n")
    assert named(rows_of(Fasta(k=(2,)), [path]), Fasta()) == [{"AA": 3, "AC": 1, "CA": 1}]
    assert named(rows_of(Fasta(k=(2,), weighting="binary"), [path]), Fasta()) == [{"AA": 1, "AC": 1, "CA": 1}]
    unit = rows_of(Fasta(k=(2,), weighting="unit"), [path])
    np.testing.assert_allclose(unit.values, np.array([3, 1, 1]) / np.sqrt(11), rtol=1e-6)


def test_a_file_labels_its_records(fasta: Callable[..., Path]) -> None:
    paths = [fasta(b">1\nAC\n>2\nGT\n", "ecoli.v2.fa"), fasta(b">1\nAA\n", "7.fasta.gz")]
    rows = rows_of(Fasta(k=(1,)), paths)
    assert [rows.labels[int(code)] for code in rows.y] == ["ecoli.v2", "ecoli.v2", "7"]


def test_headers_label_records_with_numbers(fasta: Callable[..., Path]) -> None:
    rows = rows_of(Fasta(k=(1,), label=r"header:label=([-+.\d]+)"), [fasta(MESSY)])
    assert rows.y.tolist() == [1, -1, 2.5, 1, 0, 1]
    assert rows.labels == []


def test_headers_label_records_with_strings(fasta: Callable[..., Path]) -> None:
    path = fasta(b">r1 Homo\nA\n>r2 Pan\nA\n>r3 Homo\r\nA\n")
    rows = rows_of(Fasta(k=(1,), label=r"header: (\w+)$"), [path])
    assert rows.labels == ["Homo", "Pan"]
    assert rows.y.tolist() == [0, 1, 0]


def test_numbers_may_be_taken_as_strings(fasta: Callable[..., Path]) -> None:
    rows = rows_of(Fasta(k=(1,), label=r"header:label=(\S+)", labels="strings"), [fasta(MESSY)])
    assert [rows.labels[int(code)] for code in rows.y] == ["1", "-1", "2.5", "1", "0", "1"]


CUTS: list[dict[str, int]] = [
    {"part_bytes": 37},
    {"part_bytes": 1},
    {"window_bytes": 64},
    {"part_bytes": 150, "window_bytes": 70},
    {"block_rows": 1},
    {"block_rows": 2, "block_entries": 3},
    {"part_bytes": 90, "window_bytes": 64, "block_rows": 2, "block_entries": 40},
]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize(
    "format",
    [
        Fasta(k=(2, 6), label=r"header:label=([-.\d]+)", weighting="unit"),
        Fasta(k=(4,), position=True),
        Fasta(k=(4, 12), canonical=True, read_length=20, coverage=3, seed=5),
    ],
    ids=["records", "positions", "reads"],
)
def test_how_the_work_is_cut_does_not_show(fasta: Callable[..., Path], format: Fasta, cut: dict[str, int]) -> None:
    path = fasta(MESSY)
    whole = rows_of(format, [path])
    assert len(whole.y) > 5
    rows_of(format, [path], **cut).assert_equal(whole)


def random_bases(count: int, seed: int = 0) -> str:
    return "".join(np.random.default_rng(seed).choice(list("ACGT"), count))


def test_reads_are_drawn_by_seed_file_and_offset(fasta: Callable[..., Path]) -> None:
    """The recipe, written out: anybody can find the reads of a record again."""
    length, coverage, seed = 50, 2.5, 11
    text = ">a\n" + random_bases(999) + "\n>tiny\nACGT\n>b\n" + random_bases(400, 1) + "\n"
    expected = []
    for sequence, offset in zip(sequences(text.encode()), (0, text.index(">tiny"), text.index(">b")), strict=True):
        key = hashlib.blake2b(f"{seed}\0genome\0{offset}".encode(), digest_size=16).digest()
        draws = np.random.Philox(key=int.from_bytes(key, "little"))
        places = len(sequence) - length + 1
        for _ in range(round(coverage * len(sequence) / length) if places > 0 else 0):
            start = int((draws.random_raw() >> 11) * 2.0**-53 * places)
            expected.append(kmer_counts(sequence[start : start + length], (9,)))
    format = Fasta(k=(9,), read_length=length, coverage=coverage, seed=seed)
    assert len(expected) == 50 + 20
    assert named(rows_of(format, [fasta(text.encode(), "genome.fa")]), format) == expected
    assert named(rows_of(format, [fasta(text.encode(), "genome.fa.gz")]), format) == expected


def test_reads_start_everywhere_alike(fasta: Callable[..., Path]) -> None:
    genome = random_bases(2000)
    place_of = {genome[i : i + 20]: i for i in range(len(genome) - 19)}
    format = Fasta(k=(20,), read_length=20, coverage=200)
    rows = named(rows_of(format, [fasta(f">g\n{genome}\n".encode())], block_rows=30_000), format)
    starts = np.array([place_of[kmer] for row in rows for kmer in row])
    assert len(starts) == 200 * 2000 / 20
    assert (starts.min(), starts.max()) == (0, 1980)
    in_tenths = np.histogram(starts, bins=10, range=(0, 1981))[0]
    assert (abs(in_tenths - 2000) < 5 * np.sqrt(2000)).all()


def test_seed_and_name_change_the_reads(fasta: Callable[..., Path]) -> None:
    text = f">g\n{random_bases(3000)}\n".encode()

    def ids(seed: int, name: str) -> list[int]:
        return rows_of(Fasta(read_length=100, coverage=1, seed=seed), [fasta(text, name)]).ids.tolist()  # type: ignore[no-any-return]

    assert ids(0, "a.fa") == ids(0, "a.fa")
    assert ids(0, "a.fa") != ids(1, "a.fa")
    assert ids(0, "a.fa") != ids(0, "b.fa")


GOOD = b">good label=1\nACGT\n"


@pytest.mark.parametrize(
    ("bad", "line", "reason", "options"),
    [
        (b">bad label=1\nACGT\nAC1GT\n", 5, "not a letter of a sequence: '1GT'", {}),
        (b">bad label=1\nACGT>\n", 4, "not a letter of a sequence: '>'", {}),
        (b">bad label=1\nAC\xc3\xa9\n", 4, "not a letter of a sequence", {}),
        (b">bad label=1\n\n \n", 3, "a record without a sequence: '>bad label=1'", {}),
        (b">bad lab=1\nACGT\n", 3, "the header does not match", {"label": r"header:label=(\d+)"}),
        (b">bad label=\nACGT\n", 3, "the header does not match", {"label": r"header:label=(\d*)"}),
        (b">bad label=x\nACGT\n", 3, "not a finite number", {"label": r"header:label=(\S+)", "labels": "numbers"}),
        (b">bad label=inf\nACGT\n", 3, "not a finite number", {"label": r"header:label=(\S+)", "labels": "numbers"}),
        (b">bad label=1\n" + b"ACGT" * 12 + b"\n", 3, "use a smaller k", {"position": True, "k": (29,)}),
    ],
)
def test_bad_records(fasta: Callable[..., Path], bad: bytes, line: int, reason: str, options: dict[str, Any]) -> None:
    path = fasta(GOOD + bad + GOOD)
    format = Fasta(**{"k": (2,), **options})
    with pytest.raises(BadLineError) as caught:
        rows_of(format, [path])
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert reason in str(caught.value)
    for cut in CUTS:
        rows = rows_of(format, [path], skip_bad=True, **cut)
        rows.assert_equal(rows_of(format, [path], skip_bad=True))
        assert (len(rows.y), rows.bad) == (2, 1)


@pytest.mark.parametrize("opening", [b"ACGT\n", b"\n", b"; a comment\n"])
def test_fasta_begins_with_a_record(fasta: Callable[..., Path], opening: bytes) -> None:
    path = fasta(opening + GOOD)
    with pytest.raises(BadLineError, match=r'reads\.fa:1: FASTA begins with ">"'):
        rows_of(Fasta(k=(2,)), [path])
    rows = rows_of(Fasta(k=(2,)), [path], skip_bad=True)
    assert named(rows, Fasta()) == [{"AC": 1, "CG": 1, "GT": 1}]
    assert rows.bad == 1


def test_an_empty_file_has_no_rows(fasta: Callable[..., Path]) -> None:
    assert len(rows_of(Fasta(), [fasta(b"")]).y) == 0


def test_the_largest_position_fits(fasta: Callable[..., Path]) -> None:
    """29-mers leave 4 bits for positions: 16 of them, so 44 bases."""
    format = Fasta(k=(29,), position=True)
    sequence = random_bases(44)
    rows = rows_of(format, [fasta(f">a\n{sequence}\n".encode())])
    assert named(rows, format) == [kmer_counts(sequence, (29,), position=True)]
    assert max(rows.ids) < 2**63
    with pytest.raises(BadLineError):
        rows_of(format, [fasta(f">a\n{sequence}A\n".encode())])


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"k": ()}, "k"),
        ({"k": 0}, "k"),
        ({"k": (3, 32)}, "k"),
        ({"k": "12"}, "k"),
        ({"canonical": True, "position": True}, "canonical, position"),
        ({"label": "name"}, "label"),
        ({"label": "header:label=1"}, "label"),
        ({"label": "header:(["}, "label"),
        ({"labels": "numbers"}, "labels"),
        ({"labels": "words"}, "labels"),
        ({"read_length": 100}, "read_length, coverage"),
        ({"coverage": 1.0}, "read_length, coverage"),
        ({"read_length": 11, "coverage": 1.0}, "read_length"),
        ({"read_length": 45, "coverage": 1.0, "k": 29, "position": True}, "read_length"),
        ({"read_length": 100, "coverage": 0.0}, "coverage"),
        ({"read_length": 100, "coverage": float("nan")}, "coverage"),
        ({"weighting": "counts"}, "weighting"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], about: str) -> None:
    with pytest.raises(OptionError, match=f"^{about}: "):
        Fasta(**options)
