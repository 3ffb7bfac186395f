"""What operators do: start the platform here, stop it, look after it."""

import asyncio
from pathlib import Path
from typing import Any

import click
from click import Path as PathType

from warpboard.service import following, operating, overview
from warpboard.service.aside import Aside
from warpboard.service.demo import Demo
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place, run

FOLDER = PathType(file_okay=False, path_type=Path)


@click.command()
@click.option("--folder", type=FOLDER, default=".warpboard", show_default=True, help="Its data.")
@click.option(
    *("--discord-sim", "has_discord"),
    is_flag=True,
    help="With the Discord bot on a simulated Discord, for a browser.",
)
@options.level_min
@options.as_json
@click.pass_obj
def up(desk: Desk, folder: Path, level_min: str | None, *, has_discord: bool, as_json: bool) -> int:
    """Start the platform on this machine and run it until Ctrl-C.

    Ranked are times with the isolation that this machine can give, or that --level-min demands.

    \b
    Example:
      warpboard up --folder .warpboard
    """
    # `supervise` hears the signals itself, for it has to stop all in order.
    demand = operating.demand(desk.harness, level_min)
    wanted = operating.Wanted(folder, demand, has_discord)
    return asyncio.run(
        operating.up(desk.machine, desk.connect, desk.screen, wanted, as_json=as_json)
    )


@click.command()
@options.folder
@options.as_json
@click.pass_obj
def down(desk: Desk, folder: Path | None, *, as_json: bool) -> int:
    """Stop the platform that runs on this machine.

    \b
    Example:
      warpboard down
    """
    return operating.down(desk.machine, desk.screen, desk.folder(folder), as_json=as_json)


@click.command()
@click.argument("number", required=False, type=click.IntRange(min=1))
@options.as_json
@options.seen
@click.pass_obj
def status(desk: Desk, /, place: Place, number: int | None, *, as_json: bool) -> int:
    """Show where submission NUMBER is, in a line; without one, how the platform is.

    Of the platform: processes, agents, queues and what is held back, dead letters to operators
    alone; exit code 3 if it is not up.

    \b
    Example:
      warpboard status 12
      warpboard status --json
    """
    if number is not None:
        return desk.ask(
            place, lambda api: following.brief(api, desk.screen, number, as_json=as_json)
        )
    rows = () if place.url else desk.machine.describe(desk.folder(place.folder))
    return run(overview.status(lambda: desk.look(place), desk.screen, rows, as_json=as_json))


@click.command()
@click.option(
    "--folder", type=FOLDER, default=".warpboard/demo", show_default=True, help="Its data."
)
@click.option(
    "--problems", type=options.FOLDER, default="problems", show_default=True, help="What to add."
)
@click.option("--keep", "is_kept", is_flag=True, help="Leave it up afterwards, until Ctrl-C.")
@options.level_min
@options.as_json
@click.pass_obj
def demo(desk: Desk, /, *, as_json: bool, **asked: Any) -> int:
    """Show the whole path: start, submit as three participants, rank, replay, stop.

    Exit code 0 if each verdict is the expected one and the leaderboards equal those folded
    anew from event 1.

    \b
    Example:
      warpboard demo
    """
    demand = operating.demand(desk.harness, asked["level_min"])
    show = Demo(
        *(desk.machine, desk.books, desk.connect),
        office=lambda: desk.office(Place(None, None, asked["folder"])),
        disk=desk.disk,
        screen=Aside(desk.screen) if as_json else desk.screen,
        as_json=as_json,
        folder=asked["folder"],
        problems=asked["problems"],
        demand=demand,
        is_kept=asked["is_kept"],
    )
    return asyncio.run(show.run())


COMMANDS = (up, down, status, demo)
