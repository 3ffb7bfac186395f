"""How commands are declared, and the arguments and options that several of them share.

A command is a function with options and examples, whose docstring is the help.
"""

import asyncio
import inspect
import re
import signal
import string
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from click import Choice, FloatRange, IntRange
from click import Path as PathType
from click.shell_completion import CompletionItem

from harness.vocabulary import LEVELS, SUBMISSION_MODES
from shared.api.problems import Problems
from shared.api.submissions import LISTED_STATES
from shared.errors import Failed, Refused
from shared.problems.submission_file import parse_precision
from warpboard.api import Api
from warpboard.context import AppContext, PlatformTarget, send_action
from warpboard.terminal.program import JSON, Stopped, create_context

Decorator = Callable[[Any], Any]
GPU_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")
# The scopes that a login requests by default: everything that a participant may do.
SCOPES = (
    *("submit", "submit:ranked", "profile", "read:own"),
    *("delete:own", "join", "account", "webhooks"),
)
SCOPES_KNOWN = (
    *SCOPES,
    *("author", "admin", "admin:submissions", "admin:participants"),
    *("admin:problems", "admin:operate"),
)
WAIT_S_MAX = 3600.0
# The user waits at the prompt.
COMPLETION_S_MAX = 1.0
FILE = PathType(exists=True, dir_okay=False, readable=True, path_type=Path)
# A file of a submission, or the folder of all its files.
SOURCE_PATH = PathType(exists=True, readable=True, path_type=Path)
FOLDER = PathType(exists=True, file_okay=False, path_type=Path)
NEW_FILE = PathType(dir_okay=False, path_type=Path)
NEW_FOLDER = PathType(file_okay=False, path_type=Path)
# A problem is a directory or a single file; a competition file lists problems.
PROBLEM_PATH = PathType(exists=True, path_type=Path)


class ProblemSlug(click.ParamType[str]):
    """The slug of a problem; shells complete those of the platform."""

    name = "slug"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the problems with this prefix; none if the platform does not answer at once."""
        del param
        place = PlatformTarget(*(ctx.params.get(name) for name in TARGET_NAMES[:3]))
        try:
            slugs = asyncio.run(_fetch_slugs(create_context(ctx).at(place)))
        except (Refused, Failed, TimeoutError):
            return []
        return [CompletionItem(slug) for slug in slugs if slug.startswith(incomplete)]


ID = click.argument("id_", metavar="ID")
SLUG = ProblemSlug()
# The argument PROBLEM, for functions that call it slug.
PROBLEM = click.argument("slug", type=SLUG, metavar="PROBLEM")


async def _fetch_slugs(context: AppContext) -> list[str]:
    async with asyncio.timeout(COMPLETION_S_MAX), context.api() as api:
        return [problem.slug for problem in (await api.get(Problems, "problems")).value.items]


class GpuType(click.ParamType[str]):
    """The name of a GPU type, as an author gives it; the option may be repeated."""

    name = "gpu"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name if it is valid."""
        if not GPU_TYPE.match(value):
            reason = f"{value!r} is not a GPU type: letters, digits, - and _, such as H100"
            self.fail(
                f"{reason}; repeat the option for several, as in --gpu H100 --gpu B200", param, ctx
            )
        return value


GPU = GpuType()


class Precision(click.ParamType[float]):
    """How precisely a benchmark is timed: a percentage or a fraction."""

    name = "precision"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the fraction."""
        if isinstance(value, float):
            return value
        try:
            return parse_precision(value)
        except Refused as refused:
            self.fail(refused.reason, param, ctx)


PRECISION = click.option(
    "--precision",
    type=Precision(),
    default=0.0,
    metavar="SHARE",
    help="With mode benchmark: end once times are this precise, 0.5% to 20%; default: 5%, or the "
    "file's #!POPCORN precision line.",
)

CHECKOUT = click.option(
    "--checkout",
    type=FOLDER,
    metavar="DIR",
    help="A checkout of KernelBench or FlashInfer-Trace, in which PROBLEM is a name.",
)
DEVICES = click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAME",
    help="Such as cpu or cuda:0; may be repeated. Default: every GPU here, else the CPU.",
)


class Instant(click.ParamType[str]):
    """An instant with its zone, as RFC 3339."""

    name = "instant"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the instant in ISO 8601."""
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            instant = None
        if instant is None or instant.tzinfo is None:
            expected = "expected an instant with its zone, such as 2026-11-21T12:00:00Z"
            self.fail(f"{value!r}: {expected}", param, ctx)
        return instant.isoformat()


# The options below name a platform and a caller. These are their parameters, in the order of the
# fields of PlatformTarget.
TARGET_NAMES = ("url", "who", "folder", "operator")
_URL = click.option("--url", metavar="URL", help="The platform's URL; or WARPBOARD_URL.")
_FOLDER = click.option(
    "--folder",
    type=NEW_FOLDER,
    help="Data directory of a platform on this machine, to find its URL.",
)
_PARTICIPANT = click.option(
    *("--as", "who"),
    metavar="NAME",
    help="The participant's name; only a local platform accepts it without a token.",
)
URL = (_URL, _FOLDER)
PLATFORM = (*URL, _PARTICIPANT)
# For what operators see more of.
VIEWER = (
    *PLATFORM,
    click.option("--operator", metavar="NAME", help="Read as this operator, who sees everything."),
)
# For what the organisers of a contest do, and any operator.
ORGANISER = (
    *PLATFORM,
    click.option(
        "--operator", metavar="NAME", help="Act as this operator, who can run any contest."
    ),
)
# For operators, who use the token of --folder or WARPBOARD_OPERATOR_TOKEN.
OPERATOR = (
    *URL,
    click.option(
        "--operator", metavar="NAME", help="Your name for the log; default: the participant's."
    ),
)
# For a platform on this machine.
DATA_FOLDER = (
    click.option("--folder", type=NEW_FOLDER, help="Its data; default: the nearest .warpboard."),
)


def _record_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    """Record for the main group that errors are to be printed as JSON, too."""
    ctx.meta[JSON] = value
    return value


AS_JSON = click.option(
    *("--json", "as_json"), is_flag=True, callback=_record_json, help="Print JSON on stdout."
)
YES = click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
# For commands that print tables.
WIDE = click.option(
    *("--wide", "is_wide"), is_flag=True, help="Show every column, however wide the lines become."
)
REASON = click.option(
    "--reason", required=True, metavar="TEXT", help="The reason, which is logged and shown."
)
# The number of a submission or a token.
NUMBER = click.argument("number", type=IntRange(min=1))
SUBMISSION_GPUS = click.option(
    *("--gpu", "gpus"), multiple=True, metavar="TYPE", help="GPU type; may be repeated."
)
VERSION = click.option(
    "--version",
    type=IntRange(min=1),
    metavar="NUMBER",
    help="The version of the problem; default: the newest.",
)
TOKEN_SCOPES = click.option(
    *("--scope", "scopes"),
    type=Choice(SCOPES_KNOWN),
    multiple=True,
    default=SCOPES,
    metavar="SCOPE",
    help="A scope of the token; may be repeated. Default: everything that participants may do.",
)
LEVEL_MIN = click.option(
    "--level-min",
    type=Choice(LEVELS),
    help="The isolation that is demanded; default: what this machine offers.",
)
SAVE = click.option(
    "--save",
    type=NEW_FOLDER,
    metavar="DIR",
    help="Save the log, the samples and the artefacts in this folder.",
)
TIMEOUT = click.option(
    *("--timeout", "timeout_s"),
    type=FloatRange(min=0, min_open=True),
    default=WAIT_S_MAX,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the end.",
)


def gpus(help_text: str, *, is_required: bool = False) -> Decorator:
    """Return --gpu, which names the GPU types of a problem."""
    return click.option(
        *("--gpu", "gpus"),
        type=GPU,
        metavar="NAME",
        multiple=True,
        required=is_required,
        help=help_text,
    )


def mode(default: str) -> Decorator:
    """Return --mode."""
    return click.option(
        "--mode",
        type=Choice(SUBMISSION_MODES),
        default=default,
        show_default=True,
        help="The mode of the run.",
    )


SUBMISSION_FILTERS = (
    click.option("--problem", type=SLUG, metavar="SLUG", help="Only those for a problem."),
    click.option("--gpu", metavar="TYPE", help="Only this GPU type."),
    click.option("--mode", type=Choice(SUBMISSION_MODES), help="Only this mode."),
    click.option(
        "--state",
        type=Choice(LISTED_STATES),
        metavar="STATE",
        help="Only in this state, such as open, or with this outcome, such as failed.",
    ),
)


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[..., int | Coroutine[Any, Any, int]]


def build_command(
    handler: Handler,
    help_text: str,
    examples: Sequence[str],
    parameters: Sequence[Decorator],
    access: Sequence[Decorator] | None,
) -> click.Command:
    """Make a command of a function that gets the AppContext and the command's parameters.

    The help lists `parameters`, --json, then `access`: the options that name a platform.
    """

    def call(*, as_json: bool, **values: Any) -> int:
        place = PlatformTarget()
        if access is not None:
            place = PlatformTarget(*(values.pop(name, None) for name in TARGET_NAMES))
        is_wide = values.pop("is_wide", False)
        context = replace(create_context(), place=place, as_json=as_json, is_wide=is_wide)
        result = handler(context, **values)
        return result if isinstance(result, int) else run(result)

    callback: Callable[..., Any] = call
    for add in reversed((*parameters, AS_JSON, *(access or ()))):
        callback = add(callback)
    lines = "".join(f"\n  warpboard {example}" for example in examples)
    help_text = f"{inspect.cleandoc(help_text)}\n\n\b\nExample:{lines}"
    return click.command(help=help_text)(callback)


def local_command(
    *examples: str, parameters: Sequence[Decorator] = (), access: Sequence[Decorator] | None = None
) -> Callable[[Handler], click.Command]:
    """Make a command of a function that gets the AppContext."""
    return lambda handler: build_command(
        handler, handler.__doc__ or "", examples, parameters, access
    )


def api_command(
    *examples: str,
    parameters: Sequence[Decorator] = (),
    access: Sequence[Decorator] = PLATFORM,
) -> Callable[[Handler], click.Command]:
    """Make a command of a coroutine function that gets the AppContext and the API.

    With the options of operators, it is called as an operator, who must show a token.
    """

    def decorate(handler: Callable[..., Any]) -> click.Command:
        async def call(context: AppContext, **values: Any) -> int:
            is_operator = access is OPERATOR
            async with context.operator_api() if is_operator else context.api() as api:
                code: int = await handler(context, api, **values)
                return code

        return build_command(call, handler.__doc__ or "", examples, parameters, access)

    return decorate


def action_command(
    route: str,
    help_text: str,
    example: str,
    parameters: Sequence[Decorator],
    access: Sequence[Decorator],
) -> click.Command:
    """Make a command that sends one request.

    `route` is the method and the path under /v1; parameters that it does not name make the
    request's body.
    """
    method, _, path = route.partition(" ")
    path_names = {name for _, name, _, _ in string.Formatter().parse(path) if name}

    async def send(context: AppContext, api: Api, **values: Any) -> int:
        body = {name: value for name, value in values.items() if name not in path_names}
        parts = [part.format_map(values) for part in path.split("/")]
        return await send_action(context, api, method, *parts, body=body)

    send.__doc__ = help_text
    return api_command(example, parameters=parameters, access=access)(send)


def read_stdin_line(chars_max: int) -> str:
    """Return the first line of stdin, which `-` stands for; "" if there is none."""
    stdin: Any = sys.stdin
    return stdin.readline(chars_max).strip() if stdin else ""


def can_ask() -> bool:
    """Return whether somebody can read a question and answer it."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


async def confirm(question: str) -> bool:
    """Ask on the terminal; anything but y or yes means no. Ctrl-C cancels the command as usual."""
    return (await ask(f"{question} [y/N]: ")).lower() in ("y", "yes")


async def ask(prompt: str) -> str:
    """Return the line that is typed on the terminal after a prompt."""
    loop, is_answered = asyncio.get_running_loop(), asyncio.Event()
    click.echo(prompt, nl=False, err=True)
    loop.add_reader(sys.stdin, is_answered.set)
    try:
        await is_answered.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline().strip()


def run(command: Coroutine[Any, Any, int]) -> int:
    """Run a command and return its exit code; the first signal cancels it, later ones are ignored.

    Raises the errors of the command, and Stopped after a signal, once the command has cleaned up.
    """
    return asyncio.run(_run_until_signal(command))


async def _run_until_signal(command: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(command)
    signals: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not signals:
            task.cancel()
        signals.append(number)

    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, stop, number)
    try:
        code = await task
        # Only Ctrl-C may end a command with a code of its own.
        if signals and signals[0] != signal.SIGINT:
            raise Stopped(signals[0])
        return code
    except asyncio.CancelledError as cancelled:
        if signals:
            raise Stopped(signals[0]) from cancelled
        raise
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
