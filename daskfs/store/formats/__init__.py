"""One parser per source format: bytes in, rows out. No dask here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from daskfs.errors import OptionError
from daskfs.store.formats.base import Format
from daskfs.store.formats.delimited import Delimited, TabSeparated
from daskfs.store.formats.fasta import Fasta
from daskfs.store.formats.parquet import Parquet
from daskfs.store.formats.svmlight import Svmlight
from daskfs.store.formats.text import Text
from daskfs.store.formats.vw import VowpalWabbit

FORMATS: dict[str, type[Any]] = {
    kind.name: kind for kind in (Svmlight, VowpalWabbit, Delimited, TabSeparated, Parquet, Fasta, Text)
}


def make_format(name: str, options: Mapping[str, Any]) -> Format:
    """The format called `name` with its options; OptionError with the nearest known word for a wrong one."""
    if name == "libsvm":
        name = "svmlight"
    if name not in FORMATS:
        raise OptionError(f"format {name!r}{_nearest(name, FORMATS)}; known are {', '.join(FORMATS)}")
    known = [field.name for field in fields(FORMATS[name])]
    for option in options:
        if option not in known:
            raise OptionError(
                f"format {name} takes no option {option!r}{_nearest(option, known)}; it takes {', '.join(known)}"
            )
    made: Format = FORMATS[name](**{key: tuple(v) if isinstance(v, list) else v for key, v in options.items()})
    return made


def _nearest(word: str, known: Any) -> str:
    match = get_close_matches(word, list(known), 1)
    return f" (did you mean {match[0]!r}?)" if match else ""
