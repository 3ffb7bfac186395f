"""Commands that show problems, and the text that a problem asks participants to accept."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo

import click
import msgspec

from shared.api.accounts import Consent
from shared.api.problems import FullProblem, Problem, Problems, Rules
from shared.errors import Refused
from shared.presentation.outcome import shortcuts_text
from shared.presentation.units import (
    NO_VALUE,
    count_text,
    escape_control_characters,
    one_line,
    seconds_text,
)
from shared.ranking_rules import RANKING_TEXTS
from warpboard.api import Api
from warpboard.context import AppContext, send_action
from warpboard.domain.tables import Table, make_table
from warpboard.terminal import options
from warpboard.terminal.command_types import api_command

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


def header_lines(problem: FullProblem, zone: tzinfo | None = None) -> Iterator[str]:
    """Describe a problem's name, GPU types, limits, ranking and deadline."""
    yield f"{problem.slug}, version {problem.problem_version}: {one_line(problem.title, 100)}"
    yield f"GPU types: {', '.join(problem.gpus) or NO_VALUE}"
    languages = ", ".join(problem.languages) or "python"
    limit = f", at most {problem.source_bytes_max:,} bytes" if problem.source_bytes_max else ""
    yield f"one file in {languages}{limit}"
    counts = ", ".join(
        count_text(number, kind.removesuffix("s")) for kind, number in problem.cases_count.items()
    )
    rule = RANKING_TEXTS.get(problem.ranking_by, NO_VALUE)
    yield f"cases: {counts or NO_VALUE}; ranked by {rule}"
    if problem.budgets_s:
        budgets = (f"{stage} {seconds_text(value)}" for stage, value in problem.budgets_s.items())
        yield f"budgets: {', '.join(budgets)}"
    if problem.visibility == "closed":
        yield "closed: only who was invited sees it"
    if problem.deadline_at is not None:
        yield f"deadline: {local_instant_text(problem.deadline_at, zone)}"
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
        "its author says nothing more"
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
