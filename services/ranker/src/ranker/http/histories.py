"""Records, scores over time, and the cases of the fastest entries side by side."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import convert
from pydantic import Field

from ranker.http.access import CurrentReader, ReadSources, timed_cases
from ranker.http.leaderboards import (
    RecordsQuery,
    find_leaderboard,
    make_entries,
    read_checkpoint,
    read_records,
)
from ranker.http.participants import read_personal_history
from ranker.http.responses import (
    LIMIT_MAX,
    ProblemVersion,
    QueryParams,
    json_response,
)
from ranker.service.leaderboard import RANKED_MAX, read_top
from shared.api import leaderboards as models
from shared.clock import now
from shared.response_types import DocumentedRoute, TypedResponse

ENTRIES_MAX = 50
# A problem has fewer; a hostile agent may claim more.
CASES_MAX = 200


class HistoryQuery(QueryParams):
    """The participant and version of a history."""

    participant: str | None = None
    version: ProblemVersion = None


class EntryCasesQuery(QueryParams):
    """The version of a leaderboard, and of how many entries to list the cases."""

    version: ProblemVersion = None
    limit: Annotated[int, Field(ge=1, le=ENTRIES_MAX)] = 20


def histories_router(sources: ReadSources) -> APIRouter:
    """The routes of records, histories and cases of leaderboards."""
    router = APIRouter(route_class=DocumentedRoute)
    _add_records(router, sources)
    _add_histories(router, sources)
    _add_cases(router, sources)
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


def _add_histories(router: APIRouter, sources: ReadSources) -> None:
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
        cases = {row["submission"]: timed_cases(row["cases"])[:CASES_MAX] for row in rows}
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
