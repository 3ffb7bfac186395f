"""What anybody may ask: leaderboards, queues, agents, quotas, histories, records, traces."""

import click

from warpboard.service import asking, reading
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place


@click.command()
@click.argument("leaderboard")
@click.option("--gpu", metavar="TYPE", help="GPU type; all of the problem's if not given.")
@click.option("--as-of", type=options.Instant(), help="As it was then; now if not given.")
@options.as_json
@options.place
@click.pass_obj
def show(
    desk: Desk, /, place: Place, leaderboard: str, *, as_json: bool, **asked: str | None
) -> int:
    """Show a LEADERBOARD, best first.

    \b
    Example:
      warpboard show matmul --gpu CPU
    """
    which = reading.Which(leaderboard, asked["gpu"], asked["as_of"])
    return desk.ask(
        place, lambda api: reading.leaderboards(api, desk.screen, which, as_json=as_json)
    )


@click.command()
@click.option("--gpu", metavar="TYPE", help="Only this GPU type.")
@options.as_json
@options.place
@click.pass_obj
def queue(desk: Desk, /, place: Place, gpu: str | None, *, as_json: bool) -> int:
    """Show who waits for each GPU type, for how long, and why.

    \b
    Example:
      warpboard queue --gpu H200
    """
    return desk.ask(place, lambda api: asking.queue(api, desk.screen, gpu, as_json=as_json))


@click.command()
@options.as_json
@options.place
@click.pass_obj
def agents(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List the agents: alive or not, how they are held, and why.

    \b
    Example:
      warpboard agents
    """
    return desk.ask(place, lambda api: asking.agents(api, desk.screen, as_json=as_json))


@click.command()
@click.argument("problem", required=False)
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
@click.argument("problem", required=False)
@options.as_json
@options.place
@click.pass_obj
def history(desk: Desk, /, place: Place, problem: str | None, *, as_json: bool) -> int:
    """Show your ranked submissions, to all problems or to one PROBLEM.

    \b
    Example:
      warpboard history matmul
    """
    who = desk.participant(place)
    return desk.ask(
        place, lambda api: asking.history(api, desk.screen, who, problem, as_json=as_json)
    )


@click.command()
@click.argument("problem")
@click.argument("gpu")
@options.as_json
@options.place
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


@click.command()
@options.number
@options.as_json
@options.place
@click.pass_obj
def trace(desk: Desk, /, place: Place, number: int, *, as_json: bool) -> int:
    """Show every event of submission NUMBER, its jobs and its runs: when, and by whom.

    \b
    Example:
      warpboard trace 12
    """
    return desk.ask(place, lambda api: asking.trace(api, desk.screen, number, as_json=as_json))


COMMANDS = (show, queue, agents, quota, history, records, trace)
