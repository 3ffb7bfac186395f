"""Leaderboards: live, at a past moment, and paged consistently."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import convert
from pydantic import Field

from ranker.domain.rows import LeaderboardKey
from ranker.domain.score import add_interval
from ranker.http.access import RANKED, CurrentReader, ReaderView, ReadSources
from ranker.http.cases import add_roofline_shares
from ranker.http.goals import read_goals
from ranker.http.leaderboard_pages import (
    ArchivedLeaderboards,
    PageReader,
    next_cursor,
    parse_page_request,
    require_zone,
)
from ranker.http.problems import problem_row
from ranker.http.responses import (
    CURSOR_CHARS_MAX,
    LIMIT_MAX,
    ProblemVersion,
    QueryParams,
    Version,
    json_response,
)
from ranker.service.leaderboard import RANKED_MAX, key_values
from ranker.service.ports import Reads
from shared.api import leaderboards as models
from shared.clock import now
from shared.errors import Refused
from shared.json_types import InstantOrNaive
from shared.response_types import DocumentedRoute, TypedResponse

SLUG_LENGTH_MAX = 95

Row = dict[str, Any]


class LeaderboardsQuery(QueryParams):
    """The problem whose leaderboards to list; default: all."""

    problem: Annotated[str, Field(max_length=SLUG_LENGTH_MAX)] | None = None


class RecordsQuery(QueryParams):
    """The version and number of records to list."""

    version: ProblemVersion = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 100


class LeaderboardQuery(RecordsQuery):
    """The page of a leaderboard and its instant; `at` is an alias of `as_of`."""

    as_of: InstantOrNaive | None = None
    at: InstantOrNaive | None = None
    cursor: Annotated[str, Field(max_length=CURSOR_CHARS_MAX)] | None = None


class HistoryQuery(QueryParams):
    """The participant and version of a history."""

    participant: str | None = None
    version: ProblemVersion = None


def leaderboards_router(sources: ReadSources) -> APIRouter:
    """The routes of leaderboards and of participants' histories on them."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.get("/v1/leaderboards")
    async def list_leaderboards(
        reader: CurrentReader, request: Request, query: Annotated[LeaderboardsQuery, Query()]
    ) -> TypedResponse[models.Leaderboards]:
        """List every leaderboard that has an entry, or those of one problem."""
        seq = await _read_checkpoint(sources.reads)
        problem = None if query.problem is None else query.problem.lower()
        rows = await sources.view(reader).rows("leaderboards", problem=problem, at=now())
        items = convert(rows, list[models.LeaderboardLine])
        return json_response(request, models.Leaderboards(items=items, as_of=seq), seq)

    _add_leaderboard(router, sources)
    _add_histories(router, sources)
    return router


def _add_leaderboard(router: APIRouter, sources: ReadSources) -> None:
    archive = sources.archive
    past = None if archive is None else ArchivedLeaderboards(archive, sources.reads)
    pages = PageReader(sources.reads, past)

    @router.get("/v1/leaderboards/{slug}/{gpu}")
    async def read_leaderboard(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[LeaderboardQuery, Query()],
    ) -> TypedResponse[models.Leaderboard]:
        """One leaderboard, best first; tied entries share a rank."""
        view = sources.view(reader)
        problem, board = await find_leaderboard(view, slug, gpu, query.version)
        page_request = parse_page_request(
            board, query.limit, require_zone(query.as_of or query.at), query.cursor
        )
        page = await pages.read(page_request)
        rows, goals = await asyncio.gather(
            add_roofline_shares(sources.reads, board, page.rows),
            read_goals(view, board, page_request.at),
        )
        body = models.Leaderboard(
            problem=board.problem,
            title=problem["title"],
            problem_version=board.problem_number,
            gpu=board.gpu,
            items=[_make_entry(view, goals.against(row), problem) for row in rows],
            baselines=goals.baselines,
            milestones=goals.milestones,
            other_versions=await _read_other_versions(sources.reads, board),
            next_cursor=next_cursor(page_request, page),
            as_of=page.as_of,
            as_of_at=page_request.at,
            frozen=problem["state"] != "active",
            parked=sources.progress.parked,
        )
        return json_response(request, body, page.as_of)


def _add_histories(router: APIRouter, sources: ReadSources) -> None:
    @router.get("/v1/leaderboards/{slug}/{gpu}/records")
    async def records(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[RecordsQuery, Query()],
    ) -> TypedResponse[models.Records]:
        """The records of a leaderboard, newest first."""
        view, seq = sources.view(reader), await _read_checkpoint(sources.reads)
        _, board = await find_leaderboard(view, slug, gpu, query.version)
        rows = await _read_records(view, board, query.limit)
        items = convert(rows, list[models.Record])
        return json_response(request, models.Records(items=items, as_of=seq), seq)

    @router.get("/v1/leaderboards/{slug}/{gpu}/history")
    async def history(
        request: Request,
        reader: CurrentReader,
        slug: str,
        gpu: str,
        query: Annotated[HistoryQuery, Query()],
    ) -> TypedResponse[models.History | models.RecordHistory]:
        """The score over time: a participant's ranked submissions or, without one, the records."""
        view, seq = sources.view(reader), await _read_checkpoint(sources.reads)
        _, board = await find_leaderboard(view, slug, gpu, query.version)
        if query.participant is None:
            rows = await _read_records(view, board, RANKED_MAX)
            records = models.RecordHistory(
                problem=board.problem,
                gpu=board.gpu,
                problem_version=board.problem_number,
                items=convert(rows, list[models.Record]),
                as_of=seq,
            )
            return json_response(request, records, seq)
        history = await _read_personal_history(view, query.participant, board, seq)
        return json_response(request, history, seq)

    @router.get("/v1/participants/{name}/history", name="history")
    async def participant_history(
        reader: CurrentReader, name: str, problem: str, gpu: str, version: Version = None
    ) -> models.History:
        """Every ranked submission of a participant on a leaderboard, newest first."""
        view = sources.view(reader)
        _, board = await find_leaderboard(view, problem, gpu, version)
        return await _read_personal_history(view, name, board, sources.progress.seq)


async def _read_checkpoint(reads: Reads) -> int:
    (checkpoint,) = await reads.rows("checkpoint")
    return int(checkpoint["seq"])


async def _read_other_versions(reads: Reads, board: LeaderboardKey) -> list[models.OtherVersion]:
    """The other versions of the problem with entries on this GPU type, newest first."""
    rows = await reads.rows("versions", problem=board.problem, gpu=board.gpu)
    others = [row for row in rows if row["problem_version"] != board.problem_number]
    return convert(others, list[models.OtherVersion])


async def _read_records(view: ReaderView, board: LeaderboardKey, limit: int) -> list[Row]:
    return await view.rows("records", **key_values(board), limit=limit, at=now())


async def find_leaderboard(
    view: ReaderView, slug: str, gpu: str, version: int | None
) -> tuple[Row, LeaderboardKey]:
    """A problem and one of its leaderboards, ignoring case. Raises Refused."""
    problem = await problem_row(view, slug)
    # GPU types that are closed for submissions keep their leaderboard.
    types = {name.lower(): name for name in (*problem["gpus_closed"], *problem["gpus"])}
    if gpu.lower() not in types:
        known = ", ".join(types.values())
        raise Refused("not_found", f"{slug} has no GPU type {gpu!r}: {known}", "gpu")
    return problem, LeaderboardKey(
        problem["slug"], types[gpu.lower()], version or problem["problem_version"]
    )


async def _read_personal_history(
    view: ReaderView, name: str, board: LeaderboardKey, seq: int
) -> models.History:
    """All ranked submissions of a participant there, newest first. Raises Refused."""
    participants = await view.rows("participant", name=name)
    if not participants:
        raise Refused("unknown_participant", f"there is no participant {name!r}", "participant")
    account = participants[0]["account"]
    rows = await view.rows("personal", account=account, **board._asdict())
    where = {"participant_id": account, "problem": board.problem}
    items = [view.line(add_interval(row) | where) for row in rows]
    return models.History(
        participant=participants[0]["name"],
        problem=board.problem,
        gpu=board.gpu,
        problem_version=board.problem_number,
        items=convert(items, list[models.PersonalRecord]),
        as_of=seq,
    )


def _make_entry(view: ReaderView, row: Row, problem: Row) -> models.Entry:
    """A row in the form of the public API."""
    entry = row | {
        "source_visible": _is_source_visible(view, row, problem),
    }
    return convert(entry, models.Entry)


def _is_source_visible(view: ReaderView, row: Row, problem: Row) -> bool:
    source = {
        "problem": problem["slug"],
        "mode": RANKED,
        "source_visible": row["policy"],
        "board_deadline_at": problem["deadline_at"],
    }
    return view.sees_source(row | source, now())
