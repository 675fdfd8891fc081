"""daskfs report: what it says, where it is written, and what becomes of what is damaged or there already."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from report_runs import keep_records, records
from selections import selection_of

import daskfs
from daskfs.algorithms.registry import words_of
from daskfs.cli import main
from daskfs.observe.report import write_report
from daskfs.observe.tables import input_lines
from daskfs.protocol import Words
from daskfs.selection.selection import KeptFeatures, Selection
from daskfs.store.places.location import Location


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "150"}).invoke(main, [str(argument) for argument in arguments])


def text_of(folder: Path) -> str:
    """The words of a report without its markup, scripts and styles, as any parser of HTML sees them."""

    class Words(HTMLParser):
        def __init__(self):
            super().__init__()
            self.words, self.inside = [], ""

        def handle_starttag(self, tag, attrs):
            self.inside = tag
            if tag != "span":
                self.words.append(" ")

        def handle_data(self, data):
            if self.inside not in ("script", "style"):
                self.words.append(data)

    parser = Words()
    parser.feed(Path(write_report(folder, words_of=words_of)).read_text())
    return " ".join("".join(parser.words).split())


def test_what_it_says_of_two_classes(runs):
    said = text_of(runs / "two")
    assert "5 of 30 features, selected to tell the classes 0 and 1 apart" in said  # no baseline: no claim
    assert re.search(r"Chosen by Online Substitution from \S+two\.zarr, 300 samples\.", said)
    assert "Score on test data 0.800 balanced accuracy, 95 % interval 0.690 – 0.890" in said
    assert "Judged on test data: test.zarr, 1,234 rows." in said
    assert "accuracy 0.812 0.700 – 0.900" in said
    assert "ROC AUC" not in said  # it could not be told
    assert "20 0.750" in said  # a size, and its score
    assert "6 features came up at least once, 4 every time" in said
    assert "two of the selections share 75 % of what they chose between them" in said
    assert "70 MiB, 50 % of what was promised: the largest rise of a process" in said
    assert "1 min 15 s" in said
    assert "4 MiB/s" in said
    assert "daskfs select 'a b.zarr'" in said
    assert "numpy 2.4.6" in said
    assert "Inputs that matter" not in said
    assert "Class by class" not in said


def test_what_it_says_of_several_classes_and_of_numbers(runs):
    news, waves = text_of(runs / "news"), text_of(runs / "waves")
    assert "6 of 30 features, selected to tell the classes auto, medicine and space apart" in news
    assert "Class by class class rows precision auto 7 0.500 medicine 7 0.500 space 7 0.500" in news
    assert "20 random features of 4 columns, selected to predict a number" in waves
    assert "R² 0.800" in waves
    first = daskfs.load_selection(runs / "waves").input_importance[0]
    assert f"input length importance {first.input.item()} {100 * first.item():.1f} %" in waves
    order = [
        waves.index(title)
        for title in ("Inputs that matter", "How good it is", "The same selection", "Random features Most")
    ]
    assert order == sorted(order)  # the waves come last


@pytest.mark.parametrize(("zeros", "note"), [(1, "1 input has"), (2, "2 inputs have")])
def test_inputs_without_importance_are_counted(runs, tmp_path, zeros, note):
    waves = daskfs.load_selection(runs / "waves")
    shares = np.array([0.6, 0.4 - 1e-5, 1e-5, 0.0]) if zeros == 2 else np.array([0.6, 0.3, 0.1, 0.0])
    expansion = replace(waves.inputs.expansion, importance=shares)
    selection = replace(waves, inputs=replace(waves.inputs, expansion=expansion))
    said = text_of(saved(selection, tmp_path / "run"))
    assert f"{note} an importance of 0.0 %." in said
    assert " 0.0 % " not in said.partition("Inputs that matter")[2].partition(note)[0]
    (line,) = input_lines(selection)
    assert line.startswith("inputs that matter: x0 60.0%, x1 ")
    assert line.endswith(f", {zeros} other{'s' if zeros > 1 else ''} 0.0%")


def test_what_it_says_of_kept_features(tmp_path):
    chosen = selection_of([4, 2])
    assert "Kept features" not in text_of(saved(chosen, tmp_path / "without"))
    kept = KeptFeatures(np.array([9, 7], np.uint64), ["age", "<b>batch</b>"], np.array([0.25, -1.5]))
    said = text_of(saved(replace(chosen, kept=kept), tmp_path / "with"))
    assert "2 of 12 features, selected to predict a number" in said
    assert "beside the selected ones. feature weight age +0.25 <b>batch</b> -1.5" in said


GOOD = {"metrics": {"balanced_accuracy": 0.8}, "baseline": {"answer": "b", "metrics": {"balanced_accuracy": 0.5}}}


TOLD = "selected to tell the classes a and b apart"
SCORED = "the classes a and b apart with a balanced accuracy of 0.80; a guess has 0.50"


@pytest.mark.parametrize(
    ("features", "changes", "said"),
    [
        ([3, 1], {}, f"2 of 12 features tell {SCORED}"),
        ([3], {}, f"1 of 12 features tells {SCORED}"),
        ([3, 1], {"is_useless": True}, f"2 of 12 features, {TOLD}, do no better than a guess"),
        ([3], {"is_useless": True}, f"1 of 12 features, {TOLD}, does no better than a guess"),
        (
            [3, 1],
            {"verdict": "predicts classes no better than always saying 'b', but its scores order rows"},
            "2 of 12 features order rows by class, but predict classes no better than a guess",
        ),
        ([3, 1], {"digest": "ab" * 32}, f"2 of 12 features, {TOLD}"),
        ([3, 1], {"metrics": {"balanced_accuracy": None}}, f"2 of 12 features, {TOLD}"),
    ],
)
def test_the_headline_claims_what_the_score_supports(features, changes, said, tmp_path):
    selection = selection_of(features, classes=("a", "b"))
    selection.save(tmp_path / "run")
    metrics = {**records(selection)["metrics"], **GOOD, **changes}
    keep_records(tmp_path / "run", selection, metrics=metrics)
    page = Path(write_report(tmp_path / "run")).read_text()
    assert f"<h1>{said}</h1>" in page
    if "verdict" in changes:
        assert "Predicts classes no better than always saying" in text_of(tmp_path / "run")
    known = changes.get("metrics") is None
    assert ("always saying b: 0.500" in text_of(tmp_path / "run")) is known


def test_the_headline_of_a_number(tmp_path):
    selection_of([3, 1]).save(tmp_path / "run")
    found = records(selection_of([3, 1]))["metrics"]
    found |= {"metrics": {"r2": 0.25}, "baseline": {"answer": 1.5, "metrics": {"r2": 0.0}}}
    keep_records(tmp_path / "run", selection_of([3, 1]), metrics=found)
    said = "2 of 12 features predict a number with an R² of 0.25; a guess has 0.00"
    assert f"<h1>{said}</h1>" in Path(write_report(tmp_path / "run")).read_text()


def test_memory_of_the_process_and_steps_of_the_job(tmp_path):
    selection_of([3, 1]).save(tmp_path / "run")
    found = records(selection_of([3, 1]))["run"]
    found["memory"]["process"] = 300 << 20
    found["steps"] = {"evaluate": 2.0, "select": 75.0, "split": 0.001}
    keep_records(tmp_path / "run", selection_of([3, 1]), run=found)
    said = text_of(tmp_path / "run")
    assert "Memory 300 MiB of the process 70 MiB of 140 MiB promised" in said
    assert "steps of the job select 1 min 15 s, evaluate 2.0 s read" in said


@pytest.mark.parametrize(
    ("curves", "history", "drawn"),
    [
        (("held_back",), [{"objective": 3.0, "held_back": 0.5}, {"objective": 1.0, "held_back": 0.75}], "Held"),
        ((), [{"objective": 3.0, "held_back": 0.5}, {"objective": 1.0, "held_back": 0.75}], None),
        (("held_back", "objective"), [{"objective": 3.0, "held_back": 0.5}, {"objective": 1.0}], "Objective"),
        (("objective",), [{"objective": 3.0}, {"objective": 3.0}], None),
    ],
)
def test_one_curve_of_passes_that_compare_or_none(curves, history, drawn, tmp_path):
    selection_of([3, 1], history=history).save(tmp_path / "run")
    words = Words("Toy", {"held_back": "held back"}, curves)
    page = Path(write_report(tmp_path / "run", words_of=lambda name: words)).read_text()
    assert [title.split()[0] for title in re.findall("<figcaption>(.*?)</figcaption>", page)] == [drawn] * (
        drawn is not None
    )


def saved(selection: Selection, folder: Path) -> Path:
    selection.save(folder)
    return folder


def test_the_score_of_the_data_it_was_selected_from_is_not_called_unseen(tmp_path):
    selection = selection_of([3, 1], classes=("a", "b"))
    selection.save(tmp_path / "run")
    keep_records(tmp_path / "run", selection)
    record = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert "unseen" not in text_of(tmp_path / "run")  # nobody knows whether it was
    (tmp_path / "run" / "metrics.json").write_text(json.dumps({**record, "held_back": True}))
    assert "Score on unseen data" in text_of(tmp_path / "run")
    record["digest"] = selection.source["digest"]
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(record))
    said = text_of(tmp_path / "run")
    assert "Score on the data it was selected from" in said
    assert "unseen" not in said


@pytest.mark.parametrize(
    ("changes", "said", "not_said"),
    [
        ({"identical": True, "index": 1.0}, "the seed makes no difference here", "Stability 1.00"),
        ({"of": "inputs", "rank_correlation": 0.5}, "3 inputs came up at least once, 1 every time", "“Chosen”"),
        ({"interval": [0.7, 0.9]}, "Stability is 0.83 (95 % interval 0.700 – 0.900)", "rank correlation"),
    ],
)
def test_what_it_says_of_stability(changes, said, not_said, tmp_path):
    selection = selection_of([3, 1])
    selection.save(tmp_path / "run")
    keep_records(tmp_path / "run", selection, stability={**records(selection)["stability"], **changes})
    text = text_of(tmp_path / "run")
    assert said in text
    assert not_said not in text


def test_no_key_of_a_url_is_in_it(tmp_path):
    """Even where somebody kept one in a record."""
    secret = "s3://user:canary@bucket/x.zarr?token=canary"
    for number, kept in enumerate([f"daskfs select {secret} --out run", ["daskfs", secret], {"data": {"url": secret}}]):
        folder = tmp_path / str(number)
        selection_of([3, 1]).save(folder)
        found = records(selection_of([3, 1]))
        found["metrics"]["dataset"] = secret
        found["run"]["command" if number < 2 else "job"] = kept
        if number == 2:
            del found["run"]["command"]
        keep_records(folder, selection_of([3, 1]), **found)
        page = Path(write_report(folder)).read_text()
        assert "canary" not in page
        assert "s3://bucket/x.zarr" in page


def test_a_run_with_nothing_but_a_selection(tmp_path, chromium):
    selection_of([7], history=[{"objective": 1.5}]).save(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["history.zarr", "selection.json"]
    done = run("report", tmp_path / "run")
    assert (done.exit_code, done.output) == (0, f"report in {tmp_path}/run/report.html\n")
    out = tmp_path / "run" / "report.html"
    assert out.stat().st_size < 50_000
    with chromium.page(out) as page:
        headings = page.evaluate("[...document.querySelectorAll('h1, h2')].map((one) => one.textContent)")
        assert headings == [
            "1 of 12 features, selected to predict a number",
            "Selected features",
            "From pass to pass",
            "How to do it again",
        ]
        assert page.complaints == []


def test_the_line_of_python_does_it_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(60, 8))
    daskfs.write_dataset("d.zarr", X, X[:, 3] > X[:, 5])
    selection = daskfs.select("d.zarr", daskfs.OnlineSubstitution(2, loss="logistic"), seed=7)
    selection.save("run")
    (line,) = re.findall(r"daskfs\.select\(.*seed=7\)", text_of(Path("run")))
    assert eval(line, {"daskfs": daskfs}).record() == selection.record()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.json", '{"rows": 3'),
        ("metrics.json", '{"rows": 3, "metrics": [], "intervals": {}}'),
        ("sizes.json", '{"metric": "r2", "sizes": [1, 2], "scores": [0.5], "intervals": [[0, 1]]}'),
        ("sizes.json", '{"metric": "r2", "sizes": [], "scores": [], "intervals": []}'),
        ("stability.json", "[]"),
        ("profiles.json", '{"rows": 3, "features": [{"id": 1, "name": "a", "importance": "high"}]}'),
        ("run.json", "\x00"),
        ("selection.json", "{}"),
    ],
)
def test_a_damaged_record_is_one_line_and_no_report(name, content, tmp_path):
    selection_of([3, 1]).save(tmp_path / "run")
    (tmp_path / "run" / name).write_text(content)
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    for where in ([], ["-o", tmp_path / "new.html"]):
        done = run("report", tmp_path / "run", *where)
        assert done.exit_code == 2
        assert re.fullmatch(rf"error: .*{re.escape(name)}: .*\n", done.stderr), done.stderr
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_no_run_there(tmp_path):
    done = run("report", tmp_path / "nowhere")
    assert (done.exit_code, done.stderr) == (2, f"error: {tmp_path}/nowhere: no selection here\n")
    assert not (tmp_path / "nowhere").exists()


def test_only_its_own_report_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    selection_of([3, 1]).save("run")
    for where in ([], ["-o", "run/report.html"], ["-o", "page.html"]):
        assert run("report", "run", *where).exit_code == 0
    assert run("report", "run").exit_code == 0  # again: it is the run's own
    mine = Path("mine.html")
    mine.write_text("mine")
    refused = run("report", "run", "-o", "mine.html")
    assert refused.exit_code == 2
    assert (
        refused.stderr
        == f"error: {tmp_path}/mine.html: is there already; --overwrite replaces it, or choose another name\n"
    )
    assert mine.read_text() == "mine"
    assert run("report", "run", "-o", "run/selection.json").exit_code == 2
    assert run("report", "run", "-o", "mine.html", "--overwrite").output == "report in mine.html\n"
    assert mine.read_text().lower().lstrip().startswith("<!doctype html>")
    for folder in ("run", "elsewhere/"):
        assert run("report", "run", "-o", folder, "--overwrite").exit_code == 2


def test_runs_and_reports_in_object_storage(s3):
    url = s3.url("run")
    selection_of([3, 1], names=["left", "right"]).save(url, s3.options)
    assert write_report(url, storage_options=s3.options) == f"{url}/report.html"
    other = s3.url("page.html")
    assert write_report(url, other, storage_options=s3.options) == other
    whole = Location(url, s3.options).read("report.html")
    assert whole == Location(other.removesuffix("/page.html"), s3.options).read("page.html")
    assert b'["left","right"]' in whole


def test_help_does_not_wait_for_bokeh():
    code = "import sys; from daskfs.cli import main; print('bokeh' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
