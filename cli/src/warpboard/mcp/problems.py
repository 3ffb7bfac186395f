"""Tools, resources and the prompt about problems, and tools that show standings."""

from string import Template
from typing import Annotated

import msgspec
from pydantic import Field

from shared.api.leaderboards import Leaderboard
from shared.api.problems import FullProblem, Problems
from shared.api.quotas import Balances
from shared.presentation.units import one_line
from warpboard.api import Api
from warpboard.files import read_template
from warpboard.mcp.context import (
    FILE_CHARS_MAX,
    FILES_CHARS_MAX,
    Gpu,
    Gpus,
    Name,
    Slug,
    ToolContext,
    ToolResult,
    head,
)
from warpboard.service.answers import (
    choose_gpus,
    choose_starter,
    list_own_submissions,
    resolve_gpus,
)

PROBLEMS_MAX = 100
FILES_MAX = 16
SOURCES = (".py", ".cu", ".cuh", ".cpp", ".h", ".hpp", ".md", ".yml", ".txt")
TASK_URI = "warpboard://problems/{slug}"
STARTER_URI = f"{TASK_URI}/starter"
NAME_LENGTH_MAX = 95
Cursor = Annotated[Name | None, Field(description="next_cursor of the page before.")]


class TaskFile(msgspec.Struct, frozen=True):
    """A text file."""

    name: str
    text: str


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, the file to start from, and the problem's own files."""

    problem: FullProblem
    starter: TaskFile
    files: list[TaskFile]


async def list_problems(context: ToolContext, cursor: Cursor = None) -> ToolResult:
    """List the problems you can write kernels for, with their GPU types and deadlines."""
    return ToolResult(await load_problems(context, cursor))


async def load_problems(context: ToolContext, cursor: str | None = None) -> Problems:
    """Return a page of problems. Raises Refused and Failed."""
    return (await context.api.get(Problems, "problems", limit=PROBLEMS_MAX, cursor=cursor)).value


async def read_task(
    context: ToolContext,
    problem: Slug,
    gpus: Annotated[Gpus, Field(description="The GPU types for the starter; none means all.")] = (),
    language: Annotated[
        str | None, Field(description="The language of the starter file, such as Python or CUDA.")
    ] = None,
) -> ToolResult:
    """Read everything needed to solve a problem: statement, reference, starter file, rules, cases,
    GPU types and time budgets.
    """
    details = await load_problem(context.api, problem)
    chosen_gpus = choose_gpus(details, gpus, details.gpus)
    starter = choose_starter(details, language)
    path = ("problems", problem, "templates", starter.language)
    source = (await context.api.file(*path, gpu=chosen_gpus)).decode(errors="replace")
    files, cut = await _load_files(context.api, details)
    # A file of this name repeats the statement.
    page = next((file.text for file in files if file.name == "statement.md"), "")
    statement = details.statement or page or details.description
    task = Task(
        problem=msgspec.structs.replace(details, statement=statement, files=[], starts=[]),
        starter=TaskFile(starter.name, source),
        files=[file for file in files if file.name != "statement.md"],
    )
    return ToolResult(task, cut=cut)


async def load_problem(api: Api, slug: str) -> FullProblem:
    """Return a problem. Raises Refused and Failed."""
    return (await api.get(FullProblem, "problems", slug)).value


async def _load_files(api: Api, problem: FullProblem) -> tuple[list[TaskFile], list[str]]:
    """Return the problem's readable files without its templates, and what was left out."""
    files: list[TaskFile] = []
    cut: list[str] = []
    remaining_chars = FILES_CHARS_MAX
    known = [file.name for file in problem.files if file.name not in problem.templates.values()]
    readable = [name for name in known if name.endswith(SOURCES)][:FILES_MAX]
    for name in readable:
        data = await api.file("problems", problem.slug, "files", name)
        text, note = head(data.decode(errors="replace"), min(remaining_chars, FILE_CHARS_MAX))
        files.append(TaskFile(name, text))
        remaining_chars -= len(text)
        cut += [f"{name}: {note}"] if note else []
    omitted = [name for name in known if name not in readable]
    return files, cut + ([f"files: {', '.join(omitted[:20])}"] if omitted else [])


async def render_page(context: ToolContext, slug: str) -> str:
    """Return a problem as one page of text. Raises Refused and Failed."""
    problem = await load_problem(context.api, slug)
    files, cut = await _load_files(context.api, problem)
    parts = [
        f"# {one_line(problem.title, 200)} ({problem.slug}, version {problem.problem_version})",
        head(problem.statement or problem.description, FILE_CHARS_MAX)[0].strip(),
        f"GPU types: {', '.join(problem.gpus)}. Ranked by: {problem.rules.formula}",
        *(f"## {file.name}\n\n```\n{file.text.rstrip()}\n```" for file in files),
        *(f"(left out: {item})" for item in cut),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


async def render_starter(context: ToolContext, slug: str) -> str:
    """Return the starter file of a problem. Raises Refused and Failed."""
    problem = await load_problem(context.api, slug)
    path = ("problems", slug, "templates", choose_starter(problem, None).language)
    return (await context.api.file(*path, gpu=problem.gpus)).decode(errors="replace")


def optimise(
    problem: Annotated[
        str,
        Field(
            min_length=1,
            max_length=NAME_LENGTH_MAX,
            description="The problem's slug; list_problems has them.",
        ),
    ],
    gpu: Annotated[
        str, Field(description="The GPU type to optimise for; default: the problem's first.")
    ] = "",
) -> str:
    """Make a kernel for a problem correct, then faster, in measured steps."""
    gpu = gpu.strip()[:NAME_LENGTH_MAX] or "the first GPU type of read_task"
    return Template(read_template("optimise.md")).substitute(problem=problem.strip(), gpu=gpu)


async def leaderboard(
    context: ToolContext,
    problem: Slug,
    gpu: Annotated[
        Gpu | None, Field(description="None means the first; gpu_leaderboards has the others.")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=100, description="How many entries.")] = 20,
    cursor: Cursor = None,
) -> ToolResult:
    """Show a problem's leaderboard on a GPU type, best first: the times to beat; and baselines,
    which have no rank.
    """
    path = ("leaderboards", problem, (await resolve_gpus(context.api, problem, gpu))[0])
    return ToolResult((await context.api.get(Leaderboard, *path, limit=limit, cursor=cursor)).value)


async def my_submissions(
    context: ToolContext,
    problem: Annotated[Slug | None, Field(description="None means all problems.")] = None,
    limit: Annotated[int, Field(ge=1, le=100, description="How many, newest first.")] = 20,
    cursor: Cursor = None,
) -> ToolResult:
    """List your own submissions, newest first, with verdicts and scores."""
    query = {"limit": limit, "problem": problem, "cursor": cursor}
    return ToolResult((await list_own_submissions(context.api, **query)).value)


async def quota(
    context: ToolContext,
    problem: Annotated[Slug | None, Field(description="None means all that were used.")] = None,
    gpu: Annotated[Gpu | None, Field(description="With a problem that has several.")] = None,
) -> ToolResult:
    """Show what is left of each quota that applies to you, until when, and how many submissions
    are open and may be at once. Quotas with a contest are of its current phase.
    """
    return ToolResult((await context.api.get(Balances, "quota", problem=problem, gpu=gpu)).value)
