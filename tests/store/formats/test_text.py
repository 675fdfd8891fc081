"""Text against n-grams made of Python strings, and against scikit-learn's."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from store.formats.rows_of import rows_of

from daskfs.errors import BadLineError, OptionError, SourceError
from daskfs.store.ingest.formats.text import Text

pytestmark = pytest.mark.kernels

WORD = r"[A-Za-z0-9_\x80-\U0010ffff]+"

DOCUMENTS = [
    "The quick brown fox; the QUICK_brown fox, quick!",
    "",
    "Straße İstanbul ΣΊΣΥΦΟΣ \N{SNOWMAN} naïve café 中文字 😀😀",
    "  two   spaces\vand a \f feed  ",
    "x",
    "... !!!",
    "a b a b a b " * 40,
]


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str | bytes, name: str = "docs.tsv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def labelled(documents: Sequence[str]) -> str:
    return "".join(f"{i % 3}\t{document}\n" for i, document in enumerate(documents))


def ngram_counts(
    document: str, words: tuple[int, ...] = (), chars: tuple[int, ...] = (), lowercase: bool = True
) -> Mapping[str, int]:
    """The slow way: every n-gram as a string."""
    document = document.lower() if lowercase else document
    tokens = re.findall(WORD, document)
    characters = re.sub(r"[ \t\r\n\v\f]+", " ", document).strip(" ")
    counts: Counter[str] = Counter()
    for n in words:
        counts.update("w:" + " ".join(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
    for n in chars:
        counts.update("c:" + characters[i : i + n] for i in range(len(characters) - n + 1))
    return counts


OPTIONS: list[dict[str, Any]] = [
    {"words": (1,)},
    {"words": (1, 2)},
    {"words": (3,)},
    {"words": (), "chars": (1,)},
    {"words": (), "chars": (2, 5)},
    {"words": (1, 2), "chars": (3,)},
    {"words": (1, 4), "chars": (1, 3, 4), "lowercase": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_counts_every_ngram(lines: Callable[..., Path], options: dict[str, Any]) -> None:
    rows = rows_of(Text(**options), [lines(labelled(DOCUMENTS))])
    assert rows.named() == [ngram_counts(document, **options) for document in DOCUMENTS]
    assert rows.y.tolist() == [0, 1, 2, 0, 1, 2, 0]


documents = st.lists(st.text(alphabet="aB c\u00e9\u0130\u03a3\u00df\u4e2d\U0001f600_-, \v\0", max_size=40), max_size=8)


@settings(max_examples=60, deadline=None)
@given(documents, st.sampled_from(OPTIONS))
def test_counts_any_text(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], options: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tsv"
    path.write_bytes(labelled(documents).encode())
    rows = rows_of(Text(**options), [path], window_bytes=64, block_rows=3, block_entries=30, names_bytes=1)
    assert rows.named() == [ngram_counts(document, **options) for document in documents]


@pytest.mark.parametrize("lengths", [(1, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("lowercase", [True, False])
def test_words_are_those_of_scikit_learn(lines: Callable[..., Path], lengths: tuple[int, int], lowercase: bool) -> None:
    vectorizer = CountVectorizer(token_pattern=WORD, ngram_range=lengths, lowercase=lowercase)
    counts = vectorizer.fit_transform(DOCUMENTS).toarray()
    names = vectorizer.get_feature_names_out()
    expected = [{f"w:{names[j]}": row[j] for j in np.flatnonzero(row)} for row in counts]
    format = Text(words=tuple(range(lengths[0], lengths[1] + 1)), lowercase=lowercase)
    assert rows_of(format, [lines(labelled(DOCUMENTS))]).named() == expected


def test_an_id_is_the_hash_of_the_name(lines: Callable[..., Path]) -> None:
    rows = rows_of(Text(words=(1, 2), chars=(3,)), [lines(labelled(DOCUMENTS))])
    assert len(rows.names) > 100
    assert all(i == xxhash.xxh64_intdigest(name) & (2**63 - 1) for i, name in rows.names.items())


def test_one_length_needs_no_tuple() -> None:
    assert Text(words=2, chars=[4, 3]) == Text(words=(2,), chars=(3, 4))  # type: ignore[arg-type]


def test_bytes_that_are_no_utf8_become_one_letter(lines: Callable[..., Path]) -> None:
    rows = rows_of(Text(chars=(2,)), [lines(b"1\ta\xff b\xe4\xb8\n2\tb\n")])
    assert rows.named() == [ngram_counts("a\ufffd b\ufffd", (1,), (2,)), {"w:b": 1}]


def test_weightings(lines: Callable[..., Path]) -> None:
    path = lines("0\ta b a a\n")
    assert rows_of(Text(weighting="binary"), [path]).named() == [{"w:a": 1, "w:b": 1}]
    unit = rows_of(Text(weighting="unit"), [path]).named()
    assert unit == [pytest.approx({"w:a": 3 / np.sqrt(10), "w:b": 1 / np.sqrt(10)})]


CUTS: list[dict[str, int]] = [
    {"part_bytes": 1},
    {"part_bytes": 50},
    {"window_bytes": 64},
    {"part_bytes": 100, "window_bytes": 70},
    {"block_rows": 1},
    {"block_rows": 2, "block_entries": 3},
    {"names_bytes": 1},  # 16 names at a time: a row has more
    {"part_bytes": 90, "window_bytes": 64, "block_rows": 2, "block_entries": 10, "names_bytes": 1},
]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("options", OPTIONS[-2:], ids=str)
def test_how_the_work_is_cut_does_not_show(
    lines: Callable[..., Path], cut: dict[str, int], options: dict[str, Any]
) -> None:
    path = lines(labelled(DOCUMENTS * 3))
    rows_of(Text(**options), [path], **cut).assert_equal(rows_of(Text(**options), [path]))


def test_a_name_larger_than_the_memory_for_names(lines: Callable[..., Path]) -> None:
    rows = rows_of(Text(), [lines("0\tfine\n1\t" + "x" * 5000 + " fine\n")], names_bytes=1)
    assert rows.named() == [{"w:fine": 1}, {"w:" + "x" * 5000: 1, "w:fine": 1}]


@pytest.mark.parametrize(
    ("column", "line"),
    [
        (0, "{}\tred fox\tblue"),
        (1, "red fox\t{}\tblue"),
        (2, "red fox\tblue\t{}"),
        (1, "red fox\t {} \tblue"),
        (2, "red fox\tblue\t{}\r"),
    ],
)
def test_the_label_is_a_column_and_the_others_are_the_text(lines: Callable[..., Path], column: int, line: str) -> None:
    text = line.format("1") + "\n\n \r\n" + line.format("-2.5e1")
    rows = rows_of(Text(label=f"column:{column}", words=(1, 2), chars=(3,)), [lines(text)])
    assert rows.y.tolist() == [1, -25]
    assert rows.named() == [ngram_counts("red fox blue", (1, 2), (3,))] * 2


def test_string_labels_keep_their_case(lines: Callable[..., Path]) -> None:
    rows = rows_of(Text(), [lines("Very Good\ta\nbad\ta\nVery Good\tb\n")])
    assert (rows.labels, rows.y.tolist()) == (["Very Good", "bad"], [0, 1, 0])


def test_numbers_may_be_taken_as_strings(lines: Callable[..., Path]) -> None:
    rows = rows_of(Text(labels="strings"), [lines("1\ta\n01\tb\n")])
    assert (rows.labels, rows.y.tolist()) == (["1", "01"], [0, 1])


@pytest.mark.parametrize(
    ("bad", "reason", "options"),
    [
        ("no tab here", "expected tab-separated columns", {}),
        ("1\tone", "expected tab-separated columns", {"label": "column:2"}),
        (" \ttext", "the label is empty", {}),
        ("one\ttext", "the label is not a number", {"labels": "numbers"}),
        ("1 2\ttext", "the label is not a number", {"labels": "numbers"}),
        ("1e\ttext", "the label is not a number", {"labels": "numbers"}),
        ("nan\ttext", "the label is NaN or infinite", {"labels": "numbers"}),
        ("1e999\ttext", "the label is NaN or infinite", {"labels": "numbers"}),
    ],
)
def test_bad_lines(lines: Callable[..., Path], bad: str, reason: str, options: dict[str, Any]) -> None:
    """Around them lie characters that are longer in lower case: places are those of the file."""
    good = "1\t\u0130\u0130\u0130 Ⱥ\t3"
    path = lines(f"{good}\n\n{good}\n{bad}\n{good}\n")
    with pytest.raises(BadLineError) as caught:
        rows_of(Text(**options), [path])
    assert str(caught.value).startswith(f"{path}:4: {reason}")
    for cut in CUTS:
        rows = rows_of(Text(**options), [path], skip_bad=True, **cut)
        assert rows.bad == 1
        assert len(rows.y) == 3
        assert rows.named()[2] == rows.named()[0]


def test_too_many_labels(lines: Callable[..., Path]) -> None:
    path = lines("".join(f"l{i}\ta\n" for i in range(10_001)))
    with pytest.raises(BadLineError, match=r":10001: more than 10000 different string labels"):
        rows_of(Text(), [path])


def test_files_are_labelled_by_their_folder(tmp_path: Path) -> None:
    contents = {
        "neg/1.txt": b"Bad film.\nReally\tbad.\n",
        "neg/2.txt.gz": gzip.compress(b"bad"),
        "pos/1.txt": b"\xef\xbb\xbfGood",
        "pos/2.txt": b"",
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    rows = rows_of(Text(documents="files", words=(1, 2), chars=(4,)), [tmp_path])
    expected = ["Bad film. Really bad.", "bad", "Good", ""]
    assert rows.named() == [ngram_counts(document, (1, 2), (4,)) for document in expected]
    assert [rows.labels[int(code)] for code in rows.y] == ["neg", "neg", "pos", "pos"]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_file_is_one_document_however_it_is_cut(lines: Callable[..., Path], cut: dict[str, int]) -> None:
    paths = [lines("\n".join(DOCUMENTS), f"folder/{i}.txt") for i in range(3)]
    format = Text(documents="files", chars=(3,))
    rows = rows_of(format, paths, **cut)
    assert rows.named() == [ngram_counts("\n".join(DOCUMENTS), (1,), (3,))] * 3


def test_a_file_too_large_for_a_document(lines: Callable[..., Path]) -> None:
    assert len(rows_of(Text(documents="files"), [lines("0123456789")], line_bytes=10).y) == 1
    with pytest.raises(SourceError, match=r"docs.tsv: a document of more than .* one document a line"):
        rows_of(Text(documents="files"), [lines("0123456789a")], line_bytes=10)


def test_utf16_is_refused(lines: Callable[..., Path]) -> None:
    with pytest.raises(SourceError, match="UTF-16"):
        rows_of(Text(documents="files"), [lines("text".encode("utf-16"))])


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"words": ()}, "words, chars"),
        ({"words": 0}, "words"),
        ({"chars": (1, 65)}, "chars"),
        ({"documents": "pages"}, "documents"),
        ({"label": "folder"}, "label"),
        ({"label": "column:-1"}, "label"),
        ({"label": "column:"}, "label"),
        ({"label": "1"}, "label"),
        ({"documents": "files", "label": "column:0"}, "label"),
        ({"documents": "files", "labels": "numbers"}, "labels"),
        ({"labels": "words"}, "labels"),
        ({"weighting": "tfidf"}, "weighting"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], about: str) -> None:
    with pytest.raises(OptionError, match=f"^{about}: "):
        Text(**options)
