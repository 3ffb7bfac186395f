"""The command `warpboard`: it finds commands in the table, and ends with their exit codes."""

import difflib
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from shared.errors import Failed, Refused
from shared.presentation.units import one_line
from warpboard.domain.output import (
    EXIT_CODES,
    INFRASTRUCTURE,
    INTERRUPTED,
    QUOTA,
    REFUSED,
    TERMINATED,
    UNREAD,
)
from warpboard.terminal.commands import COMMANDS, GROUPS, SECTIONS

if TYPE_CHECKING:
    from warpboard.context import AppContext

NAME = "warpboard"
JSON = "warpboard.json"
LINE_LENGTH_MAX = 2000
SUGGESTIONS_MAX = 6
# The codes of refusals that end once others of one's submissions have ended, or with time.
USED_UP = ("quota_exceeded", "too_many_open")
CODES_WITHOUT_LOGIN = ("missing_credential", "invalid_credential")
LOG_IN = "warpboard login gets you a token"
HELP = """Warpboard: the platform on this machine, and its client.

\b
Example:
  warpboard init matmul && warpboard submit matmul/kernel.py --mode test
"""


class Stopped(Exception):  # noqa: N818  (an outcome, not an error)
    """A signal arrived, and everything under way was cleaned up."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


class CommandGroup(click.Group):
    """A group of the table; it imports a command when that is invoked."""

    def __init__(self, words: str, **options: Any) -> None:
        super().__init__(words.rpartition(" ")[2], **options)
        self.words = words

    def summaries(self) -> dict[str, str]:
        """Return the names and summaries of what is in this group: commands, then groups."""
        return {
            words.rpartition(" ")[2]: summary
            for words, summary in list_summaries().items()
            if words.rpartition(" ")[0] == self.words
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of what is in this group."""
        del ctx
        return list(self.summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a group, or import a command."""
        del ctx
        words = f"{self.words} {cmd_name}".strip()
        if words in GROUPS:
            return CommandGroup(words, help=GROUPS[words])
        return load_command(words)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; an unknown name is refused with similar commands."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            suggestions = suggest_commands(self.words, args[0])
            lines = (f"\n  {NAME} {words}" for words in suggestions)
            hint = f" Did you mean:{''.join(lines)}" if suggestions else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their summaries."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands from the table, and options."""
        items = [
            CompletionItem(name, help=summary)
            for name, summary in self.summaries().items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


def list_summaries() -> dict[str, str]:
    """Return the first line of the help of each command and group, by its words."""
    commands = {words: summary for words, (_, summary) in COMMANDS.items()}
    return commands | {words: text.partition("\n")[0] for words, text in GROUPS.items()}


def load_command(words: str) -> click.Command | None:
    """Import a command; None if the table does not have it."""
    if words not in COMMANDS:
        return None
    name, _, variable = COMMANDS[words][0].partition(".")
    module = importlib.import_module(f"warpboard.terminal.{name}")
    command: click.Command = getattr(module, variable) if variable else module.build_action(words)
    return command


def suggest_commands(group: str, name: str) -> list[str]:
    """Return the commands and groups that may be meant by an unknown name in a group.

    >>> suggest_commands("", "leaderbord"), suggest_commands("", "diff")
    (['leaderboard', 'admin leaderboard'], ['submission diff'])
    """
    names = {words: words.rpartition(" ")[2] for words in list_summaries()}
    siblings = {names[words]: words for words in names if words.rpartition(" ")[0] == group}
    close = [siblings[match] for match in difflib.get_close_matches(name, siblings)]
    alike = {name.removesuffix("s"), *difflib.get_close_matches(name, names.values(), 1, 0.8)}
    # Those of the same group come first; operators know where their commands are.
    elsewhere = sorted(
        (words for words in names if names[words] in alike),
        key=lambda words: (not words.startswith(f"{group} "), words.startswith("admin")),
    )
    return list(dict.fromkeys((*close, *elsewhere)))[:SUGGESTIONS_MAX]


class Program(CommandGroup):
    """All commands in sections; the return value of a command is the exit code."""

    def __init__(self, create_context: "Callable[[], AppContext]") -> None:
        settings: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        super().__init__("", help=HELP, epilog=f"\b\n{EXIT_CODES}", context_settings=settings)
        self.create_context = create_context
        self.params.append(
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                help="Show the version and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each section under its own heading, all in one column."""
        del ctx
        summaries = self.summaries()
        column = max(len(name) for name in summaries)
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(column), summaries[name]) for name in names])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and exit with its code; an expected error is one line on stderr.

        With --json, stdout has the error as well.
        """
        try:
            code = super().invoke(ctx) or 0
        except (Refused, Failed, Stopped, KeyboardInterrupt, click.Abort) as end:
            line, code = _describe_end(end)
            click.echo(f"{NAME}: {one_line(line, LINE_LENGTH_MAX)}", err=True)
            if ctx.meta.get(JSON) and isinstance(end, (Refused, Failed)):
                click.echo(json.dumps({"error": _error_document(end)}, indent=2))
        except BrokenPipeError:
            code = UNREAD
        ctx.exit(code if _flush_stdout() else UNREAD)


def create_context(ctx: click.Context | None = None) -> "AppContext":
    """Create what the running command, or that of `ctx`, has access to. Raises Refused."""
    program: Any = (ctx or click.get_current_context()).find_root().command
    context: AppContext = program.create_context()
    return context


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        import platform
        from importlib.metadata import version

        from shared.version import VERSION

        # The wheel that a platform offers appends the digest of its code.
        build = "".join(version("warpboard-cli").partition("+")[1:])
        python = f"{platform.python_implementation()} {platform.python_version()}"
        click.echo(f"{NAME} {VERSION}{build} ({python})")
        ctx.exit()


def _flush_stdout() -> bool:
    """Flush stdout; return whether anybody reads it, else discard what follows."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _error_document(end: Refused | Failed) -> dict[str, str | None]:
    if isinstance(end, Refused):
        return {"code": end.code, "detail": end.reason, "field": end.field}
    from shared.api_client import Unavailable

    return {"code": "unavailable" if isinstance(end, Unavailable) else "failed", "detail": str(end)}


def _describe_end(end: BaseException) -> tuple[str, int]:
    if isinstance(end, Refused):
        # The fix where it is always the same.
        fix = f"; {LOG_IN}" if end.code in CODES_WITHOUT_LOGIN else ""
        return f"{end.reason}{fix}", QUOTA if end.code in USED_UP else REFUSED
    if isinstance(end, Failed):
        return str(end), INFRASTRUCTURE
    if isinstance(end, Stopped) and end.number != signal.SIGINT:
        return f"stopped by {end.number.name}", TERMINATED
    return "interrupted", INTERRUPTED
