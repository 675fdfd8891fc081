"""The simulations of MISSION, as their commands run them, in sizes of seconds."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

pytestmark = pytest.mark.slow

Tables = list[list[dict[str, Any]]]
PAPERS = Path(__file__).parents[2] / "pipelines" / "papers"


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A script among the experiments, by name."""
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module


@pytest.fixture
def run(papers: Callable[[str], ModuleType]) -> Callable[..., Tables]:
    """The records of every table that a command prints."""

    def tables(*arguments: object) -> Tables:
        result = CliRunner().invoke(
            papers("mission").main, [*map(str, arguments), "--json"], catch_exceptions=False, standalone_mode=False
        )
        return [json.loads(line)["records"] for line in result.output.splitlines()]

    return tables


def mean(records: list[dict[str, Any]], metric: str, **where: Any) -> float:
    wanted = [r[metric] for r in records if metric in r and all(r[name] == value for name, value in where.items())]
    assert wanted, f"no {metric} for {where}"
    return float(np.mean(wanted))


def test_mission_withstands_more_attenuation_than_hard_thresholding(run):
    (records,) = run("table1", "--p", 100, "--row", 60, 3, "--rows-seen", 1500, "--trials", 2)
    withstood = {method: mean(records, "α", method=method) for method in dict.fromkeys(r["method"] for r in records)}
    assert withstood["MISSION, paper"] > withstood["IHT"] >= 1
    assert withstood["MISSION, active"] > withstood["IHT"]
    assert withstood["IHT"] > withstood["IHT, a row a step"]


def test_mission_recovers_more_columns_and_more_rows_show_more(run):
    (records,) = run("figure2", "--p", 100, "--n", 15, "--n", 40, "--rows-seen", 1000, "--trials", 3)
    for method in ("MISSION, active", "MISSION, paper", "IHT", "ITI", "PHT"):
        assert mean(records, "k", method=method, n=40) > mean(records, "k", method=method, n=15)
    assert mean(records, "k", method="MISSION, paper", n=40) >= mean(records, "k", method="IHT", n=40)


def test_recall_grows_with_memory(run):
    widths = [option for width in (4, 64, 1024) for option in ("--width", width)]
    by_width, needed = run("figure3", "--n", 50, "--k", 2, "--p", 200, *widths, "--rows-seen", 1000, "--trials", 3)
    for method in ("MISSION, active", "MISSION, paper"):
        assert mean(by_width, "recall", method=method, width=4) < mean(by_width, "recall", method=method, width=1024)
        assert mean(by_width, "recall", method=method, width=1024) >= 0.8
    assert 4 < mean(needed, "width", method="MISSION, paper", p=200) <= 1024


def test_tables_for_people(papers):
    arguments = ["figure2", "--p", "30", "--n", "10", "--rows-seen", "50", "--trials", "1"]
    result = CliRunner().invoke(papers("mission").main, arguments, catch_exceptions=False)
    assert [method for method in ("active", "paper", "IHT", "ITI", "PHT") if method in result.output] == [
        "active",
        "paper",
        "IHT",
        "ITI",
        "PHT",
    ]


@pytest.mark.parametrize("name", ["iht", "iti", "pht"])
def test_hard_thresholding_finds_orthogonal_columns(papers, name):
    X, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 30)))
    chosen = getattr(papers("thresholding"), name)(X, X[:, [3, 8, 20]] @ [1.0, -2.0, 3.0], 3, 1.0)
    assert sorted(chosen.tolist()) == [3, 8, 20]


def test_partial_thresholding_exchanges_one_column_at_a_time(papers):
    z, S = np.array([1.0, 5.0, 4.0, 0.5, 2.0]), np.array([0, 3])
    assert sorted(papers("thresholding")._one_exchanged(z, S).tolist()) == [0, 1]


def test_alpha_counts_where_all_able_methods_recover_without_attenuation(papers):
    a = [{"method": "a", "seed": seed, "recovered at 1": 1.0, "α": 2.0} for seed in (0, 1)]
    b = [{"method": "b", "seed": seed, "recovered at 1": float(seed), "α": float(seed)} for seed in (0, 1)]
    never = [{"method": "c", "seed": seed, "recovered at 1": 0.0, "α": 0.0} for seed in (0, 1)]
    kept = papers("mission").comparable(iter(a + b + never))
    assert [record["seed"] for record in kept if "α" in record] == [1, 1, 1]


@pytest.mark.parametrize(("last", "most"), [(0, 10), (1, 10), (13, 100), (16, 16), (20, 7)])
def test_the_transition_is_found_by_bisection(papers, last, most):
    assert papers("_recovery").last_that_holds(lambda k: k <= last, most) == min(last, most)
