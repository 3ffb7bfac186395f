"""The command `warpboard` itself: its commands, and how each way of ending becomes an exit code."""

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from shared.errors import Failed, Refused
from warpboard.domain.outcome import (
    EXIT_CODES,
    INFRASTRUCTURE,
    INTERRUPTED,
    QUOTA,
    REFUSED,
    TERMINATED,
)
from warpboard.domain.units import one_line
from warpboard.terminal import admin, authors, books, operators, participants, questions, rejudges
from warpboard.terminal.desk import Desk, Stopped

LINE_LENGTH_MAX = 2000
QUOTA_EXCEEDED = "quota_exceeded"
HELP = "Warpboard: the platform on this machine, and its client."


class Commands(click.Group):
    """The commands, in parts; what one returns is the exit code."""

    def __init__(self, parts: Mapping[str, Sequence[click.Command]], **options: Any) -> None:
        super().__init__(**options)
        self.parts = parts
        for command in (one for part in parts.values() for one in part):
            self.add_command(command)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's own signature)
        formatter: click.HelpFormatter,
    ) -> None:
        """List each part under its own heading."""
        for heading, part in self.parts.items():
            with formatter.section(heading):
                formatter.write_dl([(str(one.name), one.get_short_help_str(80)) for one in part])

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
        return _sentence(end), QUOTA if end.code == QUOTA_EXCEEDED else REFUSED
    if isinstance(end, Failed):
        return str(end), INFRASTRUCTURE
    if isinstance(end, Stopped) and end.number != signal.SIGINT:
        return f"stopped by {end.number.name}", TERMINATED
    return "interrupted", INTERRUPTED


def _sentence(refused: Refused) -> str:
    return f"{refused.reason} [{refused.field}]" if refused.field else refused.reason


def commands(desk: Callable[[], Desk]) -> click.Group:
    """The group of all commands; the desk is made when a command is run."""
    context: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    group = Commands(
        _parts(),
        name="warpboard",
        help=f"{HELP}\n\n\b\n{EXIT_CODES}",
        context_settings=context,
    )

    @click.pass_context
    def begin(ctx: click.Context) -> None:
        ctx.obj = desk()

    group.callback = begin
    return group


def _parts() -> dict[str, Sequence[click.Command]]:
    """Every command, under what it is for."""
    made = (admin.admin(), rejudges.rejudges(), admin.deadletters())
    return {
        "Participants": participants.COMMANDS,
        "Everybody": questions.COMMANDS,
        "Authors": authors.COMMANDS,
        "Operators, with a token": made,
        "Operators, on the platform's machine": (*operators.COMMANDS, *books.COMMANDS),
    }
