"""Metrics for Prometheus, at ``/metrics`` of a scheduler that has the daskfs page; needs prometheus-client.

=================================== ======= ==========================================================
name                                type    of a run
=================================== ======= ==========================================================
daskfs_pass                         gauge   the pass it is in, from 1
daskfs_blocks_done                  gauge   blocks of this pass that are done
daskfs_blocks                       gauge   blocks of a pass
daskfs_objective                    gauge   the objective, as far as it is known
daskfs_finished                     gauge   1 when it has ended, or whoever started it is gone
daskfs_bytes_read_total             counter bytes that workers have read
daskfs_set_changes_total            counter changes of the set
daskfs_workers_busy_seconds_total   counter seconds that workers read blocks and worked on them
daskfs_merging_seconds_total        counter seconds of merging, or of the centre
daskfs_checkpoints_total            counter checkpoints written
daskfs_workers_left_total           counter times that a worker left the cluster meanwhile
=================================== ======= ==========================================================

Labels: run, a name for this run alone, and algorithm. The last few runs of a scheduler are there.
"""

from __future__ import annotations

from collections.abc import Iterator

import prometheus_client
from distributed.http.prometheus import PrometheusCollector
from distributed.http.scheduler.prometheus import core
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from daskfs.observe.dashboard.watched import Watched, WatchedRun

GAUGES = {
    "daskfs_pass": "The pass that the run is in, from 1",
    "daskfs_blocks_done": "Blocks of this pass that are done",
    "daskfs_blocks": "Blocks of a pass",
    "daskfs_objective": "The objective, as far as it is known",
    "daskfs_finished": "1 when the run has ended, or whoever started it is gone",
}
COUNTERS = {
    "daskfs_bytes_read": "Bytes that workers have read",
    "daskfs_set_changes": "Changes of the set of features",
    "daskfs_workers_busy_seconds": "Seconds that workers read blocks and worked on them",
    "daskfs_merging_seconds": "Seconds that states were merged, or that the centre was at work",
    "daskfs_checkpoints": "Checkpoints written",
    "daskfs_workers_left": "Times that a worker left the cluster meanwhile",
}
_LABELS = ("run", "algorithm")


class DaskfsCollector(PrometheusCollector):
    """What Dask makes for every kind of metrics; it gives a scheduler to it, perhaps another one later."""

    plugin = ""

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        plugin = self.server.plugins.get(self.plugin)
        if plugin is not None:
            yield from families(plugin.watched)


def families(watched: Watched) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    """The runs as metrics."""
    values = [(run, values_of(run)) for run in watched.runs.values()]
    for kind, metrics in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
        for name, about in metrics.items():
            family = kind(name, about, labels=_LABELS)
            for run, of_run in values:
                if (value := of_run[name]) is not None:
                    family.add_metric([run.run, run.algorithm], value)
            yield family


def values_of(run: WatchedRun) -> dict[str, float | None]:
    """Every metric of a run; None where there is nothing to say."""
    return {
        "daskfs_pass": max(run.passes_done, 1) if run.ended and run.why is None else run.number,
        "daskfs_blocks_done": run.blocks_done,
        "daskfs_blocks": run.blocks,
        "daskfs_objective": run.objective,
        "daskfs_finished": float(run.ended),
        "daskfs_bytes_read": run.total.bytes,
        "daskfs_set_changes": run.changes_before + (run.changes or 0.0),
        "daskfs_workers_busy_seconds": run.total.busy,
        "daskfs_merging_seconds": run.merging,
        "daskfs_checkpoints": run.n_checkpoints,
        "daskfs_workers_left": len(run.left),
    }


def register(plugin: str) -> None:
    """Let the schedulers of this process show the metrics of the plugin of this name, if they have it."""
    if any(one.__name__ == DaskfsCollector.__name__ for one in core.COLLECTORS):
        return
    DaskfsCollector.plugin = plugin
    core.COLLECTORS.append(DaskfsCollector)
    made = core.PrometheusHandler._collectors
    if made:  # someone has asked for metrics before, and Dask makes collectors once
        mine = DaskfsCollector(made[0].server)
        prometheus_client.REGISTRY.register(mine)
        core.PrometheusHandler._collectors = (*made, mine)
