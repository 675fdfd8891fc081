"""Opening text files of sparse rows, to be read in place.

A text whose rows fit in memory is parsed at once. Of a larger text only the labels are read, which shows the rows and
the classes, and blocks are parsed whenever they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeGuard

from daskfs.engine.cluster.pool import Threads, in_order, pool
from daskfs.errors import SourceError
from daskfs.protocol import Algorithm
from daskfs.store.in_text import HELD_BYTES, InText, TextFiles
from daskfs.store.ingest.formats.base import Format, LineFormat
from daskfs.store.ingest.sources import Source
from daskfs.store.ingest.text_parts import parse_parts, scan_parts, text_parts

if TYPE_CHECKING:
    from distributed import Client

COUNTED_BYTES = 16 << 20
"""The number of features is counted in texts of up to this size."""
_PARTS_A_TASK = 4


def can_read_in_place(kind: Format, sources: Sequence[Source], algorithm: Algorithm) -> TypeGuard[LineFormat]:
    """Return True if an algorithm can read these files in place: plain text of sparse rows.

    Parts of compressed files cannot be read by themselves. An algorithm that looks up names needs a list of all names,
    which only a dataset has.
    """
    is_plain = isinstance(kind, LineFormat) and not any(source.compression for source in sources)
    return is_plain and algorithm.axis == "rows" and not algorithm.needs_names


def open_text(sources: Sequence[Source], kind: LineFormat, client: Client | None = None) -> InText:
    """Return text files as a dataset that is read in place.

    Parameters
    ----------
    sources
        The files, which must not be compressed.
    kind
        The format of the files.
    client
        The Dask client to use, by default the current client, or threads of this process if there is no client.
    """
    kind = kind.resolve(sources)
    parts, size = text_parts(kind, sources), sum(source.size for source in sources)
    sample = parse_parts(kind, 0, parts[:1])[0][1].nbytes / max(parts[0].nbytes, 1)
    tasks = [(kind, first, parts[first : first + _PARTS_A_TASK]) for first in range(0, len(parts), _PARTS_A_TASK)]
    if sample * size <= HELD_BYTES and (client is None or size <= COUNTED_BYTES):
        parsed = chain.from_iterable(in_order(Threads(), "parse")(parse_parts, tasks))
        pieces, blocks = zip(*parsed, strict=True)
        text = TextFiles.of(kind, parts, pieces, blocks, count=size <= COUNTED_BYTES)
    else:
        options = [source.options for source in sources]
        scanned = in_order(pool(client, None, options, [kind]), "scan")(scan_parts, tasks)
        text = TextFiles.of(kind, parts, [*chain.from_iterable(scanned)])
    for source in sources:
        source.check_unchanged()
    if not text.n_rows.sum():
        raise SourceError(f"{sources[0].url}: the sources hold no rows")
    if not text.n_entries.sum():
        raise SourceError(f"{sources[0].url}: no row has a feature; is this {kind.name}?")
    return InText(text)
