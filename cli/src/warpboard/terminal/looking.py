"""What anybody may ask about submissions: lists, one whole, its events, two beside each other."""

from pathlib import Path
from typing import Any

import click
from click import Path as PathType

from warpboard.service import asking, comparing, following, reading
from warpboard.terminal import options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.desk import Desk, Place

LIMIT_MAX = 200


@click.command()
@options.number
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until it is over.")
@options.save
@options.timeout
@options.as_json
@options.seen
@click.pass_obj
def show(desk: Desk, /, place: Place, number: int, **asked: Any) -> int:
    """Show submission NUMBER whole: verdict, cases, history, what it printed.

    \b
    Example:
      warpboard show 12 --save twelve
    """
    wait_s = asked["timeout_s"] if asked["is_waiting"] else None
    wanted = reading.Asked(number, wait_s, asked["save"], asked["as_json"])
    return desk.ask(place, lambda api: reading.submission(api, desk.disk, desk.screen, wanted))


@click.command()
@options.number
@click.option("--follow", "is_followed", is_flag=True, help="Go on until it is over.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only events after this one.")
@options.timeout
@options.as_json
@options.seen
@click.pass_obj
def logs(desk: Desk, /, place: Place, number: int, **asked: Any) -> int:
    """Show the events of submission NUMBER and what it printed; with --follow, as they come.

    A connection that is cut is taken up again where it ended: no event is missed or shown twice.
    With --follow --json each event is a document on a line of its own.

    \b
    Example:
      warpboard logs 12 --follow
    """
    within_s = asked["timeout_s"] if asked["is_followed"] else None
    wanted = following.Asked(number, within_s, asked["after"], asked["as_json"])
    return desk.ask(place, lambda api: following.logs(api, desk.screen, wanted))


@click.command(name="list")
@click.option("--problem", type=PROBLEM, metavar="SLUG", help="Only those for a problem.")
@click.option("--tag", metavar="TAG", help="Only yours with this tag.")
@click.option("--all", "is_all", is_flag=True, help="Everybody's that you may see.")
@click.option(
    "--limit", type=click.IntRange(1, LIMIT_MAX), default=50, show_default=True, help="How many."
)
@options.as_json
@options.seen
@click.pass_obj
def list_submissions(desk: Desk, /, place: Place, **asked: Any) -> int:
    """List your newest submissions.

    \b
    Example:
      warpboard list --problem matmul
    """
    wanted = reading.Listed(**asked)
    return desk.ask(place, lambda api: reading.submissions(api, desk.screen, wanted))


@click.command()
@click.argument("a", type=click.IntRange(min=1))
@click.argument("b", type=click.IntRange(min=1))
@options.as_json
@options.seen
@click.pass_obj
def diff(desk: Desk, /, place: Place, a: int, *, b: int, as_json: bool) -> int:
    """Compare submissions A and B: their sources, and the time of each case.

    \b
    Example:
      warpboard diff 12 15
    """
    return desk.ask(place, lambda api: comparing.diff(api, desk.screen, a, b, as_json=as_json))


@click.command()
@options.number
@options.as_json
@options.seen
@click.pass_obj
def trace(desk: Desk, /, place: Place, number: int, *, as_json: bool) -> int:
    """Show every event of submission NUMBER, its jobs and its runs: when, and by whom.

    \b
    Example:
      warpboard trace 12
    """
    return desk.ask(place, lambda api: asking.trace(api, desk.screen, number, as_json=as_json))


@click.command()
@click.option("--problem", type=PROBLEM, metavar="SLUG", help="Only those for a problem.")
@click.option(
    *("--format", "format_"),
    type=click.Choice(["json", "csv"]),
    default="json",
    show_default=True,
    help="A document, or a table for other programs.",
)
@click.option(
    "--output", type=PathType(dir_okay=False, path_type=Path), metavar="FILE", help="Else stdout."
)
@options.as_json
@options.place
@click.pass_obj
def export(desk: Desk, /, place: Place, problem: str | None, **asked: Any) -> int:
    """Write all your own results, newest first.

    \b
    Example:
      warpboard export --format csv --output results.csv
    """
    wanted = comparing.Wanted(asked["format_"], asked["output"], asked["as_json"])
    return desk.ask(
        place, lambda api: comparing.export(api, desk.disk, desk.screen, problem, wanted)
    )


COMMANDS = (list_submissions, show, logs, diff, trace, export)
