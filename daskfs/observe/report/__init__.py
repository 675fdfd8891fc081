"""The report of a selection run: one HTML file with all its scripts and data, which loads nothing.

The report shows the selection and the records in the same folder. Names, labels and records may be hostile: text is
escaped, data are embedded as JSON that cannot end the script element, and the page's Content-Security-Policy runs only
the scripts whose hashes it lists and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from daskfs.errors import OptionError, SelectionError
from daskfs.observe.report import text
from daskfs.observe.report.content import RunRecords, content, default_words
from daskfs.observe.report.features import can_be_drawn
from daskfs.protocol import Words
from daskfs.selection.records import METRICS, PROFILES, REPORT, RUN_RECORD, SIZES, STABILITY, read_record
from daskfs.selection.run_folder import resolve_run
from daskfs.selection.selection import Selection, load_selection
from daskfs.store.places.location import Location

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
MOST_NAME_CHARACTERS = 500
"""The most characters of a feature's name that the table keeps."""
MOST_WEIGHTS = 2_000_000
"""The most weights that the table keeps; with more, it keeps only the largest weight of every feature."""
FILTERS = ("address", "cell", "counted", "interval", "label", "number", "seconds", "size", "visible")
"""Functions of `daskfs.observe.report.text` that are filters of the template."""
_GENERATOR, _HEAD_BYTES = b'content="daskfs"', 1 << 16  # the mark of our reports, and how far to look for it


def write_report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    words_of: Callable[[str], Words | None] = lambda class_name: None,
) -> str:
    """Write the report of a selection run as one HTML file, and return the path or URL of the file.

    Parameters
    ----------
    run
        The folder or URL of the run: a selection and any records beside it.
    out
        The file or URL to write; by default ``report.html`` in the run, in place of an earlier report.
    overwrite
        Replace a file that is there already, if it is not the run's own report.
    storage_options
        Passed on to fsspec.
    words_of
        Returns how to speak of an algorithm, given the name of its class, as `daskfs.algorithms.registry.words_of`
        does. By default the page shows all columns of the history under their own names.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 5))
    >>> _ = daskfs.write_dataset("small.zarr", X, X[:, 3] > 0)
    >>> daskfs.select("small.zarr", daskfs.OnlineSubstitution(1)).save("run")
    >>> from daskfs.observe.report import write_report
    >>> write_report("run")
    'run/report.html'
    """
    location = resolve_run(Location(run, storage_options))
    folder, name = (location, REPORT) if out is None else _place(out, storage_options)
    own = name == REPORT and folder.is_same_place(location)
    if not own and not overwrite and folder.exists(name):
        raise OptionError(f"{folder.url}/{name}: is there already; --overwrite replaces it, or choose another name")
    page = render(load_run(location, words_of, storage_options))
    folder.sweep(name)
    folder.write(name, page.encode())
    return f"{location.url}/{name}" if out is None else os.fspath(out)


def _place(out: str | os.PathLike[str], options: Mapping[str, Any] | None) -> tuple[Location, str]:
    """Return the location of a file's folder, and the file's name in the folder."""
    url = os.fspath(out)
    folder, _, name = url.rpartition("/")
    if "://" not in url:
        path = Path(url).absolute()
        folder, name = str(path.parent), path.name if not url.endswith("/") else ""
        if path.is_dir() and name:
            raise OptionError(f"{url}: is a folder; give the report the name of a file")
    if not name or folder.endswith(":/"):
        raise OptionError(f"{url}: give the report the name of a file, such as {url.rstrip('/')}/{REPORT}")
    return Location(folder, options), name


def check_replaceable(out: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> None:
    """Raise OptionError if a report cannot be written to `out`, or would replace something other than a report."""
    folder, name = _place(out, storage_options)
    if folder.exists(name) and _GENERATOR not in folder.read(name, 0, _HEAD_BYTES):
        raise OptionError(f"{folder.url}/{name}: is there already, and no report; choose another name")


def load_run(
    location: Location, words_of: Callable[[str], Words | None], storage_options: Mapping[str, Any] | None = None
) -> RunRecords:
    """Return a selection and the records in the same folder; raise SelectionError if a file is damaged."""
    selection = load_selection(location.url, storage_options)
    names = (RUN_RECORD, METRICS, PROFILES, SIZES, STABILITY)
    run_record, metrics, profiles, sizes, stability = (read_record(location, name) for name in names)
    if sizes is not None:
        lengths = {len(sizes[key]) for key in ("sizes", "scores", "intervals")}
        if len(lengths) > 1 or 0 in lengths or not all(1 <= size < 1 << 53 for size in sizes["sizes"]):
            raise SelectionError(f"{location.url}/{SIZES}: sizes, scores and intervals do not fit; make it again")
    if profiles is not None and not all(map(can_be_drawn, profiles["features"])):
        raise SelectionError(f"{location.url}/{PROFILES}: numbers of a feature do not fit; make it again")
    words = words_of(str(selection.algorithm.get("name", ""))) or default_words(selection)
    return RunRecords(selection, words, run_record or {}, metrics, sizes, stability, profiles)


def render(run: RunRecords) -> str:
    """Return the HTML of the report's page."""
    from jinja2 import Environment, StrictUndefined  # here, since most of a run goes by before it is needed

    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=text.printed
    )
    page.filters |= {name: getattr(text, name) for name in FILTERS}
    scripts = [_resource("report.js"), _resource("report_table.js")]
    return page.from_string(_resource("report.html.j2")).render(
        content(run),
        policy=POLICY.format(scripts=" ".join(map(_hash, scripts))),
        style=Markup(_resource("report.css")),
        scripts=list(map(Markup, scripts)),
        weights_shown=weights_shown(run.selection),
        features=embed_json(feature_columns(run.selection, run.times)),
    )


def _resource(name: str) -> str:
    """Return the text of a file that lies beside this module."""
    return files("daskfs.observe.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def feature_columns(selection: Selection, times: Mapping[int, int] | None) -> dict[str, Any]:
    """Return columns for the page's table: names as text, numbers as the bytes of a typed array in base64.

    `times` tells how often each feature was selected under other seeds, by its id; it is None if that is unknown.
    """
    by_class, targets = selection.weights.ndim == 2 and selection.targets is None, selection.targets
    largest = np.abs(selection.weights).argmax(axis=1) if by_class else None
    weights, whole = selection.weights, selection.weights.size <= MOST_WEIGHTS
    if targets is not None:
        weights, whole = weights[:, : weights_shown(selection)], True
    if largest is not None and not whole:
        weights = np.take_along_axis(weights, largest[:, None], axis=1)[:, 0]
    classes = selection.classes if by_class and selection.classes is not None else ()
    classes = classes if targets is None else targets[: weights_shown(selection)]
    ids, products = selection.features, selection.products
    return {
        "names": [text.visible(name, MOST_NAME_CHARACTERS) for name in selection.names],
        "ids": _base64(ids, "<u8"),
        "importance": _base64(selection.importance, "<f8"),
        "weights": _base64(weights, "<f8"),
        "classes": [text.label(name) for name in classes],
        "largest": None if largest is None else _base64(largest, "<u4"),
        "whole": bool(whole),
        "times": None if times is None else _base64(np.array([times.get(at, 0) for at in ids.tolist()]), "<u4"),
        "statistics": {name.replace("_", "-"): _base64(column, "<f8") for name, column in selection.statistics.items()},
        "parents": None if products is None else _base64(products.parents, "<u8"),
    }


def weights_shown(selection: Selection) -> int:
    """Return of how many of several targets the page has weights, at least one."""
    return max(1, min(len(selection.targets or ()), MOST_WEIGHTS // max(len(selection.features), 1)))


def embed_json(value: Any) -> Markup:
    """Return JSON that is safe inside an HTML page, whatever text it contains.

    >>> embed_json(["</script>", "a&b"])
    Markup('["\\\\u003c/script\\\\u003e","a\\\\u0026b"]')
    """
    whole = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        whole = whole.replace(character, f"\\u{ord(character):04x}")
    return Markup(whole)


def _base64(numbers: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=dtype).tobytes()).decode("ascii")
