"""The pages under docs/ are tests: their Python runs, commands parse, job files load, links lead somewhere."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING

import pytest
from pages import ROOT, blocks, check_link, commands, completed_job, links, load_script, parse_command, run_examples

import daskfs.sklearn
from daskfs.algorithms.registry import default_of, fields_of, registrations
from daskfs.job.file import load_job
from daskfs.job.tables import Job, JobTable
from daskfs.store.ingest.formats import FORMATS, options_of

DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
STORE = "object-storage.md"
ELSEWHERE = {STORE, "airflow.md"}
"""Pages whose Python needs a server, or an environment of Airflow's own."""


def each(of):
    """A parameter for everything of a kind that is in the pages, called after its page."""
    return [
        pytest.param(page, found, id=f"{page}-{at}")
        for page, text in PAGES.items()
        for at, found in enumerate(of(text))
    ]


@pytest.mark.parametrize(
    "page", [page for page, text in PAGES.items() if blocks(text, "python") and page not in ELSEWHERE]
)
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(PAGES[page], page)


@pytest.mark.parametrize(
    "page", [page for page, text in PAGES.items() if blocks(text, "console") and not page.startswith("gallery/")]
)
def test_commands_print_what_the_page_shows(page, tmp_path, monkeypatch):
    transcripts = load_script("pipelines/docs/transcripts")
    monkeypatch.chdir(tmp_path)
    run_examples(PAGES[page], page)
    for command in transcripts.commands_of(PAGES[page]):
        assert transcripts.run(command, tmp_path) == []


def test_the_picture_shows_the_saved_results():
    picture = load_script("pipelines/docs/front_door")
    results = json.loads((DOCS / "front-door.json").read_text())
    assert (DOCS / "front-door.svg").read_text() == picture.draw(results)


def test_asynchronous_runs_that_are_kept_are_within_one_per_cent():
    """Of the easy and the hard set; the page says what else may happen with faint columns."""
    records = json.loads((DOCS / "asynchronous.json").read_text())
    for runs in records:
        if runs["data"] != "faint":
            assert max(runs["objective"]) <= 1.01
            assert min(runs["recall"]) >= runs["serial recall"] - 0.01


def test_the_table_of_asynchronous_runs_is_that_of_the_file():
    drawing = load_script("pipelines/docs/asynchronous")
    records = json.loads((DOCS / "asynchronous.json").read_text())
    assert drawing.page_with(PAGES["benchmarks.md"], records) == PAGES["benchmarks.md"]
    for runs in records:
        assert f"| {drawing.within(runs)} |" in PAGES["benchmarks.md"]


def test_the_gallery_runs_every_page_of_it():
    names = {path.stem for path in (DOCS / "gallery").glob("*.md")} - {"index"}
    assert set(load_script("pipelines/gallery/run").NAMES) == names
    for name in names:
        assert f"python pipelines/gallery/{name}.py" in PAGES[f"gallery/{name}.md"]
        assert (ROOT / "pipelines" / "gallery" / f"{name}.py").exists()


def test_the_colours_of_the_site_are_those_of_the_report():
    report = (ROOT / "daskfs" / "observe" / "report" / "report.css").read_text()
    known = set(re.findall(r"#[0-9a-f]{6}", report)) | {"#095a68"}  # and the accent of the report, darker
    assert set(re.findall(r"#[0-9a-f]{6}", (DOCS / "colours.css").read_text())) <= known


def test_the_examples_of_object_storage_run_on_a_real_server(s3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.options["key"],
        "AWS_SECRET_ACCESS_KEY": s3.options["secret"],
    }.items():
        monkeypatch.setenv(name, value)
    assert blocks(PAGES[STORE], "python")
    run_examples(PAGES[STORE].replace("s3://bucket/", s3.url()), STORE)


@pytest.mark.parametrize(("page", "line"), each(commands))
def test_every_command_and_flag_exists(page, line):
    parse_command(line)


@pytest.mark.parametrize(("page", "snippet"), each(lambda text: blocks(text, "toml")))
def test_every_job_file_loads(page, snippet, tmp_path, monkeypatch):
    for name in ("STORE_KEY", "STORE_SECRET"):
        monkeypatch.setenv(name, "…")
    job = tmp_path / "job.toml"
    job.write_text(completed_job(snippet))
    assert load_job(job).select.params


@pytest.mark.parametrize(("page", "link"), each(links))
def test_every_link_leads_somewhere(page, link):
    check_link(DOCS / page, link)


def test_pages_and_navigation_are_the_same():
    listed = {word for word in (ROOT / "mkdocs.yml").read_text().split() if word.endswith(".md")}
    assert listed | {f"algorithms/{name}.md" for name in registrations()} == set(PAGES)


@pytest.fixture(scope="module", name="pages")
def hooks_of_mkdocs():
    """The module that fills in the generated parts of pages."""
    return load_script("pipelines/docs/pages")


def test_the_commands_of_the_page_are_what_help_prints(pages):
    assert pages.MARK in PAGES["cli.md"]
    text = pages.commands()
    for name in pages.COMMANDS:
        assert f"## daskfs {name}\n" in text
        assert f"Usage: daskfs {name} " in text


@pytest.mark.parametrize("name", registrations())
def test_every_parameter_is_in_the_table_with_its_default(name):
    algorithm = registrations()[name].algorithm
    section = PAGES[f"algorithms/{name}.md"].partition("\n## Parameters\n")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", section, re.MULTILINE))
    assert list(told) == list(fields_of(algorithm))
    for field, text in told.items():
        default = default_of(algorithm, field)
        assert text == "must be given" if default is MISSING else eval(text.strip("`")) == default, field


def test_every_option_of_every_format_is_told():
    section = PAGES["data-formats.md"].partition("\n### Options of each format\n")[2].partition("\n## ")[0]
    told = set(re.findall(r"`(\w+)`", section))
    assert {option for name in FORMATS for option in options_of(name)} <= told


def test_every_key_of_a_job_is_told():
    section = PAGES["job-files.md"].partition("\n## Tables and keys\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?:`\[(\w+)\]`)? ?\| (`.+?|any) \|", section, re.MULTILINE)
    told: dict[str, set[str]] = {}
    table = ""
    for head, keys in rows:
        table = head or table
        told.setdefault(table, set()).update(re.findall(r"`(\w+)`", keys))
    tables = {name: table_of(field) for name, field in Job.model_fields.items()}
    expected = {name: set(table.model_fields) for name, table in tables.items() if table is not None}
    expected |= {"": {name for name, table in tables.items() if table is None} - {"storage"}, "storage": set()}
    assert told == expected


def table_of(field):
    """The table that a field of a job is, if it is one."""
    kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, JobTable)), None)


@pytest.mark.parametrize("module", [daskfs, daskfs.sklearn])
def test_every_public_name_has_its_place_in_the_reference(module, pages):
    text = pages.fill_in(PAGES["api.md"])
    told = set(re.findall(r"^::: [\w.]+\.(\w+)$|(\w+Error)", text, re.MULTILINE))
    assert set(module.__all__) <= {name for pair in told for name in pair}
