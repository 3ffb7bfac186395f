"""Tools and pages about problems: which there are, and all that one must know of one."""

from typing import Any

from warpboard.domain import starters
from warpboard.domain.answers import read
from warpboard.domain.problems import Problem
from warpboard.domain.problems import Problems as Page
from warpboard.domain.statements import RANKED_BY
from warpboard.domain.units import one_line
from warpboard.mcp import asks, bounds, tells
from warpboard.mcp.hands import Hands
from warpboard.service.ports import Api

PROBLEMS_MAX = 200
CASES_MAX = 64
FILES_MAX = 16
SOURCES = (".py", ".cu", ".cuh", ".cpp", ".h", ".hpp", ".md", ".yml", ".txt")
RULES = ("formula", "tolerances", "ties", "source_policy")


async def list_problems(hands: Hands, _: asks.ListProblems) -> tells.Problems:
    """Every problem in its newest version. Errors: Refused; Failed."""
    answer = await hands.api.get("problems", limit=PROBLEMS_MAX)
    found = read(answer, Page).items
    is_more = bool(answer.get("next_cursor"))
    return tells.Problems(
        problems=[_listed(one) for one in found],
        cut=[f"problems after the first {len(found)}"] if is_more else [],
    )


def _listed(found: Problem) -> tells.Listed:
    return tells.Listed(
        slug=found.slug,
        title=one_line(found.title, 200),
        gpus=found.gpus,
        languages=found.languages,
        ranking_by=found.ranking_by,
        deadline_at=found.deadline_at,
        state=found.state,
    )


async def read_task(hands: Hands, asked: asks.ReadTask) -> tells.Task:
    """A problem's statement, files, starter, rules and limits. Errors: Refused; Failed."""
    found = await problem(hands.api, asked.problem)
    types = starters.gpus(found, asked.gpus)
    start = starters.begun(found, asked.language)
    source = await hands.api.file("problems", found.slug, "templates", start.language, gpu=types)
    given, cut = await files(hands.api, found)
    statement, long = bounds.head(_statement(found, given), bounds.FILE_CHARS_MAX)
    cut += [f"statement: {long}"] if long else []
    kept = {one: text for one, text in given.items() if one not in found.templates.values()}
    return tells.Task(
        slug=found.slug,
        version=found.number,
        title=one_line(found.title, 200),
        statement=statement,
        gpus=found.gpus,
        languages=found.languages or ["python"],
        source_bytes_max=found.source_bytes_max,
        ranked_by=RANKED_BY.get(found.ranking_by, found.ranking_by),
        starter=tells.File(name=start.name, text=source.decode(errors="replace")),
        files=[tells.File(name=one, text=text) for one, text in kept.items()],
        rules=_rules(found),
        tests=_cases(found, "tests"),
        benchmarks=_cases(found, "benchmarks"),
        budgets_s=found.budgets_s,
        deadline_at=found.deadline_at,
        cut=cut,
    )


async def problem(api: Api, slug: str) -> Problem:
    """A problem whole. Errors: Refused; Failed."""
    return read(await api.get("problems", slug), Problem)


async def files(api: Api, found: Problem) -> tuple[dict[str, str], list[str]]:
    """The problem's text files that one may read, and what was left out of them."""
    texts: dict[str, str] = {}
    cut: list[str] = []
    left = bounds.FILES_CHARS_MAX
    named = [one.name for one in found.files if one.name.endswith(SOURCES)]
    for name in named[:FILES_MAX]:
        raw = await api.file("problems", found.slug, "files", name)
        text, long = bounds.head(
            raw.decode(errors="replace"), max(0, min(left, bounds.FILE_CHARS_MAX))
        )
        texts[name] = text
        left -= len(text)
        cut += [f"{name}: {long}"] if long else []
    others = [one.name for one in found.files if one.name not in texts]
    return texts, cut + ([f"files not shown: {', '.join(others[:20])}"] if others else [])


def _statement(found: Problem, given: dict[str, str]) -> str:
    """What the author says; a file of that name says it no second time."""
    page = given.pop("statement.md", "")
    return found.statement or page or found.description or found.title


def _rules(found: Problem) -> dict[str, str]:
    rules = found.rules
    said = {name: getattr(rules, name) for name in RULES} if rules else {}
    return {name: bounds.brief(text) for name, text in said.items() if text}


def _cases(found: Problem, kind: str) -> list[dict[str, Any]]:
    """The arguments of the public cases; the platform draws the seeds."""
    cases = found.rules.cases.get(kind, []) if found.rules else []
    return [dict(one.get("args", {})) for one in cases[:CASES_MAX]]


async def statement_page(hands: Hands, slug: str) -> str:
    """A problem as one page of text. Errors: Refused; Failed."""
    task = await read_task(hands, asks.ReadTask(problem=slug))
    rules = [f"- {name}: {text}" for name, text in task.rules.items()]
    parts = [
        f"# {task.title} ({task.slug}, version {task.version})",
        task.statement.strip(),
        f"GPU types: {', '.join(task.gpus)}. Ranked by {task.ranked_by}.",
        "\n".join(rules),
        *(f"## {one.name}\n\n```\n{one.text.rstrip()}\n```" for one in task.files),
        *(f"(left out: {one})" for one in task.cut),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


async def starter_page(hands: Hands, slug: str) -> str:
    """The file that a kernel for a problem begins as. Errors: Refused; Failed."""
    return (await read_task(hands, asks.ReadTask(problem=slug))).starter.text
