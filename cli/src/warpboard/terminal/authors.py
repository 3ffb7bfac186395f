"""What authors do: look at a problem, check it, publish it, judge submissions again."""

from pathlib import Path

import click

from warpboard.service import publishing, reading
from warpboard.terminal import options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.desk import Desk, Place, run
from warpboard.terminal.rejudges import rejudges

FOLDERS = click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=options.FOLDER)


@click.group(cls=options.Group)
def problems() -> None:
    """Look at problems, check and publish them, judge submissions to them again."""


@problems.command()
@click.argument("problem", type=PROBLEM)
@options.as_json
@options.seen
@click.pass_obj
def show(desk: Desk, /, place: Place, problem: str, *, as_json: bool) -> int:
    """Show a PROBLEM whole: what is to be computed, how it is checked and ranked.

    \b
    Example:
      warpboard problem show matmul
    """
    return desk.ask(place, lambda api: reading.problem(api, desk.screen, problem, as_json=as_json))


@problems.command()
@FOLDERS
@options.as_json
@click.pass_obj
def check(desk: Desk, /, folders: tuple[Path, ...], *, as_json: bool) -> int:
    """Compile each task.yml directory here and run its solutions; nothing is published.

    Each file of solutions/correct must pass, each of solutions/wrong must not. Exit code 1 if
    one of them is otherwise.

    \b
    Example:
      warpboard problem check problems/matmul
    """
    return run(publishing.check(desk.disk, desk.harness, desk.screen, folders, as_json=as_json))


@problems.command()
@FOLDERS
@click.option("--slug", metavar="NAME", help="The problem's name; else the directory's.")
@options.as_json
@options.place
@click.pass_obj
def publish(
    desk: Desk, /, place: Place, folders: tuple[Path, ...], *, slug: str | None, as_json: bool
) -> int:
    """Publish each task.yml directory as its problem's newest version.

    \b
    Example:
      warpboard problem publish problems/matmul problems/softmax
    """
    wanted = publishing.Asked(folders, slug, as_json)
    return desk.ask(place, lambda api: publishing.add(api, desk.disk, desk.screen, wanted))


def problem() -> click.Group:
    """The group of problems."""
    group = options.Group("problem", dict(problems.commands), help=problems.help)
    group.add_command(rejudges())
    return group
