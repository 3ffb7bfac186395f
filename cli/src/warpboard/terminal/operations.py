"""Operators' commands for agents, pools, intake, projections, dead letters and account tables."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click
from click import FloatRange, IntRange

from shared.api.platform import DeadLetter, DeadLetters
from shared.errors import Refused
from shared.presentation.responses import parse_response
from shared.presentation.units import count_text, instant_text, one_line
from warpboard.domain.demand import Offer, offer_exit_code, offer_lines
from warpboard.domain.tables import Table
from warpboard.service.context import AppContext
from warpboard.service.ports import Api
from warpboard.terminal import options
from warpboard.terminal.command_types import ActionCommand, api_command, local_command

AGENT = click.argument("agent", metavar="AGENT")
GPU = click.argument("gpu", metavar="GPU")
CONSUMER = click.argument("consumer")
SEQ = click.argument("seq", type=IntRange(min=1))


@local_command("agent doctor --json")
def doctor(context: AppContext) -> int:
    """Test every wall, launcher and toolchain here.

    Exit code 0 if isolation is strong, else 1.
    """
    answer = context.harness.offer()
    offer = parse_response(answer, Offer)
    context.show(answer, offer_lines(offer))
    return offer_exit_code(offer)


cordon_agent = ActionCommand(
    "POST admin/agents/{agent}/cordon",
    "Give an agent only canaries.",
    'agent cordon local --reason "its times drift"',
    (AGENT, options.REASON),
)

drain_agent = ActionCommand(
    "POST admin/agents/{agent}/drain",
    "Give an agent no new jobs; its current run may finish.",
    'agent drain local --reason "a new driver comes"',
    (AGENT, options.REASON),
)

release_agent = ActionCommand(
    "POST admin/agents/{agent}/release",
    "End cordon, drain and quarantine of an agent.",
    'agent release local --reason "the fan was replaced"',
    (AGENT, options.REASON),
)

revoke_agent = ActionCommand(
    "POST admin/agents/{agent}/revoke",
    "Revoke an agent for ever: it may neither run jobs nor sign.",
    'agent revoke local --reason "its key was copied"',
    (AGENT, options.REASON),
)

enroll_agent = ActionCommand(
    "POST admin/agents/{agent}/enroll",
    "Accept an agent's signatures.\n\n`python -m gpu_agent key` on its machine prints the key.",
    'agent enroll h200-3 --key MCowBQYDK2VwAyEA8f… --owner lab --reason "a new host"',
    (
        AGENT,
        click.option("--key", "sign_key", required=True, metavar="KEY", help="Base64."),
        click.option("--owner", required=True, metavar="NAME", help="The machine's owner."),
        options.REASON,
    ),
)

pause_pool = ActionCommand(
    "POST admin/pools/{gpu}/pause",
    "Start no jobs of a GPU type.\n\nWaiting participants are told why.",
    'admin pool pause H200 --reason "times drift"',
    (GPU, options.REASON),
)

resume_pool = ActionCommand(
    "POST admin/pools/{gpu}/resume",
    "Start jobs of a GPU type again.",
    'admin pool resume H200 --reason "times are as before"',
    (GPU, options.REASON),
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
    (GPU, options.REASON),
)

pause_intake = ActionCommand(
    "POST admin/intake/pause",
    "Accept no submissions; participants are told why.",
    'admin intake pause --reason "the disk is being changed"',
    (options.REASON,),
)

resume_intake = ActionCommand(
    "POST admin/intake/resume",
    "Accept submissions again.",
    'admin intake resume --reason "the new disk is in"',
    (options.REASON,),
)

skip_event = ActionCommand(
    "POST admin/projections/{name}/skip",
    "Let projection NAME skip the event SEQ.\n\nIt skips it now and in every replay.",
    'admin projection skip ranker 118 --reason "it was written by hand"',
    (
        click.argument("name"),
        SEQ,
        options.REASON,
    ),
)

adopt_accounts = ActionCommand(
    "POST admin/accounts/adopt",
    "Allow new names for lost accounts.\n\n"
    "It is for account tables that were lost, and of which there is no backup.",
    'admin account adopt --reason "the disk of Postgres died"',
    (options.REASON,),
)


@api_command("admin deadletter list", access=options.operator_options)
async def list_dead_letters(context: AppContext, api: Api) -> int:
    """List every event that a consumer gave up."""
    answer = await api.get(DeadLetters, "admin", "deadletters")
    return context.show(answer.document, [dead_letter_table(answer.value.items)])


@api_command(
    "admin deadletter show ranker-announce 118",
    parameters=(CONSUMER, SEQ),
    access=options.operator_options,
)
async def show_dead_letter(context: AppContext, api: Api, consumer: str, seq: int) -> int:
    """Show the event SEQ that a CONSUMER gave up, and why."""
    answer = await api.get(DeadLetters, "admin", "deadletters")
    for document, letter in zip(answer.document["items"], answer.value.items, strict=True):
        if (letter.consumer, letter.seq) == (consumer, seq):
            return context.show(document, dead_letter_lines(letter))
    reason = f"{consumer} has no dead letter {seq}: warpboard admin deadletter list"
    raise Refused("unknown_dead_letter", reason)


def dead_letter_table(letters: Sequence[DeadLetter], zone: tzinfo | None = None) -> Table:
    """List events that consumers gave up."""
    rows = [
        (
            letter.consumer,
            str(letter.seq),
            str(letter.deliveries),
            instant_text(letter.at, zone),
            one_line(letter.reason),
        )
        for letter in letters
    ]
    return Table("dead letters", ("consumer", "seq", "deliveries", "when", "reason"), rows)


def dead_letter_lines(letter: DeadLetter, zone: tzinfo | None = None) -> Iterator[str]:
    """Describe one dead letter, and how to redrive it."""
    event = f"event {letter.seq} of {letter.stream}"
    yield f"{letter.consumer} gave up {event} at {instant_text(letter.at, zone)}"
    yield f"handed out {count_text(letter.deliveries, 'time')}: {one_line(letter.reason, 2000)}"
    redrive = f"warpboard admin deadletter redrive {letter.consumer} {letter.seq}"
    yield f"once fixed: {redrive} --reason TEXT"


redrive_dead_letter = ActionCommand(
    "POST admin/deadletters/{consumer}/{seq}/redrive",
    "Deliver event SEQ again to the CONSUMER that gave it up.",
    'admin deadletter redrive ranker-announce 118 --reason "the URL is back"',
    (CONSUMER, SEQ, options.REASON),
)
