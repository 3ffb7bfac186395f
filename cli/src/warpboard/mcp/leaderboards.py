"""Tools that show standings: leaderboards, the caller's submissions, quotas."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from shared.api.baselines import Baseline, Milestone
from shared.api.leaderboards import Leaderboard
from shared.api.submissions import Balance, Balances, OwnSubmissions
from warpboard.mcp.context import Gpu, Name, Slug, ToolContext, ToolResponse
from warpboard.service.answers import balance_text, resolve_gpus

BOARDS_MAX = 16


class RankedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A participant's best eligible run, without what a model does not need."""

    rank: int
    number: int
    score_us: float
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
    """Every limit that applies; empty if there is none."""

    quotas: list[Balance]
    summary: str


async def leaderboard(
    context: ToolContext,
    problem: Slug,
    gpu: Annotated[Gpu | None, Meta(description="None means every GPU type with an entry.")] = None,
    limit: Annotated[int, Meta(ge=1, le=100, description="Entries of each leaderboard.")] = 20,
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
    problem: Annotated[Slug | None, Meta(description="None means all problems.")] = None,
    limit: Annotated[int, Meta(ge=1, le=100, description="How many, newest first.")] = 20,
    cursor: Annotated[Name | None, Meta(description="next_cursor of the page before.")] = None,
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
    problem: Annotated[Slug | None, Meta(description="None means all that were used.")] = None,
    gpu: Annotated[Gpu | None, Meta(description="With a problem; none means all it has.")] = None,
) -> QuotaResult:
    """Show how many submissions you have left, and until when."""
    if problem is None:
        balances = (await context.api.get(Balances, "quota")).value.items
    else:
        gpus = await resolve_gpus(context.api, problem, gpu)
        answers = [
            (await context.api.get(Balances, "quota", problem=problem, gpu=name)).value
            for name in gpus[:BOARDS_MAX]
        ]
        balances = [balance for answer in answers for balance in answer.items]
    summary = "; ".join(balance_text(balance) for balance in balances[:BOARDS_MAX])
    return QuotaResult(quotas=balances, summary=summary or "no limit holds for you")
