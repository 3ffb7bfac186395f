"""The group `agent`: who works, how this machine does it, what operators decide about them."""

import click

from warpboard.service import asking, operating
from warpboard.terminal import options
from warpboard.terminal.deeds import Shape, command
from warpboard.terminal.desk import Desk, Place

AGENT = click.argument("agent", metavar="AGENT")

SHAPES = (
    Shape(
        "agent cordon",
        "admin/agents/{agent}/cordon",
        "Give an agent canaries alone.",
        'local --reason "its times drift"',
        (AGENT, options.reason),
    ),
    Shape(
        "agent drain",
        "admin/agents/{agent}/drain",
        "Give an agent nothing more; the run in hand may end.",
        'local --reason "a new driver comes"',
        (AGENT, options.reason),
    ),
    Shape(
        "agent release",
        "admin/agents/{agent}/release",
        "End cordon, drain and quarantine of an agent.",
        'local --reason "the fan was replaced"',
        (AGENT, options.reason),
    ),
    Shape(
        "agent revoke",
        "admin/agents/{agent}/revoke",
        "Let an agent work and sign no more, for ever.",
        'local --reason "its key was copied"',
        (AGENT, options.reason),
    ),
    Shape(
        "agent enroll",
        "admin/agents/{agent}/enroll",
        "Let what an agent signs count; `python -m gpu_agent key` on its machine says the key.",
        'h200-3 --key MCowBQYDK2VwAyEA8f… --owner lab --reason "a new host"',
        (
            AGENT,
            click.option("--key", "sign_key", required=True, metavar="KEY", help="Base64."),
            click.option("--owner", required=True, metavar="NAME", help="Whose machine it is."),
            options.reason,
        ),
    ),
)


@click.group(cls=options.Group)
def agents() -> None:
    """Look at agents, hold one back, let it work; try this machine as one."""


@agents.command()
@options.as_json
@click.pass_obj
def doctor(desk: Desk, *, as_json: bool) -> int:
    """Try every wall, launcher and toolchain here; exit code 0 if isolation is strong, else 1.

    \b
    Example:
      warpboard agent doctor --json
    """
    return operating.doctor(desk.harness, desk.screen, as_json=as_json)


@agents.command(name="list")
@options.as_json
@options.seen
@click.pass_obj
def list_agents(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List the agents: alive or not, how they are held, and why.

    \b
    Example:
      warpboard agent list
    """
    return desk.ask(place, lambda api: asking.agents(api, desk.screen, as_json=as_json))


def agent() -> click.Group:
    """The group of agents."""
    group = options.Group("agent", dict(agents.commands), help=agents.help)
    for shape in SHAPES:
        group.add_command(command(shape))
    return group
