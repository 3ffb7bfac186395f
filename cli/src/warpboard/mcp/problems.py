"""Tools, resources and the prompt about problems, and tools that show standings."""

from collections.abc import Sequence
from datetime import datetime
from string import Template
from typing import Annotated, Any

import msgspec
from msgspec import structs
from pydantic import Field

from harness.ranking_rules import RANKING_TEXTS
from shared.api.cases import Baseline, Milestone
from shared.api.leaderboards import Leaderboard
from shared.api.problems import FullProblem, Problems
from shared.api.quotas import Balance, Balances, OpenSubmissions
from shared.api.submissions import OwnSubmissions
from shared.presentation.outcome import shortcuts_text
from shared.presentation.report_parts import open_submissions_text
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
    ToolResponse,
    head,
    shorten,
)
from warpboard.service.answers import balance_text, choose_gpus, choose_starter, resolve_gpus

PROBLEMS_MAX = 200
CASES_MAX = 64
FILES_MAX = 16
SOURCES = (".py", ".cu", ".cuh", ".cpp", ".h", ".hpp", ".md", ".yml", ".txt")
RULES = ("formula", "tolerances", "ties", "source_policy")
TASK_URI = "warpboard://problems/{slug}"
STARTER_URI = f"{TASK_URI}/starter"
NAME_LENGTH_MAX = 95
BOARDS_MAX = 16


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
    gpus: Annotated[Gpus, Field(description="The GPU types for the starter; none means all.")] = (),
    language: Annotated[
        str | None, Field(description="The language of the starter file, such as Python or CUDA.")
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
    rules["not_allowed"] = shortcuts_text(problem.rules.shortcuts)
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


async def render_page(context: ToolContext, slug: str) -> str:
    """Return a problem as one page of text. Raises Refused and Failed."""
    task = await _load_task(context.api, slug)
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


async def render_starter(context: ToolContext, slug: str) -> str:
    """Return the starter file of a problem. Raises Refused and Failed."""
    return (await _load_task(context.api, slug)).starter.text


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


class RankedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A participant's best eligible run, without what a model does not need."""

    rank: int
    number: int
    score_us: float
    best_rank: int | None = None
    participant: str | None = None
    interval_us: tuple[float, float] | None = None
    received_at: datetime | None = None
    tier: str | None = None
    level: str | None = None
    is_tied: bool = False
    pooled_over: list[int] = []
    grade: str = ""
    is_provisional: bool = False
    roofline_fraction: float | None = None
    vs_baseline: dict[str, float] = {}
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None
    duel: str = ""
    confirmation: str = ""


class OwnSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """A submission of the caller in a list."""

    number: int
    problem: str
    gpu: str
    mode: str
    name: str
    state: str
    participant: str | None = None
    received_at: datetime | None = None
    outcome: str | None = None
    verdict: str | None = None
    is_eligible: bool = False
    score_us: float | None = None
    pooled_over: list[int] = []
    tag: str | None = None


class LeaderboardResult(ToolResponse, frozen=True, kw_only=True):
    """One leaderboard, best first; baselines, which the platform ran, have no rank."""

    gpu: str
    problem_version: int
    entries: list[RankedEntry]
    baselines: list[Baseline] = []
    milestones: list[Milestone] = []


class LeaderboardsResult(ToolResponse, frozen=True, kw_only=True):
    """The leaderboards of a problem."""

    problem: str
    boards: list[LeaderboardResult]
    empty: list[str] = []
    cut: list[str] = []


class MySubmissionsResult(ToolResponse, frozen=True, kw_only=True):
    """The caller's submissions, newest first."""

    submissions: list[OwnSubmission]
    next_cursor: str | None = None


class QuotaResult(ToolResponse, frozen=True, kw_only=True):
    """Every quota that applies, and how many submissions are open and may be at once."""

    quotas: list[Balance]
    open_submissions: OpenSubmissions
    summary: str


async def leaderboard(
    context: ToolContext,
    problem: Slug,
    gpu: Annotated[
        Gpu | None, Field(description="None means every GPU type with an entry.")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=100, description="Entries of each leaderboard.")] = 20,
) -> LeaderboardsResult:
    """Show a problem's leaderboards, best first: the times to beat."""
    gpus = await resolve_gpus(context.api, problem, gpu)
    boards, empty, cut = [], [], []
    for name in gpus[:BOARDS_MAX]:
        path = ("leaderboards", problem, name)
        board = (await context.api.get(Leaderboard, *path, limit=limit)).value
        measured = [baseline for baseline in board.baselines if baseline.score_us is not None]
        if not (board.items or measured or board.milestones):
            empty.append(board.gpu)
            continue
        boards.append(
            LeaderboardResult(
                gpu=board.gpu,
                problem_version=board.problem_version,
                entries=msgspec.convert(
                    board.items[:limit], list[RankedEntry], from_attributes=True
                ),
                baselines=measured,
                milestones=board.milestones,
            )
        )
        if board.next_cursor or len(board.items) > limit:
            cut.append(f"{board.gpu}: entries after the first {limit}")
    cut += [f"GPU types: {', '.join(gpus[BOARDS_MAX:])}"] if gpus[BOARDS_MAX:] else []
    return LeaderboardsResult(problem=problem, boards=boards, empty=empty, cut=cut)


async def my_submissions(
    context: ToolContext,
    problem: Annotated[Slug | None, Field(description="None means all problems.")] = None,
    limit: Annotated[int, Field(ge=1, le=100, description="How many, newest first.")] = 20,
    cursor: Annotated[Name | None, Field(description="next_cursor of the page before.")] = None,
) -> MySubmissionsResult:
    """List your own submissions, newest first, with verdicts and scores."""
    path = ("me", "submissions")
    answer = await context.api.get(
        OwnSubmissions, *path, limit=limit, problem=problem, cursor=cursor
    )
    return MySubmissionsResult(
        submissions=msgspec.convert(answer.value.items, list[OwnSubmission], from_attributes=True),
        next_cursor=answer.value.next_cursor,
    )


async def quota(
    context: ToolContext,
    problem: Annotated[Slug | None, Field(description="None means all that were used.")] = None,
    gpu: Annotated[Gpu | None, Field(description="With a problem; none means all it has.")] = None,
) -> QuotaResult:
    """Show how many submissions you have left, until when, and how many are open."""
    gpus = [None] if problem is None else await resolve_gpus(context.api, problem, gpu)
    answers = [
        (await context.api.get(Balances, "quota", problem=problem, gpu=name)).value
        for name in gpus[:BOARDS_MAX]
    ]
    balances = [balance for answer in answers for balance in answer.items]
    texts = [balance_text(balance) for balance in balances[:BOARDS_MAX]]
    open_submissions = answers[0].open_submissions
    summary = [*(texts or ["no quota applies to you"]), open_submissions_text(open_submissions)]
    return QuotaResult(
        quotas=balances, open_submissions=open_submissions, summary="; ".join(summary)
    )
