"""Leaderboards as a data set: every submission with its source, in one Parquet file."""

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from ingest.access.callers import check_scope
from ingest.popcorn.conversions import leaderboard_id, seconds
from ingest.popcorn.dependencies import TAG, Dependencies, PopcornRequest
from ingest.popcorn.read_client import STAFF
from ingest.popcorn.results import PUBLIC_MODES
from ingest.problems.rules import allows_release
from shared.api.problems import Problem
from shared.api.submissions import SubmissionLine
from shared.errors import Refused
from shared.events import ProblemPublished
from shared.http import LiveResponse
from shared.json_types import JsonInt
from shared.reader import Reader
from shared.response_types import DocumentedRoute

# A row group ends at this many rows or characters.
ROWS_MAX = 1000
CHARACTERS_MAX = 4_000_000

Row = Mapping[str, Any]

LEADERBOARDS_MAX = 100
# The public versions of each leaderboard, by number.
Released = dict[str, dict[int, ProblemPublished]]
# Sources are read concurrently, exports one after the other: nobody waits for them.
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
EXPORT_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {PARQUET: {"schema": {"type": "string", "format": "binary"}}}}
}


class _Pieces:
    """A file object for pyarrow that collects the bytes written since the last `take`."""

    closed = False

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: Any) -> int:
        """Collect bytes."""
        self._data += memoryview(data)
        return len(memoryview(data))

    def flush(self) -> None:
        """Do nothing: `take` empties the buffer."""

    def take(self) -> bytes:
        """Return and remove the collected bytes."""
        data = bytes(self._data)
        self._data.clear()
        return data


async def parquet(
    rows: AsyncIterator[Row], columns: Mapping[str, str]
) -> AsyncGenerator[bytes, None]:
    """Yield a Parquet file of these rows; `columns` maps names to pyarrow types.

    The footer comes last, so a truncated file is not a valid Parquet file.
    """
    # Importing it takes a third of a second and 60 MB, which only exports need.
    arrow: Any = await asyncio.to_thread(importlib.import_module, "pyarrow")
    files: Any = await asyncio.to_thread(importlib.import_module, "pyarrow.parquet")
    types = {"instant": arrow.timestamp("us", tz="UTC")}
    schema = arrow.schema(
        [(name, types.get(kind) or getattr(arrow, kind)()) for name, kind in columns.items()]
    )
    pieces = _Pieces()
    writer = files.ParquetWriter(arrow.PythonFile(pieces, mode="w"), schema, compression="zstd")
    async for group in _group_rows(rows):
        table = arrow.Table.from_pylist([dict(row) for row in group], schema=schema)
        await asyncio.to_thread(writer.write_table, table)
        yield pieces.take()
    await asyncio.to_thread(writer.close)
    yield pieces.take()


async def _group_rows(rows: AsyncIterator[Row]) -> AsyncIterator[Sequence[Row]]:
    group: list[Row] = []
    length = 0
    async for row in rows:
        group.append(row)
        length += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(group) == ROWS_MAX or length >= CHARACTERS_MAX:
            yield group
            group, length = [], 0
    if group:
        yield group


class ExportRequest(PopcornRequest):
    """The leaderboards to export and the file name; `private` exports everything."""

    leaderboard_ids: Annotated[list[JsonInt], Field(min_length=1, max_length=LEADERBOARDS_MAX)]
    filename: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}\.parquet$")]
    private: bool


class ExportResponse(Response):
    """A data set that is streamed; only one is made at a time."""

    def __init__(self, chunks: AsyncGenerator[bytes, None], name: str, lock: asyncio.Lock) -> None:
        super().__init__()
        self.chunks, self.name, self.lock = chunks, name, lock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond; Source: the ASGI specification."""
        disposition = f'attachment; filename="{self.name}"'
        async with self.lock:
            headers = {"Content-Type": PARQUET, "Content-Disposition": disposition}
            await LiveResponse(self.chunks, 200, headers)(scope, receive, send)


def exports_router(deps: Dependencies) -> APIRouter:
    """The route, for admins only, also on Discord: it contains everybody's sources."""
    router = APIRouter(prefix="/admin", tags=[TAG], route_class=DocumentedRoute)
    lock = asyncio.Lock()

    @router.post("/export", response_class=Response, responses=EXPORT_ANSWER)
    async def export(body: ExportRequest, request: Request) -> ExportResponse:
        """Leaderboards with all submissions and sources; `private` false: only published ones."""
        caller = await deps.auth.staff(request, "admin:submissions")
        check_scope(caller, "admin:problems")
        actor = caller.actor
        leaderboards = await _requested_leaderboards(deps, body)
        released: Released | None = None
        if not body.private:
            slugs, at = [leaderboard.slug for leaderboard in leaderboards], deps.clock()
            boards = deps.ingest.boards
            released = {slug: await boards.released_versions(slug, at) for slug in slugs}
        kind = "private" if body.private else "public"
        target = ", ".join(leaderboard.slug for leaderboard in leaderboards)
        await deps.ingest.operators.record_action(
            "export", target, f"{kind}: {body.filename}", actor
        )
        rows = _rows(deps, leaderboards, released)
        return ExportResponse(parquet(rows, COLUMNS), body.filename, lock)

    return router


async def _requested_leaderboards(deps: Dependencies, body: ExportRequest) -> list[Problem]:
    """Return the leaderboards to export. Raises `Refused` and `Failed`."""
    known = {
        leaderboard_id(problem.slug): problem for problem in await deps.read_client.problems(STAFF)
    }
    unknown_ids = [problem for problem in body.leaderboard_ids if problem not in known]
    if unknown_ids:
        message = (
            f"there is no leaderboard {unknown_ids[0]}: GET /leaderboards?state=all lists them"
        )
        raise Refused("unknown_leaderboard", message, "leaderboard_ids")
    return [known[problem] for problem in dict.fromkeys(body.leaderboard_ids)]


async def _rows(
    deps: Dependencies, leaderboards: Sequence[Problem], released: Released | None
) -> AsyncIterator[Row]:
    """Yield every submission, or every released one, by leaderboard and newest first.

    A submission is released only while its owner accepts what its version requires.
    """
    reader = STAFF if released is None else Reader()
    for leaderboard in leaderboards:
        batch: list[SubmissionLine] = []
        texts: dict[str, frozenset[str]] = {}
        async with aclosing(
            deps.read_client.iterate_all({"problem": leaderboard.slug}, reader)
        ) as lines:
            async for line in lines:
                if released is not None and not await _is_released(deps, line, released, texts):
                    continue
                batch.append(line)
                if len(batch) == AT_ONCE:
                    for row in await _rows_with_sources(deps, batch, reader):
                        yield row
                    batch = []
        for row in await _rows_with_sources(deps, batch, reader):
            yield row


async def _is_released(
    deps: Dependencies,
    summary: SubmissionLine,
    released: Released,
    texts: dict[str, frozenset[str]],
) -> bool:
    """Return whether a submission is public; consents are read once per participant."""
    version = released[summary.problem].get(summary.problem_version)
    if version is None:
        return False
    if summary.participant_id not in texts:
        texts[summary.participant_id] = await deps.ingest.consents.accepted_digests(
            summary.participant_id, summary.problem
        )
    return allows_release(texts[summary.participant_id], version)


async def _rows_with_sources(
    deps: Dependencies, batch: Sequence[SubmissionLine], reader: Reader
) -> list[Row]:
    sources = await asyncio.gather(
        *(deps.read_client.source(summary.number, reader) for summary in batch)
    )
    return [_row(summary, source) for summary, source in zip(batch, sources, strict=True)]


def _row(summary: SubmissionLine, source: str | None) -> Row:
    return {
        "submission_id": summary.number,
        "leaderboard_id": leaderboard_id(summary.problem),
        "leaderboard_name": summary.problem,
        "problem_version": summary.problem_version,
        "user_id": summary.participant_id,
        "user_name": summary.participant,
        "gpu_type": summary.gpu,
        "mode": PUBLIC_MODES.get(summary.mode, summary.mode),
        "file_name": summary.name or None,
        "submission_time": summary.received_at,
        "done": summary.state == "finished",
        "outcome": summary.outcome,
        "verdict": summary.verdict,
        "reason_code": summary.code,
        "eligible": summary.is_eligible,
        "deleted": summary.is_withdrawn,
        "score": seconds(summary.score_us) if summary.is_eligible else None,
        "code": source,
    }
