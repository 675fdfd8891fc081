"""Recognition of the format of source files, from the names and the first lines of the files."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from daskfs.errors import SourceError, public_url
from daskfs.store.ingest.sources import BOM, Source

SUFFIXES = {
    "csv": ("csv",),
    "tsv": ("tsv", "tab"),
    "parquet": ("parquet", "pq", "parq"),
    "svmlight": ("svm", "svmlight", "libsvm"),
    "vw": ("vw",),
    "fasta": ("fasta", "fa", "fna", "ffn", "fas"),
}
"""The endings of file names that say a format. Files with other endings are recognised by their first lines."""
_FORMAT_OF = {suffix: format for format, suffixes in SUFFIXES.items() for suffix in suffixes}
_DELIMITERS = ",\t;|"
_DEFAULT_DELIMITER = {"csv": ",", "tsv": "\t"}
_SAMPLE_BYTES = 1 << 16
_SAMPLE_LINES = 50
_SVMLIGHT = re.compile(rb"\S+(\s+qid:\d+)?(\s+\d+:\S+)*\s*(#.*)?")
_SVMLIGHT_ENTRY = re.compile(rb"\s\d+:\S+")
_VW = re.compile(rb"(-?[\d.]+\S*)?(\s+\S+)*\s*('\S*\s*)?\|\S*\s.*")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


@dataclass(frozen=True)
class Recognised:
    """The format of some source files, with options of the format that the first lines show, and the reason."""

    format: str
    reason: str
    options: dict[str, Any] = field(default_factory=dict)


def recognise(sources: Sequence[Source]) -> Recognised:
    """Return the format of source files, or raise SourceError if the files have different or unknown formats."""
    formats = {_format_of_name(source) for source in sources}
    if len(formats) > 1:
        examples = {_format_of_name(source): public_url(source.url) for source in sources}
        some = ", ".join(f"{url} ({format or 'no known ending'})" for format, url in examples.items())
        raise SourceError(f"files of different formats: {some}; name files of one format, or give --format")
    first = next((source for source in sources if source.size), sources[0])
    format = formats.pop()
    lines = _first_lines(first)
    if format is None:
        return _by_content(sources, first, lines)
    options = _table_options(lines, _DEFAULT_DELIMITER[format]) if format in _DEFAULT_DELIMITER else {}
    return Recognised(format, f"the name ends with .{_suffix(first)}", options)


def _suffix(source: Source) -> str:
    name = source.url.rsplit("/", 1)[-1].removesuffix(source.compression or "")
    return name.rsplit(".", 1)[-1].lower() if "." in name else ""


def _format_of_name(source: Source) -> str | None:
    return _FORMAT_OF.get(_suffix(source))


def _first_lines(source: Source) -> list[bytes]:
    """Return the first lines of a file that are complete and not blank."""
    with source.open() as file:
        text = file.read(_SAMPLE_BYTES)
    lines = text.removeprefix(BOM).split(b"\n")
    if len(text) == _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()
    return [line.rstrip(b"\r") for line in lines if line.strip()][:_SAMPLE_LINES]


def _by_content(sources: Sequence[Source], first: Source, lines: list[bytes]) -> Recognised:
    if not lines:
        raise SourceError(f"{public_url(first.url)}: the file is empty")
    if lines[0].startswith(b"PAR1"):
        return Recognised("parquet", "it begins as Parquet files do")
    if b"\0" in b"".join(lines):
        raise SourceError(f"{public_url(first.url)}: binary data of an unknown format; give --format if it is known")
    if lines[0].startswith(b">"):
        return Recognised("fasta", "it begins with >")
    if len({source.folder for source in sources}) > 1:
        return Recognised("text", "documents in several folders, whose names are the labels", {"documents": "files"})
    if all(map(_SVMLIGHT.fullmatch, lines)) and any(map(_SVMLIGHT_ENTRY.search, lines)):
        return Recognised("svmlight", "its lines are a label and id:value")
    if all(map(_VW.fullmatch, lines)):
        return Recognised("vw", "its lines have a name space after |")
    delimiter = _delimiter(lines)
    if _is_table(lines, delimiter):
        named = "tabs" if delimiter == "\t" else f"'{delimiter}'"
        reason = f"its lines have the same number of fields between {named}"
        return Recognised("csv", reason, _table_options(lines, ","))
    if all(b"\t" in line for line in lines):
        return Recognised("text", "its lines are a label, a tab and a text")
    raise SourceError(
        f"{public_url(first.url)}: neither its name nor its first lines show what it is; give --format "
        "(a text needs its label before a tab in every line, or a folder for every class)"
    )


def _fields(line: bytes, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf-8", "replace")], delimiter=delimiter), [])
    except csv.Error:  # a field beyond any measure
        return []


def _delimiter(lines: list[bytes]) -> str:
    """Return the character that cuts each of the first lines into the most fields; the line with the fewest decides."""
    return max(_DELIMITERS, key=lambda sign: min(len(_fields(line, sign)) for line in lines[:10]))


def _is_table(lines: list[bytes], delimiter: str) -> bool:
    """Return True if nearly all lines have the same number of fields, and are more than a label and a text."""
    counts = Counter(len(_fields(line, delimiter)) for line in lines)
    n_fields, n_lines = counts.most_common(1)[0]
    if n_fields < 2 or n_lines < 0.9 * len(lines):
        return False
    return n_fields > 2 or not any(b" " in line for line in lines)


def _table_options(lines: list[bytes], default: str) -> dict[str, Any]:
    """Return the delimiter and the header of a table, where they are not the default of the format."""
    if not lines:
        return {}
    delimiter = max(default, _delimiter(lines), key=lambda sign: len(_fields(lines[0], sign)))
    has_names = not all(map(_NUMBER.fullmatch, _fields(lines[0], delimiter)))
    options: dict[str, Any] = {} if delimiter == default else {"delimiter": delimiter}
    return options if has_names else {**options, "header": False}
