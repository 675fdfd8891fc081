"""What changes on a page, told to the browser in one message.

Bokeh sends a message for everything that is set, may draw a plot for each of those that concern it, and lays the whole
page out anew with every text of a `Div`. That takes a browser nearly twice as long as to take all of it at once,
perhaps on a core that a worker could use. So the models of the scheduler stay empty for ever, and nobody should look
into them: the browser gets what they shall be, all of it every time, and sets what is not so there yet.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.model import Model
from bokeh.models import ColumnDataSource, CustomJS
from bokeh.models.widgets import Div

Properties = Mapping[str, Any]


def text_area(name: str, **how: Any) -> Div:
    """A place for a text that changes; see `written`."""
    return Div(name=name, text=f'<div class="{_place(name)}"></div>', disable_math=True, syncable=False, **how)


def written(area: Div, html: str) -> Properties:
    """What an area shall show. Its own text stays as it is, and the browser writes into that."""
    return {"place": _place(str(area.name)), "html": html}


def drawn(columns: Mapping[str, Sequence[Any]]) -> Properties:
    """What a source of data shall hold."""
    return {"data": {name: [_finite(value) for value in values] for name, values in columns.items()}}


class News:
    """Tells one browser what some models shall be; nothing of that comes back from there (`syncable=False`)."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models, self._last, self._count = models, [""] * len(models), 0
        self._source = ColumnDataSource({"json": self._last})
        script = files("daskfs.observe.dashboard").joinpath("news.js").read_text(encoding="utf-8")
        self._taken = CustomJS(args={"news": self._source, "models": list(models)}, code=script)
        self._source.js_on_change("data", self._taken)

    def listen(self, root: Model, doc: Document) -> None:
        """Let the page take news: those before it was there as soon as it is, and those that come."""
        root.tags = [self._source]  # Bokeh keeps up to date what hangs on something that is shown
        doc.js_on_event(DocumentReady, self._taken)

    def tell(self, told: Mapping[Model, Properties]) -> None:
        """Say what these models shall be; the others, what they were told before."""
        known = zip(self._models, self._last, strict=True)
        self._last = [json.dumps(told[one]) if one in told else last for one, last in known]
        self.repeat()

    def repeat(self) -> None:
        """Tell once more: a browser that lost the connection and found it again has begun anew, with nothing."""
        self._count += 1  # or it would not take the same for news
        self._source.data = {"json": [*self._last, str(self._count)]}


def _place(name: str) -> str:
    return f"daskfs-{name}"


def _finite(value: Any) -> Any:
    """JSON has no other numbers; the browser takes none for NaN, which is not drawn."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
