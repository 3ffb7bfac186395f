"""Participants and what they achieved: places, records, histories and cases."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import convert
from pydantic import Field

from ranker.domain.rows import LeaderboardKey
from ranker.domain.score import add_interval
from ranker.domain.yardsticks import show_cases
from ranker.http.access import CurrentReader, ReaderView, ReadSources, timed_cases
from ranker.http.leaderboards import (
    RecordsQuery,
    find_leaderboard,
    make_entries,
    read_checkpoint,
    read_records,
)
from ranker.http.ranking import Ladder, find_best_rank
from ranker.http.rating import add_name
from ranker.http.responses import (
    LIMIT_MAX,
    ProblemVersion,
    QueryParams,
    Version,
    json_response,
)
from ranker.service.decisions import Reads
from ranker.service.leaderboard import RANKED_MAX, read_ladder, read_standing, read_top
from shared.api import leaderboards as models
from shared.api.rating import RatedParticipant
from shared.clock import now
from shared.errors import Refused
from shared.http import DocumentedRoute, TypedResponse

# Each entry takes a statement for its rank.
ENTRIES_MAX = 50
RECORDS_MAX = 100

Row = dict[str, Any]
CASE_ENTRIES_MAX = 50
NAME_CHARS_MAX = 1000
# Of a leaderboard with more entries, those with the best scores are compared case by case.
COMPARED_MAX = 1000
# A problem has fewer; a hostile agent may claim more.
CASES_MAX = 200


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
            rating=await _read_rating(sources, account, current_name),
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


async def _read_rating(sources: ReadSources, account: str, name: str) -> RatedParticipant | None:
    rating_list = await sources.rating.read()
    return next(
        (
            add_name(it, {account: name})
            for it in rating_list.ratings
            if it.participant_id == account
        ),
        None,
    )


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
    best_rank = find_best_rank(standing)
    rank_fields = {"rank": rank, "best_rank": best_rank, "is_tied": is_tied}
    return rank_fields | {"best_us": standing["best_us"]}


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


class HistoryQuery(QueryParams):
    """The participant and version of a history."""

    participant: str | None = None
    version: ProblemVersion = None


class EntryCasesQuery(QueryParams):
    """The version of a leaderboard, and of how many entries to list the cases."""

    version: ProblemVersion = None
    limit: Annotated[int, Field(ge=1, le=CASE_ENTRIES_MAX)] = 20


class BestTimesQuery(QueryParams):
    """The version of a leaderboard, a case by its name, and how many entries of each case."""

    version: ProblemVersion = None
    case: Annotated[str, Field(max_length=NAME_CHARS_MAX)] | None = None
    limit: Annotated[int, Field(ge=1, le=CASE_ENTRIES_MAX)] = 1


def histories_router(sources: ReadSources) -> APIRouter:
    """The routes of records, histories and cases."""
    router = APIRouter(route_class=DocumentedRoute)

    _add_records(router, sources)

    @router.get("/v1/leaderboards/{slug}/{gpu}/history")
    async def history(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[HistoryQuery, Query()],
    ) -> TypedResponse[models.History | models.RecordHistory]:
        """The score over time: a participant's ranked submissions or, without one, the records."""
        view, seq = sources.view(reader), await read_checkpoint(sources.reads)
        _, board = await find_leaderboard(view, slug, gpu, query.version)
        if query.participant is not None:
            history = await read_personal_history(view, query.participant, board, seq)
            return json_response(request, history, seq)
        records = models.RecordHistory(
            problem=board.problem,
            gpu=board.gpu,
            problem_version=board.problem_number,
            items=await read_records(view, board, RANKED_MAX),
            as_of=seq,
        )
        return json_response(request, records, seq)

    _add_cases(router, sources)
    _add_best_times(router, sources)
    return router


def _add_records(router: APIRouter, sources: ReadSources) -> None:
    @router.get("/v1/records")
    async def recent_records(
        request: Request,
        reader: CurrentReader,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 20,
    ) -> TypedResponse[models.Records]:
        """The newest standing records of all leaderboards that the reader can see."""
        seq = await read_checkpoint(sources.reads)
        rows = await sources.view(reader).rows("recent_records", limit=limit, at=now())
        items = convert(rows, list[models.Record])
        return json_response(request, models.Records(items=items, as_of=seq), seq)

    @router.get("/v1/leaderboards/{slug}/{gpu}/records")
    async def records(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[RecordsQuery, Query()],
    ) -> TypedResponse[models.Records]:
        """The records of a leaderboard, newest first."""
        view, seq = sources.view(reader), await read_checkpoint(sources.reads)
        _, board = await find_leaderboard(view, slug, gpu, query.version)
        items = await read_records(view, board, query.limit)
        return json_response(request, models.Records(items=items, as_of=seq), seq)


def _add_best_times(router: APIRouter, sources: ReadSources) -> None:
    @router.get("/v1/leaderboards/{slug}/{gpu}/best-times")
    async def best_times(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[BestTimesQuery, Query()],
    ) -> TypedResponse[models.CaseLeaderboards]:
        """Who is fastest at each public case; with a limit, a leaderboard of each case.

        Each participant takes part with the entry that counts for their rank. Of a leaderboard with
        more than 1000 entries, those with the best scores are compared.
        """
        view, reads = sources.view(reader), sources.reads
        seq = await read_checkpoint(reads)
        problem, board = await find_leaderboard(view, slug, gpu, query.version)
        entries = await make_entries(
            reads, board, await read_top(reads, board, COMPARED_MAX, now())
        )
        rows = await reads.rows(
            "entry_times",
            submissions=[entry["submission"] for entry in entries],
            problem_number=board.problem_number,
        )
        items = rank_cases(entries, rows, query.limit)
        if query.case is not None:
            items = [item for item in items if item.case == query.case]
            if not items:
                reason = f"no entry has a time of a public case {query.case!r}"
                raise Refused("not_found", f"{reason}: leave `case` out to see them all", "case")
        body = models.CaseLeaderboards(
            problem=board.problem,
            title=problem["title"],
            gpu=board.gpu,
            problem_version=board.problem_number,
            items=items,
            as_of=seq,
        )
        return json_response(request, body, seq)


def rank_cases(
    entries: Sequence[Row], rows: Sequence[Row], limit: int
) -> list[models.CaseLeaderboard]:
    """Return the fastest entries at each case, in the order of the cases of the first entry."""
    by_submission: dict[str, list[Row]] = {}
    for row in rows:
        by_submission.setdefault(row["submission"], []).append(row)
    by_case: dict[str, list[tuple[Row, Row]]] = {}
    for entry in entries:
        timed = by_submission.get(entry["submission"], [])[:CASES_MAX]
        for case in show_cases(timed, timed[0]["fixed_us"] if timed else None):
            by_case.setdefault(case["name"], []).append((entry, case))
    return [_rank_case(name, pairs, limit) for name, pairs in by_case.items()]


def _rank_case(name: str, pairs: list[tuple[Row, Row]], limit: int) -> models.CaseLeaderboard:
    pairs.sort(key=lambda pair: (pair[1]["time_us"], pair[0]["number"]))
    _, fastest = pairs[0]
    high_us = (fastest.get("interval_us") or (0.0, fastest["time_us"]))[1]
    places = [
        entry
        | {
            "place": place,
            "is_tied": place > 1 and (case.get("interval_us") or (case["time_us"],))[0] <= high_us,
            "time_us": case["time_us"],
            "interval_us": case.get("interval_us"),
            "speedup": case.get("speedup"),
        }
        for place, (entry, case) in enumerate(pairs[:limit], 1)
    ]
    return models.CaseLeaderboard(
        case=name,
        weight=fastest["weight"],
        entries_count=len(pairs),
        items=convert(places, list[models.CasePlace]),
    )


def _add_cases(router: APIRouter, sources: ReadSources) -> None:
    @router.get("/v1/leaderboards/{slug}/{gpu}/cases")
    async def entry_cases(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[EntryCasesQuery, Query()],
    ) -> TypedResponse[models.LeaderboardCases]:
        """The public times of each case of the fastest entries, best first."""
        view, reads = sources.view(reader), sources.reads
        seq = await read_checkpoint(reads)
        problem, board = await find_leaderboard(view, slug, gpu, query.version)
        placed = await read_top(reads, board, query.limit, now())
        entries = await make_entries(reads, board, placed)
        rows = await reads.rows(
            "entry_cases",
            submissions=[entry["submission"] for entry in entries],
            problem_number=board.problem_number,
        )
        cases = {
            row["submission"]: timed_cases(show_cases(row["cases"], row["fixed_us"]))[:CASES_MAX]
            for row in rows
        }
        body = models.LeaderboardCases(
            problem=board.problem,
            title=problem["title"],
            gpu=board.gpu,
            problem_version=board.problem_number,
            items=convert(
                [entry | {"cases": cases.get(entry["submission"], [])} for entry in entries],
                list[models.EntryCases],
            ),
            as_of=seq,
        )
        return json_response(request, body, seq)
