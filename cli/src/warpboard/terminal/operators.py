"""What operators do: start the platform here, stop it, look after it."""

import asyncio
from pathlib import Path

import click
from click import Path as PathType

from warpboard.service import operating, overview
from warpboard.service.demo import Demo
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place, run

FOLDER = PathType(file_okay=False, path_type=Path)


@click.command()
@click.option("--folder", type=FOLDER, default=".warpboard", show_default=True, help="Its data.")
@options.level_min
@click.pass_obj
def up(desk: Desk, folder: Path, level_min: str | None) -> int:
    """Start the platform on this machine and run it until Ctrl-C.

    Ranked are times with the isolation that this machine can give, or that --level-min demands.

    \b
    Example:
      warpboard up --folder .warpboard
    """
    # `supervise` hears the signals itself, for it has to stop all in order.
    demand = operating.demand(desk.harness, level_min)
    return asyncio.run(operating.up(desk.machine, desk.connect, desk.screen, folder, demand))


@click.command()
@options.folder
@click.pass_obj
def down(desk: Desk, folder: Path | None) -> int:
    """Stop the platform that runs on this machine.

    \b
    Example:
      warpboard down
    """
    return operating.down(desk.machine, desk.screen, desk.folder(folder))


@click.command()
@options.as_json
@options.office
@click.pass_obj
def status(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """Show processes, agents, queues and what is held back; exit code 3 if it is not up.

    Dead letters are shown to operators alone.

    \b
    Example:
      warpboard status --json
    """
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
@click.pass_obj
def demo(desk: Desk, folder: Path, problems: Path, level_min: str | None, *, is_kept: bool) -> int:
    """Show the whole path: start, submit as three participants, rank, replay, stop.

    Exit code 0 if each verdict is the expected one and the leaderboards equal those folded
    anew from event 1.

    \b
    Example:
      warpboard demo
    """
    demand = operating.demand(desk.harness, level_min)
    show = Demo(
        *(desk.machine, desk.books, desk.connect, desk.disk, desk.screen),
        *(folder, problems, demand, is_kept),
    )
    return asyncio.run(show.run())


@click.group()
def agent() -> None:
    """Look after the agent of this machine."""


@agent.command()
@options.as_json
@click.pass_obj
def doctor(desk: Desk, *, as_json: bool) -> int:
    """Try every wall, launcher and toolchain here; exit code 0 if isolation is strong, else 1.

    \b
    Example:
      warpboard agent doctor --json
    """
    return operating.doctor(desk.harness, desk.screen, as_json=as_json)


COMMANDS = (up, down, status, demo, agent)
