"""Metrics for Prometheus, at ``/metrics`` of a scheduler that has the daskfs page; needs prometheus-client.

`GAUGES` and `COUNTERS` list the metrics, where the names of counters end in ``_total``. Labels of the metrics are the
id of the selection run and the algorithm. Only the last few selection runs of a scheduler are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import prometheus_client
from distributed.http.prometheus import PrometheusCollector
from distributed.http.scheduler.prometheus import core
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from daskfs.observe.dashboard.live_runs import LiveRun, LiveRuns

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
    """Prometheus collector that Dask creates with its scheduler, like the collectors of Dask's own metrics."""

    plugin = ""

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        plugin = self.server.plugins.get(self.plugin)
        if plugin is not None:
            yield from families(plugin.live_runs)


def families(live_runs: LiveRuns) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    """Yield the metrics of all selection runs."""
    values = [(run, values_of(run)) for run in live_runs.runs.values()]
    for kind, metrics in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
        for name, about in metrics.items():
            family = kind(name, about, labels=_LABELS)
            for run, of_run in values:
                if (value := of_run[name]) is not None:
                    family.add_metric([run.run, run.algorithm], value)
            yield family


def values_of(run: LiveRun) -> dict[str, float | None]:
    """Return every metric of a selection run by name, with None for unknown values."""
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
    """Add the collector to the metrics of this process' schedulers, to read the scheduler plugin of this name."""
    if any(collector.__name__ == DaskfsCollector.__name__ for collector in core.COLLECTORS):
        return
    DaskfsCollector.plugin = plugin
    core.COLLECTORS.append(DaskfsCollector)
    existing = core.PrometheusHandler._collectors
    if existing:  # metrics were read before, and Dask creates its collectors only once
        ours = DaskfsCollector(existing[0].server)
        prometheus_client.REGISTRY.register(ours)
        core.PrometheusHandler._collectors = (*existing, ours)
