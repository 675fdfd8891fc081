"""daskfs select FILE: from what people have to a score, a list and a report, in one command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner, Result

import daskfs
from daskfs.cli import main


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["select", *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return done


def names(folder: str) -> set[str]:
    return set(daskfs.load_selection(folder).names)


def customers(n: int = 1500) -> pd.DataFrame:
    """A table as people have it: an identifier, categories, dates, gaps, units, and sorted by the target."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "customer_id": [f"C{i:05d}" for i in range(n)],
            "age": rng.integers(18, 80, n),
            "income": np.exp(rng.normal(10, 1, n)),
            "country": rng.choice(["uk", "fr", "de"], n),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "visits": rng.poisson(4, n).astype(float),
            **{f"noise{i}": rng.normal(size=n) for i in range(5)},
        }
    )
    score = 0.1 * (table.age - 48) + 2.0 * (table.country == "fr") + 0.6 * (table.visits - 4)
    table["clicked"] = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    table.loc[rng.random(n) < 0.05, "visits"] = np.nan
    return table.sort_values("clicked")


def test_a_table_as_people_have_it():
    customers().to_csv("customers.csv", index=False)
    done = run("customers.csv", "-k", "3", "--label", "clicked")
    assert names("customers-selected") == {"age", "country=fr", "visits"}
    said = done.stderr
    for line in (
        "format: csv, since the name ends with .csv (--format)",
        "left out: customer_id, which looks like an identifier (--include)",
        "gaps: in visits, filled with the mean (--missing; daskfs info customers-selected/data/",
        "1,500 rows, two classes",
        "algorithm: substitution, for sparse features that can be read one by one (--algorithm)",
        "loss: logistic, for two classes (--loss)",
        "1,200 rows to select from, 300 held back",
    ):
        assert line in said, line
    assert "on 300 rows held back:" in done.stdout
    assert "always yes" in done.stdout
    assert "3 chosen one by one" in done.stdout
    report = next(line for line in done.stdout.splitlines() if line.startswith("report: ")).removeprefix("report: ")
    assert "<html" in Path(report).read_text()


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("%d.%m.%Y %H:%M", "dates: joined, read as day.month.year (--date-format)"),
        (
            "%m/%m/%Y",
            "dates: joined, read as day/month/year, since no day is above 12 in the first rows "
            "(--date-format %m/%d/%Y for the other order)",
        ),
    ],
)
def test_the_order_of_day_and_month_is_said(form, line):
    table = customers(300)
    table["joined"] = table.joined.dt.strftime(form)
    table.to_csv("customers.csv", index=False)
    said = run("customers.csv", "-k", "3", "--label", "clicked").stderr.splitlines()
    assert line in said
    assert "columns: 8 numbers, 1 category, 1 date" in said
    if "other order" in line:
        said = run("customers.csv", "-k", "3", "--label", "clicked", "--date-format", "%m/%d/%Y").stderr.splitlines()
        assert "dates: joined, read as month/day/year (--date-format)" in said


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("auto", "in visits, filled with the mean; in country, a category of its own, (missing)"),
        ("median", "in visits, filled with the median; in country, a category of its own, (missing)"),
        (
            "indicator",
            "in visits, filled with the mean, and marked by a feature NAME=(missing); in country, a category",
        ),
        ("drop", "in visits, whose rows are left out; in country, a category of its own, (missing)"),
        ("zero", "in visits, taken for 0; in country, in no category"),
    ],
)
def test_what_fills_gaps_is_said(how, said):
    table = customers(300)
    table.loc[:40, "country"] = None
    table.to_csv("customers.csv", index=False)
    assert f"gaps: {said}" in run("customers.csv", "-k", "3", "--label", "clicked", "--missing", how).stderr


def test_nothing_is_done_twice():
    customers().to_csv("customers.csv", index=False)
    run("customers.csv", "-k", "3", "--label", "clicked")
    again = run("customers.csv", "-k", "3", "--label", "clicked").stderr
    assert [word in again for word in ("ingest: there already", "split: there already", "select: there already")] == [
        True
    ] * 3
    more = run("customers.csv", "-k", "4", "--label", "clicked").stderr
    assert "ingest: there already" in more
    assert "select: there already" not in more
    assert len(names("customers-selected")) == 4


def test_numbers_dense_and_a_numeric_target():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 30))
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(30)]).assign(y=X[:, 4] - 2 * X[:, 7] + 0.1 * X[:, 0])
    table.to_parquet("numbers.parquet")
    done = run("numbers.parquet", "-k", "2", "--label", "y", "--out", "result")
    assert names("result") == {"x4", "x7"}
    assert "algorithm: substitution, for dense columns" in done.stderr
    assert "loss: squared, for a numeric target" in done.stderr


def test_several_files_compressed_and_without_a_name_of_a_format():
    rng = np.random.default_rng(2)
    for part in range(3):
        values = rng.normal(size=(100, 3))
        lines = [f"{int(b > 0)};{a:.4f};{b:.4f};{c:.4f}" for a, b, c in values]
        Path(f"part{part}.txt.gz").write_bytes(gzip.compress("\n".join(["hit;a;b;c", *lines]).encode()))
    done = run("part0.txt.gz", "part1.txt.gz", "part2.txt.gz", "-k", "1", "--label", "hit", "--out", "o")
    assert names("o") == {"b"}
    assert "same number of fields between ';'" in done.stderr


def test_text_in_folders():
    rng = np.random.default_rng(3)
    for topic, word in (("sport", "goal"), ("politics", "vote")):
        folder = Path("news") / topic
        folder.mkdir(parents=True)
        for i in range(60):
            others = " ".join(f"w{j}" for j in rng.integers(0, 50, 20))
            (folder / f"{i}.txt").write_text(f"{others} {word}\n")
    done = run("news", "-k", "1")
    assert names("news-selected") <= {"w:goal", "w:vote"}
    assert "format: text, since documents in several folders, whose names are the labels" in done.stderr
    assert "labels came in runs" in done.stderr


@pytest.mark.parametrize(("coverage", "length", "most"), [(None, 5, "2,048"), (0.4, 4, "512")])
def test_the_length_of_kmers_is_that_of_the_data(coverage, length, most):
    rng = np.random.default_rng(3)
    for name, motif in (("with", "TATAAA"), ("without", "")):
        texts = ["".join(rng.choice(list("ACGT"), 94)) + motif for _ in range(700)]
        Path(f"{name}.fa").write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(texts)))
    size = sum(Path(f"{name}.fa").stat().st_size for name in ("with", "without"))
    reads = () if coverage is None else ("--set", f"ingest.coverage={coverage}", "--set", "ingest.read_length=20")
    said = run("with.fa", "without.fa", "-k", "3", "--out", "chosen", *reads).stderr
    n_letters = round(size * (coverage or 1))
    assert f"k-mers: {length} letters long, for about {n_letters:,} letters (--set ingest.k={length})" in said
    assert f"data: up to {most} sparse features" in said
    assert {len(name) for name in names("chosen")} == {length}
    given = run("with.fa", "without.fa", "-k", "3", "--out", "given", "--set", "ingest.k=[3,6]").stderr
    assert "k-mers:" not in given
    assert "TATAAA" in names("given")


def test_vw_and_svmlight():
    rng = np.random.default_rng(4)
    rows = [(int(hit), int(noise)) for hit, noise in zip(rng.random(300) < 0.5, rng.integers(0, 20, 300), strict=True)]
    Path("ads.txt").write_text(
        "".join(f"{2 * hit - 1} |ad n{noise} {'good' if hit else 'bad'}\n" for hit, noise in rows)
    )
    run("ads.txt", "-k", "1", "--out", "vw")
    assert names("vw") <= {"ad^good", "ad^bad"}
    Path("ads.svm").write_text("".join(f"{hit} {noise}:1 {30 + hit}:1\n" for hit, noise in rows))
    run("ads.svm", "-k", "1", "--out", "svm")
    assert names("svm") <= {"30", "31"}


def test_a_dataset_with_and_without_held_back_rows():
    X = np.random.default_rng(5).normal(size=(300, 10))
    daskfs.write_dataset("d.zarr", X, X[:, 2] > 0)
    done = run("d.zarr", "-k", "1")
    assert "on 60 rows held back" in done.stdout
    assert names("d-selected") == {"x2"}
    done = run("d.zarr", "-k", "1", "--algorithm", "substitution", "--out", "all", "--serial")
    assert "held back:" not in done.stdout
    assert json.loads(Path("all/selection.json").read_text())["source"]["n_samples"] == 300


@pytest.mark.parametrize("chunks", [(400, 7), (50, 30), (64, 12)])
def test_zarr_that_xarray_wrote_is_read_in_place(chunks):
    X = np.random.default_rng(8).normal(size=(400, 30)).astype(np.float32)
    sick = np.where(X[:, 3] - X[:, 8] > 0, 1, 0)
    genes = [f"gene{i}" for i in range(30)]
    dataset = xr.Dataset({"expr": (("cell", "gene"), X), "sick": ("cell", sick)}, coords={"gene": np.arange(30)})
    dataset.assign_coords(name=("gene", genes)).to_zarr(
        "cells.zarr", zarr_format=2, encoding={"expr": {"chunks": chunks}}
    )
    done = run("cells.zarr", "-k", "2", "--label", "sick")
    assert names("cells-selected") == {"3", "8"}
    assert "on 80 rows held back" in done.stdout
    assert {path.name for path in Path("cells-selected").iterdir()} == {"runs", "published.json"}  # and no data
    again = run("cells.zarr", "-k", "2", "--label", "sick")
    assert "select: there already" in again.stderr
    daskfs.write_dataset("ours.zarr", X, sick, feature_names=[str(i) for i in range(30)])
    run("ours.zarr", "-k", "2", "--out", "ours")
    ours, theirs = daskfs.load_selection("ours"), daskfs.load_selection("cells-selected")
    assert ours.names == theirs.names  # of the same rows, since the same are held back
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-6)


def test_groups_of_rows_of_a_text_may_be_a_name_space():
    """The text is written as a dataset for it, as for `--keep`, since a text read in place has no list of names."""
    rng = np.random.default_rng(0)
    lines = [f"{1 if word < 10 else -1} |w w{word} |session s{rng.integers(20)}" for word in rng.integers(0, 20, 400)]
    Path("visits.vw").write_text("\n".join(lines))
    flags = ("--algorithm", "mission", "--error-control", "halves", "--groups", "session", "--width", "256")
    run("visits.vw", "-k", "10", *flags)
    assert not any(name.startswith("session^") for name in names("visits-selected"))


def test_foreign_zarr_that_has_changed_is_selected_from_again():
    X = np.random.default_rng(8).normal(size=(400, 30))
    group = zarr.open_group("cells.zarr", mode="w")
    group.create_array("X", data=X, chunks=(400, 3))
    group.create_array("y", data=(X[:, 12] > 0).astype(int))
    run("cells.zarr", "-k", "1")
    assert names("cells-selected") == {"x12"}
    group["X"][:, 12:15] = X[:, [14, 13, 12]]  # in the middle, and of the same size
    again = run("cells.zarr", "-k", "1")
    assert "select: there already" not in again.stderr
    assert names("cells-selected") == {"x14"}


@pytest.mark.parametrize(("label", "remedy"), [("y", "--categorical or --ignore price"), ("price", "--labels strings")])
def test_decimal_commas_are_no_categories(label, remedy):
    rows = [f"{i % 3 + 1},{i % 7};{i};{i % 2}" for i in range(100)]
    Path("euro.csv").write_text("\n".join(["price;x;y", *rows]))
    done = run("euro.csv", "-k", "1", "--label", label, code=2)
    assert done.stderr.splitlines()[-1] == (
        "error: column price holds numbers with decimal commas, such as '1,0': write them with points, "
        f"or pass {remedy}"
    )


AMOUNTS = ["{:.1f} %", "${:,.2f}", "{:.1f}€", "{:,.2f}"]


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("column", ["price", "y"])
def test_numbers_with_signs_or_separators_are_no_categories(column, amount):
    table = pd.DataFrame({"price": np.arange(100) * 77.7, "x": np.arange(100) % 9, "y": np.arange(100) % 90 / 7})
    table[column] = [amount.format(float(value) * 100) for value in table[column]]
    table.to_csv("euro.csv", index=False)
    done = run("euro.csv", "-k", "1", "--label", "y", code=2)
    assert f"error: column {column} holds numbers with signs or separators, such as" in done.stderr
    option = "--labels strings" if column == "y" else "--categorical price"
    run("euro.csv", "-k", "1", "--label", "y", *option.split(), "--out", "as-texts", code=2 if column == "y" else 0)


def test_few_percentages_are_categories():
    table = pd.DataFrame({"rate": ["7 %", "19 %"] * 100, "y": [0.5, 1.5] * 100})
    table.to_csv("rates.csv", index=False)
    run("rates.csv", "-k", "1", "--label", "y")
    assert names("rates-selected") <= {"rate=7 %", "rate=19 %"}


def test_commas_before_three_digits_may_separate_thousands():
    Path("euro.csv").write_text("y;x\n" + "\n".join(f"{i},{i % 7:03};{i % 9}" for i in range(100)))
    done = run("euro.csv", "-k", "1", "--label", "y", code=2)
    assert (
        "column y holds numbers with commas, such as '0,000': write decimals with points, and thousands" in done.stderr
    )


def test_numbers_as_texts_of_parquet_are_read_as_asked():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 3)).round(4), columns=["a", "b", "c"])
    table["y"] = table.a + 5
    table.astype({"a": str}).to_parquet("a.parquet")
    done = run("a.parquet", "-k", "1", "--label", "y", code=2)
    assert "error: column a holds numbers as texts, such as " in done.stderr
    assert "pass --numeric a to read them as numbers" in done.stderr
    run("a.parquet", "-k", "1", "--label", "y", "--numeric", "a")
    assert names("a-selected") == {"a"}
    table.astype({"y": str}).to_parquet("y.parquet")
    done = run("y.parquet", "-k", "1", "--label", "y", code=2)
    assert "error: column y holds numbers as texts, such as " in done.stderr
    run("y.parquet", "-k", "1", "--label", "y", "--labels", "numbers")
    assert names("y-selected") == {"a"}


def test_zip_codes_and_customers_as_texts_of_parquet_are_what_they_were():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"zip": [f"{number:05}" for number in rng.integers(1000, 1030, 600)], "a": rng.normal(size=600)}
    )
    table["customer"] = [f"{number}" for number in rng.permutation(600) + 70_000]
    table["y"] = table.a + 1.5
    table.to_parquet("a.parquet")
    done = run("a.parquet", "-k", "1", "--label", "y")
    assert "columns: 1 number, 1 category" in done.stderr
    assert "left out: customer, which looks like an identifier" in done.stderr


@pytest.mark.parametrize("form", ["%d %b %Y", "%B %d, %Y", "%d-%b-%Y", "%d %b %Y %H:%M"])
def test_dates_with_names_of_months_are_dates(form):
    rng = np.random.default_rng(0)
    days = pd.Series(pd.to_datetime("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, 300), "D"))
    table = pd.DataFrame({"when": days.dt.strftime(form), "x": rng.normal(size=300), "y": 0.0})
    table["y"] = (days - days.min()).dt.days + 0.5
    table.to_csv("dates.csv", index=False)
    done = run("dates.csv", "-k", "1", "--label", "y")
    assert names("dates-selected") == {"when"}
    assert f"dates: when, read as {form.replace('%B', '%b')} (--date-format)" in done.stderr


@pytest.mark.parametrize("table_has", ["numbers", "texts"])
def test_declared_dates_in_an_unknown_form_are_an_error(table_has):
    rows = [
        f"{i % 28 + 1}~{i % 12 + 1}~2021,{i % 7},{'ab'[i % 2] if table_has == 'texts' else i},{i}.5" for i in range(99)
    ]
    Path("dates.csv").write_text("\n".join(["when,x,z,y", *rows]))
    done = run("dates.csv", "-k", "1", "--label", "y", "--dates", "when", code=2)
    assert done.stderr.splitlines()[-1] == (
        "error: --dates when: '1~1~2021' is not a date whose form is known: pass --date-format, such as '%d/%m/%y', or "
        "write all dates as 2024-12-31, or leave out --dates when"
    )
    run("dates.csv", "-k", "1", "--label", "y", "--dates", "when", "--date-format", "%d~%m~%Y")
    refused = run("dates.csv", "-k", "1", "--label", "y", "--dates", "when", "--date-format", "%d/%m/%Y", code=2)
    assert "'1~1~2021' is not written as %d/%m/%Y" in refused.stderr


def test_numbers_that_may_stand_for_gaps_are_said():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": rng.integers(20, 80, 300), "income": rng.integers(0, 10**5, 300), "x": rng.normal(size=300)}
    )
    table["y"] = table.age / 7 + table.x
    table.loc[::9, "age"] = -999
    table.loc[::7, "income"] = 99  # among the others
    table.to_csv("a.csv", index=False)
    said = run("a.csv", "-k", "2", "--label", "y").stderr
    assert "numbers: -999 in age is read as a number; leave these cells empty if it means a gap" in said
    assert "income" not in said
    with pytest.warns(UserWarning, match="column 'age': -999 is read as a number; make it NaN if it means a gap"):
        daskfs.select("a.csv", 2, y="y")


def test_gaps_in_foreign_zarr_are_filled_in_a_copy():
    X = np.random.default_rng(8).normal(size=(400, 10))
    y = (X[:, 3] > 0).astype(int)
    X[5, 7] = np.nan
    xr.Dataset({"X": (("row", "column"), X), "y": ("row", y)}).to_zarr("gaps.zarr", zarr_format=2)
    done = run("gaps.zarr", "-k", "1")
    assert names("gaps-selected") == {"x3"}
    assert "gaps: are filled with the means of columns, in a copy (--missing)" in done.stderr
    refused = run("gaps.zarr", "-k", "1", "--missing", "error", "--out", "other", code=2)
    assert "missing" in refused.stderr


def test_npy_files():
    X = np.random.default_rng(9).normal(size=(400, 10))
    np.save("X.npy", X)
    Path("labels.txt").write_text("".join("yes\n" if x > 0 else "no\n" for x in X[:, 6]))
    run("X.npy", "-k", "1", "--label", "labels.txt")
    assert names("X-selected") == {"x6"}
    assert "where is the target?" in run("X.npy", "-k", "1", code=2).stderr


def test_a_flag_of_one_algorithm_says_which():
    X = np.random.default_rng(5).normal(size=(300, 10))
    pd.DataFrame(X).assign(y=X[:, 2] > 0).to_csv("t.csv", index=False)
    assert "algorithm: mission, as asked" in run("t.csv", "-k", "1", "--label", "y", "--width", "1024").stderr
    wrong = run("t.csv", "-k", "1", "--label", "y", "--width", "1024", "--kernel", "gaussian", code=2).stderr
    assert wrong.splitlines()[-1] == (
        "error: no algorithm has all of these flags: --width (mission), --kernel (random-features)"
    )


def test_noise_is_called_noise():
    rng = np.random.default_rng(6)
    pd.DataFrame(rng.normal(size=(200, 8))).assign(y=rng.integers(0, 2, 200)).to_csv("noise.csv", index=False)
    done = run("noise.csv", "-k", "2", "--label", "y")
    assert "no better than always saying" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("-k", "2"),
            "which column is the label? Pass --label with one of a, b, Aged, w0, …, w6, w7, row, c (13 in all)",
        ),
        (
            ("-k", "2", "--label", "zzz"),
            "--label zzz: no such column; there are a, b, Aged, w0, …, w6, w7, row, c (13 in",
        ),
        (("-k", "2", "--label", "C"), "--label C: no such column (did you mean 'c'?)"),
        (("-k", "2", "--label", "cc"), "--label cc: no such column (did you mean 'c'?)"),
        (("-k", "2", "--label", "c", "--ignore", "bb"), "--ignore bb: no such column (did you mean 'b'?)"),
        (("-k", "1", "--label", "c", "--keep", "age"), "--keep age: no such column (did you mean 'Aged'?)"),
        (("-k", "1", "--label", "c", "--keep", "c"), "--keep c: is no feature but the label"),
        (
            ("-k", "1", "--label", "c", "--keep", "row"),
            "--keep row: is no feature but left out as an identifier; pass --include row",
        ),
        (("--label", "c"), "substitution needs -k or --n-select"),
        (("-k", "0", "--label", "c"), "-k 0: must be a whole number, at least 1"),
        (("-k", "x", "--label", "c"), "--n-select: 'x' is not a whole number"),
        (("-k", "2", "--label", "c", "--loss", "hinge"), "--loss: 'hinge' is not"),
        (("-k", "2", "--label", "c", "--set", "ingest.wrods=1"), "wrods: no such key"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(arguments, message):
    columns = {"a": [1.5] * 20, "b": [2.5] * 20, "Aged": [3.5] * 20, **{f"w{i}": [i + 0.5] * 20 for i in range(8)}}
    pd.DataFrame({**columns, "row": range(20), "c": [0, 1] * 10}).to_csv("t.csv", index=False)
    done = run("t.csv", *arguments, code=2)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert "Traceback" not in done.output
    assert [path.name for path in Path().iterdir()] == ["t.csv"]


def test_a_folder_of_partitions():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(600, 5)), columns=list("abcde"))
    table["year"], table["region"] = rng.choice([2020, 2021, 2022], 600), rng.choice(["e u", "us"], 600)
    table["y"] = ((table.year - 2021) + 2 * (table.region == "us") + table.a > 1).astype(int)
    table.to_parquet("sales", partition_cols=["year", "region"])
    Path("sales/_SUCCESS").write_text("")
    run("sales", "-k", "3", "--label", "y")
    chosen = names("sales-selected")
    assert {"year", "a"} < chosen
    assert chosen & {"region=us", "region=e u"}
    selection = daskfs.load_selection("sales-selected")
    assert (selection.predict(table) == table.y).mean() > 0.95


def donors() -> pd.DataFrame:
    """Forty genes in four visits of fifty donors, two of them with an effect; donors have a name and a number."""
    rng = np.random.default_rng(0)
    donor = np.repeat(np.arange(50), 4)
    genes = rng.normal(size=(50, 40))[donor] + 0.1 * rng.normal(size=(200, 40))
    table = pd.DataFrame(genes.round(4), columns=[f"gene{i}" for i in range(40)])
    ill = genes[::4, 3] - genes[::4, 7] + 0.3 * rng.normal(size=50) > 0
    return table.assign(donor=donor + 1000, outcome=np.where(ill[donor], "ill", "well"))


def test_how_many_are_false_with_rows_that_belong_together():
    donors().to_csv("visits.csv", index=False)
    flags = ("-k", "10", "--label", "outcome", "--error-control", "permuted", "--max-fdr", ".2", "--groups", "donor")
    done = run("visits.csv", *flags)
    assert names("visits-selected") == {"gene3", "gene7"}
    assert "note: rows of a group are on both sides of the split" in done.stderr
    assert " of 10 features at a false discovery rate of 0.2; " in done.output
    shown = json.loads(run("visits.csv", *flags, "--json").stdout)
    assert shown["error_control"]["n_searched"] == 10
    assert len(shown["statistics"]["q_value"]) == shown["error_control"]["n_reported"] == len(shown["features"])
    halved = run("visits.csv", *flags, "--set", "stability.pairs=10")
    assert "stability: 20 halves in the passes of one selection" in halved.stderr
    flags = ("-k", "10", "--label", "outcome", "--algorithm", "mission", "--error-control", "halves")
    flags += ("--groups", "donor")
    sparse = run("visits.csv", *flags)
    assert "error control: all 10 features, as no limit was given; " in sparse.output
    assert not [name for name in names("visits-selected") if name.startswith("donor")]
    refused = run("visits.csv", *flags, "--set", "stability.pairs=2", code=2)
    assert "stability.pairs: Mission halves groups of rows by --error-control halves alone" in refused.output


def test_a_plan_says_what_halves_cost():
    donors().to_csv("visits.csv", index=False)
    flags = ("plan", "visits.csv", "-k", "10", "--label", "outcome", "--algorithm", "mission")
    plain, halved = (CliRunner().invoke(main, [*flags, *more]) for more in ((), ("--error-control", "halves")))
    cost = "error control learns every row 20 times more, and has 40 more sketches in memory"
    assert (plain.exit_code, halved.exit_code) == (0, 0), halved.output
    assert cost in halved.output
    assert cost not in plain.output
    started = run(*flags[1:], "--error-control", "halves").stderr
    assert started.index(cost) < started.index("features in ")  # said before it starts


def test_nothing_to_report_is_a_result_too():
    table = donors().assign(outcome=np.random.default_rng(1).normal(size=200).round(4))
    table.to_csv("noise.csv", index=False)
    done = run("noise.csv", "-k", "5", "--label", "outcome", "--error-control", "permuted", "--max-false", ".1")
    assert "none of 5 features with at most 0.1 expected to be false" in done.output
    assert daskfs.load_selection("noise-selected").names == []
    assert Path(daskfs.load_selection("noise-selected").source["url"]).exists()


def test_error_control_of_another_algorithm_is_refused():
    donors().to_csv("visits.csv", index=False)
    flags = ("-k", "5", "--label", "outcome", "--error-control", "permuted", "--algorithm", "mission")
    refused = "--error-control: 'permuted' is not halves or none; it is for --algorithm substitution"
    assert refused in run("visits.csv", *flags, code=2).output
    flags = ("-k", "5", "--label", "outcome", "--max-fdr", ".1")
    assert "--max-fdr: needs --error-control permuted" in run("visits.csv", *flags, code=2).output
