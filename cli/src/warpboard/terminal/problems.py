"""Commands that show problems, and the text that a problem asks participants to accept.

Those for the settings of leaderboards are here too, and the options that describe these.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import click
import msgspec
from click import Choice

from harness.hidden_sizes import describe_choices
from harness.ranking_rules import RANKING_TEXTS
from shared.api.accounts import Consent
from shared.api.leaderboards import LeaderboardSettings
from shared.api.problems import FullProblem, Problem, Problems, Rules
from shared.errors import Refused
from shared.presentation.outcome import shortcuts_text
from shared.presentation.units import (
    NO_VALUE,
    count_text,
    escape_control_characters,
    one_line,
    seconds_text,
    untested_text,
)
from warpboard.api import Api
from warpboard.context import AppContext, send_action
from warpboard.domain.output import Table, make_table
from warpboard.terminal import options
from warpboard.terminal.options import api_command, local_command

ACCEPT, WITHDRAW = "accept", "withdraw"


LIST_OPTIONS = (
    click.option(
        "--all", "is_all", is_flag=True, help="Include problems whose leaderboards have ended."
    ),
    options.WIDE,
)


@api_command("problem list", parameters=LIST_OPTIONS, access=options.VIEWER)
async def list_problems(context: AppContext, api: Api, *, is_all: bool) -> int:
    """List the open problems in their newest versions."""
    return await show_problems(context, api, is_all=is_all)


async def show_problems(context: AppContext, api: Api, *, is_all: bool) -> int:
    """List the open problems, or with `is_all` every problem; JSON always has every one."""
    answer = await api.get(Problems, "problems")
    every_problem = answer.value.items
    problems = [problem for problem in every_problem if is_all or problem.state == "active"]
    hidden_count = len(every_problem) - len(problems)
    count = count_text(hidden_count, "ended problem")
    note = f"{count} left out: --all shows everything" if hidden_count else ""
    return context.show(answer.document, [problem_table(problems)], note)


def problem_table(versions: Sequence[Problem], zone: tzinfo | None = None) -> Table:
    """List every problem in its newest version."""
    rows = [
        {
            "problem": problem.slug,
            "version": problem.problem_version,
            "title": one_line(problem.title, 60),
            "GPU types": " ".join(problem.gpus),
            "published": problem.published_at,
            "state": list(filter(None, (problem.state, problem.visibility.replace("public", "")))),
            "deadline": problem.deadline_at,
        }
        for problem in versions
    ]
    return make_table("problems", rows, zone, extra=("published", "version", "title", "state"))


@api_command("problem show matmul", parameters=(options.PROBLEM,), access=options.VIEWER)
async def show_problem(context: AppContext, api: Api, slug: str) -> int:
    """Show a PROBLEM: what to compute, how it is checked and ranked."""
    answer = await api.get(FullProblem, "problems", slug)
    problem = answer.value
    return context.show(answer.document, [*header_lines(problem), "", *statement_lines(problem)])


def header_lines(problem: FullProblem) -> Iterator[str]:
    """Describe a problem's name, GPU types, limits, ranking and deadline."""
    yield f"{problem.slug}, version {problem.problem_version}: {one_line(problem.title, 100)}"
    yield f"GPU types: {', '.join(problem.gpus) or NO_VALUE}"
    if problem.untested_gpus:
        yield untested_text(problem.untested_gpus)
    languages = ", ".join(problem.languages) or "python"
    limit = f", at most {problem.source_bytes_max:,} bytes" if problem.source_bytes_max else ""
    count = problem.source_files_max
    files = "one file" if count == 1 else f"up to {count} files, the entry file"
    yield f"{files} in {languages}{limit}"
    counts = ", ".join(
        count_text(number, kind.removesuffix("s").replace("_", " "))
        for kind, number in problem.cases_count.items()
    )
    rule = RANKING_TEXTS.get(problem.ranking_by, NO_VALUE)
    yield f"cases: {counts or NO_VALUE}; ranked by {rule}"
    if problem.budgets_s:
        budgets = (f"{stage} {seconds_text(value)}" for stage, value in problem.budgets_s.items())
        yield f"budgets: {', '.join(budgets)}"
    if problem.visibility == "closed":
        yield "closed: only who was invited sees it"
    if problem.deadline_at is not None:
        yield f"deadline: {local_instant_text(problem.deadline_at)}"
    if problem.check.state == "unchecked":
        yield f"not checked: {one_line(problem.check.reason or NO_VALUE, 200)}"


def _rule_lines(rules: Rules) -> Iterator[str]:
    descriptions = {
        "score": rules.formula,
        "correct": rules.tolerances,
        "ties": rules.ties,
        "sources": rules.source_policy,
        "not allowed": shortcuts_text(rules.shortcuts),
    }
    for topic, description in descriptions.items():
        if description:
            yield f"{topic}: {one_line(description, 400)}"
    formulas: dict[str, str] = msgspec.to_builtins(rules.roofline)
    if formulas:
        work = (f"{one_line(name, 20)} {one_line(formula)}" for name, formula in formulas.items())
        yield f"least work: {'; '.join(work)}"
    for kind, cases in (("tests", rules.cases.tests), ("benchmarks", rules.cases.benchmarks)):
        names = "; ".join(one_line(case.name, 100) for case in cases)
        yield f"{kind}: {names or NO_VALUE}"
    for family in rules.cases.hidden:
        choices = "; ".join(
            f"{one_line(name, 40)} {one_line(describe_choices(value), 100)}"
            for name, value in family.args.items()
        )
        yield f"hidden {family.group}: {family.count} drawn in every ranked run; {choices}"


def _licence_lines(problem: FullProblem) -> Iterator[str]:
    licences: dict[str, str] = msgspec.to_builtins(problem.rules.licence)
    for subject, name in licences.items():
        yield f"licence of {one_line(subject, 20)}: {one_line(name, 200)}"
    if problem.rules.consent:
        subject = one_line(problem.rules.consent, 100)
        command = f"warpboard problem consent {problem.slug}"
        yield f"before you submit, read and accept {subject}: {command}"


def statement_lines(problem: FullProblem) -> Iterator[str]:
    """Return the author's text; markdown stays as it is."""
    statement = problem.statement or problem.description
    yield from escape_control_characters(statement).strip().splitlines() or [
        "its author wrote no statement"
    ]
    yield ""
    yield from _rule_lines(problem.rules)
    yield from _licence_lines(problem)
    if problem.files:
        names = ", ".join(one_line(file.name, 100) for file in problem.files)
        yield ""
        yield f"{count_text(len(problem.files), 'file')}: {names}; warpboard init {problem.slug}"


@api_command(
    "problem consent matmul --accept",
    parameters=(
        click.argument("problem", type=options.SLUG),
        click.option(
            *("--accept", "action"), flag_value=ACCEPT, default="", help="Accept the text."
        ),
        click.option(*("--withdraw", "action"), flag_value=WITHDRAW, help="Withdraw your consent."),
    ),
)
async def consent(context: AppContext, api: Api, problem: str, action: str) -> int:
    """Show the text that a PROBLEM asks you to accept.

    You must accept it before you submit to the problem.
    """
    path = ("problems", problem, "consent")
    if action == WITHDRAW:
        return await send_action(context, api, "DELETE", *path)
    answer = await api.get(Consent, *path)
    text = answer.value
    if action == ACCEPT and not text.is_asked:
        raise Refused("wrong_state", f"{problem} asks you to accept nothing", "problem")
    lines = [escape_control_characters(line) for line in text.text.splitlines()]
    if action == ACCEPT:
        if not context.as_json:
            context.show(None, lines)
        return await send_action(context, api, "POST", *path, body={"digest": text.digest})
    if not text.is_asked:
        return context.show(answer.document, [f"{problem} asks you to accept nothing"])
    state = "you accept it" if text.is_given else "you have not accepted it: --accept does"
    return context.show(answer.document, lines, f"{text.file} of {problem}; {state}")


def local_instant_text(at: datetime, zone: tzinfo | None = None) -> str:
    """Format an instant in UTC and in a zone, which defaults to this machine's.

    >>> from datetime import timedelta, timezone
    >>> cet, jst = (timezone(timedelta(hours=1), "CET"), timezone(timedelta(hours=9), "JST"))
    >>> local_instant_text(datetime(2026, 12, 1, 18, tzinfo=UTC), cet)
    '2026-12-01 18:00 UTC (2026-12-01 19:00 CET here)'
    >>> local_instant_text(datetime(9999, 12, 31, 18, tzinfo=UTC), jst)
    '9999-12-31 18:00 UTC'
    """
    utc_text = f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    try:
        local = at.astimezone(zone)
    except OverflowError:
        # Some use the last possible day for "never"; east of London it overflows.
        return utc_text
    if local.utcoffset() == UTC.utcoffset(None):
        return utc_text
    return f"{utc_text} ({local:%Y-%m-%d %H:%M %Z} here)"


NEVER = "none"
LEADERBOARDS = ("admin", "leaderboards")
VISIBILITY = click.option("--visibility", type=Choice(["public", "closed"]), help="Who sees it.")
QUOTA = click.option(
    *("--quota", "quotas"),
    metavar="QUOTA",
    multiple=True,
    help="How many submissions each participant may send: ranked=10/day, H100.test=60/hour.",
)
# Settings of a version, which are written into its files.
OF_VERSIONS = ("title", "ranking_by", "source_visible", "publish")
SOURCE_VISIBILITY = {
    "owner": "only by their owners",
    "after_close": "by their owners, and by all once the deadline is over",
    "always": "by all, at once",
}
PUBLICATION = {
    "never": "never",
    "after_close": "once the deadline is over",
    "always": "at any time",
}


class Deadline(click.ParamType[str]):
    """An instant, in UTC if it has no zone, or `none`, which removes the deadline."""

    name = "instant|none"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the instant as it is sent, or `none`; its local time is printed to stderr."""
        from shared.problems.competition import is_zoneless, parse_deadline

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


ALLOW_UNTESTED = click.option(
    *("--allow-untested", "allows_untested"),
    is_flag=True,
    help="Rank on GPU types although the check ran nothing on any of them.",
)


def split_publish_options(values: dict[str, Any]) -> dict[str, Any]:
    """Replace the values of PUBLISH_OPTIONS by `settings` of the version and `fields`.

    The fields are settings of the leaderboards, which are sent beside the files.
    """
    from shared.problems.warpboard_yml import PublishSettings

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
    return values | {"settings": settings, "fields": given_fields}


PUBLISH_OPTIONS = (
    click.option("--title", metavar="TEXT", help="The problem's title."),
    DEADLINE,
    VISIBILITY,
    QUOTA,
    click.option(
        "--ranking-by", type=Choice(tuple(RANKING_TEXTS)), help="How times combine into a score."
    ),
    click.option(
        "--source-visible",
        type=Choice(["owner", "after_close", "always"]),
        help="Who may read sources; default: everybody once the deadline is over.",
    ),
    click.option(
        "--publish",
        type=Choice(["never", "after_close", "always"]),
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
EDIT_OPTIONS = (
    options.PROBLEM,
    VISIBILITY,
    DEADLINE,
    click.option(
        *("--gpu", "gpus"),
        type=options.GPU,
        metavar="NAME",
        multiple=True,
        help="A GPU type from now on; may be repeated.",
    ),
    QUOTA,
    click.option(
        "--practice/--no-practice",
        default=None,
        help="Whether it takes submissions for practice after its deadline.",
    ),
    FORCE,
    ALLOW_UNTESTED,
    options.REASON,
)


def _edit_body(
    *,
    visibility: str | None,
    deadline: str | None,
    gpus: tuple[str, ...],
    quotas: tuple[str, ...],
    practice: bool | None,
    is_forced: bool,
    allows_untested: bool,
    reason: str,
) -> dict[str, Any]:
    fields = {"visibility": visibility, "gpus": gpus, "quotas": quotas}
    body: dict[str, Any] = {name: value for name, value in fields.items() if value}
    if deadline is not None:
        body["deadline_at"] = None if deadline == NEVER else deadline
    if practice is not None:
        body["practice"] = practice
    if not body:
        expected = "--visibility, --deadline, --practice, --gpu or --quota"
        raise click.UsageError(f"nothing to change: give {expected}")
    if is_forced:
        body["force"] = True
    if allows_untested:
        body["allow_untested"] = True
    return body | {"reason": reason}


@local_command(
    'leaderboard edit matmul --deadline "2026-12-24 18:00" --reason "a week longer"',
    'leaderboard edit matmul --gpu H100 --gpu B200 --reason "B200 is here"',
    parameters=EDIT_OPTIONS,
    access=options.PLATFORM,
)
async def edit_leaderboards(context: AppContext, slug: str, **values: Any) -> int:
    """Change the settings of your leaderboards.

    You give the deadline, practice, GPU types or quotas of your PROBLEM; the rest stays, as
    `leaderboard settings` shows it. A GPU type that is no longer named accepts no submissions; its
    entries stay.
    """
    body = _edit_body(**values)
    async with context.api() as api:
        return await send_action(context, api, "PUT", *LEADERBOARDS, slug, body=body)


@local_command(
    'admin leaderboard edit matmul --visibility closed --reason "a class"',
    'admin leaderboard edit matmul --deadline 2027-01-31T23:00:00Z --reason "longer"',
    parameters=EDIT_OPTIONS,
    access=options.OPERATOR,
)
async def edit_any_leaderboards(context: AppContext, slug: str, **values: Any) -> int:
    """Change the settings of a PROBLEM's leaderboards.

    You give visibility, deadline, practice, GPU types or quotas; the rest stays, as
    `leaderboard settings` shows it.
    """
    body = _edit_body(**values)
    async with context.operator_api() as api:
        return await send_action(context, api, "PUT", *LEADERBOARDS, slug, body=body)


@api_command("leaderboard settings matmul", parameters=(options.PROBLEM,), access=options.VIEWER)
async def show_settings(context: AppContext, api: Api, slug: str) -> int:
    """Show the settings of a PROBLEM's leaderboards.

    These are the deadline, GPU types, quotas and visibility, and those of its version.
    """
    answer = await api.get(LeaderboardSettings, "leaderboards", slug)
    return context.show(answer.document, settings_lines(answer.value))


def settings_lines(settings: LeaderboardSettings, zone: tzinfo | None = None) -> Iterator[str]:
    """Describe all settings, one line each; `zone` defaults to this machine's."""
    yield f"{settings.slug}, version {settings.problem_version}: {one_line(settings.title, 100)}"
    yield f"seen by {'everybody' if settings.visibility == 'public' else 'who was invited'}"
    if settings.is_archived:
        yield "archived: it takes nothing in any more"
    elif settings.deadline_at is None:
        yield "takes submissions in without a deadline"
    else:
        yield f"takes submissions in until {local_instant_text(settings.deadline_at, zone)}"
    if settings.has_practice:
        yield "takes submissions for practice after the deadline"
    closed = ", ".join(settings.gpus_closed)
    closed_note = f"; {closed} no more, whose entries stay" if closed else ""
    yield f"GPU types: {', '.join(settings.gpus) or NO_VALUE}{closed_note}"
    yield f"quotas of each participant: {', '.join(settings.quotas) or 'none'}"
    yield f"ranked by {RANKING_TEXTS.get(settings.ranking_by, NO_VALUE)}"
    yield f"sources are seen {SOURCE_VISIBILITY.get(settings.source_visible, NO_VALUE)}"
    yield f"submissions are published {PUBLICATION.get(settings.publish, NO_VALUE)}"
    for subject, name in settings.licence.items():
        yield f"licence of {one_line(subject, 20)}: {one_line(name, 200)}"
    if settings.contest:
        yield f"belongs to the contest {one_line(settings.contest, 100)}"
    if settings.consent:
        yield f"consent: {one_line(settings.consent, 100)}, accepted before one submits"
