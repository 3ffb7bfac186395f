"""What authors do: publish problems and list them."""

from pathlib import Path

import click

from warpboard.service import publishing, reading
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place


@click.group()
def problem() -> None:
    """Publish problems and list them."""


@problem.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=options.FOLDER)
@click.option("--slug", metavar="NAME", help="The problem's name; else the directory's.")
@options.place
@click.pass_obj
def add(desk: Desk, /, place: Place, folders: tuple[Path, ...], slug: str | None) -> int:
    """Publish each task.yml directory as its problem's newest version.

    \b
    Example:
      warpboard problem add problems/matmul problems/softmax
    """
    return desk.ask(place, lambda api: publishing.add(api, desk.disk, desk.screen, folders, slug))


@problem.command(name="list")
@options.as_json
@options.place
@click.pass_obj
def list_problems(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List every problem in its newest version.

    \b
    Example:
      warpboard problem list
    """
    return desk.ask(place, lambda api: reading.problems(api, desk.screen, as_json=as_json))


COMMANDS = (problem,)
