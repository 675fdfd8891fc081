"""The systems of the papers: what each is, what runs it, and the independent test of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class System(NamedTuple):
    """A method as the page calls it, alone or before a comma with more words."""

    what: str
    tested_in: str
    """A file below `tests/`, or a library whose code it is."""


SYSTEMS = {
    "OS, block": System("Online Substitution as it is by default here", "algorithms/test_substitution.py"),
    "OS, paper": System("Online Substitution, algorithm 1", "algorithms/test_substitution_reference.py"),
    "Asy-OS": System("its asynchronous form, algorithms 2 and 3", "algorithms/test_substitution_reference.py"),
    "Proj-GD": System("projected gradient", "pipelines/test_papers_baselines.py"),
    "LASSO": System("the path of penalties", "scikit-learn"),
    "L1 hinge": System("the same with squared hinge loss", "pipelines/test_substitution_peers.py"),
    "Grafting": System("columns one by one into a small LASSO", "pipelines/test_substitution_peers.py"),
    "naive, projection": System("online steps, then the k largest", "pipelines/test_substitution_peers.py"),
    "naive, proximal": System("online steps, shrunk by a penalty", "pipelines/test_substitution_peers.py"),
    "MISSION, active": System("MISSION as it is by default here", "algorithms/test_mission.py"),
    "MISSION, paper": System("MISSION, the published listing", "algorithms/test_mission.py"),
    "IHT": System("iterative hard thresholding", "pipelines/test_mission_simulations.py"),
    "ITI": System("the same with inversion", "pipelines/test_mission_simulations.py"),
    "PHT": System("partial hard thresholding", "pipelines/test_mission_simulations.py"),
    "FH": System("feature hashing", "pipelines/test_papers_baselines.py"),
    "Batch IHT": System("thresholding when memory is full", "algorithms/test_mission.py"),
    "VW": System("Vowpal Wabbit", "vowpalwabbit"),
    "Sparse-RF": System("Sparse Random Features", "algorithms/test_random_features.py"),
    "RF": System("all random features and a ridge", "pipelines/test_papers_baselines.py"),
    "Kernel": System("the exact kernel: ridge, or support vectors", "pipelines/test_papers_baselines.py"),
    "Boosting": System("boosting with the least-squares surrogate", "pipelines/test_boosting.py"),
}


def system_of(method: str) -> str:
    """Return the system that a method of the page is a form of: the longest name that it begins with."""
    fitting = [name for name in SYSTEMS if f"{method},".startswith(f"{name},")]
    return max(fitting, key=len)


def systems_of(names: Iterable[str], saved: dict[str, Any]) -> str:
    """Return a table of all systems, the files that run them among exhibits with these names, and their tests."""
    files: dict[str, list[str]] = {name: [] for name in SYSTEMS}
    for exhibit in names:
        for method in dict.fromkeys(record["method"] for record in saved.get(exhibit, {}).get("records", [])):
            own = files[system_of(method)]
            own += [f"`{exhibit}`"] if f"`{exhibit}`" not in own else []
    rows = [
        f"| {name} | {system.what} | {', '.join(files[name])} | {_test(system)} |" for name, system in SYSTEMS.items()
    ]
    done = sum(map(bool, files.values()))
    head = ["## The systems by name\n", f"{done} of {len(SYSTEMS)} run above. What is not a library has a test against"]
    head[1] += " something independent: a plain form of the paper, a library, or its definition.\n"
    return "\n".join(
        [*head, "| system | | files in `pipelines/papers` that run it | tested in |", "|---|---|---|---|", *rows, ""]
    )


def _test(system: System) -> str:
    return f"`tests/{system.tested_in}`" if system.tested_in.endswith(".py") else f"{system.tested_in}, its own code"
