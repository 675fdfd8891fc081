"""Metrics for Prometheus, at ``/metrics`` of a scheduler that has the daskfs page; needs prometheus-client.

`GAUGES` and `COUNTERS` list the metrics, where the names of counters end in ``_total``. Labels of the metrics are the
id of the selection run and the algorithm. Only the last few selection runs of a scheduler are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import prometheus_client
from distributed.http.prometheus import PrometheusCollector
from distributed.http.scheduler.prometheus import core
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from daskfs.observe.dashboard.live_runs import LiveRun, LiveRuns

Metrics = Mapping[str, tuple[str, Callable[[LiveRun], float | None]]]
"""The name of every metric, with its description and the function that returns its value, or None if unknown."""
GAUGES: Metrics = {
    "daskfs_pass": (
        "The pass that the run is in, from 1",
        lambda run: max(run.passes_done, 1) if run.ended and run.why is None else run.number,
    ),
    "daskfs_blocks_done": ("Blocks of this pass that are done", lambda run: run.blocks_done),
    "daskfs_blocks": ("Blocks of a pass", lambda run: run.blocks),
    "daskfs_objective": ("The objective, as far as it is known", lambda run: run.objective),
    "daskfs_finished": ("1 when the run has ended, or whoever started it is gone", lambda run: float(run.ended)),
}
COUNTERS: Metrics = {
    "daskfs_bytes_read": ("Bytes that workers have read", lambda run: run.total.bytes),
    "daskfs_set_changes": ("Changes of the set of features", lambda run: run.changes_before + (run.changes or 0.0)),
    "daskfs_workers_busy_seconds": (
        "Seconds that workers read blocks and worked on them",
        lambda run: run.total.busy,
    ),
    "daskfs_merging_seconds": (
        "Seconds that states were merged, or that the centre was at work",
        lambda run: run.merging,
    ),
    "daskfs_checkpoints": ("Checkpoints written", lambda run: run.n_checkpoints),
    "daskfs_workers_left": ("Times that a worker left the cluster meanwhile", lambda run: len(run.left)),
}


class DaskfsCollector(PrometheusCollector):
    """Prometheus collector that Dask creates with its scheduler, like the collectors of Dask's own metrics."""

    plugin = ""

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        plugin = self.server.plugins.get(self.plugin)
        if plugin is not None:
            yield from families(plugin.live_runs)


def families(live_runs: LiveRuns) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    """Yield the metrics of all selection runs."""
    for kind, metrics in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
        for name, (about, value_of) in metrics.items():
            family = kind(name, about, labels=("run", "algorithm"))
            for run in live_runs.runs.values():
                if (value := value_of(run)) is not None:
                    family.add_metric([run.run, run.algorithm], value)
            yield family


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
