"""Runs with everything beside them that a report can show, for tests of reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from daskfs.selection.selection import Selection

CLASSES = ("auto", "medicine", "space")
METRICS = {
    "accuracy": (0.8125, [0.7, 0.9]),
    "balanced_accuracy": (0.8, [0.69, 0.89]),
    "log_loss": (0.4375, [0.4, 0.5]),
    "roc_auc": (None, [None, None]),
}


def keep_records(folder: Path, selection: Selection, **changes: Any) -> None:
    """Write run, metrics, sizes and stability of a selection as somebody might who ran it; `None` leaves one out."""
    for name, record in {**records(selection), **changes}.items():
        if record is not None:
            (folder / f"{name}.json").write_text(json.dumps(record))


def records(selection: Selection) -> dict[str, Any]:
    """One of each, with numbers that are easy to find again."""
    classes = selection.classes or ()
    main = "r2" if selection.classes is None else "balanced_accuracy"
    metrics = {main: METRICS["balanced_accuracy"]} if selection.classes is None else METRICS
    ids, names = selection.features.tolist(), selection.names
    return {
        "run": {
            "version": 1,
            "daskfs": "0.1.0",
            "python": "3.11.9",
            "packages": {"numpy": "2.4.6"},
            "machine": {"cores": 2, "memory": 8 << 30},
            "command": ["daskfs", "select", "a b.zarr"],
            "algorithm": selection.algorithm,
            "seed": selection.seed,
            "source": selection.source,
            "started": "2026-11-16T17:00:00+00:00",
            "finished": "2026-11-16T17:01:15+00:00",
            "seconds": 75.0,
            "workers": 2,
            "memory": {"promised": 140 << 20, "used": 70 << 20, "text": "state 60 MiB + blocks 80 MiB = 140 MiB"},
            "bytes_read": 300 << 20,
            "offers": {"count": 49.0, "staleness": 0.75, "staleness_max": 4.0},
            "performance_report": None,
        },
        "metrics": {
            "dataset": "test.zarr",
            "digest": "cd" * 32,
            "rows": 1234,
            "unknown_rows": 0,
            "weighted": False,
            "metrics": {name: value for name, (value, _) in metrics.items()},
            "intervals": {name: ends for name, (_, ends) in metrics.items()},
            "per_class": [{"class": label, "rows": 7, "precision": 0.5, "recall": None} for label in classes],
        },
        "sizes": {
            "dataset": "test.zarr",
            "digest": "cd" * 32,
            "metric": main,
            "sizes": [1, 2, 20],
            "scores": [0.5, 0.625, 0.75],
            "intervals": [[0.4, 0.6], [0.5, 0.7], [None, None]],
            "how": "Refitted for every size.",
        },
        "stability": {
            "seeds": [0, 1, 2],
            "index": 0.83,
            "jaccard": 0.75,
            "distinct": len(ids) + 1,
            "features": [
                {"id": at, "name": name, "times": 3 - (at == ids[-1])} for at, name in zip(ids, names, strict=True)
            ]
            + [{"id": max(ids) + 1, "name": "another", "times": 1}],
        },
    }
