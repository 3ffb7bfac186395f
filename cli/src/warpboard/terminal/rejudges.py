"""What operators do to run submissions again under another version of their problem."""

from typing import Any

import click

from warpboard.service import reviewing
from warpboard.terminal import options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.deeds import Shape, command
from warpboard.terminal.desk import Desk, Place


@click.group(cls=options.Group)
def rejudge() -> None:
    """Run submissions again under another version of their problem; see it before it counts."""


@rejudge.command()
@click.argument("problem", type=PROBLEM)
@click.option("--gpu", metavar="TYPE", help="Only this GPU type.")
@click.option(
    "--select",
    type=click.Choice(["best", "all"]),
    default="best",
    show_default=True,
    help="What stands on the leaderboard, or every ranked submission.",
)
@click.option("--from-version", type=click.IntRange(min=1), help="The newest but one if not given.")
@click.option("--to-version", type=click.IntRange(min=1), help="The newest if not given.")
@options.reason
@options.as_json
@options.office
@click.pass_obj
def start(desk: Desk, /, place: Place, *, as_json: bool, **said: Any) -> int:
    """Run submissions to a PROBLEM again; nothing counts until it is applied.

    \b
    Example:
      warpboard problem rejudge start matmul --reason "version 2 checks odd sizes"
    """
    return desk.operate(place, lambda api: reviewing.start(api, desk.screen, said, as_json=as_json))


@rejudge.command(name="list")
@options.as_json
@options.office
@click.pass_obj
def list_rejudges(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List the rejudges, newest first.

    \b
    Example:
      warpboard problem rejudge list
    """
    return desk.operate(place, lambda api: reviewing.rejudges(api, desk.screen, as_json=as_json))


@rejudge.command(name="show")
@click.argument("id_", metavar="ID")
@options.as_json
@options.office
@click.pass_obj
def show_rejudge(desk: Desk, /, place: Place, id_: str, *, as_json: bool) -> int:
    """Show rejudge ID with what it would change, submission by submission.

    \b
    Example:
      warpboard problem rejudge show 01HZX3
    """
    return desk.operate(
        place, lambda api: reviewing.rejudge(api, desk.screen, id_, as_json=as_json)
    )


ENDS = (
    Shape(
        "problem rejudge apply",
        "admin/rejudges/{id}/apply",
        "Let the results of rejudge ID count.",
        '01HZX3 --reason "the preview is as meant"',
        (click.argument("id"), options.reason),
    ),
    Shape(
        "problem rejudge discard",
        "admin/rejudges/{id}/discard",
        "Let the results of rejudge ID never count.",
        '01HZX3 --reason "version 2 was wrong"',
        (click.argument("id"), options.reason),
    ),
)


def rejudges() -> click.Group:
    """The group of rejudges."""
    group = options.Group("rejudge", dict(rejudge.commands), help=rejudge.help)
    for shape in ENDS:
        group.add_command(command(shape))
    return group
