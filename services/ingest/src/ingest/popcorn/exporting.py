"""Leaderboards as a data set: every submission with its source, in one Parquet file."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from ingest.domain.callers import check_scope
from ingest.domain.releases import agrees
from ingest.popcorn.asked import TAG, Asked
from ingest.popcorn.asking import STAFF
from ingest.popcorn.parquet import Row, parquet
from ingest.popcorn.parts import Parts
from ingest.popcorn.results import PUBLIC_MODES
from ingest.popcorn.seen import Listed, Problem
from ingest.popcorn.words import leaderboard_id, seconds
from shared.answers import Documented
from shared.errors import Refused
from shared.events import ProblemPublished
from shared.http import Live
from shared.reader import Reader
from shared.whole import Whole

LEADERBOARDS_MAX = 100
# Of each leaderboard the versions that are passed on, by number.
Released = dict[str, dict[int, ProblemPublished]]
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
    """The route, for admins alone, also on Discord: it shows everybody's sources."""
    router = APIRouter(prefix="/admin", tags=[TAG], route_class=Documented)
    turn = asyncio.Lock()

    @router.post("/export", response_class=Response, responses=ANSWER)
    async def export(body: Export, request: Request) -> Exported:
        """Leaderboards with all submissions and sources; in public what they say they publish."""
        caller = await parts.gate.staff(request, "admin:submissions")
        check_scope(caller, "admin:problems")
        actor = caller.actor
        boards = await _wanted(parts, body)
        released = None if body.private else await _released(parts, boards)
        what = "private" if body.private else "public"
        target = ", ".join(one.slug for one in boards)
        await parts.ingest.operators.acted("export", target, f"{what}: {body.filename}", actor)
        rows = _rows(parts, boards, released)
        return Exported(parquet(rows, COLUMNS), body.filename, turn)

    return router


async def _wanted(parts: Parts, body: Export) -> list[Problem]:
    """The leaderboards that are meant. Errors: Refused; Failed."""
    known = {leaderboard_id(one.slug): one for one in await parts.asking.problems(STAFF)}
    strange = [one for one in body.leaderboard_ids if one not in known]
    if strange:
        what = f"there is no leaderboard {strange[0]}: GET /leaderboards?state=all lists them"
        raise Refused("unknown_leaderboard", what, "leaderboard_ids")
    return [known[one] for one in dict.fromkeys(body.leaderboard_ids)]


async def _released(parts: Parts, boards: Sequence[Problem]) -> Released:
    """Of each leaderboard what is passed on to everybody. Errors: Refused; Failed."""
    return {one.slug: await parts.ingest.boards.released(one.slug, parts.clock()) for one in boards}


async def _rows(
    parts: Parts, boards: Sequence[Problem], released: Released | None
) -> AsyncIterator[Row]:
    """Every submission, newest first, leaderboard by leaderboard; of some what is released alone.

    What somebody sent in is passed on while they accept what its version asks for.
    """
    reader = STAFF if released is None else Reader()
    for board in boards:
        batch: list[Listed] = []
        texts: dict[str, frozenset[str]] = {}
        async with aclosing(parts.asking.every({"problem": board.slug}, reader)) as lines:
            async for line in lines:
                if released is not None and not await _is_out(parts, line, released, texts):
                    continue
                batch.append(line)
                if len(batch) == AT_ONCE:
                    for row in await _sourced(parts, batch, reader):
                        yield row
                    batch = []
        for row in await _sourced(parts, batch, reader):
            yield row


async def _is_out(
    parts: Parts, one: Listed, released: Released, texts: dict[str, frozenset[str]]
) -> bool:
    """Whether a submission may be passed on to everybody; who sent it is asked about once."""
    version = released[one.problem].get(one.problem_number)
    if version is None:
        return False
    if one.account not in texts:
        texts[one.account] = await parts.ingest.consents.accepted(one.account, one.problem)
    return agrees(texts[one.account], version)


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
