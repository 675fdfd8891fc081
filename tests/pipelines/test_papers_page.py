"""What stands behind docs/papers.md: measurements that go on after a stop, and sentences that follow from numbers."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "pipelines" / "papers"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module


@pytest.fixture
def made(load):
    """An exhibit of three cells, and how often each was measured."""
    exhibit, calls = load("_exhibit"), []

    def cells(places, sizes):
        def cell(x):
            calls.append(x)
            if stop_at and x == stop_at[0]:
                raise KeyboardInterrupt
            return [{"method": name, "x": x, "score": base + x / 10} for name, base in (("ours", 0.5), ("theirs", 0.4))]

        return {f"x {x}": lambda x=x: cell(x) for x in sizes}

    stop_at = []
    view = exhibit.View("Score", "x", "score", "higher")
    return (
        exhibit.Exhibit(
            name="mission_made",
            title="Made",
            cells=cells,
            quick={"sizes": [1, 2, 3]},
            full={"sizes": [1, 2, 3, 4]},
            views=(view,),
            claims=(exhibit.Claim("ours is better", view, ("ours",), ("theirs",)),),
            printed=({"method": "ours", "x": 1, "score": 0.55}, {"method": "ours", "x": 2, "score": 0.9}),
        ),
        calls,
        stop_at,
    )


def test_a_run_that_was_stopped_goes_on(load, made, tmp_path):
    exhibit, calls, stop_at = made
    places = load("_exhibit").Places(None, tmp_path)
    stop_at.append(3)
    with pytest.raises(KeyboardInterrupt):
        exhibit.measure(places, "quick")
    with (tmp_path / "mission_made-quick.jsonl").open("a") as file:
        file.write('{"cell": "x 3", "rec')  # as a killed process leaves it
    stop_at.clear()
    measured = exhibit.measure(places, "quick")
    assert calls == [1, 2, 3, 3]
    assert [r["x"] for r in measured["records"]] == [1, 1, 2, 2, 3, 3]
    assert exhibit.measure(places, "quick") == measured
    assert len(calls) == 4
    exhibit.measure(places, "quick", again=True)
    assert len(calls) == 7


def test_other_sizes_are_measured_anew(load, made, tmp_path):
    exhibit, _, _ = made
    places = load("_exhibit").Places(None, tmp_path)
    exhibit.measure(places, "quick")
    exhibit.quick["sizes"] = [2, 5]
    assert [r["x"] for r in exhibit.measure(places, "quick")["records"]] == [2, 2, 5, 5]


def test_the_page_says_what_the_numbers_say(load, made, tmp_path):
    exhibit, _, _ = made
    page, measured = load("_page"), exhibit.measure(load("_exhibit").Places(None, tmp_path), "quick")
    text = page.section_of(exhibit, {exhibit.name: measured})
    assert "| ours | 0.600 (0.550) | 0.700 (0.900) | 0.800 |" in text
    assert "Here it holds: score ours 0.700, theirs 0.600." in text
    assert "at least as good" not in text  # of the quick form
    full = page.section_of(exhibit, {exhibit.name: measured | {"form": "full"}})
    assert "at least as good as the paper's in 1 of 2 cells, and worse in x 2 0.700 against 0.900.\n" in full
    reasoned = replace(exhibit, reasons={"ours": "It is small."})
    full = page.section_of(reasoned, {exhibit.name: measured | {"form": "full"}})
    assert "against 0.900. It is small.\n" in full
    for record in measured["records"]:
        record["score"] = -record["score"]
    assert "Here **it does not hold**" in page.section_of(exhibit, {exhibit.name: measured})
    assert "Not measured yet" in page.section_of(exhibit, {})


def test_numbers_on_other_data_and_chosen_numbers_are_not_compared(load, made, tmp_path):
    exhibit, _, _ = made
    page, measured = load("_page"), exhibit.measure(load("_exhibit").Places(None, tmp_path), "quick")
    saved = {exhibit.name: measured | {"form": "full"}}
    assert "at least as good" in page.section_of(exhibit, saved)
    other = page.section_of(replace(exhibit, same_data=False), saved)
    assert "at least as good" not in other
    assert "(0.550)" not in other
    assert "The paper, on other data: score ours 0.550, ours 0.900." in other
    chosen = replace(exhibit, views=(replace(exhibit.views[0], chosen=("ours",)),))
    assert "at least as good" not in page.section_of(chosen, saved)


def test_a_sentence_that_the_quick_form_cannot_decide_is_not_counted(load, made, tmp_path):
    exhibit, _, _ = made
    page, measured = load("_page"), exhibit.measure(load("_exhibit").Places(None, tmp_path), "quick")
    undecided = replace(exhibit, claims=(*exhibit.claims, replace(exhibit.claims[0], too_small="it is small")))
    text = page._summary([undecided], {exhibit.name: measured})
    assert "Nothing is measured in the full form yet." in text
    assert "of 1 sentences of the papers that it can decide, 1 hold here" in text
    assert "1 more it cannot decide" in text
    section = page.section_of(undecided, {exhibit.name: measured})
    assert "The quick form cannot decide that, since it is small: score ours 0.700, theirs 0.600." in section
    full = measured | {"form": "full"}
    assert "of 2 sentences of the papers that it can decide, 2 hold" in page._summary([undecided], {exhibit.name: full})
    assert "cannot decide" not in page.section_of(undecided, {exhibit.name: full})


def test_whole_numbers_caps_and_spreads(load):
    page, view = load("_page"), load("_exhibit").View("Count", "x", "k", "higher")
    records = [{"method": "ours", "x": 1, "k": k} for k in (3, 5)] + [{"method": "ours", "x": 2, "k": 7}]
    text = page.table_of(view, records, (), cap=7)
    assert "| ours | 4 ± 1.414 | ≥ 7 |" in text
    assert "No more than 7 was tried." in text
    assert "| ours | 4.000" in page.table_of(view, [{**r, "k": float(r["k"])} for r in records], ())


def test_other_code_is_measured_anew_and_the_full_form_is_kept_in_the_repository(load, made, tmp_path, monkeypatch):
    exhibit, calls, _ = made
    places = load("_exhibit").Places(None, tmp_path / "work", tmp_path / "docs")
    exhibit.measure(places, "full")
    assert (tmp_path / "docs" / "mission_made-full.jsonl").exists()
    exhibit.measure(places, "full")
    assert len(calls) == 4
    monkeypatch.setattr(load("_exhibit"), "digest_of", lambda name: "other")
    assert exhibit.measure(places, "full")["code"] == "other"
    assert len(calls) == 8


def test_the_digest_is_that_of_all_code_behind_an_exhibit(load, tmp_path, monkeypatch):
    digest = load("_digest")
    files = {path.name for path in digest._imported("mission_figure6")}
    assert {"mission_figure6.py", "_learned.py", "_contenders.py", "_real.py"} <= files
    assert "substitution_figure1.py" not in files
    for name, text in (("mission_a", "from b import c"), ("b", "c = 1")):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(digest, "HERE", tmp_path)
    before = digest.digest_of("mission_a")
    assert digest.digest_of("mission_a") == before
    (tmp_path / "b.py").write_text("c = 2")
    assert digest.digest_of("mission_a") != before


def test_systems_are_run_by_name(load, made, tmp_path, monkeypatch):
    exhibit, calls, _ = made
    run, other = load("run"), replace(made[0], name="mission_other")
    saved = {exhibit.name: {"records": [{"method": "IHT"}]}, "mission_other": {"records": [{"method": "VW"}]}}
    (tmp_path / "papers.json").write_text(json.dumps(saved))
    monkeypatch.setattr(run, "exhibits", lambda: [exhibit, other])
    monkeypatch.setattr(run, "write_page", lambda *_: None)
    places = ["--work", str(tmp_path / "work"), "--docs", str(tmp_path)]
    shown = CliRunner().invoke(run.main, ["--system", "IHT", "--draw", *places])
    assert "IHT: iterative hard thresholding; in mission_made; tested: pipelines/" in shown.output
    assert not calls
    done = CliRunner().invoke(run.main, ["--system", "IHT", *places])
    assert done.exit_code == 0, done.output
    assert len(calls) == 3


def test_a_quick_run_leaves_the_full_form_on_the_page(load, made, tmp_path, monkeypatch):
    exhibit, _, _ = made
    run = load("run")
    monkeypatch.setattr(run, "exhibits", lambda: [exhibit])
    monkeypatch.setattr(run, "NAMES", (exhibit.name,))
    monkeypatch.setattr(run, "write_page", lambda *_: None)
    for flags, form in (([], "quick"), (["--full"], "full"), ([], "full")):
        done = CliRunner().invoke(run.main, [*flags, "--work", str(tmp_path / "work"), "--docs", str(tmp_path)])
        assert done.exit_code == 0, done.output
        assert json.loads((tmp_path / "papers.json").read_text())[exhibit.name]["form"] == form


def test_one_that_fails_keeps_none_of_the_others_from_being_measured(load, made, tmp_path, monkeypatch):
    exhibit, _, _ = made

    def broken(places, sizes):
        return {"x 1": lambda: 1 // 0}

    run, first = load("run"), replace(exhibit, name="mission_broken", cells=broken)
    monkeypatch.setattr(run, "exhibits", lambda: [first, exhibit])
    monkeypatch.setattr(run, "NAMES", (first.name, exhibit.name))
    pages = []
    monkeypatch.setattr(run, "write_page", lambda every, saved, docs: pages.append(list(saved)))
    ended = CliRunner().invoke(run.main, ["--work", str(tmp_path / "work"), "--docs", str(tmp_path)])
    assert ended.exit_code == 1
    assert "1 failed" in ended.output
    assert "mission_broken: failed: ZeroDivisionError" in ended.output
    assert pages == [list(json.loads((tmp_path / "papers.json").read_text()))] == [[exhibit.name]]


def test_every_table_and_figure_is_a_file_of_its_name(load):
    files = {path.stem for path in PAPERS.glob("*.py") if "EXHIBIT = Exhibit(" in path.read_text("utf-8")}
    exhibits = load("run").exhibits()
    assert {exhibit.name for exhibit in exhibits} == files
    for exhibit in exhibits:
        names = exhibit.cells(load("_exhibit").Places(Path("nowhere"), Path("nowhere")), **exhibit.quick)
        assert names, f"{exhibit.name} has nothing to measure"
        assert set(exhibit.quick) == set(exhibit.full)


def test_the_page_and_its_plots_are_those_of_the_saved_numbers(load, tmp_path):
    """`python pipelines/papers/run.py --draw` writes them anew."""
    saved = json.loads((ROOT / "docs" / "papers.json").read_text("utf-8"))
    load("_page").write_page(load("run").exhibits(), saved, tmp_path)
    written = {path.relative_to(tmp_path): path.read_text("utf-8") for path in tmp_path.rglob("*.*")}
    kept = {path: (ROOT / "docs" / path).read_text("utf-8") for path in written}
    assert kept == written
    assert {path.name for path in (ROOT / "docs" / "papers").glob("*.svg")} == {
        p.name for p in written if p.suffix == ".svg"
    }


def test_numbers_of_the_page_are_those_of_exhibits_alone(load):
    assert not re.search(r"\d\.\d", (PAPERS / "_page.py").read_text("utf-8").split("TAIL")[0])


def test_every_method_is_a_form_of_a_system_that_has_a_test(load):
    systems = load("_systems")
    saved = json.loads((ROOT / "docs" / "papers.json").read_text("utf-8"))
    run = {systems.system_of(record["method"]) for measured in saved.values() for record in measured["records"]}
    assert run == systems.SYSTEMS.keys()
    for system in systems.SYSTEMS.values():
        assert not system.tested_in.endswith(".py") or (ROOT / "tests" / system.tested_in).exists()
    assert [systems.system_of(name) for name in ("IHT, a row a step", "Sparse-RF, paper")] == ["IHT", "Sparse-RF"]
    assert systems.system_of("MISSION, paper, per class") == "MISSION, paper"
    one = {"mission_made": {"records": [{"method": "IHT, a row a step"}, {"method": "IHT"}]}}
    assert "| IHT | iterative hard thresholding | `mission_made` | `tests/" in systems.systems_of(one, one)
    assert "\n1 of 21 run above" in systems.systems_of(one, one)


def test_a_plot_has_a_curve_for_each_method(load):
    svg = load("_plot").draw("Recall", "p", {"ours": {1: 0.5, 100: 1.0}, "theirs": {1: 0.25}}, dashed=["theirs"])
    assert svg.count('class="curve"') == 4  # and as many in the legend
    assert svg.count("<circle") == 3
    assert svg.count("stroke-dasharray") == 2
    level = load("_plot").draw("Recall", "p", {"ours": {1: 0.5, 100: 1.0}, "theirs": {1: 0.5, 100: 1.0}})
    assert level.count("stroke-dasharray") == 2  # in whose gaps the other shows


@pytest.mark.parametrize("ends", [(0.12, 0.97), (5, 5), (0, 0), (-3, 40_000)])
def test_axes_end_at_round_numbers(load, ends):
    low, high, step = load("_plot").ticks_of(*ends)
    assert low <= ends[0] <= ends[1] <= high
    assert 1 <= round((high - low) / step, 6) <= 7
    assert (high - low) / step == pytest.approx(round((high - low) / step))
