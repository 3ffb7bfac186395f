"""Participants: their places and records, and their history on a leaderboard."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from msgspec import convert

from ranker.domain.rows import LeaderboardKey
from ranker.domain.score import add_interval
from ranker.http.access import CurrentReader, ReaderView, ReadSources
from ranker.http.leaderboards import find_leaderboard, read_checkpoint
from ranker.http.ranking import Ladder
from ranker.http.responses import Version, json_response
from ranker.service.leaderboard import RANKED_MAX, read_ladder, read_standing
from ranker.service.ports import Reads
from shared.api import leaderboards as models
from shared.clock import now
from shared.errors import Refused
from shared.http import DocumentedRoute, TypedResponse

# Each entry takes a statement for its rank.
ENTRIES_MAX = 50
RECORDS_MAX = 100

Row = dict[str, Any]


def participants_router(sources: ReadSources) -> APIRouter:
    """The routes of participants."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.get("/v1/participants/{name}")
    async def read_participant(
        request: Request, reader: CurrentReader, name: str
    ) -> TypedResponse[models.PublicParticipant]:
        """A participant by a current or former name, with their places and records."""
        view, seq, at = sources.view(reader), await read_checkpoint(sources.reads), now()
        account, current_name = await find_participant(view, name)
        entries, records = await asyncio.gather(
            view.rows("participant_entries", account=account, limit=ENTRIES_MAX),
            view.rows("participant_records", account=account, at=at, limit=RECORDS_MAX),
        )
        places = [await _read_place(sources.reads, account, entry) for entry in entries]
        body = models.PublicParticipant(
            participant_id=account,
            participant=current_name,
            entries=convert(
                [entry | place for entry, place in zip(entries, places, strict=True) if place],
                list[models.ParticipantEntry],
            ),
            records=convert(records, list[models.ParticipantRecord]),
            as_of=seq,
        )
        return json_response(request, body, seq)

    @router.get("/v1/participants/{name}/history", name="history")
    async def participant_history(
        reader: CurrentReader, name: str, problem: str, gpu: str, version: Version = None
    ) -> models.History:
        """Every ranked submission of a participant on a leaderboard, newest first."""
        view = sources.view(reader)
        _, board = await find_leaderboard(view, problem, gpu, version)
        return await read_personal_history(view, name, board, sources.progress.seq)

    return router


async def _read_place(reads: Reads, account: str, entry: Row) -> Row:
    """The rank of an entry, and the best score of its leaderboard; empty if the entry is gone."""
    board = LeaderboardKey(entry["problem"], entry["gpu"], entry["problem_version"])
    at = now()
    standing = await read_standing(reads, board, account, at)
    if standing is None:
        ladder = Ladder(await read_ladder(reads, board, RANKED_MAX, at))
        standing = ladder.standing(account)
    if standing["number"] is None:
        return {}
    rank, is_tied = standing["rank"], standing["shared"] > 1
    return {"rank": rank, "is_tied": is_tied, "best_us": standing["best_us"]}


async def find_participant(view: ReaderView, name: str) -> tuple[str, str]:
    """The account and the current name of a participant, by any of their names. Raises Refused."""
    rows = await view.rows("participant", name=name)
    if not rows:
        raise Refused("unknown_participant", f"there is no participant {name!r}", "participant")
    return rows[0]["account"], rows[0]["name"]


async def read_personal_history(
    view: ReaderView, name: str, board: LeaderboardKey, seq: int
) -> models.History:
    """All ranked submissions of a participant there, newest first. Raises Refused."""
    account, current_name = await find_participant(view, name)
    rows = await view.rows("personal", account=account, **board._asdict())
    where = {"participant_id": account, "problem": board.problem}
    items = [view.line(add_interval(row) | where) for row in rows]
    return models.History(
        participant=current_name,
        problem=board.problem,
        gpu=board.gpu,
        problem_version=board.problem_number,
        items=convert(items, list[models.PersonalRecord]),
        as_of=seq,
    )
