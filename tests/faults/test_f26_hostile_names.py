"""F26: names, labels and records that are HTML, scripts, control characters, formulas or a megabyte long."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from report_runs import keep_records, records
from selections import selection_of

from daskfs.cli import main
from daskfs.observe.report import write_report

RUNS = "window.hit = (window.hit ?? 0) + 1"
HOSTILE = {
    "script": f"<script>{RUNS}</script>",
    "end of data": f"</script><script>{RUNS}</script><!--",
    "handler": f'"><img src=x onerror="{RUNS}">',
    "link": f"javascript:{RUNS}",
    "template": "{{ 7 * 7 }}{% for x in y %}${RUNS}",
    "mathematics": "$$\\frac{1}{2}$$",
    "entity": "&lt;b&gt;&amp;",
    "placeholder": "#000001",
    "control": "\x00\x07\x1b[2J\x1b]0;mine\x07\r\n\t\x9b31m",
    "other way round": "gnp.\u202eexe\u2066\u200f\ufeff",
    "separators": "a\u2028b\u2029c",
    "closing style": "</style><style>body{display:none}",
    "long": "long" * 250_000,
}
FORMULAS = ["=cmd|'/c calc'!A0", "+1+1", "-2+3", "@SUM(A1)", '=HYPERLINK("http://127.0.0.1:9/","x")', "-1"]
NAMES = [*HOSTILE.values(), *FORMULAS, 'plain, "quoted" and\nbroken', "naïve 名前 🙂"]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A run where whatever can be called something is called something bad."""
    labels = (HOSTILE["end of data"], HOSTILE["handler"], "=1+1", HOSTILE["control"])
    weights = [[rank, -1.0, 0.5, 0.25] for rank in range(1, len(NAMES) + 1)]
    url = f"s3://bucket/{HOSTILE['handler']}{HOSTILE['control']}.zarr"
    selection = selection_of(range(len(NAMES)), weights, intercept=[0, 0, 0, 0], classes=labels, names=NAMES, url=url)
    selection.save(tmp_path / "run")
    keep_records(tmp_path / "run", selection, **spoiled(records(selection)))
    return tmp_path / "run"


def spoiled(found: dict[str, dict]) -> dict[str, dict]:
    """Records whose every text is hostile, as far as it may be any."""
    bad = HOSTILE["end of data"] + HOSTILE["handler"] + HOSTILE["control"] + HOSTILE["mathematics"]
    found["run"] |= {"daskfs": bad, "python": bad, "packages": {bad: bad}, "started": bad, "finished": bad}
    found["run"] |= {"command": None, "job": {bad: [bad, {"deep": bad}]}, "performance_report": f"javascript:{bad}"}
    found["run"]["memory"]["text"] = bad
    found["metrics"] |= {"dataset": bad, "digest": bad}
    found["metrics"]["metrics"][bad] = 0.5
    found["sizes"] |= {"metric": bad, "how": bad * 1000}
    found["metrics"] |= {"verdict": bad, "is_useless": False, "baseline": {"answer": bad, "metrics": {}}}
    found["metrics"]["baseline"]["best_feature"] = {"name": bad, "metric": bad, "value": 0.5, "rows": 7}
    found["profiles"] = spoiled_profiles(bad)
    return found


def spoiled_profiles(bad: str) -> dict:
    """Profiles of a dense and of a sparse feature with an effect, each with every text that a card shows."""
    alternatives = [{"id": 3, "name": bad, "correlation": 0.75}]
    about = {"id": 1, "name": bad, "importance": 0.5, "alternatives": alternatives}
    effect = {"values": [0.0, 1.0], "means": [[0.25, 0.5], [0.75, 0.5]]}
    return {
        "dataset": bad,
        "rows": 20,
        "classes": [{"class": bad, "rows": 7}, {"class": f"{bad}{bad}", "rows": 13}],
        "shown": [0, 1],
        "alternatives": bad,
        "effect_of": bad,
        "features": [
            {**about, "edges": [0.0, 1.0, 2.0], "counts": [[3, 4], [6, 7]], "effect": effect},
            {**about, "present": [3, 4], "values": [1.0, None]},
        ],
    }


@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_of_hostile_names_is_harmless(width, folder, chromium):
    out = Path(write_report(folder))
    assert out.stat().st_size < 2e6  # long names are cut
    with chromium.page(out, width) as page:
        for _ in range(2):  # once more in other colours
            page.evaluate("document.getElementById('theme').click()")
        assert page.evaluate("window.hit === undefined")
        assert page.evaluate("document.querySelectorAll('img, iframe, a, base, link, object, embed').length") == 0
        assert page.evaluate("document.querySelectorAll('script').length") == 3  # data and two of ours
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("document.body.offsetHeight > 999")
        shown = page.evaluate("[...document.querySelectorAll('#features tbody .name')].map((one) => one.textContent)")
        text = page.evaluate("document.body.innerText")
        assert page.complaints == []
        assert page.requests == [out.as_uri()]
    assert shown[:8] == NAMES[:8]  # as they are, letter for letter
    assert shown[8] == "\\x00\\x07\\x1b[2J\\x1b]0;mine\\x07\\r\\n\\t\\x9b31m"
    assert shown[9] == "gnp.\\u202eexe\\u2066\\u200f\\ufeff"
    assert shown[12] == "long" * 24 + "lon…"
    assert shown[-1] == NAMES[-1]
    assert not [one for one in text if one < " " and one not in "\n\t"]
    assert not set(text) & set("\u202e\u2066\u200f\ufeff\u2028\u2029")


def test_the_csv_holds_no_formula(folder, chromium):
    with chromium.page(Path(write_report(folder))) as page:
        raw = page.download("document.getElementById('download').click()", "selected-features.csv").decode()
    head, *lines = list(csv.reader(io.StringIO(raw, newline="")))
    assert len(lines) == len(NAMES)
    assert all(not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in head)
    names = [line[1] for line in lines]
    assert names[:8] == NAMES[:8]
    assert names[len(HOSTILE) : len(HOSTILE) + len(FORMULAS)] == [f"'{formula}" for formula in FORMULAS]
    assert max(map(len, names)) <= 501
    assert not [one for one in raw if one < " " and one not in "\r\n"]
    assert [line[4] for line in lines] == [str(rank) for rank in range(1, len(NAMES) + 1)]
    assert {line[5] for line in lines} == {"-1"}  # a number stays one
    assert [line[2] for line in lines] == [str(number) for number in range(len(NAMES))]


def test_the_terminal_is_not_steered(folder, tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "selection.json").write_text(json.dumps({"version": HOSTILE["control"]}))
    commands = [["show", str(folder), "--top", "50"], ["report", str(folder)], ["report", str(tmp_path / "damaged")]]
    commands.append(["report", str(folder), "-o", str(tmp_path / "\x1b[2J.html")])
    for command in commands:
        said = CliRunner(env={"COLUMNS": "200"}).invoke(main, command)
        assert said.exit_code in (0, 2)
        assert not [one for one in said.output if not one.isprintable() and one != "\n"], command
        assert len(said.output) < 50_000
