"""Commands for leaderboards and their settings, and the options that describe these."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
from click import Choice, IntRange
from click import Path as PathType

from shared.api.fields import PublishWhen, RankingBy, SourceVisible
from shared.errors import Refused
from shared.problems.contest import is_zoneless, parse_deadline
from shared.problems.warpboard_yml import PublishSettings
from warpboard.service import (
    accounts,
    baselines,
    leaderboard_settings,
    leaderboards,
    plots,
    problems,
)
from warpboard.service.answers import ActionRequest, send_action
from warpboard.service.problems import local_instant_text
from warpboard.terminal import options
from warpboard.terminal.command_types import ApiCommand
from warpboard.terminal.context import AppContext, PlatformTarget

NEVER = "none"
CODE_LENGTH_MAX = 1024
SLUG = click.argument("slug", type=options.SLUG, metavar="PROBLEM")
VISIBILITY = click.option("--visibility", type=Choice(["public", "closed"]), help="Who sees it.")
QUOTA = click.option(
    *("--quota", "quotas"),
    metavar="QUOTA",
    multiple=True,
    help="How many submissions each participant may send: ranked=10/day, H100.test=60/hour.",
)
# Settings of a version, which are written into its files.
OF_VERSIONS = ("title", "ranking_by", "source_visible", "publish")


class Deadline(click.ParamType[str]):
    """An instant, in UTC if it has no zone, or `none`, which removes the deadline."""

    name = "instant|none"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the instant as it is sent, or `none`; its local time is printed to stderr."""
        if value == NEVER:
            return value
        at = parse_deadline(value)
        if at is None:
            expected = "expected 2026-12-01T18:00:00Z, or 2026-12-01 18:00 in UTC"
            self.fail(f"{value!r}: {expected}; or {NEVER}", param, ctx)
        zoneless = f"{value} names no zone, so it is " if is_zoneless(value) else ""
        click.echo(f"warpboard: deadline: {zoneless}{local_instant_text(at)}", err=True)
        return at.isoformat()


DEADLINE = click.option(
    *("--deadline", "deadline"), type=Deadline(), help="When submissions close; UTC."
)


FORCE = click.option(
    *("--force", "is_forced"),
    is_flag=True,
    help="Drop GPU types with entries; accept a deadline that is over.",
)


def publish_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe a problem, as arguments `settings` and `fields`.

    `settings` belong to its version, `fields` to its leaderboards.
    """

    @functools.wraps(function)
    def with_options(*args: Any, **values: Any) -> Any:
        licence = {name: values.pop(f"licence_{name}", None) for name in ("problem", "submissions")}
        consent: Path | None = values.pop("consent")
        settings = PublishSettings(
            **{name: values.pop(name) for name in OF_VERSIONS},
            licence={name: spdx for name, spdx in licence.items() if spdx} or None,
            consent=None if consent is None else consent.read_bytes(),
        )
        fields = {
            "visibility": values.pop("visibility"),
            "deadline": values.pop("deadline"),
            "quota": list(values.pop("quotas")),
            "gpu": list(values["gpus"]),
        }
        given_fields = {name: value for name, value in fields.items() if value}
        return function(*args, settings=settings, fields=given_fields, **values)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options


_OPTIONS = (
    click.option("--title", metavar="TEXT", help="The problem's title."),
    DEADLINE,
    VISIBILITY,
    QUOTA,
    click.option(
        "--ranking-by",
        type=Choice(get_args(RankingBy)),
        help="How times combine into a score.",
    ),
    click.option(
        "--source-visible",
        type=Choice(get_args(SourceVisible)),
        help="Who may read sources; default: everybody once the deadline is over.",
    ),
    click.option(
        "--publish",
        type=Choice(get_args(PublishWhen)),
        help="When submissions are published as a data set.",
    ),
    click.option("--licence-problem", metavar="SPDX", help="Such as MIT."),
    click.option("--licence-submissions", metavar="SPDX", help="Such as Apache-2.0."),
    click.option(
        "--consent",
        type=options.FILE,
        help="A text that participants must accept before they submit.",
    ),
)


def _edit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for settings that may change at any time, as one `request`."""

    @functools.wraps(function)
    def with_options(*args: Any, slug: str, reason: str, **values: Any) -> Any:
        deadline_at, visibility = values.pop("deadline"), values.pop("visibility")
        gpus, quotas = list(values.pop("gpus")), list(values.pop("quotas"))
        fields = {"visibility": visibility, "gpus": gpus, "quotas": quotas}
        body: dict[str, Any] = {name: value for name, value in fields.items() if value}
        if deadline_at is not None:
            body["deadline_at"] = None if deadline_at == NEVER else deadline_at
        if not body:
            choices = "--visibility, --deadline, --gpu or --quota"
            raise click.UsageError(f"nothing to change: give {choices}")
        if values.pop("is_forced"):
            body["force"] = True
        request = ActionRequest("PUT", ("admin", "leaderboards", slug), body | {"reason": reason})
        return function(*args, request=request, **values)

    decorators = (
        SLUG,
        VISIBILITY,
        DEADLINE,
        options.gpus("A GPU type from now on; may be repeated."),
        QUOTA,
        FORCE,
        options.reason,
    )
    for option in reversed(decorators):
        with_options = option(with_options)
    return with_options


# A problem has a leaderboard for each of its GPU types.
list_leaderboards = ApiCommand(
    problems.list_problems,
    "List every problem with its GPU types and deadline.",
    "leaderboard list",
    access=options.viewer_options,
)


@click.command()
@click.argument("problem", type=options.SLUG)
@click.argument("gpu", required=False)
@click.option(
    "--as-of", type=options.Instant(), help="The leaderboard at that instant; default: now."
)
@options.version
@click.option("--plot", "is_plotted", is_flag=True, help="Draw its progress over time.")
@click.option(
    "--samples",
    type=IntRange(min=1),
    metavar="NUMBER",
    help="Draw the times of a submission's calls.",
)
@click.option(
    "--png",
    type=PathType(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw into a PNG file instead of here.",
)
@options.as_json
@options.viewer_options
@options.pass_app
def show_leaderboards(
    context: AppContext, /, place: PlatformTarget, problem: str, **values: Any
) -> int:
    """Show the leaderboards of a PROBLEM, best first.

    With a GPU type, only its leaderboard. --plot and --samples draw charts instead.

    \b
    Example:
      warpboard leaderboard show matmul CPU
      warpboard leaderboard show matmul CPU --version 1
      warpboard leaderboard show matmul CPU --plot --png progress.png
      warpboard leaderboard show matmul CPU --samples 12
    """
    query = leaderboards.LeaderboardQuery(
        problem, values["gpu"], values["as_of"], values["version"]
    )
    as_json = values["as_json"]
    plot_options = plots.PlotOptions(
        values["is_plotted"], values["samples"], values["png"], as_json
    )
    if not plot_options.is_any:
        if plot_options.png is not None:
            raise click.UsageError("--png needs --plot or --samples")
        return context.ask(
            place,
            lambda api: leaderboards.show_leaderboards(api, context.screen, query, as_json=as_json),
        )
    participant = context.participant(place)
    plot_command = plots.PlotCommand(context.disk, context.plots, context.screen, participant)
    return context.ask(place, lambda api: plot_command.draw(api, query, plot_options))


@click.command()
@click.argument("problem", required=False, type=options.SLUG)
@options.version
@options.as_json
@options.platform_options
@options.pass_app
def history(
    context: AppContext,
    /,
    place: PlatformTarget,
    problem: str | None,
    *,
    version: int | None,
    as_json: bool,
) -> int:
    """Show your ranked submissions.

    With a PROBLEM, only those to it.

    \b
    Example:
      warpboard leaderboard history matmul
    """
    if version and not problem:
        raise click.UsageError("--version needs a PROBLEM")
    participant = context.participant(place)
    query = leaderboards.LeaderboardQuery(problem, version=version) if problem else None
    return context.ask(
        place,
        lambda api: leaderboards.history(api, context.screen, participant, query, as_json=as_json),
    )


records = ApiCommand(
    leaderboards.records,
    "Show the records of a PROBLEM on a GPU type.",
    "leaderboard records matmul CPU",
    (click.argument("problem", type=options.SLUG), click.argument("gpu")),
    access=options.viewer_options,
)

milestones = ApiCommand(
    baselines.milestones,
    "List the milestones that you reached.\n\nThe newest is first.",
    "leaderboard milestones",
    access=options.viewer_options,
)


@click.command()
@click.argument("code")
@options.as_json
@options.platform_options
@options.pass_app
def join(context: AppContext, /, place: PlatformTarget, code: str, *, as_json: bool) -> int:
    """Accept the invite CODE to closed leaderboards.

    `-` reads the code from stdin.

    \b
    Example:
      warpboard leaderboard join 3p8uCz0wq1mVYk2nqkq1Jw
    """
    stdin: Any = sys.stdin
    invite_code = stdin.readline(CODE_LENGTH_MAX).strip() if code == "-" and stdin else code
    if not invite_code:
        raise Refused(
            "invalid_invite", "stdin has no code: pipe the invite code into this command", "code"
        )
    return context.ask(
        place, lambda api: accounts.join(api, context.screen, invite_code, as_json=as_json)
    )


show_settings = ApiCommand(
    leaderboard_settings.show_settings,
    "Show the settings of a PROBLEM's leaderboards.\n\n"
    "These are the deadline, GPU types, quotas and visibility, and those of its version.",
    "leaderboard settings matmul",
    (SLUG,),
    access=options.viewer_options,
)


@click.command()
@_edit_options
@options.as_json
@options.platform_options
@options.pass_app
def edit_leaderboards(
    context: AppContext, /, place: PlatformTarget, *, request: ActionRequest, as_json: bool
) -> int:
    """Change the settings of your leaderboards.

    You give the deadline, GPU types or quotas of your PROBLEM; the rest stays, as
    `leaderboard settings` shows it. A GPU type that is no longer named accepts no submissions; its
    entries stay.

    \b
    Example:
      warpboard leaderboard edit matmul --deadline "2026-12-24 18:00" --reason "a week longer"
      warpboard leaderboard edit matmul --gpu H100 --gpu B200 --reason "B200 is here"
    """
    return context.ask(
        place, lambda api: send_action(api, context.screen, request, as_json=as_json)
    )


@click.command()
@_edit_options
@options.as_json
@options.operator_options
@options.pass_app
def edit_any_leaderboards(
    context: AppContext, /, place: PlatformTarget, *, request: ActionRequest, as_json: bool
) -> int:
    """Change the settings of a PROBLEM's leaderboards.

    You give visibility, deadline, GPU types or quotas; the rest stays, as `leaderboard settings`
    shows it.

    \b
    Example:
      warpboard admin leaderboard edit matmul --visibility closed --reason "a class"
      warpboard admin leaderboard edit matmul --deadline 2027-01-31T23:00:00Z --reason "longer"
    """
    return context.operate(
        place, lambda api: send_action(api, context.screen, request, as_json=as_json)
    )
