"""The command `warpboard` itself: its commands, and how each way of ending becomes an exit code."""

import json
import os
import signal
import sys
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
    UNREAD,
)
from warpboard.domain.units import one_line
from warpboard.service.ports import Unavailable
from warpboard.terminal import (
    account,
    admin,
    agents,
    authors,
    books,
    completion,
    goals,
    looking,
    operators,
    participants,
    questions,
    serving,
    webhooks,
)
from warpboard.terminal.desk import Desk, Stopped
from warpboard.terminal.options import JSON, SENTENCE

LINE_LENGTH_MAX = 2000
QUOTA_EXCEEDED = "quota_exceeded"
NOT_IN = ("missing_credential", "invalid_credential")
LOG_IN = "warpboard login gets you a token"
HELP = "Warpboard: the platform on this machine, and its client."


class Commands(click.Group):
    """The commands, in parts; what one returns is the exit code."""

    def __init__(
        self,
        parts: Mapping[str, Sequence[click.Command]],
        desk: Callable[[], Desk],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.parts = parts
        self.desk = desk
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
                formatter.write_dl(
                    [(str(one.name), one.get_short_help_str(SENTENCE)) for one in part]
                )

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and end the process as it ended: an expected end is one line on stderr.

        Where JSON was asked for, stdout says what went wrong too.
        """
        try:
            code = super().invoke(ctx) or 0
        except (Refused, Failed, Stopped, KeyboardInterrupt, click.Abort) as end:
            line, code = _ending(end)
            click.echo(f"warpboard: {one_line(line, LINE_LENGTH_MAX)}", err=True)
            if ctx.meta.get(JSON) and isinstance(end, (Refused, Failed)):
                click.echo(json.dumps({"error": _error(end)}, indent=2))
        except BrokenPipeError:
            code = UNREAD
        ctx.exit(code if _flushed() else UNREAD)


def _flushed() -> bool:
    """Whether all that was said could be said; else stdout says nothing more."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _error(end: Refused | Failed) -> dict[str, str | None]:
    """What went wrong, for a program."""
    if isinstance(end, Refused):
        return {"code": end.code, "detail": end.reason, "field": end.field}
    return {"code": "unavailable" if isinstance(end, Unavailable) else "failed", "detail": str(end)}


def _ending(end: BaseException) -> tuple[str, int]:
    if isinstance(end, Refused):
        return _sentence(end), QUOTA if end.code == QUOTA_EXCEEDED else REFUSED
    if isinstance(end, Failed):
        return str(end), INFRASTRUCTURE
    if isinstance(end, Stopped) and end.number != signal.SIGINT:
        return f"stopped by {end.number.name}", TERMINATED
    return "interrupted", INTERRUPTED


def _sentence(refused: Refused) -> str:
    """The reason, with its field and with what to do about it where that is always the same."""
    if refused.field:
        return f"{refused.reason} [{refused.field}]"
    return f"{refused.reason}; {LOG_IN}" if refused.code in NOT_IN else refused.reason


def commands(desk: Callable[[], Desk]) -> click.Group:
    """The group of all commands; the desk is made when a command is run."""
    context: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    group = Commands(
        _parts(),
        desk,
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
    made = (agents.agent(), admin.admin(), admin.deadletters())
    return {
        "Yourself": (*account.COMMANDS, *webhooks.COMMANDS),
        "Your submissions": (*participants.COMMANDS, *looking.COMMANDS, goals.milestones),
        "Problems and leaderboards": questions.COMMANDS,
        "Programs that write kernels": serving.COMMANDS,
        "Authors": (authors.problem(), goals.baselines),
        "Operators, with a token": made,
        "Operators, on the platform's machine": (*operators.COMMANDS, *books.COMMANDS),
        "Your shell": (completion.completion,),
    }
