"""Arguments and options that several commands share."""

import asyncio
import functools
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from click import IntRange
from click import Path as PathType
from click.shell_completion import CompletionItem

from shared.api.problems import Problems
from shared.errors import Failed, Refused
from warpboard.service.accounts import SCOPES, SCOPES_KNOWN
from warpboard.service.waiting import WAIT_S_MAX
from warpboard.terminal.context import AppContext, PlatformTarget
from warpboard.terminal.program import JSON

Function = TypeVar("Function", bound=Callable[..., Any])

MODES = ("test", "benchmark", "profile", "ranked")
GPU_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")
LEVELS = ("none", "weak", "medium", "strong")
# The user waits at the prompt.
COMPLETION_S_MAX = 1.0
FILE = PathType(exists=True, dir_okay=False, readable=True, path_type=Path)
FOLDER = PathType(exists=True, file_okay=False, path_type=Path)
# A problem is a directory or a single file; a contest file lists problems.
PROBLEM_PATH = PathType(exists=True, path_type=Path)


def pass_app(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the AppContext, which is created when a command runs."""

    @functools.wraps(function)
    def call(*args: Any, **values: Any) -> Any:
        return function(_create_context(click.get_current_context()), *args, **values)

    return call


def _create_context(ctx: click.Context) -> AppContext:
    program: Any = ctx.find_root().command
    context: AppContext = program.create_context()
    return context


class ProblemSlug(click.ParamType[str]):
    """The slug of a problem; shells complete those of the platform."""

    name = "slug"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the problems with this prefix; none if the platform does not answer at once."""
        del param
        place = PlatformTarget(
            ctx.params.get("url"), ctx.params.get("who"), ctx.params.get("folder")
        )
        try:
            slugs = asyncio.run(_fetch_slugs(_create_context(ctx), place))
        except (Refused, Failed, TimeoutError):
            return []
        return [CompletionItem(slug) for slug in slugs if slug.startswith(incomplete)]


SLUG = ProblemSlug()


async def _fetch_slugs(context: AppContext, place: PlatformTarget) -> list[str]:
    """Return the slugs of all problems."""
    async with asyncio.timeout(COMPLETION_S_MAX), context.api(place) as api:
        problems = await api.get(Problems, "problems")
    return [problem.slug for problem in problems.value.items]


class GpuType(click.ParamType[str]):
    """The name of a GPU type, as an author gives it; the option may be repeated."""

    name = "gpu"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name if it is valid."""
        if not GPU_TYPE.match(value):
            reason = f"{value!r} is no GPU type: letters, digits, - and _, such as H100"
            self.fail(
                f"{reason}; repeat the option for several, as in --gpu H100 --gpu B200", param, ctx
            )
        return value


GPU = GpuType()


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


def _add_target_options(
    function: Callable[..., Any], *names: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    """Add the options that name a platform and a caller, as one argument `place`."""

    @functools.wraps(function)
    def call(*args: Any, url: str | None, folder: Path | None, **options: Any) -> Any:
        participant, operator = options.pop("who", None), options.pop("operator", None)
        return function(*args, place=PlatformTarget(url, participant, folder, operator), **options)

    decorated: Callable[..., Any] = call
    for option in (
        *names,
        click.option(
            "--folder",
            type=PathType(file_okay=False, path_type=Path),
            help="Data directory of a platform on this machine, to find its URL.",
        ),
        click.option("--url", metavar="URL", help="The platform's URL; or WARPBOARD_URL."),
    ):
        decorated = option(decorated)
    return decorated


def _add_participant_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--as",
        "who",
        metavar="NAME",
        help="The participant's name; only a local platform accepts it without a token.",
    )(function)


def platform_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --url, --folder and --as as one argument `place`."""
    return _add_target_options(function, _add_participant_option)


def viewer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same and --operator, for what operators see more of."""
    operator_option = click.option(
        "--operator", metavar="NAME", help="Read as this operator, who sees everything."
    )
    return _add_target_options(function, operator_option, _add_participant_option)


def url_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a platform only."""
    return _add_target_options(function)


def operator_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for operators, who use the token of --folder or WARPBOARD_OPERATOR_TOKEN."""
    operator_option = click.option(
        "--operator", metavar="NAME", help="Your name for the log; default: the participant's."
    )
    return _add_target_options(function, operator_option)


def folder(function: Function) -> Function:
    """Add --folder, which names a platform on this machine."""
    return click.option(
        "--folder",
        type=PathType(file_okay=False, path_type=Path),
        help="Its data; default: the nearest .warpboard.",
    )(function)


def reason(function: Function) -> Function:
    """Add --reason, which is logged and shown to those concerned."""
    return click.option(
        "--reason", required=True, metavar="TEXT", help="The reason, which is logged and shown."
    )(function)


def number(function: Function) -> Function:
    """Add the number of a submission or a token."""
    return click.argument("number", type=IntRange(min=1))(function)


def submission_gpus(function: Function) -> Function:
    """Add --gpu, which names the GPU types of a submission."""
    return click.option(
        "--gpu", "gpus", multiple=True, metavar="TYPE", help="GPU type; may be repeated."
    )(function)


def gpus(help_text: str, *, is_required: bool = False) -> Callable[[Function], Function]:
    """Add --gpu, which names the GPU types of a problem."""
    return click.option(
        *("--gpu", "gpus"),
        type=GPU,
        metavar="NAME",
        multiple=True,
        required=is_required,
        help=help_text,
    )


def version(function: Function) -> Function:
    """Add --version, which names another version of a problem than the newest."""
    return click.option(
        "--version",
        type=IntRange(min=1),
        metavar="NUMBER",
        help="The version of the problem; default: the newest.",
    )(function)


def scopes(function: Function) -> Function:
    """Add --scope, which names the scopes of a token."""
    return click.option(
        *("--scope", "scopes"),
        type=click.Choice(SCOPES_KNOWN),
        multiple=True,
        default=SCOPES,
        metavar="SCOPE",
        help="A scope of the token; may be repeated. Default: everything that participants may do.",
    )(function)


def _record_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    """Record for the main group that errors are to be printed as JSON, too."""
    ctx.meta[JSON] = value
    return value


def as_json(function: Function) -> Function:
    """Add --json."""
    return click.option(
        *("--json", "as_json"), is_flag=True, callback=_record_json, help="Print JSON on stdout."
    )(function)


def mode(default: str) -> Callable[[Function], Function]:
    """Add --mode."""
    return click.option(
        "--mode",
        type=click.Choice(MODES),
        default=default,
        show_default=True,
        help="The mode of the run.",
    )


def level_min(function: Function) -> Function:
    """Add --level-min."""
    return click.option(
        "--level-min",
        type=click.Choice(LEVELS),
        help="The isolation that is demanded; default: what this machine offers.",
    )(function)


def save(function: Function) -> Function:
    """Add --save."""
    return click.option(
        "--save",
        type=PathType(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Save the log, the samples and the artefacts in this folder.",
    )(function)


def timeout(function: Function) -> Function:
    """Add --timeout."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=WAIT_S_MAX,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the end.",
    )(function)
