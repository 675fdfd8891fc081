"""The `daskfs` command. Exit codes: 0 done; 2 wrong usage or bad input; 75 interrupted, run it again to go on."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.text import Text

from daskfs.cli.demo import demo
from daskfs.cli.evaluate import evaluate, predict
from daskfs.cli.ingest import ingest
from daskfs.cli.inspect import info, verify
from daskfs.cli.select import select
from daskfs.cli.show import show
from daskfs.cli.shuffle import shuffle
from daskfs.cli.transpose import transpose
from daskfs.errors import DaskfsError, Interrupted
from daskfs.observe.terminal import messages, printable

BAD_INPUT, INTERRUPTED = 2, 75


class Commands(click.Group):
    """Turns an error we foresaw into one line and an exit code; anything else keeps its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("interrupted: run the same command again to go on", "yellow")
            sys.exit(INTERRUPTED)
        except Interrupted as stop:
            _say(f"interrupted: {stop}", "yellow")
            sys.exit(INTERRUPTED)
        except (DaskfsError, OSError) as error:  # a full disk, a scheduler that is not there
            _say(f"error: {error}", "red")
            sys.exit(BAD_INPUT)


def _say(message: str, style: str) -> None:
    messages.print(Text(printable(message), style=style), soft_wrap=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="daskfs")
def main() -> None:
    """Choose the features that matter from data too large for any memory."""


main.add_command(demo)
main.add_command(ingest)
main.add_command(info)
main.add_command(verify)
main.add_command(transpose)
main.add_command(shuffle)
main.add_command(select)
main.add_command(show)
main.add_command(evaluate)
main.add_command(predict)
