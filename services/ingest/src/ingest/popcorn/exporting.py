"""Leaderboards as a data set: every submission with its source, in one Parquet file."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from ingest.popcorn.asked import TAG, Asked
from ingest.popcorn.asking import STAFF
from ingest.popcorn.parquet import Row, parquet
from ingest.popcorn.parts import Parts
from ingest.popcorn.results import PUBLIC_MODES
from ingest.popcorn.seen import Listed, Problem
from ingest.popcorn.words import leaderboard_id, seconds
from shared.answers import Documented
from shared.errors import Refused
from shared.http import Live
from shared.reader import Reader
from shared.whole import Whole

LEADERBOARDS_MAX = 100
# Sources are asked for side by side, and exports one after the other: nobody waits for them.
AT_ONCE = 8
PARQUET = "application/vnd.apache.parquet"
COLUMNS = {
    "submission_id": "int64",
    "leaderboard_id": "int64",
    "leaderboard_name": "string",
    "problem_version": "int32",
    "user_id": "string",
    "user_name": "string",
    "gpu_type": "string",
    "mode": "string",
    "file_name": "string",
    "submission_time": "instant",
    "done": "bool_",
    "outcome": "string",
    "verdict": "string",
    "reason_code": "string",
    "eligible": "bool_",
    "deleted": "bool_",
    "score": "float64",
    "code": "string",
}
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {PARQUET: {"schema": {"type": "string", "format": "binary"}}}}
}


class Export(Asked):
    """Which leaderboards, under which name; private is all, else what everybody may see."""

    leaderboard_ids: Annotated[list[Whole], Field(min_length=1, max_length=LEADERBOARDS_MAX)]
    filename: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}\.parquet$")]
    private: bool


class Exported(Response):
    """A data set on its way; one at a time is made here."""

    def __init__(self, told: AsyncGenerator[bytes, None], name: str, turn: asyncio.Lock) -> None:
        super().__init__()
        self.told, self.name, self.turn = told, name, turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; Source: the ASGI specification."""
        said = f'attachment; filename="{self.name}"'
        async with self.turn:
            headers = {"Content-Type": PARQUET, "Content-Disposition": said}
            await Live(self.told, 200, headers)(scope, receive, send)


def exporting(parts: Parts) -> APIRouter:
    """The route, for admins alone: it shows everybody's sources."""
    router = APIRouter(prefix="/admin", tags=[TAG], route_class=Documented)
    exports, turn = parts.gate.operator("admin"), asyncio.Lock()

    @router.post("/export", response_class=Response, responses=ANSWER)
    async def export(body: Export, request: Request) -> Exported:
        """Leaderboards with all submissions and sources; while one takes them in, private only."""
        actor = await exports(request)
        boards = await _wanted(parts, body)
        what = "private" if body.private else "public"
        target = ", ".join(one.slug for one in boards)
        await parts.ingest.operators.acted("export", target, f"{what}: {body.filename}", actor)
        rows = _rows(parts, boards, STAFF if body.private else Reader())
        return Exported(parquet(rows, COLUMNS), body.filename, turn)

    return router


async def _wanted(parts: Parts, body: Export) -> list[Problem]:
    """The leaderboards that are meant. Errors: Refused; Failed."""
    known = {leaderboard_id(one.slug): one for one in await parts.asking.problems(STAFF)}
    strange = [one for one in body.leaderboard_ids if one not in known]
    if strange:
        what = f"there is no leaderboard {strange[0]}: GET /leaderboards?state=all lists them"
        raise Refused("unknown_leaderboard", what, "leaderboard_ids")
    boards = [known[one] for one in dict.fromkeys(body.leaderboard_ids)]
    for one in () if body.private else boards:
        _check_public(one, parts.clock())
    return boards


def _check_public(board: Problem, at: datetime) -> None:
    """Refuse to give away what is nobody's to see yet. Errors: Refused."""
    if board.visibility != "public":
        what = f"{board.slug} is closed: export it with private=true"
        raise Refused("private_only", what, "private")
    if board.deadline_at is None or board.deadline_at > at:
        what = f"{board.slug} still takes submissions in: export it with private=true"
        raise Refused("private_only", what, "private")


async def _rows(parts: Parts, boards: Sequence[Problem], reader: Reader) -> AsyncIterator[Row]:
    """Every submission that a reader sees, newest first, leaderboard by leaderboard.

    Where a problem asks for consent, nobody but staff sees those whose authors do not give it now.
    """
    for board in boards:
        batch: list[Listed] = []
        agreed: dict[str, bool] = {}
        async with aclosing(parts.asking.every({"problem": board.slug}, reader)) as lines:
            async for line in lines:
                if not (reader.is_staff or await _agrees(parts, line, agreed)):
                    continue
                batch.append(line)
                if len(batch) == AT_ONCE:
                    for row in await _sourced(parts, batch, reader):
                        yield row
                    batch = []
        for row in await _sourced(parts, batch, reader):
            yield row


async def _agrees(parts: Parts, one: Listed, known: dict[str, bool]) -> bool:
    """Whether a submission's author accepts what its problem asks for; each is asked about once."""
    if one.account not in known:
        known[one.account] = await parts.ingest.consents.stands(one.account, one.problem)
    return known[one.account]


async def _sourced(parts: Parts, batch: Sequence[Listed], reader: Reader) -> list[Row]:
    sources = await asyncio.gather(*(parts.asking.source(one.number, reader) for one in batch))
    return [_row(one, source) for one, source in zip(batch, sources, strict=True)]


def _row(one: Listed, source: str | None) -> Row:
    return {
        "submission_id": one.number,
        "leaderboard_id": leaderboard_id(one.problem),
        "leaderboard_name": one.problem,
        "problem_version": one.problem_number,
        "user_id": one.account,
        "user_name": one.participant,
        "gpu_type": one.gpu,
        "mode": PUBLIC_MODES.get(one.mode, one.mode),
        "file_name": one.name or None,
        "submission_time": one.received_at,
        "done": one.state == "finished",
        "outcome": one.outcome,
        "verdict": one.verdict,
        "reason_code": one.code,
        "eligible": one.is_eligible,
        "deleted": one.is_withdrawn,
        "score": seconds(one.score_us) if one.is_eligible else None,
        "code": source,
    }
