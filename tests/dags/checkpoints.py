"""A cluster that is there, for job files of tests: whoever uses it keeps checkpoints, and says so, at every chance."""

from __future__ import annotations

from distributed.core import Status

from daskfs.engine import checkpoint
from daskfs.job import execute


class RunningCluster:
    """What `cluster.start` of a job file takes, for a scheduler that somebody else has started and will stop."""

    status = Status.running
    dashboard_link = ""

    def __init__(self, address: str) -> None:
        self.scheduler_address = address
        checkpoint.EVERY_SECONDS = execute.LINE_SECONDS = 0.0  # in the process of the task

    def __enter__(self) -> RunningCluster:
        return self

    def __exit__(self, *_: object) -> None:
        pass
