"""What all recipes share: a command line, errors in one line, examples that are true."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

import daskfs

RECIPES = sorted(path.stem for path in (Path(__file__).parents[2] / "datasets").glob("[a-z]*.py"))
HELPERS = ["_gaussian", "_image_features", "_recipe", "_svmlight_text"]
FROM_FILES = {
    "a9a": "LIBSVM data page (a9a)",
    "compactiv": "KEEL",
    "criteo": "Criteo",
    "dexter": "UCI",
    "dna_fragments": "NCBI RefSeq",
    "ijcnn1": "LIBSVM data page (ijcnn1)",
    "madelon": "UCI",
    "mnist": "MNIST database",
    "news20": "20 Newsgroups",
    "splice": "Sonnenburg",
}


def test_a_recipe_runs_as_a_script(recipes_folder, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(recipes_folder.parent)}
    script = recipes_folder / "mission_lagging_gradient.py"
    command = [sys.executable, script, "lag.zarr", "--n", "30", "--p", "20", "--k", "2"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert daskfs.open_dataset(tmp_path / "lag.zarr").n_samples == 30


@pytest.mark.parametrize("name", RECIPES)
def test_says_what_it_does(name, recipe, invoke):
    module = recipe(name)
    assert "Known truth" in module.__doc__
    assert f"python datasets/{name}.py" in module.__doc__
    help = invoke(name, "--help").output
    assert "OUT.zarr" in help
    assert module.main.help.splitlines()[0] in " ".join(help.split())


def test_the_table_of_recipes_is_complete(recipes_folder):
    text = (recipes_folder / "README.md").read_text()
    assert [name for name in RECIPES if f"`{name}.py`" not in text] == []


@pytest.mark.parametrize("name", HELPERS)
def test_examples(name, recipe):
    results = doctest.testmod(recipe(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


@pytest.mark.parametrize("name", FROM_FILES)
def test_without_its_files_names_the_public_origin(name, invoke, tmp_path):
    for arguments in ([], ["--from", tmp_path]):
        result = invoke(name, tmp_path / "out.zarr", *arguments)
        assert result.exit_code == 2
        assert FROM_FILES[name] in result.output
        assert "expected:" in result.output
        assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "out.zarr").exists()


def test_a_dataset_is_replaced_only_on_request(invoke, tmp_path):
    command = "mission_lagging_gradient", tmp_path / "out.zarr", "--n", 10, "--p", 8, "--k", 2
    assert invoke(*command).exit_code == 0
    again = invoke(*command)
    assert again.exit_code == 2
    assert len(again.output.splitlines()) == 1
    assert invoke(*command, "--overwrite").exit_code == 0


def test_bugs_are_not_dressed_up(invoke, monkeypatch, tmp_path):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(daskfs, "write_dataset", broken)
    result = invoke("mission_lagging_gradient", tmp_path / "out.zarr", "--n", 10, "--p", 8, "--k", 2)
    assert isinstance(result.exception, ZeroDivisionError)


def test_files_are_found_by_any_of_their_names(recipe, tmp_path):
    helper = recipe("_recipe")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.t.bz2").touch()
    assert helper.find_files(tmp_path, ["a.tst.bz2|a.t.bz2"], "origin") == [tmp_path / "below" / "a.t.bz2"]


def test_files_of_one_folder_are_not_mixed_with_another(recipe, tmp_path):
    for name in ("one/a.fna", "one/b.fna", "two/c.fna"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = recipe("_recipe").find_all(tmp_path, "*.fna", "origin")
    assert found == [tmp_path / "one/a.fna", tmp_path / "one/b.fna"]
