"""Arguments and options that several commands share."""

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from click import Choice, FloatRange, IntRange
from click import Path as PathType
from click.shell_completion import CompletionItem

from shared.api.problems import Problems
from shared.api.submissions import LISTED_STATES
from shared.errors import Failed, Refused
from warpboard.context import AppContext, PlatformTarget
from warpboard.terminal.program import JSON, create_context

Decorator = Callable[[Any], Any]
MODES = ("test", "benchmark", "profile", "ranked")
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
LEVELS = ("none", "weak", "medium", "strong")
WAIT_S_MAX = 3600.0
# The user waits at the prompt.
COMPLETION_S_MAX = 1.0
FILE = PathType(exists=True, dir_okay=False, readable=True, path_type=Path)
FOLDER = PathType(exists=True, file_okay=False, path_type=Path)
NEW_FILE = PathType(dir_okay=False, path_type=Path)
NEW_FOLDER = PathType(file_okay=False, path_type=Path)
# A problem is a directory or a single file; a contest file lists problems.
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
        type=Choice(MODES),
        default=default,
        show_default=True,
        help="The mode of the run.",
    )


SUBMISSION_FILTERS = (
    click.option("--problem", type=SLUG, metavar="SLUG", help="Only those for a problem."),
    click.option("--gpu", metavar="TYPE", help="Only this GPU type."),
    click.option("--mode", type=Choice(MODES), help="Only this mode."),
    click.option(
        "--state",
        type=Choice(LISTED_STATES),
        metavar="STATE",
        help="Only in this state, such as open, or with this outcome, such as failed.",
    ),
)
