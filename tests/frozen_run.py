"""A selection run, an ingest or a shuffle in a process of its own, for tests that freeze it: prints how it ended."""

from __future__ import annotations

import sys
import time
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


def main(scheduler: str, source: str, folder: str, work: str) -> None:
    began, out = Path(folder) / "began", Path(folder) / "out.zarr"

    def progress(*_: object) -> None:
        began.touch()
        if work not in ALGORITHMS:
            time.sleep(0.1)  # so that there is a middle to strike in

    with Client(scheduler, set_as_default=False, timeout=60) as client:
        if work == "ingest":
            print(daskfs.ingest(source, out, format="svmlight", client=client, progress=progress).digest)
        elif work == "shuffle":
            print(daskfs.shuffle(source, out, client=client, progress=progress).digest)
        else:
            checkpoint = Path(folder) / "checkpoint"
            selection = daskfs.select(
                source, ALGORITHMS[work], client=client, checkpoint=checkpoint, resume=True, progress=progress
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
