"""The selected features as the report carries them: compactly, exactly, and harmless whatever they are called."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from daskfs.observe.report.text import label, visible
from daskfs.selection.selection import Selection

LONGEST_KEPT = 500
"""Characters of a name that are kept; ids tell features apart whatever they are called."""
MOST_WEIGHTS = 2_000_000
"""Numbers that are kept where there are weights for every class; beyond that, of every feature the largest."""


def feature_columns(selection: Selection, times: Mapping[int, int] | None) -> dict[str, Any]:
    """Columns for the page's table: names as text, numbers as the bytes of a typed array (in base64).

    Parameters
    ----------
    selection
        What was selected.
    times
        How often features were chosen under other seeds, by their ids; None if nobody tried.
    """
    by_class = selection.weights.ndim == 2
    largest = np.abs(selection.weights).argmax(axis=1) if by_class else None
    whole = selection.weights.size <= MOST_WEIGHTS
    weights = selection.weights if whole or largest is None else _taken(selection.weights, largest)
    classes = [] if selection.classes is None or not by_class else [label(one) for one in selection.classes]
    columns: dict[str, Any] = {
        "names": [visible(name, LONGEST_KEPT) for name in selection.names],
        "ids": _packed(selection.features, "<u8"),
        "weights": _packed(weights, "<f8"),
        "classes": classes,
        "largest": None if largest is None else _packed(largest, "<u4"),
        "whole": bool(whole),
        "times": None,
        "parents": None,
    }
    if times is not None:
        columns["times"] = _packed(np.array([times.get(one, 0) for one in selection.features.tolist()]), "<u4")
    if selection.products is not None:
        columns["parents"] = _packed(selection.products.parents, "<u8")
    return columns


def embedded(value: Any) -> Markup:
    """JSON that can stand in an HTML page whatever is in it.

    >>> embedded(["</script>", "a&b"])
    Markup('["\\\\u003c/script\\\\u003e","a\\\\u0026b"]')
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _taken(weights: NDArray[np.float64], largest: NDArray[np.intp]) -> NDArray[np.float64]:
    taken: NDArray[np.float64] = np.take_along_axis(weights, largest[:, None], axis=1)[:, 0]
    return taken


def _packed(numbers: NDArray[Any], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode("ascii")
