"""The destination of an ingest: the target dataset, or a temporary dataset that is then shuffled into the target."""

from __future__ import annotations

from dataclasses import dataclass

from distributed import Client

from daskfs.engine.data.reorder import MEMORY, shuffle, shuffled_request
from daskfs.errors import OptionError, check_whole
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import ROOT, DenseShape
from daskfs.store.dataset.writer import check_free, clear
from daskfs.store.ingest.plan import is_done
from daskfs.store.ingest.staging import BlockShape
from daskfs.store.places.location import Location


@dataclass(frozen=True, slots=True)
class Destination:
    """The location of the dataset that an ingest writes, and the order of the rows."""

    target: Location
    seed: int | None
    """The seed of the random order of rows, or None to keep the order of the sources."""

    @classmethod
    def of(cls, target: Location, shuffled: bool | int) -> Destination:
        """Return the destination for the option `shuffled` (False for no shuffle, True for seed 0, or a seed)."""
        if isinstance(shuffled, bool):
            return cls(target, 0 if shuffled else None)
        check_whole("shuffle", shuffled, 0)
        return cls(target, shuffled)

    @property
    def rows(self) -> Location:
        """The location where rows are written in the order of the sources, before any shuffle."""
        return self.target if self.seed is None else Location(f"{self.target.url}.unshuffled", self.target.options)

    def is_shuffled(self, request: str, content: str, overwrite: bool) -> bool:
        """Return True if the requested shuffled dataset is complete, or raise an error if the target is not free."""
        if self.seed is None:
            return False
        if self.target.exists(ROOT) and not overwrite:
            with self.target.one_writer():
                if is_done(self.target, shuffled_request(request, self.seed), content):
                    self._drop_unshuffled()  # a kill may have come between the last write and this
                    return True
        check_free(self.target, overwrite)
        return False

    def check(self, shape: BlockShape | DenseShape) -> None:
        """Raise OptionError if the rows must be shuffled, but the layout does not allow a shuffle."""
        if self.seed is not None and isinstance(shape, DenseShape) and shape.layout != "rows":
            self.rows.remove_if_empty()
            raise OptionError(
                f"{self.target.url}: a dense table in {shape.layout} cannot be shuffled row by row; use --layout rows"
            )

    def publish(self, memory: int | str | None, overwrite: bool, client: Client | None, workers: int | None) -> Dataset:
        """Shuffle the complete temporary dataset into the target if a shuffle is requested, and open the target."""
        options = self.target.options
        if self.seed is not None:
            shuffle(
                open_dataset(self.rows.url, options),
                self.target.url,
                self.seed,
                memory=MEMORY if memory is None else memory,
                overwrite=overwrite,
                client=client,
                workers=workers,
                storage_options=options,
            )
            self._drop_unshuffled()
        return open_dataset(self.target.url, options)

    def _drop_unshuffled(self) -> None:
        if not self.rows.is_empty():
            clear(self.rows)
        self.rows.remove_if_empty()
