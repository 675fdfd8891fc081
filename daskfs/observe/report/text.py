"""Text and numbers as the report prints them: filters of its template, which prints all text through `printed`."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from markupsafe import Markup

from daskfs.engine.sizes import format_bytes
from daskfs.errors import public_url

LONGEST, LONGEST_URL = 100, 300
"""The most characters of a name or a label, and of an address, that the report shows."""
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def visible(text: str, longest: int = LONGEST) -> str:
    """Return text with control characters and direction marks escaped, cut to `longest` characters.

    Examples
    --------
    >>> visible("a\\x00b\\u202ec"), visible("x" * 9, longest=5)
    ('a\\\\x00b\\\\u202ec', 'xxxx…')
    """
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return str(printed(text))


def printed(value: Any) -> Any:
    """Return a value that the template prints, with control characters and direction marks of text escaped."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(x.encode("unicode_escape").decode() if _is_control(x) else x for x in value)


def _is_control(character: str) -> bool:
    return character in _DIRECTION_MARKS or unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")


def label(value: object) -> str:
    """Return a class label or a parameter as text, with a typographic minus.

    >>> label(-1.0), label("spam"), label(True)
    ('−1', 'spam', 'True')
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return number(value, "{:g}") if is_number else visible(str(value))


def number(value: object, form: str | None = None) -> str:
    """Return a number as text, or an en dash for None and NaN.

    Examples
    --------
    >>> number(0.91234), number(-1234.5678), number(None), number(3, "{:,.0f}")
    ('0.912', '−1,235', '–', '3')
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return "–"
    if form is None:
        form = (
            "{:.3f}" if 0.001 <= abs(value) < 100 or value == 0 else "{:,.0f}" if 100 <= abs(value) < 1e9 else "{:.3g}"
        )
    return form.format(value).replace("-", "−")


def interval(pair: object) -> str:
    """Return both ends of an interval as text, or an empty string if an end is unknown.

    >>> interval([0.25, 0.5]), interval([None, 0.5])
    ('0.250 – 0.500', '')
    """
    ends = pair if isinstance(pair, list | tuple) else ()
    known = len(ends) == 2 and all(isinstance(end, int | float) for end in ends)
    return f"{number(ends[0])} – {number(ends[1])}" if known else ""


def counted(how_many: int, what: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{how_many:,} {what}{'' if how_many == 1 else 's'}"


def seconds(value: object) -> str:
    """Return a duration as text.

    >>> seconds(0.02), seconds(75.2), seconds(7300)
    ('20 ms', '1 min 15 s', '2 h 1 min')
    """
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        return "–"
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    whole = round(value)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def size(value: object) -> str:
    """Return a number of bytes as text.

    >>> size(3.14159 * 2**20), size(121 << 20), size(None)
    ('3.14 MiB', '121 MiB', '–')
    """
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        return "–"
    amount, unit = format_bytes(int(value)).split()
    return f"{float(amount):,.0f} {unit}" if float(amount) >= 100 else f"{float(amount):.3g} {unit}"


def address(url: str) -> str:
    """Return a URL as text for the page, without secrets."""
    return visible(public_url(url), LONGEST_URL)


def cell(value: Any) -> str:
    """Return a value of a table as text.

    >>> cell("a"), cell(2000), cell(0.5), cell((0.25, 0.5)), cell(None)
    ('a', '2,000', '0.500', '0.250 – 0.500', '–')
    """
    if isinstance(value, str):
        return visible(value)
    return interval(value) if isinstance(value, list | tuple) else number(value, "{:,}" if type(value) is int else None)
