"""Operators' commands for agents, pools, intake, projections, dead letters and account tables."""

import click
from click import FloatRange, IntRange

from warpboard.service import moderation, platform, queues
from warpboard.terminal import options
from warpboard.terminal.command_types import ActionCommand, ApiCommand
from warpboard.terminal.context import AppContext

AGENT = click.argument("agent", metavar="AGENT")
GPU = click.argument("gpu", metavar="GPU")
CONSUMER = click.argument("consumer")
SEQ = click.argument("seq", type=IntRange(min=1))

list_agents = ApiCommand(
    queues.agents,
    "List the agents, their states, and why they are held back.",
    "agent list",
    access=options.viewer_options,
)


@click.command()
@options.as_json
@options.pass_app
def doctor(context: AppContext, /, *, as_json: bool) -> int:
    """Test every wall, launcher and toolchain here.

    Exit code 0 if isolation is strong, else 1.

    \b
    Example:
      warpboard agent doctor --json
    """
    return platform.doctor(context.harness, context.screen, as_json=as_json)


cordon_agent = ActionCommand(
    "POST admin/agents/{agent}/cordon",
    "Give an agent only canaries.",
    'agent cordon local --reason "its times drift"',
    (AGENT, options.reason),
)

drain_agent = ActionCommand(
    "POST admin/agents/{agent}/drain",
    "Give an agent no new jobs; its current run may finish.",
    'agent drain local --reason "a new driver comes"',
    (AGENT, options.reason),
)

release_agent = ActionCommand(
    "POST admin/agents/{agent}/release",
    "End cordon, drain and quarantine of an agent.",
    'agent release local --reason "the fan was replaced"',
    (AGENT, options.reason),
)

revoke_agent = ActionCommand(
    "POST admin/agents/{agent}/revoke",
    "Revoke an agent for ever: it may neither run jobs nor sign.",
    'agent revoke local --reason "its key was copied"',
    (AGENT, options.reason),
)

enroll_agent = ActionCommand(
    "POST admin/agents/{agent}/enroll",
    "Accept an agent's signatures.\n\n`python -m gpu_agent key` on its machine prints the key.",
    'agent enroll h200-3 --key MCowBQYDK2VwAyEA8f… --owner lab --reason "a new host"',
    (
        AGENT,
        click.option("--key", "sign_key", required=True, metavar="KEY", help="Base64."),
        click.option("--owner", required=True, metavar="NAME", help="The machine's owner."),
        options.reason,
    ),
)

pause_pool = ActionCommand(
    "POST admin/pools/{gpu}/pause",
    "Start no jobs of a GPU type.\n\nWaiting participants are told why.",
    'admin pool pause H200 --reason "times drift"',
    (GPU, options.reason),
)

resume_pool = ActionCommand(
    "POST admin/pools/{gpu}/resume",
    "Start jobs of a GPU type again.",
    'admin pool resume H200 --reason "times are as before"',
    (GPU, options.reason),
)

set_canary = ActionCommand(
    "PUT admin/pools/{gpu}/canary",
    "Run a passed submission regularly on every agent.\n\nThe agents are those of a GPU type.",
    "admin pool canary H200 --submission 12 --every 3600 --ratio-max 1.1",
    (
        GPU,
        click.option("--submission", type=IntRange(min=1), required=True, help="Its number."),
        click.option(
            *("--every", "every_s"),
            type=FloatRange(10, 2_592_000),
            default=3600.0,
            show_default=True,
            metavar="SECONDS",
            help="How often.",
        ),
        click.option(
            "--ratio-max",
            type=FloatRange(1, 100, min_open=True),
            default=1.1,
            show_default=True,
            help="The ratio to its usual time from which on a run is bad.",
        ),
    ),
)

remove_canary = ActionCommand(
    "DELETE admin/pools/{gpu}/canary",
    "Stop running a canary on a GPU type.",
    'admin pool no-canary H200 --reason "its problem is over"',
    (GPU, options.reason),
)

pause_intake = ActionCommand(
    "POST admin/intake/pause",
    "Accept no submissions; participants are told why.",
    'admin intake pause --reason "the disk is being changed"',
    (options.reason,),
)

resume_intake = ActionCommand(
    "POST admin/intake/resume",
    "Accept submissions again.",
    'admin intake resume --reason "the new disk is in"',
    (options.reason,),
)

skip_event = ActionCommand(
    "POST admin/projections/{name}/skip",
    "Let projection NAME skip the event SEQ.\n\nIt skips it now and in every replay.",
    'admin projection skip ranker 118 --reason "it was written by hand"',
    (
        click.argument("name"),
        SEQ,
        options.reason,
    ),
)

adopt_accounts = ActionCommand(
    "POST admin/accounts/adopt",
    "Allow new names for lost accounts.\n\n"
    "It is for account tables that were lost, and of which there is no backup.",
    'admin account adopt --reason "the disk of Postgres died"',
    (options.reason,),
)

list_dead_letters = ApiCommand(
    moderation.list_dead_letters,
    "List every event that a consumer gave up.",
    "admin deadletter list",
    access=options.operator_options,
)

show_dead_letter = ApiCommand(
    moderation.show_dead_letter,
    "Show the event SEQ that a CONSUMER gave up, and why.",
    "admin deadletter show ranker-announce 118",
    (CONSUMER, SEQ),
    access=options.operator_options,
)

redrive_dead_letter = ActionCommand(
    "POST admin/deadletters/{consumer}/{seq}/redrive",
    "Deliver event SEQ again to the CONSUMER that gave it up.",
    'admin deadletter redrive ranker-announce 118 --reason "the URL is back"',
    (CONSUMER, SEQ, options.reason),
)
