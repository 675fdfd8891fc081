"""Texts that are dates in another form than ISO 8601, such as 19/08/2021, 19.08.2021 09:30 or 8/19/2021 2:30 PM.

The form of a column is one of `ORDERS`, a separator and the order of day, month and year, after which a time of day may
follow, or one of `NAMED_MONTHS`, such as 19 Aug 2021.

A date becomes seconds since 2000, or since a later day that the form of its column ends with, as in "%d/%m/%Y since
2026-03-01" or, for ISO 8601, "since 2026-03-01". float32 tells seconds of few months apart, but not seconds since 2000.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

ORDERS = tuple(
    order.replace("/", separator)
    for order in ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d")
    for separator in "/.-"
    if order + separator != "%Y/%m/%d-"  # which is ISO 8601
)
"""The forms that are recognised. Where day and month can be exchanged in every text, the first form is taken."""
NAMED_MONTHS = tuple(
    day + clock for day in ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y") for clock in ("", " %H:%M", " %H:%M:%S")
)
"""The forms with English names of months, such as 19 Aug 2021 or August 19, 2021 14:30, that are recognised."""
FIRST_DAY = date(2000, 1, 1)
_NAMED_MONTH = r"(?i)^(\d{1,2}[ -][a-z]{3,9}[ -]|[a-z]{3,9} \d{1,2},? )\d{4}\b"
_SINCE = re.compile(r"(?:(.*) )?since (\d{4}-\d\d-\d\d)")
_CLOCK = r"(?:[ T]+(?P<H>\d{1,2})(?P<MS>:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(?:\s*(?P<half>[AaPp])[Mm])?)?"


def order_of(texts: pa.Array) -> tuple[str, bool] | None:
    """Return the one of `ORDERS` that all texts have, and whether another order fits as well; None if none fits.

    >>> import pyarrow as pa
    >>> order_of(pa.array(["19/08/2021", "1/9/2021"])), order_of(pa.array(["8/9/2021"])), order_of(pa.array(["8/9"]))
    (('%d/%m/%Y', False), ('%d/%m/%Y', True), None)
    """
    fits = [order for order in ORDERS if _has_order(texts, order)]
    return (fits[0], len(fits) > 1) if fits else None


def may_name_months(texts: pa.Array) -> bool:
    """Return whether all texts may have one of `NAMED_MONTHS`, with a year of four digits, and there is a text.

    >>> import pyarrow as pa
    >>> texts = ("19 Aug 2021", "august 19, 2021 14:30", "19 Aug 21", None)
    >>> [may_name_months(pa.array([text], pa.string())) for text in texts]
    [True, True, False, False]
    """
    import pyarrow.compute as compute

    return compute.all(compute.match_substring_regex(texts, _NAMED_MONTH)).as_py() is True


def _has_order(texts: pa.Array, order: str) -> bool:
    import pyarrow as pa

    try:
        parse_dates(texts, order)
    except pa.ArrowInvalid:
        return False
    return True


def with_first_day(date_format: str, day: date) -> str:
    """Return the form of a column whose dates are seconds since the beginning of a day."""
    return f"{date_format} since {day}".strip()


def first_day_of(date_format: str) -> tuple[str, date]:
    """Return the form of texts, "" for ISO 8601, and the day since whose beginning seconds are counted.

    >>> first_day_of("%d.%m.%Y since 2026-03-01"), first_day_of("since 2026-03-01")[0], first_day_of("")
    (('%d.%m.%Y', datetime.date(2026, 3, 1)), '', ('', datetime.date(2000, 1, 1)))
    """
    if (parts := _SINCE.fullmatch(date_format)) is not None:
        with suppress(ValueError):  # no such day
            return parts[1] or "", date.fromisoformat(parts[2])
    return date_format, FIRST_DAY


def other_order(order: str) -> str:
    """Return the order with day and month exchanged.

    >>> other_order("%d/%m/%Y")
    '%m/%d/%Y'
    """
    return order.translate(str.maketrans("dm", "md"))


def in_words(order: str) -> str:
    """Return an order in words, without a first day; any other date format is returned unchanged.

    >>> in_words("%d.%m.%Y")
    'day.month.year'
    """
    order, _ = first_day_of(order)
    words = {"%d": "day", "%m": "month", "%Y": "year"}
    return re.sub("%[dmY]", lambda part: words[part.group()], order) if order in ORDERS else order


def parse_dates(texts: pa.Array, order: str) -> pa.Array:
    """Return texts of one of `ORDERS`, with or without a time of day, as timestamps; raise ArrowInvalid for others.

    >>> import pyarrow as pa
    >>> parse_dates(pa.array(["8/19/2021 2:30 PM", None]), "%m/%d/%Y").to_pylist()
    [datetime.datetime(2021, 8, 19, 14, 30), None]
    """
    import pyarrow as pa
    import pyarrow.compute as compute

    parts = {"%d": r"(?P<d>\d{1,2})", "%m": r"(?P<m>\d{1,2})", "%Y": r"(?P<Y>\d{4})"}
    pattern = re.sub("%[dmY]", lambda part: parts[part.group()], order.replace(".", r"\."))
    matches = compute.extract_regex(texts, f"^{pattern}{_CLOCK}$")
    if matches.null_count > texts.null_count:
        raise pa.ArrowInvalid(f"a text that is not written as {order}")
    year, month, day, hour, rest, half = (
        compute.struct_field(matches, name) for name in ("Y", "m", "d", "H", "MS", "half")
    )
    month, day, hour = (compute.utf8_lpad(digits, 2, "0") for digits in (month, day, hour))
    date = compute.binary_join_element_wise(year, month, day, "-")
    clock = compute.binary_join_element_wise(hour, rest, "")
    times = compute.binary_join_element_wise(date, clock, " ").cast(pa.timestamp("us"))
    return compute.add(times, _afternoon(hour, compute.utf8_lower(half)))


def _afternoon(hour: pa.Array, half: pa.Array) -> pa.Array:
    """Return what the mark AM ("a") or PM ("p") of a time of day adds to it; nothing without a mark."""
    import pyarrow as pa
    import pyarrow.compute as compute

    late = compute.and_(compute.equal(half, "p"), compute.less(hour, "12"))
    early = compute.and_(compute.equal(half, "a"), compute.equal(hour, "12"))
    hours = compute.subtract(late.cast(pa.int64()), early.cast(pa.int64()))
    return compute.multiply(hours, 12 * 3600 * 10**6).cast(pa.duration("us"))
