"""Recipes of small tables and texts, from look-alikes of the public files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections import Counter

import numpy as np
import pytest
import scipy.io

RNG = np.random.default_rng(0)
MESSAGES = {
    "20news-bydate-train/sci.space/1": "From: a\n\nThe Moon, the moon.",
    "20news-bydate-train/sci.space/2": "Moon orbit",
    "20news-bydate-train/rec.autos/7": "A car \xe9t\xe9",
    "20news-bydate-test/rec.autos/8": "car park",
}


class TestNews20:
    @pytest.fixture
    def folder(self, tmp_path):
        with tarfile.open(tmp_path / "20news-bydate.tar.xz", "w:xz") as tar:
            for name, text in MESSAGES.items():
                member = tarfile.TarInfo(name)
                member.size = len(text.encode("latin-1"))
                tar.addfile(member, io.BytesIO(text.encode("latin-1")))
        return tmp_path

    def test_messages_become_ngrams(self, write, folder):
        written = write("news20", "--from", folder, "--weighting", "count")
        rows = written.rows_by_name()
        assert sorted(label for label, _ in rows) == ["rec.autos", "sci.space", "sci.space"]
        (row,) = [row for _, row in rows if "w:orbit" in row]
        words = ["w:moon", "w:orbit", "w:moon orbit"]
        assert row == Counter(words + [f"c:{'moon orbit'[i : i + 3]}" for i in range(8)])
        (row,) = [row for _, row in rows if "w:the" in row]
        assert (row["w:the moon"], row["w:the"], row["w:from a"]) == (2, 2, 1)

    def test_the_other_part_and_other_lengths(self, write, folder):
        options = "--part", "test", "--words", "1", "--chars", "", "--weighting", "binary"
        written = write("news20", "--from", folder, *options)
        assert written.rows_by_name() == [("rec.autos", {"w:car": 1, "w:park": 1})]

    def test_shuffled_messages_are_the_same(self, write, folder):
        def by_content(row):
            return row[0], sorted(row[1].items())

        plain, shuffled = (write("news20", "--from", folder, *how, out=f"{len(how)}") for how in ([], ["--shuffle"]))
        assert shuffled.dataset.classes == plain.dataset.classes
        assert sorted(map(by_content, shuffled.rows_by_name())) == sorted(map(by_content, plain.rows_by_name()))
        assert shuffled.dataset.digest != plain.dataset.digest

    def test_nothing_is_unpacked_outside_its_folder(self, invoke, tmp_path):
        with tarfile.open(tmp_path / "20news-bydate.tar.xz", "w:xz") as tar:
            member = tarfile.TarInfo("20news-bydate-train/../../evil")
            tar.addfile(member, io.BytesIO())
        result = invoke("news20", tmp_path / "out.zarr", "--from", tmp_path)
        assert isinstance(result.exception, tarfile.OutsideDestinationError)

    def test_another_archive(self, invoke, tmp_path):
        with tarfile.open(tmp_path / "20news-bydate.tar.xz", "w:xz"):
            pass
        result = invoke("news20", tmp_path / "out.zarr", "--from", tmp_path)
        assert result.exit_code == 2
        assert "20news-bydate-train" in result.output


class TestCriteo:
    ROWS = (
        ["0", "1", "5", *[""] * 11, "68fd1e64", *[""] * 24, "9727dd16"],
        ["1", "", "-2", *["7"] * 11, "68fd1e64", "aa", *["b"] * 24],
    )

    @staticmethod
    def expected(fields):
        names = [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
        return float(fields[0]), {
            f"{n}={field or '(missing)'}": 1.0 for n, field in zip(names, fields[1:], strict=True)
        }

    @pytest.fixture
    def table(self, tmp_path):
        pytest.importorskip("pyarrow")
        header = ["Id", "Label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
        lines = [header, *([str(number), *fields] for number, fields in enumerate(self.ROWS))]
        (tmp_path / "train.tiny.csv").write_text("\n".join(map(",".join, lines)) + "\n")
        return tmp_path

    def test_every_column_becomes_tokens(self, write, table):
        written = write("criteo", "--from", table)
        assert written.rows_by_name() == [self.expected(fields) for fields in self.ROWS]
        assert written.dataset.classes == (0, 1)

    @pytest.mark.parametrize("name", ["train.txt", "day_0.gz"])
    def test_raw_logs_have_no_header(self, write, tmp_path, name):
        pytest.importorskip("pyarrow")
        text = "\n".join(map("\t".join, self.ROWS)).encode() + b"\n"
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        written = write("criteo", "--from", tmp_path, "--files", name)
        assert written.rows_by_name() == [self.expected(fields) for fields in self.ROWS]

    def test_counts_can_stay_numbers(self, write, table):
        _, (_, row) = write("criteo", "--from", table, "--counts", "numeric").rows_by_name()
        assert (row["I2"], row["I3"], row["C2=aa"]) == (-2, 7, 1)
        assert row["I1"] == 1  # the mean of the known counts

    def test_another_table(self, invoke, tmp_path):
        (tmp_path / "train.csv").write_text("a,b\n1,2\n")
        result = invoke("criteo", tmp_path / "out.zarr", "--from", tmp_path)
        assert result.exit_code == 2
        assert "train.csv" in result.output


class TestCompactiv:
    @pytest.fixture
    def table(self, tmp_path):
        table = np.c_[RNG.integers(0, 1000, (50, 2)) / 8, RNG.integers(0, 100, 50)]
        lines = ["@relation compactiv", "@attribute lread real[0.0,1845.0]", "@attribute scall real[1,2]"]
        lines += ["@attribute usr real[0.0,99.0]", "@data", *(",".join(map(str, row)) for row in table.tolist())]
        (tmp_path / "compactiv.dat").write_text("\n".join(lines) + "\n")
        return table

    def test_columns_keep_their_names_and_the_target_is_scaled(self, write, table, tmp_path):
        written = write("compactiv", "--from", tmp_path)
        X, y = written.dense()
        assert np.array_equal(X, table[:, :2])
        assert y == pytest.approx(table[:, 2] / 99)
        assert written.names == ["lread", "scall"]
        assert (written.dataset.classes, written.dataset.layout) == (None, "rows")

    def test_parts_are_disjoint_and_complete(self, write, table, tmp_path):
        parts = [
            write("compactiv", "--from", tmp_path, "--part", part, "--raw-target", "--seed", 3, out=part).dense()
            for part in ("train", "validation", "test")
        ]
        assert [len(y) for _, y in parts] == [40, 5, 5]
        rows = np.concatenate([np.c_[X, y] for X, y in parts])
        assert sorted(rows.tolist()) == sorted(table.tolist())

    def test_another_file(self, invoke, tmp_path):
        (tmp_path / "compactiv.dat").write_text("@attribute a real\n@data\n1,2\n")
        result = invoke("compactiv", tmp_path / "out.zarr", "--from", tmp_path)
        assert result.exit_code == 2
        assert "KEEL" in result.output


class TestDexter:
    TEXT = """%% a comment, {1 2}
@relation dexter

@attribute V0 numeric
@attribute V1 numeric
@attribute V2 numeric
@attribute class {-1,1}

@data
{0 104,2 56}
{1 7,3 1}
{3 1}
"""

    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "dexter.arff.txt.xz").write_bytes(lzma.compress(self.TEXT.encode()))
        return tmp_path

    def test_dense_columns(self, write, folder):
        written = write("dexter", "--from", folder)
        X, y = written.dense()
        assert X.tolist() == [[104, 0, 56], [0, 7, 0], [0, 0, 0]]
        assert y.tolist() == [-1, 1, 1]
        assert written.names == ["V0", "V1", "V2"]

    def test_sparse_rows(self, write, folder):
        rows = write("dexter", "--from", folder, "--sparse").rows_by_name()
        assert rows == [(-1, {"V0": 104, "V2": 56}), (1, {"V1": 7}), (1, {})]

    def test_another_file(self, invoke, tmp_path):
        (tmp_path / "dexter.arff.txt.xz").write_bytes(lzma.compress(b"nothing"))
        assert invoke("dexter", tmp_path / "out.zarr", "--from", tmp_path).exit_code == 2


class TestMadelon:
    def test_both_layouts(self, write, tmp_path):
        X = RNG.integers(0, 999, (20, 6)).astype(np.uint16)
        y = RNG.choice([-1, 1], (20, 1)).astype(np.int16)
        scipy.io.savemat(tmp_path / "madelon.mat", {"X": X, "Y": y})
        written = write("madelon", "--from", tmp_path)
        stored, labels = written.dense()
        assert np.array_equal(stored, X)
        assert np.array_equal(labels, y[:, 0])
        assert (written.dataset.layout, written.names) == ("both", [f"x{j}" for j in range(6)])

    def test_another_file(self, invoke, tmp_path):
        scipy.io.savemat(tmp_path / "madelon.mat", {"Z": np.eye(2)})
        result = invoke("madelon", tmp_path / "out.zarr", "--from", tmp_path)
        assert result.exit_code == 2
        assert "X and Y" in result.output


class TestIjcnn1:
    @pytest.fixture
    def rows(self, tmp_path):
        """60 rows in two files, as LIBSVM's page calls them: the first 40 for training."""
        X = (RNG.integers(-9, 9, (60, 22)) * (RNG.random((60, 22)) < 0.5)).astype(np.float32) / 8
        y = np.where(RNG.random(60) < 0.3, 1.0, -1.0)
        for name, numbers in [("ijcnn1.bz2", range(40)), ("ijcnn1.t.bz2", range(40, 60))]:
            lines = [f"{y[i]} " + " ".join(f"{j + 1}:{X[i, j]}" for j in np.flatnonzero(X[i])) for i in numbers]
            (tmp_path / name).write_bytes(bz2.compress("\n".join(lines).encode()))
        return np.c_[X, y]

    @pytest.mark.parametrize(("part", "numbers"), [("train", slice(40)), ("test", slice(40, None))])
    def test_the_files_of_libsvm(self, write, rows, tmp_path, part, numbers):
        written = write("ijcnn1", "--from", tmp_path, "--part", part)
        assert np.array_equal(np.c_[written.dense()], rows[numbers])
        assert written.names == [f"x{j}" for j in range(1, 23)]
        assert written.dataset.layout == "rows"

    def test_the_split_of_the_paper(self, write, rows, tmp_path):
        parts = [
            np.c_[write("ijcnn1", "--from", tmp_path, "--part", part, "--seed", 1, out=part).dense()]
            for part in ("paper-train", "paper-test")
        ]
        assert [len(part) for part in parts] == [54, 6]
        assert sorted(np.concatenate(parts).tolist()) == sorted(rows.tolist())


def test_split_of_the_paper_has_its_sizes(recipe):
    rows = recipe("ijcnn1").paper_rows
    assert (len(rows("paper-train", 141_691, 0)), len(rows("paper-test", 141_691, 0))) == (127_591, 14_100)
    rows = recipe("compactiv").rows_of_part
    assert (len(rows("train", 8192, 0)), len(rows("test", 8192, 0))) == (6554, 819)


def test_a9a_keeps_its_ids(write, tmp_path):
    (tmp_path / "a9a.bz2").write_bytes(bz2.compress(b"-1 3:1 11:1 \n+1 5:1 123:1 \n"))
    assert write("a9a", "--from", tmp_path).rows_by_name() == [(-1, {"3": 1, "11": 1}), (1, {"5": 1, "123": 1})]
