"""What stands beside a leaderboard's rows: the baselines, and who reached which milestone."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Annotated, Any, Literal, NamedTuple, cast

from fastapi import FastAPI, Query, Request
from pydantic import Field

from ranker.domain import baselines, milestones
from ranker.http.access import Asker, Seen
from ranker.http.answers import LIMIT_MAX, Asking, answered
from ranker.http.ranks import seconds
from ranker.http.shapes import goals as shapes
from ranker.service import Board, Reads
from ranker.service.top import read_ladder
from shared.answers import Answer
from shared.clock import now
from shared.errors import Refused
from shared.events import Milestone

Row = dict[str, Any]
State = Literal["measured", "failed", "waiting", "absent"]
NOTHING: Row = {"outcome": None, "state": None, "code": None, "score_us": None}


class Beside(NamedTuple):
    """The baselines and milestones of a leaderboard, and what each baseline scored."""

    baselines: list[shapes.Baseline]
    milestones: list[shapes.Milestone]
    scores_us: Mapping[str, float]

    def against(self, row: Row) -> Row:
        """A row of the leaderboard with its speed-ups."""
        found = {
            name: baselines.speedup(score_us, row["score_us"])
            for name, score_us in self.scores_us.items()
        }
        return row | {"vs_baseline": {name: one for name, one in found.items() if one}}


class OwnQuery(Asking):
    """How many of one's milestones."""

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 100


def own_milestones(app: FastAPI, reads: Reads) -> None:
    """The read of what a participant reached."""

    @app.get("/v1/me/milestones")
    async def mine(
        request: Request, who: Asker, query: Annotated[OwnQuery, Query()]
    ) -> Answer[shapes.OwnMilestones]:
        """The milestones that one reached, newest first."""
        if who.account is None:
            raise Refused("missing_credential", "say who you are: this list is your own")
        (checkpoint,) = await reads.rows("checkpoint")
        rows = await Seen(reads, who).rows("own_milestones", account=who.account, limit=query.limit)
        items = cast("list[shapes.OwnMilestone]", rows)
        return answered(request, {"items": items, "as_of": checkpoint["seq"]}, checkpoint["seq"])


async def beside(seen: Seen, board: Board, at: datetime | None) -> Beside:
    """What stands beside a leaderboard, now or as of an instant. Errors: Failed."""
    which = {"problem": board.problem, "number": board.problem_number}
    found = await seen.rows("goals", **which)
    if not found or not (found[0]["baselines"] or found[0]["milestones"]):
        return Beside([], [], {})
    (goals,) = found
    runs, reached, ladder = await asyncio.gather(
        seen.rows("baselines", **which, gpu=board.gpu, at=at),
        seen.rows("milestones_reached", problem=board.problem, gpu=board.gpu, until=at, at=now()),
        read_ladder(seen.reads, board, 1, now()),
    )
    standing = baselines.standing(runs)
    leader_us = ladder[0]["score_us"] if ladder and at is None else None
    shown = [
        _baseline(one, standing.get(one["name"], NOTHING), leader_us, seen.authors(board.problem))
        for one in goals["baselines"]
        if _is_for(one["gpus"], board.gpu)
    ]
    return Beside(
        baselines=sorted(shown, key=lambda one: (one["score_us"] or inf, one["name"])),
        milestones=_milestones(goals["milestones"], board.gpu, reached),
        scores_us=baselines.scores_us(standing),
    )


def _is_for(gpus: Sequence[str], gpu: str) -> bool:
    return not gpus or gpu.lower() in {one.lower() for one in gpus}


def _baseline(
    asked: Row, run: Mapping[str, Any], leader_us: float | None, is_authors: bool
) -> shapes.Baseline:
    """A baseline as it is shown: why it failed, to its author alone."""
    is_measured = run is not NOTHING and baselines.is_measured(run)
    score_us = run["score_us"] if is_measured else None
    low_us = run["low_us"] if is_measured else None
    high_us = run["high_us"] if is_measured else None
    ci95 = None
    if low_us is not None and high_us is not None:
        ci95 = [low_us * milestones.US, high_us * milestones.US]
    return {
        "name": asked["name"],
        "note": asked["note"],
        "state": _state(run, is_measured=is_measured),
        "score_us": score_us,
        "score": seconds(score_us),
        "low_us": low_us,
        "high_us": high_us,
        "ci95": ci95,
        "vs_leader": baselines.speedup(score_us, leader_us),
        "grade": (run.get("grade") or "") if is_measured else "",
        "tier": run.get("tier"),
        "level": run.get("level"),
        "measured_at": run["finished_at"] if is_measured else None,
        "number": run.get("number") if is_authors else None,
        "code": run["code"] if is_authors and not is_measured else None,
        "reason": run.get("reason") if is_authors and not is_measured else None,
    }


def _state(run: Mapping[str, Any], *, is_measured: bool) -> State:
    if is_measured:
        return "measured"
    if run["outcome"] in baselines.SAID:
        return "failed"
    return "absent" if run["state"] in (None, "finished") else "waiting"


def _milestones(asked: Sequence[Row], gpu: str, reached: Sequence[Row]) -> list[shapes.Milestone]:
    known = {row["milestone"]: row for row in reached}
    every = [Milestone(**one) for one in asked]
    return [_milestone(one, known.get(one.id, {})) for one in milestones.on(every, gpu)]


def _milestone(one: Milestone, row: Row) -> shapes.Milestone:
    return {
        "id": one.id,
        "title": one.title,
        "when": cast(
            "shapes.When",
            {"metric": one.metric, "op": one.op, "value": one.value, "gpu": one.gpu or None},
        ),
        "reached": row.get("reached", 0),
        "is_reached": row.get("reached_at") is not None,
        "reached_at": row.get("reached_at"),
        "number": row.get("number"),
    }


async def case_times(reads: Reads, board: Board) -> dict[str, dict[str, float]]:
    """The times of each measured baseline's cases, by their names. Errors: Failed."""
    named = {"problem": board.problem, "gpu": board.gpu, "number": board.problem_number}
    standing = baselines.standing(await reads.rows("baselines", **named, at=None))
    measured = [run["id"] for run in standing.values() if baselines.is_measured(run)]
    rows = await reads.rows("baseline_cases", submissions=measured) if measured else []
    return {row["name"]: baselines.times_us(row["cases"]) for row in rows}


async def compared(reads: Reads, board: Board, cases: list[Row]) -> list[Row]:
    """Cases, each timed one with its speed-ups where there are some. Errors: Failed."""
    if not baselines.times_us(cases):
        return cases
    times = await case_times(reads, board)
    if not times:
        return cases
    return [case | {"vs_baseline": baselines.against(case, times)} for case in cases]
