"""Draw the pictures of docs/architecture.md: `python pipelines/docs/pictures.py` writes docs/architecture-*.svg."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

START = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
  font-family="system-ui, sans-serif" font-size="15">
  <title>{title}</title>
  <style>
    .box {{ fill: #fff; stroke: #33475b; stroke-width: 1.5; }}
    .soft {{ fill: #e3f1f1; stroke: #0b6e6e; stroke-width: 1.2; }}
    .head {{ font-weight: 600; fill: #1b2a38; }}
    .note {{ font-size: 12.5px; fill: #4a5b6b; }}
    .verb {{ font-size: 12.5px; font-style: italic; fill: #0b6e6e; }}
    .arrow {{ stroke: #0b6e6e; stroke-width: 2; fill: none; marker-end: url(#tip); }}
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0 0 L8 4 L0 8 z" fill="#0b6e6e"/>
    </marker>
  </defs>
  <rect width="{width}" height="{height}" rx="10" fill="#f4f7f9"/>
"""


class Picture:
    """An SVG picture of boxes and arrows."""

    def __init__(self, name: str, title: str, width: int, height: int) -> None:
        self.path = DOCS / f"architecture-{name}.svg"
        self.parts = [START.format(width=width, height=height, title=escape(title))]

    def box(
        self, x: int, y: int, width: int, height: int, head: str, notes: Iterable[str] = (), kind: str = "box"
    ) -> None:
        """Add a box with a heading and lines of small text."""
        self.parts.append(f'  <rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>\n')
        self.text(x + 12, y + 22, head, "head")
        for number, note in enumerate(notes):
            self.text(x + 12, y + 42 + 18 * number, note)

    def text(self, x: int, y: int, text: str, kind: str = "note") -> None:
        """Add a line of text."""
        self.parts.append(f'  <text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>\n')

    def arrow(self, path: str, label: str = "", x: int = 0, y: int = 0) -> None:
        """Add an arrow along an SVG path, with a label at (x, y)."""
        self.parts.append(f'  <path class="arrow" d="{path}"/>\n')
        if label:
            self.text(x, y, label, "verb")

    def write(self) -> None:
        self.path.write_text("".join(self.parts) + "</svg>\n", encoding="utf-8")


def serial() -> Picture:
    picture = Picture("serial", "The serial schedule: one process folds block after block into one state", 960, 170)
    for number in range(5):
        x = 20 + 172 * number
        picture.box(x, 24, 120, 46, f"block {number}", kind="soft")
        picture.arrow(f"M{x + 60} 70 V98")
        picture.box(x, 100, 120, 46, "update")
        if number < 4:
            picture.arrow(f"M{x + 120} 123 H{x + 170}", "state", x + 128, 116)
    picture.arrow("M828 123 H872", "", 0, 0)
    picture.text(836, 116, "state", "verb")
    picture.text(880, 120, "end_pass:")
    picture.text(880, 138, "once more?")
    return picture


def synchronous() -> Picture:
    title = "The synchronous schedule: shards fold their blocks side by side and merge at fixed places"
    picture = Picture("synchronous", title, 960, 292)
    for row in range(3):
        y = 52 + 66 * row
        picture.text(20, y + 28, f"shard {row}")
        for group in range(3):
            x = 92 + 270 * group
            picture.box(x, y, 170, 46, f"fold group {group}.{row}", kind="soft")
            if group < 2:
                for other in range(3):
                    picture.arrow(f"M{x + 170} {y + 23} L{x + 266} {75 + 66 * other}")
    picture.text(288, 36, "each task merges all states", "verb")
    picture.text(558, 36, "… and folds its next group", "verb")
    picture.arrow("M802 75 L862 135")
    picture.arrow("M802 141 H862")
    picture.arrow("M802 207 L862 147")
    picture.text(868, 138, "merge,")
    picture.text(868, 156, "end_pass")
    picture.text(
        20,
        272,
        "Every box is a pure Dask task: Dask runs it again if its worker dies, and gets the same bits.",
    )
    return picture


def asynchronous() -> Picture:
    title = (
        "The asynchronous schedule: workers send offers to a centre that owns the state, and never wait for each other"
    )
    picture = Picture("asynchronous", title, 960, 300)
    picture.box(
        20, 24, 210, 110, "driver", ["submits groups of blocks", "asks the centre what it holds", "writes checkpoints"]
    )
    picture.box(
        390,
        24,
        220,
        110,
        "centre (a Dask actor)",
        ["owns the state", "accept(state, offer)", "a copy: it can be rebuilt"],
    )
    picture.arrow("M230 62 H386", "start from a state", 250, 54)
    picture.arrow("M390 104 H234", "held features", 262, 124)
    for number in range(3):
        x = 130 + 250 * number
        picture.box(x, 206, 200, 62, f"worker {number}", ["work(own, view, block)"], kind="soft")
        picture.arrow(
            f"M{x + 80} 206 L{440 + 40 * number} 138",
            "offer" if number != 1 else "",
            x + 20 if number == 0 else x + 96,
            184,
        )
        picture.arrow(f"M{460 + 40 * number} 136 L{x + 110} 202")
    picture.text(520, 178, "view", "verb")
    picture.text(680, 60, "A view may be out of date, an offer")
    picture.text(680, 78, "may come late, twice or never:")
    picture.text(680, 96, "neither does harm. If the centre")
    picture.text(680, 114, "dies, the driver starts another from")
    picture.text(680, 132, "the last state and the held features.")
    return picture


def block() -> Picture:
    picture = Picture("block", "The life of a block: from a chunk on disk to the state", 960, 176)
    steps = [
        ("chunk", ["bytes + crc32c,", "in a file or an object"]),
        ("read ahead", ["by threads, retried,", "checksum compared"]),
        ("block", ["arrays on the worker,", "read-only"]),
        ("kernel", ["compiled by numba,", "one thread, no GIL"]),
        ("state", ["changed in place,", "or merged"]),
    ]
    for number, (head, notes) in enumerate(steps):
        x = 20 + 190 * number
        picture.box(x, 30, 160, 84, head, notes, kind="soft" if head == "block" else "box")
        if number < len(steps) - 1:
            picture.arrow(f"M{x + 160} 72 H{x + 186}")
    picture.text(
        20,
        150,
        "Task graphs carry block numbers, never arrays. A missing, cut or altered chunk is an error, never zeros.",
    )
    return picture


def checkpoint() -> Picture:
    picture = Picture("checkpoint", "What a checkpoint holds", 960, 200)
    picture.box(20, 24, 290, 110, "of", ["digest of the dataset", "name and parameters of the algorithm", "seed"])
    picture.box(
        335,
        24,
        290,
        110,
        "at",
        ["schedule and number of shards", "stage: passes, revisit or finished", "blocks of the open pass in the state"],
    )
    picture.box(
        650, 24, 290, 110, "values", ["the state, flattened: sets/0/weights …", "seconds and bytes of every pass"]
    )
    picture.text(
        20,
        166,
        "One file, written in one step, its crc32c last. One of another dataset, algorithm or seed is refused.",
    )
    picture.text(20, 184, "It is written at the end of every pass, and every 30 seconds within one.")
    return picture


if __name__ == "__main__":
    for draw in (serial, synchronous, asynchronous, block, checkpoint):
        draw().write()
