"""The command `warpboard` itself: its commands, and how each way of ending becomes an exit code."""

import signal
from collections.abc import Callable
from typing import Any

import click

from shared.errors import Failed, Refused
from warpboard.domain.outcome import (
    EXIT_CODES,
    INFRASTRUCTURE,
    INTERRUPTED,
    REFUSED,
    TERMINATED,
)
from warpboard.domain.units import one_line
from warpboard.terminal import authors, operators, participants
from warpboard.terminal.desk import Desk, Stopped

LINE_LENGTH_MAX = 2000
HELP = "Warpboard: the platform on this machine, and its client."


class Commands(click.Group):
    """The commands; what one returns is the exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and end the process as it ended: an expected end is one line on stderr."""
        try:
            code = super().invoke(ctx) or 0
        except (Refused, Failed, Stopped, KeyboardInterrupt) as end:
            line, code = _ending(end)
            click.echo(f"warpboard: {one_line(line, LINE_LENGTH_MAX)}", err=True)
        ctx.exit(code)


def _ending(end: BaseException) -> tuple[str, int]:
    if isinstance(end, Refused):
        return _sentence(end), REFUSED
    if isinstance(end, Failed):
        return str(end), INFRASTRUCTURE
    if isinstance(end, Stopped) and end.number != signal.SIGINT:
        return f"stopped by {end.number.name}", TERMINATED
    return "interrupted", INTERRUPTED


def _sentence(refused: Refused) -> str:
    return f"{refused.reason} [{refused.field}]" if refused.field else refused.reason


def commands(desk: Callable[[], Desk]) -> click.Group:
    """The group of all commands; the desk is made when a command is run."""
    context: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
    group = Commands("warpboard", help=f"{HELP}\n\n\b\n{EXIT_CODES}", context_settings=context)

    @click.pass_context
    def begin(ctx: click.Context) -> None:
        ctx.obj = desk()

    group.callback = begin
    parts = (participants.COMMANDS, authors.COMMANDS, operators.COMMANDS)
    for command in (one for part in parts for one in part):
        group.add_command(command)
    return group
