"""Leaderboards: who stands where, now, at a moment, and page by page of one moment."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Protocol, cast

from fastapi import FastAPI, Query, Request
from pydantic import Field

from ranker.domain.score import with_interval
from ranker.domain.ties import places
from ranker.http.access import RANKED, Asker, Seen
from ranker.http.answers import CURSOR_CHARS_MAX, LIMIT_MAX, Asking, ProblemVersion, answered
from ranker.http.cursors import expired
from ranker.http.goals import beside
from ranker.http.problems import problem_row
from ranker.http.ranks import seconds
from ranker.http.roofs import shares
from ranker.http.shapes import boards as shapes
from ranker.http.shapes.waiting import Parked
from ranker.http.snapshots import Asked, Found, Snapshots, asked_for, instant, next_cursor
from ranker.service import Board, News, Reads
from ranker.service.top import (
    RANKED_MAX,
    Placed,
    read_ladder_before,
    read_page,
    standings,
    top,
)
from shared.answers import Answer
from shared.clock import now
from shared.errors import Refused
from shared.instants import SaidInstant

SLUG_LENGTH_MAX = 95
# What decides who reads a source; a leaderboard says what comes of it.
OF_SOURCES = ("policy", "is_withdrawn", "is_consented")

Row = dict[str, Any]


class EveryQuery(Asking):
    """Whose leaderboards; of every problem if none is named."""

    problem: Annotated[str, Field(max_length=SLUG_LENGTH_MAX)] | None = None


class RecordsQuery(Asking):
    """Which records of a leaderboard."""

    version: ProblemVersion = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 100


class BoardQuery(RecordsQuery):
    """Which page of a leaderboard, as of when; `at` is another word for `as_of`."""

    as_of: SaidInstant | None = None
    at: SaidInstant | None = None
    cursor: Annotated[str, Field(max_length=CURSOR_CHARS_MAX)] | None = None


class HistoryQuery(Asking):
    """Whose history, under which version."""

    participant: str | None = None
    version: ProblemVersion = None


class Past(Protocol):
    """Leaderboards as they were; `past` of the application's state, where they are kept."""

    async def board(self, board: Board, at: datetime, limit: int) -> tuple[int, list[Row]]:
        """The sequence that was the last then, and the rows, best first. Errors: Failed."""
        ...


@dataclass(frozen=True)
class Boards:
    """The reads of leaderboards."""

    reads: Reads
    news: News
    app: FastAPI
    snapshots: Snapshots = field(default_factory=Snapshots)

    def install(self) -> None:
        """Answer on the application."""
        self.app.get("/v1/leaderboards")(self.every)
        self.app.get("/v1/leaderboards/{slug}/{gpu}")(self.one)
        self.app.get("/v1/leaderboards/{slug}/{gpu}/records")(self.records)
        self.app.get("/v1/leaderboards/{slug}/{gpu}/history")(self.history)

    async def every(
        self, who: Asker, request: Request, query: Annotated[EveryQuery, Query()]
    ) -> Answer[shapes.Leaderboards]:
        """Every leaderboard that has an entry, or those of one problem."""
        seq = await self._checkpoint()
        problem = None if query.problem is None else query.problem.lower()
        rows = await Seen(self.reads, who).rows("leaderboards", problem=problem, at=now())
        items = cast("list[shapes.BoardLine]", rows)
        return answered(request, {"items": items, "as_of": seq}, seq)

    async def one(
        self,
        request: Request,
        who: Asker,
        slug: str,
        gpu: str,
        query: Annotated[BoardQuery, Query()],
    ) -> Answer[shapes.Leaderboard]:
        """One leaderboard, best first; what cannot be told apart has one rank."""
        seen = Seen(self.reads, who)
        problem, board = await named(seen, slug, gpu, query.version)
        asked = asked_for(board, query.limit, instant(query.as_of or query.at), query.cursor)
        found = await (self._now(asked) if asked.at is None else self._then(asked, asked.at))
        rows, aside = await asyncio.gather(
            shares(self.reads, board, found.rows), beside(seen, board, asked.at)
        )
        is_over = problem["state"] != "active"
        body: shapes.Leaderboard = {
            "problem": board.problem,
            "title": problem["title"],
            "problem_version": board.problem_number,
            "gpu": board.gpu,
            "items": [_shown(seen, aside.against(row), problem) for row in rows],
            "baselines": aside.baselines,
            "milestones": aside.milestones,
            "other_versions": await self._others(board),
            "next_cursor": next_cursor(asked, found),
            "as_of": found.as_of,
            "as_of_at": asked.at,
            "frozen": is_over,
            "parked": standing(self.news),
        }
        return answered(request, body, found.as_of)

    async def records(
        self,
        request: Request,
        who: Asker,
        slug: str,
        gpu: str,
        query: Annotated[RecordsQuery, Query()],
    ) -> Answer[shapes.Records]:
        """The records of a leaderboard, newest first."""
        seen, seq = Seen(self.reads, who), await self._checkpoint()
        _, board = await named(seen, slug, gpu, query.version)
        rows = cast("list[shapes.Record]", await self._records(seen, board, query.limit))
        return answered(request, {"items": rows, "as_of": seq}, seq)

    async def history(
        self,
        request: Request,
        who: Asker,
        slug: str,
        gpu: str,
        query: Annotated[HistoryQuery, Query()],
    ) -> Answer[shapes.History]:
        """The score over time: a participant's ranked submissions, or else the records."""
        seen, seq = Seen(self.reads, who), await self._checkpoint()
        _, board = await named(seen, slug, gpu, query.version)
        if query.participant is None:
            rows = await self._records(seen, board, RANKED_MAX)
            points = [row | {"score": seconds(row["score_us"])} for row in rows]
            records = cast("list[shapes.Point]", points)
            return answered(request, _history(board, None, records, seq), seq)
        name, items = await personal(seen, query.participant, board)
        return answered(request, _history(board, name, items, seq), seq)

    async def _others(self, board: Board) -> list[shapes.OtherVersion]:
        """The other versions of the problem that have entries on this GPU type, newest first."""
        rows = await self.reads.rows("versions", problem=board.problem, gpu=board.gpu)
        others = [row for row in rows if row["problem_version"] != board.problem_number]
        return cast("list[shapes.OtherVersion]", others)

    async def _records(self, seen: Seen, board: Board, limit: int) -> list[Row]:
        where = {"problem": board.problem, "gpu": board.gpu, "number": board.problem_number}
        return await seen.rows("records", **where, limit=limit, at=now())

    async def _checkpoint(self) -> int:
        (checkpoint,) = await self.reads.rows("checkpoint")
        return int(checkpoint["seq"])

    async def _now(self, asked: Asked) -> Found:
        """The live leaderboard, or the next page of what it was when the first was read."""
        end = asked.offset + asked.limit
        seq, placed = asked.as_of, None
        if seq is not None:
            placed = self.snapshots.find(asked.board, seq)
        if placed is None:
            page = await read_page(
                self.reads, asked.board, range(asked.offset, end), now(), asked.as_of
            )
            seq = page.seq if asked.as_of is None else asked.as_of
            if page.holds:
                rows = await entries(self.reads, asked.board, page.placed)
                return Found(seq, rows, min(page.total, RANKED_MAX) > end)
            placed = await self._remade(asked)
            self.snapshots.keep(asked.board, seq, placed)
        assert seq is not None, "a page is of a sequence"
        rows = await entries(self.reads, asked.board, placed[asked.offset : end])
        return Found(seq, rows, len(placed) > end)

    async def _remade(self, asked: Asked) -> list[Placed]:
        """A leaderboard whose places are not kept as they are asked for. Errors: Refused."""
        if asked.as_of is None:
            return await top(self.reads, asked.board, RANKED_MAX, now())
        ladder = await read_ladder_before(self.reads, asked.board, RANKED_MAX, asked.as_of)
        if not ladder:
            raise expired()
        rows = {row["number"]: row for row in ladder}
        return [Placed(place, rows[place.number]) for place in places(standings(ladder))]

    async def _then(self, asked: Asked, at: datetime) -> Found:
        past: Past | None = getattr(self.app.state, "past", None)
        if past is None:
            what = "this ranker has no archive: it keeps no past"
            raise Refused("not_supported", what, "as_of")
        end = asked.offset + asked.limit
        seq, rows = await past.board(asked.board, at, end + 1)
        return Found(seq, rows[asked.offset : end], len(rows) > end)


def standing(news: News) -> Parked | None:
    """The event before which the read models stand, None if they follow the log."""
    parked = news.parked
    return None if parked is None else {"seq": parked.seq, "error": parked.error}


async def named(seen: Seen, slug: str, gpu: str, version: int | None) -> tuple[Row, Board]:
    """A problem and one of its leaderboards, whatever the case of the names. Errors: Refused."""
    found = await problem_row(seen, slug)
    # What takes nothing in any more keeps its leaderboard.
    types = {one.lower(): one for one in (*found["gpus_closed"], *found["gpus"])}
    if gpu.lower() not in types:
        known = ", ".join(types.values())
        raise Refused("not_found", f"{slug} has no GPU type {gpu!r}: {known}", "gpu")
    return found, Board(found["slug"], types[gpu.lower()], version or found["number"])


async def personal(seen: Seen, name: str, board: Board) -> tuple[str, list[shapes.Personal]]:
    """A participant's name, and every ranked submission of theirs there. Errors: Refused."""
    known = await seen.rows("participant", name=name)
    if not known:
        raise Refused("unknown_participant", f"there is no participant {name!r}", "participant")
    account = known[0]["account"]
    rows = await seen.rows("personal", account=account, **board._asdict())
    where = {"account": account, "problem": board.problem}
    items = [seen.line(with_interval(row) | where) for row in rows]
    scored = [row | {"score": seconds(row["score_us"])} for row in items]
    return known[0]["name"], cast("list[shapes.Personal]", scored)


def _history(
    board: Board,
    participant: str | None,
    items: list[shapes.Personal] | list[shapes.Point],
    seq: int,
) -> shapes.History:
    return {
        "participant": participant,
        "problem": board.problem,
        "gpu": board.gpu,
        "problem_version": board.problem_number,
        "items": items,
        "as_of": seq,
    }


async def entries(reads: Reads, board: Board, placed: Sequence[Placed]) -> list[Row]:
    """What a leaderboard shows of entries and their places. Errors: Failed."""
    rows = await reads.rows(
        "shown",
        submissions=[one.row["submission"] for one in placed],
        problem_number=board.problem_number,
    )
    # An entry may have changed between the two reads; then it is shown the next time.
    shown = {row["number"]: row for row in rows}
    return [_item(one, shown[one.place.number]) for one in placed if one.place.number in shown]


def _item(placed: Placed, shown: Row) -> Row:
    """A row of a leaderboard."""
    entry, place = placed.row, placed.place
    row = shown | {name: entry[name] for name in ("score_us", "error", "freedom", "delta")}
    row["pooled_over"] = entry["pooled_over"] if len(entry["pooled_over"]) > 1 else []
    return with_interval(row) | {
        "rank": place.rank,
        "is_tied": place.is_tied,
        "duel": place.duel,
    }


def _shown(seen: Seen, row: Row, problem: Row) -> shapes.Entry:
    """A row as the contract has it, beside what it says in microseconds."""
    is_bounded = row["low_us"] is not None
    said = row | {
        "tied": row["is_tied"],
        "participant_id": row["account"],
        "name": row["participant"],
        "score": seconds(row["score_us"]),
        "ci95": [seconds(row["low_us"]), seconds(row["high_us"])] if is_bounded else None,
        "submitted_at": row["received_at"],
        "source_visible": _is_source_seen(seen, row, problem),
    }
    for name in OF_SOURCES:
        said.pop(name, None)
    return cast("shapes.Entry", said)


def _is_source_seen(seen: Seen, row: Row, problem: Row) -> bool:
    source = {
        "problem": problem["slug"],
        "mode": RANKED,
        "source_visible": row["policy"],
        "board_deadline_at": problem["deadline_at"],
    }
    return seen.sees_source(row | source, now())
