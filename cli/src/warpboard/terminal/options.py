"""Options that several commands have."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click import Path as PathType

from warpboard.service.waiting import WAIT_S_MAX
from warpboard.terminal.desk import Place

Function = TypeVar("Function", bound=Callable[..., Any])

MODES = ("test", "benchmark", "profile", "ranked")
LEVELS = ("none", "weak", "medium", "strong")
FILE = PathType(exists=True, dir_okay=False, readable=True, path_type=Path)
FOLDER = PathType(exists=True, file_okay=False, path_type=Path)


def place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say which platform and who asks: --url, --folder and --as become one argument `place`."""

    @functools.wraps(function)
    def placed(*args: Any, url: str | None, who: str | None, **options: Any) -> Any:
        folder = options.pop("folder")
        return function(*args, place=Place(url, who, folder), **options)

    for option in (
        click.option("--as", "who", metavar="NAME", help="Participant; or WARPBOARD_PARTICIPANT."),
        click.option(
            "--folder",
            type=PathType(file_okay=False, path_type=Path),
            help="Data directory of a platform on this machine, to find its URL.",
        ),
        click.option("--url", metavar="URL", help="The platform's URL; or WARPBOARD_URL."),
    ):
        placed = option(placed)
    return placed


def as_json(function: Function) -> Function:
    """Print one JSON document instead of tables."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")(function)


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
