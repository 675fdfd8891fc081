"""What the driver of asynchronous work knows of it: the truth, as far as there is one. No Dask here."""

from __future__ import annotations

from dataclasses import dataclass

from daskfs.engine.asynchronous.centre import NOTHING, CentreSpent, Report
from daskfs.protocol import State


@dataclass(slots=True)
class Ledger:
    """A stretch of work around a centre, which may be lost."""

    begun: State
    """The state it began with."""
    groups: dict[int, range]
    """Those still to do, by number."""
    newest: Report
    """What the centre held when it was last asked."""
    before: CentreSpent = NOTHING
    """What this centre does not know of, less what it did in earlier stretches; …"""
    here: CentreSpent = NOTHING
    """… and what it knows of."""

    @property
    def spent(self) -> CentreSpent:
        """On this stretch, as far as it is known."""
        return self.before + self.here

    def heard(self, report: Report) -> None:
        """Strike out groups of which everything has arrived; what the centre held then is remembered."""
        for number in report.whole:
            self.groups.pop(number, None)
        self.here = report.spent
        self.newest = report

    def since(self, spent: CentreSpent) -> None:
        """From now on it may be another centre that says what it holds, and so much had been spent around it before."""
        self.before, self.here = self.spent - spent, spent

    def position(self, end: int) -> int:
        """All blocks before this one are done; some behind it may be."""
        return min((group.start for group in self.groups.values()), default=end)
