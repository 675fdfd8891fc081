"""Parsers of the source formats, one module per format, from bytes to rows and without Dask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from daskfs.errors import OptionError, nearest, nearest_or_some
from daskfs.store.ingest.formats.base import RESOLVED, Format
from daskfs.store.ingest.formats.delimited import Delimited, TabSeparated
from daskfs.store.ingest.formats.fasta import Fasta
from daskfs.store.ingest.formats.parquet import Parquet
from daskfs.store.ingest.formats.svmlight import Svmlight
from daskfs.store.ingest.formats.text import Text
from daskfs.store.ingest.formats.vw import VowpalWabbit

FORMATS: dict[str, type[Any]] = {
    kind.name: kind for kind in (Svmlight, VowpalWabbit, Delimited, TabSeparated, Parquet, Fasta, Text)
}


def options_of(name: str) -> list[str]:
    """Return the names of the options of a format, without those that only `Format.resolve` fills in."""
    return [field.name for field in fields(_kind(name)) if field.metadata != RESOLVED]


def make_format(name: str, options: Mapping[str, Any]) -> Format:
    """Return the format called `name` with the given options, or raise OptionError for an unknown name or option."""
    known = options_of(name)
    for option in options:
        if option not in known:
            raise OptionError(f"{option}: format {name} takes no such option{nearest_or_some(option, known)}")
    for field in fields(_kind(name)):
        if isinstance(field.default, tuple) and isinstance(value := options.get(field.name), str):
            raise OptionError(f"{field.name}={value!r}: must be a list, such as [{value!r}]")
    if isinstance(options.get("label"), list | tuple) and not _kind(name).is_table:
        raise OptionError(f"label: format {name} takes one label; only tables (csv, tsv, parquet) take several")
    format: Format = _kind(name)(**{key: tuple(v) if isinstance(v, list) else v for key, v in options.items()})
    return format


def _kind(name: str) -> type[Any]:
    if name == "libsvm":
        name = "svmlight"
    if name not in FORMATS:
        raise OptionError(f"format: {name!r} is none of {', '.join(FORMATS)}{nearest(name, FORMATS)}")
    return FORMATS[name]
