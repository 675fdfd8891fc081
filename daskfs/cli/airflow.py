"""The command `daskfs airflow export`, which copies the Airflow DAGs of daskfs into a DAGs folder."""

from __future__ import annotations

from pathlib import Path

import click

import daskfs
from daskfs.errors import OptionError
from daskfs.observe.terminal import messages, printable


@click.group()
def airflow() -> None:
    """Run jobs every night from Airflow."""


@airflow.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace files of the same name that differ.")
def export(folder: Path, overwrite: bool) -> None:
    """Copy the DAGs that come with daskfs into FOLDER, such as $AIRFLOW_HOME/dags.

    An existing file that differs, perhaps because somebody edited it, is kept unless --overwrite is given.
    """
    sources = {source.name: source.read_bytes() for source in sorted(dags_folder().glob("*.py"))}
    existing = [name for name in sources if (folder / name).exists()]
    edited = [name for name in existing if (folder / name).read_bytes() != sources[name]]
    if edited and not overwrite:
        raise OptionError(f"{folder / edited[0]} differs from the one that comes with daskfs: --overwrite replaces it")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in sources.items():
        (folder / name).write_bytes(content)
    messages.print(printable(f"{len(sources)} files in {folder}: {', '.join(sources)}"), markup=False, soft_wrap=True)


def dags_folder() -> Path:
    """Return the folder of the DAGs in the installed package, or in the checkout of an editable installation."""
    package = Path(daskfs.__file__).parent
    return next(folder for folder in (package / "dags", package.parent / "pipelines" / "airflow") if folder.is_dir())
