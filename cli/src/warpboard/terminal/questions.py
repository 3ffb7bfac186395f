"""What anybody may ask: problems, leaderboards, queues, quotas, histories, records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click import Path as PathType

from warpboard.service import asking, plotting, reading
from warpboard.terminal import options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.desk import Desk, Place


def of_version(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command be asked about another version of a problem than the newest."""
    return click.option(
        "--version",
        type=click.IntRange(min=1),
        metavar="NUMBER",
        help="Under this version of the problem; the newest if not given.",
    )(command)


@click.command()
@options.as_json
@options.seen
@click.pass_obj
def problems(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List every problem in its newest version.

    \b
    Example:
      warpboard problems
    """
    return desk.ask(place, lambda api: reading.problems(api, desk.screen, as_json=as_json))


@click.command()
@click.argument("problem", type=PROBLEM)
@click.argument("gpu", required=False)
@click.option("--as-of", type=options.Instant(), help="As it was then; now if not given.")
@of_version
@click.option("--plot", "is_plotted", is_flag=True, help="Draw its progress over time.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Draw the times of a submission's calls.",
)
@click.option(
    "--png",
    type=PathType(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw into a PNG file instead of here.",
)
@options.as_json
@options.seen
@click.pass_obj
def leaderboard(desk: Desk, /, place: Place, problem: str, **asked: Any) -> int:
    """Show the leaderboards of a PROBLEM, or that of one GPU type, best first.

    \b
    Example:
      warpboard leaderboard matmul CPU
      warpboard leaderboard matmul CPU --version 1
      warpboard leaderboard matmul CPU --plot --png progress.png
      warpboard leaderboard matmul CPU --samples 12
    """
    which = reading.Which(problem, asked["gpu"], asked["as_of"], asked["version"])
    as_json = asked["as_json"]
    wanted = plotting.Wanted(asked["is_plotted"], asked["samples"], asked["png"], as_json)
    if not wanted.is_any:
        if wanted.png is not None:
            raise click.UsageError("--png needs --plot or --samples: what is to be drawn?")
        return desk.ask(
            place, lambda api: reading.leaderboards(api, desk.screen, which, as_json=as_json)
        )
    who = desk.participant(place)
    drawing = plotting.Drawing(desk.disk, desk.plots, desk.screen, who)
    return desk.ask(place, lambda api: drawing.draw(api, which, wanted))


@click.command()
@click.option("--gpu", metavar="TYPE", help="Only this GPU type.")
@options.as_json
@options.seen
@click.pass_obj
def queue(desk: Desk, /, place: Place, gpu: str | None, *, as_json: bool) -> int:
    """Show who waits for each GPU type, for how long, and why.

    \b
    Example:
      warpboard queue --gpu H200
    """
    return desk.ask(place, lambda api: asking.queue(api, desk.screen, gpu, as_json=as_json))


@click.command()
@click.argument("problem", required=False, type=PROBLEM)
@click.option("--gpu", metavar="TYPE", help="GPU type; all of the problem's if not given.")
@options.as_json
@options.place
@click.pass_obj
def quota(
    desk: Desk, /, place: Place, problem: str | None, *, gpu: str | None, as_json: bool
) -> int:
    """Show what is left of your quotas, or of those of one PROBLEM.

    \b
    Example:
      warpboard quota matmul --gpu CPU
    """
    if gpu and not problem:
        raise click.UsageError("--gpu needs a PROBLEM")
    which = reading.Which(problem, gpu) if problem else None
    return desk.ask(place, lambda api: asking.quota(api, desk.screen, which, as_json=as_json))


@click.command()
@click.argument("problem", required=False, type=PROBLEM)
@of_version
@options.as_json
@options.place
@click.pass_obj
def history(
    desk: Desk, /, place: Place, problem: str | None, *, version: int | None, as_json: bool
) -> int:
    """Show your ranked submissions, to all problems or to one PROBLEM.

    \b
    Example:
      warpboard history matmul
    """
    if version and not problem:
        raise click.UsageError("--version needs a PROBLEM")
    who = desk.participant(place)
    which = reading.Which(problem, version=version) if problem else None
    return desk.ask(
        place, lambda api: asking.history(api, desk.screen, who, which, as_json=as_json)
    )


@click.command()
@click.argument("problem", type=PROBLEM)
@click.argument("gpu")
@options.as_json
@options.seen
@click.pass_obj
def records(desk: Desk, /, place: Place, problem: str, gpu: str, *, as_json: bool) -> int:
    """Show the records that were set on the leaderboard of a PROBLEM on a GPU type.

    \b
    Example:
      warpboard records matmul CPU
    """
    return desk.ask(
        place, lambda api: asking.records(api, desk.screen, problem, gpu, as_json=as_json)
    )


COMMANDS = (problems, leaderboard, history, records, queue, quota)
