"""A real SLURM queue of one machine: its controller, its node and its keys in a folder, reached by loopback alone."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from clusters.jobs import eventually, free_port, program_at, swept
from dask_processes import said, started

QUEUE = "normal"
# The node may have fewer cores than the queue believes: what is tested is the queue, not the machine.
CONFIGURATION = """
ClusterName=daskfs
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=16000 State=UNKNOWN
PartitionName={queue} Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A queue, and who it is asked by."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """In which SLURM's commands find this queue, and no other; jobs inherit it."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    @property
    def mark(self) -> str:
        """What every process has in its environment that the queue runs."""
        return str(self.folder / "slurm.conf")

    def queued(self) -> list[str]:
        """The jobs that wait or run."""
        command = ["squeue", "--noheader", "--format=%i %j %T"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.splitlines()

    def ran(self) -> list[dict[str, str]]:
        """What the controller says of every job that is over and was given a node; those it refuses were not."""
        log = self.folder / "jobs.log"
        lines = log.read_text().splitlines() if log.exists() else []
        jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
        return [job for job in jobs if job["NodeList"] == host_name()]


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """A queue, until the block ends."""
    host, queue = host_name(), Slurm(folder)
    configuration = CONFIGURATION.format(
        host=host, folder=folder, queue=QUEUE, controller_port=free_port(), node_port=free_port()
    )
    (folder / "slurm.conf").write_text(configuration)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").touch(mode=0o600)
    (folder / "munge.key").write_bytes(os.urandom(128))
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    with ExitStack() as running:
        running.enter_context(swept(queue.mark))
        for name, arguments, ready in [
            ("munged", ["--foreground", "--force", f"--socket={folder}/munge.socket", *files], "Created socket"),
            ("slurmctld", ["-D", "-f", str(folder / "slurm.conf")], "Running as primary controller"),
            ("slurmd", ["-D", "-f", str(folder / "slurm.conf"), "-N", host], "slurmd started"),
        ]:
            command = [str(program_at(name)), *arguments]
            running.enter_context(started(command, folder / f"{name}.log", queue.environment))
            said(folder / f"{name}.log", ready)
        assert eventually(lambda: _is_idle(queue)), (folder / "slurmctld.log").read_text()
        yield queue


def host_name() -> str:
    """What SLURM calls this machine."""
    return socket.gethostname().partition(".")[0]


def _is_idle(queue: Slurm) -> bool:
    command = ["sinfo", "--noheader", "--format=%T"]
    return subprocess.run(command, env=queue.environment, capture_output=True, text=True, timeout=60).stdout == "idle\n"
