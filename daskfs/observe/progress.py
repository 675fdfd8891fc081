"""Progress bars on a terminal; nothing is shown if standard error is not a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from daskfs.engine.data.ingest import IngestProgress
from daskfs.engine.passes import PassProgress
from daskfs.engine.sizes import format_bytes
from daskfs.observe.terminal import messages


@contextmanager
def ingest_progress() -> Iterator[Callable[[IngestProgress], None]]:
    """Show a progress bar of an ingest, and yield the function that updates bytes, rows and entries on the bar."""
    with _bar() as bar:
        task = bar.add_task("parsing", total=None, detail="")

        def show(now: IngestProgress) -> None:
            detail = f"{format_bytes(now.bytes_done)} of {format_bytes(now.bytes)}  {now.rows:,} rows"
            if now.entries:
                detail += f"  {now.entries:,} entries"
            if now.bad_lines:
                detail += f"  [yellow]{now.bad_lines:,} bad lines[/]"
            # The last step, publishing, has no bytes of its own to count.
            label = "publishing" if now.pieces_done == now.pieces else "parsing"
            bar.update(task, total=max(now.bytes, 1), completed=now.bytes_done, detail=detail, description=label)

        yield show


@contextmanager
def pass_progress() -> Iterator[Callable[[PassProgress], None]]:
    """Show a progress bar of a selection, and yield the function that updates pass, share of all passes and rates.

    The bar and the time left are those of all passes, of which there may be fewer in the end. Where their number is not
    known, the bar moves to and fro, and there is no time left.
    """
    with _bar() as bar:
        task = bar.add_task("reading", total=None, detail="")

        def show(now: PassProgress) -> None:
            name, total, done = f"pass {now.number}", None, (now.number - 1) * now.bytes + now.bytes_done
            if now.passes:
                name, total = f"{name}/{now.passes}", max(now.passes * now.bytes, 1)
            bar.update(task, total=total, completed=done, description=name, detail=pass_detail(now))

        yield show


def pass_detail(now: PassProgress) -> str:
    """Return a line on the progress and rates of a pass, and on the objective and changes of the pass before.

    >>> from daskfs.observe.progress import pass_detail
    >>> from daskfs.engine.passes import PassProgress
    >>> now = PassProgress(2, 3, 1, 4, 10**6, 4 * 10**6, "rows", 8000, seconds=0.5, objective=0.25, changes=7)
    >>> pass_detail(now)
    '1 of 4 blocks  4,000 rows/s  1.91 MiB/s  objective 0.25  7 changes'
    """
    seconds, share = max(now.seconds, 1e-9), now.bytes_done / max(now.bytes, 1)
    parts = [
        f"{now.blocks_done:,} of {now.blocks:,} blocks",
        f"{share * now.items / seconds:,.0f} {now.axis}/s",
        f"{format_bytes(int(now.bytes_done / seconds))}/s",
    ]
    parts += [] if math.isnan(now.objective) else [f"objective {now.objective:.6g}"]
    parts += [] if math.isnan(now.changes) else [f"{now.changes:,.0f} changes"]
    return "  ".join(parts)


@contextmanager
def count_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar of a count, and yield the function that takes the amount done and the total amount."""
    with _bar(TextColumn("{task.completed:,} of {task.total:,}")) as bar:
        task = bar.add_task(what, total=0)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _WithDetails(Progress):
    """A progress bar with a line of details below the bar, for narrow terminals."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.fields.get("detail"):
                yield Text.from_markup(f"  {task.fields['detail']}", overflow="ellipsis")


def _bar(*columns: ProgressColumn) -> Progress:
    parts = [TextColumn("[bold]{task.description}"), BarColumn(), TaskProgressColumn(), *columns, TimeRemainingColumn()]
    return _WithDetails(*parts, console=messages, transient=True, disable=not messages.is_terminal)
