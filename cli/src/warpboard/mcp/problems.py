"""Tools, resources and the prompt about problems."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from string import Template
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from shared.api.problems import FullProblem, Problems
from shared.errors import Refused
from shared.presentation.units import one_line
from shared.ranking_rules import RANKING_TEXTS
from warpboard.api import Api
from warpboard.files import read_template
from warpboard.mcp.context import (
    FILE_CHARS_MAX,
    FILES_CHARS_MAX,
    Gpus,
    Slug,
    ToolContext,
    ToolResponse,
    head,
    shorten,
)
from warpboard.service.starters import choose_gpus, choose_starter

PROBLEMS_MAX = 200
CASES_MAX = 64
FILES_MAX = 16
SOURCES = (".py", ".cu", ".cuh", ".cpp", ".h", ".hpp", ".md", ".yml", ".txt")
RULES = ("formula", "tolerances", "ties", "source_policy")
SCHEME = "warpboard://problems/"
STARTER = "/starter"
PAGE_TYPE, SOURCE_TYPE = "text/markdown", "text/plain"
TEMPLATES = (
    (f"{SCHEME}{{slug}}", "task", "A problem: statement, reference, rules.", PAGE_TYPE),
    (f"{SCHEME}{{slug}}{STARTER}", "starter", "The starter file for a kernel.", SOURCE_TYPE),
)
PROMPT = "optimise"
PROMPT_ABOUT = "Make a kernel for a problem correct, then faster, in measured steps."
PROMPT_ARGUMENTS = (
    ("problem", "The problem's slug; list_problems has them.", True),
    ("gpu", "The GPU type to optimise for; default: the problem's first.", False),
)
NAME_LENGTH_MAX = 95


class ProblemSummary(ToolResponse, frozen=True, kw_only=True):
    """A problem in a list."""

    slug: str
    title: str
    gpus: list[str]
    languages: list[str] = []
    ranking_by: str = ""
    deadline_at: datetime | None = None
    state: str = ""


class ProblemsResult(ToolResponse, frozen=True, kw_only=True):
    """The problems that the caller may see."""

    problems: list[ProblemSummary]
    cut: list[str] = []


class TaskFile(ToolResponse, frozen=True, kw_only=True):
    """A text file."""

    name: str
    text: str


class Task(ToolResponse, frozen=True, kw_only=True):
    """Everything needed to write a kernel for a problem."""

    slug: str
    problem_version: int
    title: str
    statement: str
    gpus: list[str]
    languages: list[str]
    source_bytes_max: int
    ranked_by: str
    starter: TaskFile
    files: list[TaskFile]
    rules: dict[str, str] = {}
    tests: list[dict[str, Any]] = []
    benchmarks: list[dict[str, Any]] = []
    budgets_s: dict[str, float] = {}
    deadline_at: datetime | None = None
    cut: list[str] = []


async def list_problems(context: ToolContext) -> ProblemsResult:
    """List the problems you can write kernels for, with their GPU types and deadlines."""
    page = (await context.api.get(Problems, "problems", limit=PROBLEMS_MAX)).value
    problems = [
        structs.replace(problem, title=one_line(problem.title, 200))
        for problem in msgspec.convert(page.items, list[ProblemSummary], from_attributes=True)
    ]
    cut = [f"problems after the first {len(problems)}"] if page.next_cursor else []
    return ProblemsResult(problems=problems, cut=cut)


async def read_task(
    context: ToolContext,
    problem: Slug,
    gpus: Annotated[Gpus, Meta(description="The GPU types for the starter; none means all.")] = (),
    language: Annotated[
        str | None, Meta(description="The language of the starter file, such as Python or CUDA.")
    ] = None,
) -> Task:
    """Read everything needed to solve a problem: statement, reference, starter file, rules, cases,
    GPU types and time budgets.
    """
    return await _load_task(context.api, problem, gpus, language)


async def _load_task(
    api: Api, slug: str, requested_gpus: Sequence[str] = (), language: str | None = None
) -> Task:
    problem = await load_problem(api, slug)
    gpus = choose_gpus(problem, requested_gpus, problem.gpus)
    starter = choose_starter(problem, language)
    source = await api.file("problems", slug, "templates", starter.language, gpu=gpus)
    texts, cut = await load_files(api, problem)
    # A file of this name repeats the statement.
    page = texts.pop("statement.md", "")
    statement = problem.statement or page or problem.description or problem.title
    statement, cut_note = head(statement, FILE_CHARS_MAX)
    cut += [f"statement: {cut_note}"] if cut_note else []
    rules = {name: getattr(problem.rules, name) for name in RULES}
    return Task(
        slug=problem.slug,
        problem_version=problem.problem_version,
        title=one_line(problem.title, 200),
        statement=statement,
        gpus=problem.gpus,
        languages=problem.languages or ["python"],
        source_bytes_max=problem.source_bytes_max,
        ranked_by=RANKING_TEXTS.get(problem.ranking_by, problem.ranking_by),
        starter=TaskFile(name=starter.name, text=source.decode(errors="replace")),
        files=[
            TaskFile(name=name, text=text)
            for name, text in texts.items()
            if name not in problem.templates.values()
        ],
        rules={name: shorten(text) for name, text in rules.items() if text},
        tests=[case.args for case in problem.rules.cases.tests[:CASES_MAX]],
        benchmarks=[case.args for case in problem.rules.cases.benchmarks[:CASES_MAX]],
        budgets_s=problem.budgets_s,
        deadline_at=problem.deadline_at,
        cut=cut,
    )


async def load_problem(api: Api, slug: str) -> FullProblem:
    """Return a problem. Raises Refused and Failed."""
    return (await api.get(FullProblem, "problems", slug)).value


async def load_files(api: Api, problem: FullProblem) -> tuple[dict[str, str], list[str]]:
    """Return the problem's readable text files, and what was left out."""
    texts: dict[str, str] = {}
    cut: list[str] = []
    remaining_chars = FILES_CHARS_MAX
    names = [file.name for file in problem.files if file.name.endswith(SOURCES)]
    for name in names[:FILES_MAX]:
        data = await api.file("problems", problem.slug, "files", name)
        text, cut_note = head(
            data.decode(errors="replace"), max(0, min(remaining_chars, FILE_CHARS_MAX))
        )
        texts[name] = text
        remaining_chars -= len(text)
        cut += [f"{name}: {cut_note}"] if cut_note else []
    omitted = [file.name for file in problem.files if file.name not in texts]
    return texts, cut + ([f"files not shown: {', '.join(omitted[:20])}"] if omitted else [])


async def _render_page(api: Api, slug: str) -> str:
    """Return a problem as one page of text. Raises Refused and Failed."""
    task = await _load_task(api, slug)
    rules = [f"- {name}: {text}" for name, text in task.rules.items()]
    parts = [
        f"# {task.title} ({task.slug}, version {task.problem_version})",
        task.statement.strip(),
        f"GPU types: {', '.join(task.gpus)}. Ranked by {task.ranked_by}.",
        "\n".join(rules),
        *(f"## {file.name}\n\n```\n{file.text.rstrip()}\n```" for file in task.files),
        *(f"(left out: {item})" for item in task.cut),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


async def list_resources(context: ToolContext) -> list[tuple[str, str, str, str]]:
    """Return the resources of all problems: URI, name, description and media type.

    Raises Refused and Failed.
    """
    entries = []
    for problem in (await list_problems(context)).problems:
        uri, slug, title = f"{SCHEME}{problem.slug}", problem.slug, problem.title
        entries.append((uri, slug, f"The task {title}.", PAGE_TYPE))
        about = f"The starter file for {title}."
        entries.append((f"{uri}{STARTER}", f"{slug} starter", about, SOURCE_TYPE))
    return entries


async def read_resource(context: ToolContext, uri: str) -> tuple[str, str]:
    """Return a resource's text and type. Raises Refused and Failed."""
    slug = uri.removeprefix(SCHEME)
    if slug == uri or not slug:
        known = " and ".join(uri for uri, *_ in TEMPLATES)
        raise Refused("unknown_page", f"there is no page {uri!r}: there are {known}", "uri")
    if slug.endswith(STARTER):
        task = await _load_task(context.api, slug.removesuffix(STARTER))
        return task.starter.text, SOURCE_TYPE
    return await _render_page(context.api, slug), PAGE_TYPE


def render_prompt(name: str, arguments: Mapping[str, str]) -> str:
    """Return the prompt for a problem. Raises Refused and names the missing argument."""
    if name != PROMPT:
        raise Refused("unknown_prompt", f"there is no prompt {name!r}: {PROMPT}", "name")
    problem = arguments.get("problem", "").strip()
    if not problem or len(problem) > NAME_LENGTH_MAX:
        raise Refused("bad_argument", "name the problem by its slug", "problem")
    gpu = arguments.get("gpu", "").strip()[:NAME_LENGTH_MAX] or "the first GPU type of read_task"
    return Template(read_template("optimise.md")).substitute(problem=problem, gpu=gpu)
