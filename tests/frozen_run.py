"""A selection run in a process of its own, for tests that freeze it: prints how it ended."""

from __future__ import annotations

import sys
from pathlib import Path

from distributed import Client
from toy_algorithms import Census, Tangled

import daskfs
from daskfs.errors import DaskfsError
from daskfs.protocol import Algorithm, Schedule

ALGORITHMS: dict[str, Algorithm] = {
    "synchronous": Tangled(seconds=0.05),
    "serial": Tangled(seconds=0.05, schedule=Schedule.SERIAL),
    "asynchronous": Census(seconds=0.05),
}
"""One of each schedule, whose result is the same to the last bit whatever happens on the way."""


def main(scheduler: str, dataset: str, folder: str, schedule: str) -> None:
    began = Path(folder) / "began"
    with Client(scheduler, set_as_default=False, timeout=60) as client:
        selection = daskfs.select(
            dataset,
            ALGORITHMS[schedule],
            client=client,
            checkpoint=Path(folder) / "checkpoint",
            resume=True,
            progress=lambda _: began.touch(),
        )
    print(shown(selection))


def shown(selection: daskfs.Selection) -> str:
    """What a run prints."""
    return f"{selection.features.tolist()} {selection.weights.tobytes().hex()}"


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except DaskfsError as error:
        print(error)
        sys.exit(error.exit_code)
