"""Options that several commands have."""

import functools
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from click import Path as PathType

from warpboard.service.waiting import WAIT_S_MAX
from warpboard.terminal.desk import Place

Function = TypeVar("Function", bound=Callable[..., Any])

JSON = "warpboard.json"
MODES = ("test", "benchmark", "profile", "ranked")
SENTENCE = 160
GPU_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")
LEVELS = ("none", "weak", "medium", "strong")
FILE = PathType(exists=True, dir_okay=False, readable=True, path_type=Path)
FOLDER = PathType(exists=True, file_okay=False, path_type=Path)
# A problem is a directory, or a file by itself; a contest file is a list of them.
PROBLEM = PathType(exists=True, path_type=Path)


class Group(click.Group):
    """A group that lists what each of its commands does in a whole sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands."""
        del ctx
        rows = [(name, one.get_short_help_str(SENTENCE)) for name, one in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class GpuType(click.ParamType[str]):
    """The name of a GPU type, as an author gives it; several are said one by one."""

    name = "gpu"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if it may be one."""
        if not GPU_TYPE.match(value):
            what = f"{value!r} is no GPU type: letters, digits, - and _, such as H100"
            self.fail(f"{what}; say several as --gpu H100 --gpu B200", param, ctx)
        return value


GPU = GpuType()


class Instant(click.ParamType[str]):
    """An instant with its zone; a program gets it as RFC 3339."""

    name = "instant"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The instant, if it is one."""
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            found = None
        if found is None or found.tzinfo is None:
            expected = "expected an instant with its zone, such as 2026-11-21T12:00:00Z"
            self.fail(f"{value!r}: {expected}", param, ctx)
        return found.isoformat()


def _placed(
    function: Callable[..., Any], *names: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    """Say which platform, and by whose name: the options become one argument `place`."""

    @functools.wraps(function)
    def placed(*args: Any, url: str | None, folder: Path | None, **options: Any) -> Any:
        who, operator = options.pop("who", None), options.pop("operator", None)
        return function(*args, place=Place(url, who, folder, operator), **options)

    made: Callable[..., Any] = placed
    for option in (
        *names,
        click.option(
            "--folder",
            type=PathType(file_okay=False, path_type=Path),
            help="Data directory of a platform on this machine, to find its URL.",
        ),
        click.option("--url", metavar="URL", help="The platform's URL; or WARPBOARD_URL."),
    ):
        made = option(made)
    return made


def _as(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--as", "who", metavar="NAME", help="Participant, whom a local platform believes."
    )(function)


def place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say which platform and who asks: --url, --folder and --as become one argument `place`."""
    return _placed(function, _as)


def seen(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same where an operator may be shown more than others, if --operator names one."""
    named = click.option(
        "--operator", metavar="NAME", help="Look as this operator, who is shown everything."
    )
    return _placed(function, named, _as)


def here(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say which platform alone."""
    return _placed(function)


def office(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for operators, who show the token of --folder or WARPBOARD_OPERATOR_TOKEN."""
    named = click.option(
        "--operator", metavar="NAME", help="Your name for the log; else the participant's."
    )
    return _placed(function, named)


def folder(function: Function) -> Function:
    """Which platform on this machine."""
    return click.option(
        "--folder",
        type=PathType(file_okay=False, path_type=Path),
        help="Its data; the nearest .warpboard if not given.",
    )(function)


def reason(function: Function) -> Function:
    """Why, for the log and for those whom it concerns."""
    return click.option(
        "--reason", required=True, metavar="TEXT", help="Why: kept in the log, and shown."
    )(function)


def number(function: Function) -> Function:
    """Which submission."""
    return click.argument("number", type=click.IntRange(min=1))(function)


def _noted(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    """Tell the command of commands, which says in JSON too what went wrong."""
    ctx.meta[JSON] = value
    return value


def as_json(function: Function) -> Function:
    """Print one JSON document instead of tables."""
    return click.option(
        *("--json", "as_json"), is_flag=True, callback=_noted, help="Print JSON on stdout."
    )(function)


def mode(default: str) -> Callable[[Function], Function]:
    """In which mode to run."""
    return click.option(
        "--mode", type=click.Choice(MODES), default=default, show_default=True, help="What to run."
    )


def level_min(function: Function) -> Function:
    """How much isolation is demanded."""
    return click.option(
        "--level-min",
        type=click.Choice(LEVELS),
        help="Isolation that is demanded; else what this machine can give.",
    )(function)


def save(function: Function) -> Function:
    """Where to keep what a run left."""
    return click.option(
        "--save",
        type=PathType(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Save the log, the samples and the artefacts in this folder.",
    )(function)


def timeout(function: Function) -> Function:
    """How long to wait."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=WAIT_S_MAX,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the end.",
    )(function)
