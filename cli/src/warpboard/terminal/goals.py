"""Baselines, which operators run once more, and the milestones that one reached."""

import click

from warpboard.service import goals
from warpboard.terminal import options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.desk import Desk, Place


@click.group(cls=options.Group)
def baselines() -> None:
    """See how a problem's baselines stand, and run them once more."""


@baselines.command()
@click.argument("problems", type=PROBLEM, nargs=-1, required=True)
@options.reason
@options.as_json
@options.office
@click.pass_obj
def run(
    desk: Desk, /, place: Place, problems: tuple[str, ...], reason: str, *, as_json: bool
) -> int:
    """Run the baselines of PROBLEMS once more, as after a new driver, behind everybody else.

    \b
    Example:
      warpboard baselines run matmul softmax --reason "driver 580 on all H200"
    """
    wanted = goals.Again(problems, reason, as_json)
    return desk.operate(place, lambda api: goals.run(api, desk.screen, wanted))


@baselines.command(name="show")
@click.argument("problem", type=PROBLEM)
@options.as_json
@options.seen
@click.pass_obj
def show_baselines(desk: Desk, /, place: Place, problem: str, *, as_json: bool) -> int:
    """Show how the baselines of a PROBLEM stand; why one failed, to its author and operators.

    \b
    Example:
      warpboard baselines show matmul
    """
    return desk.ask(place, lambda api: goals.stand(api, desk.screen, problem, as_json=as_json))


@click.command()
@options.as_json
@options.seen
@click.pass_obj
def milestones(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List the milestones that you reached, newest first.

    \b
    Example:
      warpboard milestones
    """
    return desk.ask(place, lambda api: goals.milestones(api, desk.screen, as_json=as_json))
