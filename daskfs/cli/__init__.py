"""The `daskfs` command, whose exit code is 0 for success, or that of a `daskfs.errors.DaskfsError`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem
from rich.text import Text

from daskfs.errors import DaskfsError, Interrupted, explain_os_error, nearest, redact
from daskfs.observe.terminal import messages, printable

UNREAD = 141
"""The exit code of a command whose output nobody reads any more, as of any program that SIGPIPE ends."""
QUICK = ("show", "info", "report", "airflow")
"""Commands that have nothing to announce, since their result comes soon."""
COMMANDS = {
    "demo": ("demo", "See it work on real data, in a minute."),
    "ingest": ("datasets", "Turn source files into a dataset."),
    "info": ("datasets", "Show what a dataset is."),
    "verify": ("datasets", "Check every chunk of a dataset."),
    "transpose": ("datasets", "Lay a sparse dataset out in columns."),
    "shuffle": ("datasets", "Write a dataset with its rows in random order."),
    "split": ("datasets", "Divide the rows of a dataset into training and test."),
    "select": ("select", "Select the features that matter, of files, arrays or a dataset."),
    "plan": ("select", "Say what a selection would choose and take."),
    "show": ("results", "Show what a run selected."),
    "evaluate": ("results", "Say how good a selection is on a dataset."),
    "predict": ("results", "Predict every row of a dataset."),
    "report": ("results", "Write what a run found as a page to look at."),
    "run": ("run", "Run a whole job from one file."),
    "airflow": ("airflow", "Run jobs every night from Airflow."),
}
"""The module and the help text of every command, so that modules are imported only when a command is called."""


class Commands(click.Group):
    """The group of all commands, which reports a DaskfsError in one line, without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"daskfs.cli.{COMMANDS[cmd_name][0]}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{nearest(args[0], COMMANDS)}.")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions of command names and options, without importing the modules of the commands."""
        names = [
            CompletionItem(name, help=about) for name, (_, about) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        _announce(ctx)
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            _leave_if_unread()
            _say(f"error: {error}", "red")
            sys.exit(DaskfsError.exit_code)
        except KeyboardInterrupt:
            _say("interrupted: run the same command again to go on", "yellow")
            sys.exit(Interrupted.exit_code)
        except Interrupted as stop:
            _say(f"interrupted: {stop}", "yellow")
            sys.exit(stop.exit_code)
        except DaskfsError as error:
            _say(f"error: {error}", "red")
            sys.exit(error.exit_code)
        except OSError as error:  # a full disk, a scheduler that is not there
            _say(f"error: {explain_os_error(error)}", "red")
            sys.exit(DaskfsError.exit_code)


def _leave_if_unread() -> None:
    """End the process, with the exit code of SIGPIPE, if the reader of standard output or error has gone away."""
    from select import POLLERR, poll  # not on Windows

    pipes = poll()
    for number in (1, 2):
        pipes.register(number, 0)
    if unread := [number for number, event in pipes.poll(0) if event & POLLERR]:
        for number in unread:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)  # what is in buffers goes nowhere at exit
        sys.exit(UNREAD)


def _announce(ctx: click.Context) -> None:
    """Say what a command looks at, before the imports of the command, which take a second or two."""
    command, *arguments = [*ctx._protected_args, *ctx.args]
    if messages.is_terminal and command not in QUICK and not {"-h", "--help"} & set(arguments):
        source = next((word for word in arguments if word == "-" or "://" in word or os.path.exists(word)), None)
        if command == "demo":
            _say("three selections, a minute in all", "dim")
        elif source is not None:
            _say(f"looking at {'standard input' if source == '-' else source}", "dim")


def _say(message: str, style: str) -> None:
    messages.print(Text(printable(redact(message)), style=style), soft_wrap=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="daskfs")
def main() -> None:
    """Choose the features that matter from data too large for any memory."""
