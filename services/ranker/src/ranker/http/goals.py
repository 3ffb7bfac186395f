"""Baselines and milestones of a leaderboard."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query, Request
from msgspec import convert
from pydantic import Field

from ranker.domain.goals import (
    VERDICT_OUTCOMES,
    case_speedups,
    case_times_us,
    current_runs,
    is_measured,
    milestones_for_gpu,
    scores_us,
    speedup,
)
from ranker.domain.rows import LeaderboardKey
from ranker.http.access import CurrentReader, ReaderView, ReadSources
from ranker.http.responses import LIMIT_MAX, QueryParams, json_response
from ranker.service.leaderboard import key_values, read_ladder
from ranker.service.ports import Reads
from shared.api import baselines as models
from shared.clock import now
from shared.errors import Refused
from shared.events import Milestone
from shared.response_types import DocumentedRoute, TypedResponse

Row = dict[str, Any]
BaselineState = Literal["measured", "failed", "waiting", "absent"]
NO_RUN: Row = {"outcome": None, "state": None, "code": None, "score_us": None}


class LeaderboardGoals(NamedTuple):
    """The baselines and milestones of a leaderboard, and the baselines' scores."""

    baselines: list[models.Baseline]
    milestones: list[models.Milestone]
    scores_us: Mapping[str, float]

    def against(self, row: Row) -> Row:
        """A row of the leaderboard with its speed-ups."""
        speedups = {
            name: speedup(score_us, row["score_us"]) for name, score_us in self.scores_us.items()
        }
        return row | {"vs_baseline": {name: ratio for name, ratio in speedups.items() if ratio}}


class OwnMilestonesQuery(QueryParams):
    """How many of the reader's milestones to list."""

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 100


def goals_router(sources: ReadSources) -> APIRouter:
    """The route of the reader's own milestones."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.get("/v1/me/milestones")
    async def mine(
        request: Request, reader: CurrentReader, query: Annotated[OwnMilestonesQuery, Query()]
    ) -> TypedResponse[models.OwnMilestones]:
        """The reader's own milestones, newest first."""
        if reader.account is None:
            raise Refused(
                "missing_credential", "this list needs a token: it shows your own milestones"
            )
        (checkpoint,) = await sources.reads.rows("checkpoint")
        rows = await sources.view(reader).rows(
            "own_milestones", account=reader.account, limit=query.limit
        )
        items, seq = convert(rows, list[models.OwnMilestone]), checkpoint["seq"]
        return json_response(request, models.OwnMilestones(items=items, as_of=seq), seq)

    return router


async def read_goals(
    view: ReaderView, board: LeaderboardKey, at: datetime | None
) -> LeaderboardGoals:
    """Read the baselines and milestones of a leaderboard, now or at an instant. Raises Failed."""
    version = {"problem": board.problem, "number": board.problem_number}
    rows = await view.rows("goals", **version)
    if not rows or not (rows[0]["baselines"] or rows[0]["milestones"]):
        return LeaderboardGoals([], [], {})
    (goals,) = rows
    runs, reached, ladder = await asyncio.gather(
        view.rows("baselines", **version, gpu=board.gpu, at=at),
        view.rows("milestones_reached", problem=board.problem, gpu=board.gpu, until=at, at=now()),
        read_ladder(view.reads, board, 1, now()),
    )
    current = current_runs(runs)
    leader_us = ladder[0]["score_us"] if ladder and at is None else None
    shown_baselines = [
        _make_baseline(
            baseline, current.get(baseline["name"], NO_RUN), leader_us, view.authors(board.problem)
        )
        for baseline in goals["baselines"]
        if not baseline["gpus"] or board.gpu.lower() in {name.lower() for name in baseline["gpus"]}
    ]
    return LeaderboardGoals(
        baselines=sorted(
            shown_baselines, key=lambda baseline: (baseline.score_us or inf, baseline.name)
        ),
        milestones=_make_milestones(goals["milestones"], board.gpu, reached),
        scores_us=scores_us(current),
    )


def _make_baseline(
    baseline: Row, run: Mapping[str, Any], leader_us: float | None, is_authors: bool
) -> models.Baseline:
    """A baseline as readers see it; why it failed is only for its author."""
    has_score = run is not NO_RUN and is_measured(run)
    score_us = run["score_us"] if has_score else None
    has_interval = has_score and run["low_us"] is not None
    interval_us = (run["low_us"], run["high_us"]) if has_interval else None
    return models.Baseline(
        name=baseline["name"],
        note=baseline["note"],
        state=_baseline_state(run, is_measured=has_score),
        score_us=score_us,
        interval_us=interval_us,
        vs_leader=speedup(score_us, leader_us),
        grade=(run.get("grade") or "") if has_score else "",
        tier=run.get("tier"),
        level=run.get("level"),
        measured_at=run["finished_at"] if has_score else None,
        number=run.get("number") if is_authors else None,
        code=run["code"] if is_authors and not has_score else None,
        reason=run.get("reason") if is_authors and not has_score else None,
    )


def _baseline_state(run: Mapping[str, Any], *, is_measured: bool) -> BaselineState:
    if is_measured:
        return "measured"
    if run["outcome"] in VERDICT_OUTCOMES:
        return "failed"
    return "absent" if run["state"] in (None, "finished") else "waiting"


def _make_milestones(
    rows: Sequence[Row], gpu: str, reached: Sequence[Row]
) -> list[models.Milestone]:
    known = {row["milestone"]: row for row in reached}
    all_milestones = [Milestone(**row) for row in rows]
    return [
        _make_milestone(milestone, known.get(milestone.id, {}))
        for milestone in milestones_for_gpu(all_milestones, gpu)
    ]


def _make_milestone(milestone: Milestone, row: Row) -> models.Milestone:
    condition = {"metric": milestone.metric, "op": milestone.op, "value": milestone.value}
    return models.Milestone(
        id=milestone.id,
        title=milestone.title,
        when=convert(condition | {"gpu": milestone.gpu or None}, models.MilestoneCondition),
        reached=row.get("reached", 0),
        is_reached=row.get("reached_at") is not None,
        reached_at=row.get("reached_at"),
        number=row.get("number"),
    )


async def read_baseline_times(reads: Reads, board: LeaderboardKey) -> dict[str, dict[str, float]]:
    """The times of each measured baseline's cases, by name. Raises Failed."""
    current = current_runs(await reads.rows("baselines", **key_values(board), at=None))
    measured = [run["id"] for run in current.values() if is_measured(run)]
    rows = await reads.rows("baseline_cases", submissions=measured) if measured else []
    return {row["name"]: case_times_us(row["cases"]) for row in rows}


async def add_speedups(reads: Reads, board: LeaderboardKey, cases: list[Row]) -> list[Row]:
    """Add speed-ups to timed cases where there are any. Raises Failed."""
    if not case_times_us(cases):
        return cases
    times = await read_baseline_times(reads, board)
    if not times:
        return cases
    return [case | {"vs_baseline": case_speedups(case, times)} for case in cases]
