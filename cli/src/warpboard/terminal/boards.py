"""What authors say of a leaderboard: when it is made, with its problem, and later."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click import Choice

from shared.problems.contest import deadline, is_zoneless
from shared.problems.settings import Settings
from warpboard.domain.deadlines import both
from warpboard.service import boards
from warpboard.service.deeds import Deed, act
from warpboard.terminal import options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.desk import Desk, Place

NEVER = "none"
SLUG = click.argument("slug", type=PROBLEM, metavar="PROBLEM")
VISIBILITY = click.option("--visibility", type=Choice(["public", "closed"]), help="Who sees it.")
QUOTA = click.option(
    *("--quota", "quotas"),
    metavar="QUOTA",
    multiple=True,
    help="How much each participant may send: ranked=10/day, H100.test=60/hour.",
)
# What is said of a version stands in its files: here it is written into them.
OF_VERSIONS = ("title", "ranking_by", "source_visible", "publish")


class Deadline(click.ParamType[str]):
    """An instant, which is UTC if it names no zone, or `none`, which lifts the deadline."""

    name = "instant|none"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The instant as it is sent, or the word; what it is here is said aside."""
        if value == NEVER:
            return value
        at = deadline(value)
        if at is None:
            expected = "expected 2026-12-01T18:00:00Z, or 2026-12-01 18:00 in UTC"
            self.fail(f"{value!r}: {expected}; or {NEVER}", param, ctx)
        zoneless = f"{value} names no zone, so it is " if is_zoneless(value) else ""
        click.echo(f"warpboard: deadline: {zoneless}{both(at)}", err=True)
        return at.isoformat()


DEADLINE = click.option(
    *("--deadline", "deadline"), type=Deadline(), help="Until when it takes submissions; UTC."
)


FORCE = click.option(
    *("--force", "is_forced"),
    is_flag=True,
    help="Drop GPU types with entries; take a deadline that is over.",
)


def of_publishing(function: Callable[..., Any]) -> Callable[..., Any]:
    """All that is said of a problem beside its files: `settings` of its version, and `fields`."""

    @functools.wraps(function)
    def told(*args: Any, **given: Any) -> Any:
        licence = {name: given.pop(f"licence_{name}", None) for name in ("problem", "submissions")}
        consent: Path | None = given.pop("consent")
        settings = Settings(
            **{name: given.pop(name) for name in OF_VERSIONS},
            licence={name: one for name, one in licence.items() if one} or None,
            consent=None if consent is None else consent.read_bytes(),
        )
        fields = {
            "visibility": given.pop("visibility"),
            "deadline": given.pop("deadline"),
            "quota": list(given.pop("quotas")),
            "gpu": list(given["gpus"]),
        }
        said = {name: value for name, value in fields.items() if value}
        return function(*args, settings=settings, fields=said, **given)

    for option in reversed(_OPTIONS):
        told = option(told)
    return told


_OPTIONS = (
    click.option("--title", metavar="TEXT", help="What it is called."),
    DEADLINE,
    VISIBILITY,
    QUOTA,
    click.option(
        "--ranking-by", type=Choice(["last", "mean", "geom"]), help="How times make a score."
    ),
    click.option(
        "--source-visible",
        type=Choice(["owner", "after_close", "always"]),
        help="Who reads sources: when the deadline is over all do, if not said.",
    ),
    click.option(
        "--publish",
        type=Choice(["never", "after_close", "always"]),
        help="When submissions are passed on as a data set.",
    ),
    click.option("--licence-problem", metavar="SPDX", help="Such as MIT."),
    click.option("--licence-submissions", metavar="SPDX", help="Such as Apache-2.0."),
    click.option("--consent", type=options.FILE, help="A text to accept before one submits."),
)


@click.command(name="settings")
@SLUG
@options.as_json
@options.seen
@click.pass_obj
def show_settings(desk: Desk, /, place: Place, slug: str, *, as_json: bool) -> int:
    """Show what a PROBLEM's leaderboards are set to: deadline, GPU types, quotas, who sees what.

    \b
    Example:
      warpboard problem settings matmul
    """
    return desk.ask(place, lambda api: boards.settings(api, desk.screen, slug, as_json=as_json))


def changing(function: Callable[..., Any]) -> Callable[..., Any]:
    """What may be otherwise of a leaderboard at any time, as one request `said`."""

    @functools.wraps(function)
    def told(*args: Any, slug: str, reason: str, **given: Any) -> Any:
        deadline_at, visibility = given.pop("deadline"), given.pop("visibility")
        gpus, quotas = list(given.pop("gpus")), list(given.pop("quotas"))
        fields = {"visibility": visibility, "gpus": gpus, "quotas": quotas}
        said: dict[str, Any] = {name: value for name, value in fields.items() if value}
        if deadline_at is not None:
            said["deadline_at"] = None if deadline_at == NEVER else deadline_at
        if not said:
            what = "--visibility, --deadline, --gpu or --quota"
            raise click.UsageError(f"what is to change? {what}")
        if given.pop("is_forced"):
            said["force"] = True
        deed = Deed("PUT", ("admin", "leaderboards", slug), said | {"reason": reason})
        return function(*args, deed=deed, **given)

    wanted = (
        SLUG,
        VISIBILITY,
        DEADLINE,
        click.option(
            *("--gpu", "gpus"),
            type=options.GPU,
            metavar="NAME",
            multiple=True,
            help="Each GPU type from now on.",
        ),
        QUOTA,
        FORCE,
        options.reason,
    )
    for option in reversed(wanted):
        told = option(told)
    return told


@click.command(name="set")
@changing
@options.as_json
@options.place
@click.pass_obj
def change_settings(desk: Desk, /, place: Place, *, deed: Deed, as_json: bool) -> int:
    """Change your PROBLEM's leaderboards: deadline, GPU types, quotas; what is not said stays.

    A GPU type that is not named any more takes nothing in, and its rows stay.

    \b
    Example:
      warpboard problem set matmul --deadline "2026-12-24 18:00" --reason "a week longer"
      warpboard problem set matmul --gpu H100 --gpu B200 --reason "B200 is here"
    """
    return desk.ask(place, lambda api: act(api, desk.screen, deed, as_json=as_json))
