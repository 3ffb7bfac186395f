"""The command by which an author begins a problem."""

from pathlib import Path

import click
from click import Path as PathType

from warpboard.domain.drafts import FILES
from warpboard.service import drafting
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, run


@click.command("new")
@click.argument("folder", metavar="NAME", type=PathType(path_type=Path))
@click.option(
    "--form",
    type=click.Choice(list(FILES)),
    default="python",
    show_default=True,
    help="python: a task.yml directory; cpp: C++ and CUDA; single: one file of Python.",
)
@options.as_json
@click.pass_obj
def new(desk: Desk, /, folder: Path, *, form: str, as_json: bool) -> int:
    """Begin a problem: a folder NAME with a small one that is whole, explained by its comments.

    It passes `problem check` as it is. Make it yours a file at a time: the reference and the
    statement, the sizes in task.yml, then the solutions that show what its check lets pass.

    \b
    Example:
      warpboard problem new fast-silu
      warpboard problem new problems/scan --form cpp
    """
    return run(drafting.new(desk.disk, desk.screen, drafting.Asked(folder, form, as_json)))
