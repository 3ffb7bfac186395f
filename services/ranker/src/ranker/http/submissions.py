"""Submissions: lists, details, waiting for changes, and downloads of files and harness codes."""

import asyncio
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from msgspec import convert
from pydantic import Field
from starlette.types import Receive, Scope, Send

from ranker.domain.history import SubmissionEnd, public_name
from ranker.domain.rows import LeaderboardKey
from ranker.domain.score import add_interval
from ranker.http.access import (
    CurrentReader,
    ReaderView,
    ReadSources,
    prepare_row,
    safe_progress,
)
from ranker.http.cases import add_speedups, make_public_cases
from ranker.http.queues import describe_wait
from ranker.http.ranking import ReadSnapshot, ReadSnapshots, describe_ranking, hide_places
from ranker.http.responses import (
    LIMIT_MAX,
    NUMBER_MAX,
    Cursor,
    Limit,
    NumberInPath,
    PageParams,
    QueryParams,
    decode_cursor,
    encode_cursor,
    json_response,
    known_version,
)
from shared.api import submissions as models
from shared.api.agents import Harness, Harnesses
from shared.blobs import BlobNotFound, BlobStore
from shared.clock import now
from shared.errors import Refused, unknown_submission
from shared.http import DocumentedRoute, TypedResponse
from shared.problems.submission_file import suffix
from shared.source_files import ENTRY_STEM, SourceFile, unpack_files
from shared.states import STATE_AFTER, STATES, state_deadline

WAIT_S_MAX = 25.0
# Changes without an event are seen this late.
RECHECK_S = 1.0
TIMELINE_FIELDS = ("seq", "type", "at", "note", "actor")
KINDS = {"log.txt": "log", "samples.json.gz": "samples"}

Row = dict[str, Any]
# Each may hold a whole blob in memory while it is sent.
DOWNLOADS_MAX = 4
# Agents choose the media type; it must not inject anything into our headers.
MEDIA = re.compile(r"[A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64}\Z")
BYTES = "application/octet-stream"
ZIP = "application/zip"
DIGEST_SHOWN, VERSION_MAX = 12, 20
UNSAFE_CHARS = re.compile(r"[^A-Za-z0-9]+")
# A harness zip begins with the header of its first file; the file's name follows after 30 bytes.
ZIP_MAGIC, FIRST_NAME = b"PK\x03\x04", b"harness/__init__.py"
NAME_OFFSET = 30


class NewestQuery(QueryParams):
    """Which submissions to list; a state is a submission's state, an outcome, or `open`."""

    problem: str | None = None
    participant: str | None = None
    gpu: str | None = None
    state: str | None = None
    mode: str | None = None
    before: Annotated[int, Field(ge=1, le=NUMBER_MAX)] | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 50


class OwnSubmissionsQuery(PageParams):
    """Which of the reader's own submissions to list."""

    problem: str | None = None
    gpu: str | None = None
    mode: str | None = None
    state: str | None = None
    tag: str | None = None


class SubmissionQuery(QueryParams):
    """How long to wait for a newer version, and whether to include the source."""

    after: Annotated[int, Field(ge=-1, le=NUMBER_MAX)] | None = None
    wait_s: Annotated[float, Field(ge=0, le=WAIT_S_MAX)] = 0
    source: bool = False


class OwnCursor(Cursor, frozen=True, kw_only=True, tag="own"):
    """The last submission of the page before."""

    number: int


def submissions_router(sources: ReadSources) -> APIRouter:
    """The routes of submissions."""
    router = APIRouter(route_class=DocumentedRoute)
    _add_lists(router, sources)
    _add_submission(router, sources)
    return router


def _add_lists(router: APIRouter, sources: ReadSources) -> None:
    progress = sources.progress

    @router.get("/v1/submissions")
    async def newest(
        reader: CurrentReader, query: Annotated[NewestQuery, Query()]
    ) -> models.NewestSubmissions:
        """The newest submissions first; `before` continues a list."""
        items = await _list_lines(sources.view(reader), **query.model_dump())
        return models.NewestSubmissions(items=items, as_of=progress.seq, parked=progress.parked)

    @router.get("/v1/me/submissions")
    async def own(
        request: Request, reader: CurrentReader, query: Annotated[OwnSubmissionsQuery, Query()]
    ) -> TypedResponse[models.OwnSubmissions]:
        """The reader's own submissions, newest first."""
        if reader.account is None:
            raise Refused(
                "missing_credential", "this list needs a token: it shows your own submissions"
            )
        cursor_before = None if query.cursor is None else decode_cursor(query.cursor, OwnCursor)
        seq = progress.seq if cursor_before is None else cursor_before.as_of
        before = (seq + 1) if cursor_before is None else cursor_before.number
        filters = query.model_dump() | {"before": before, "limit": query.limit + 1}
        items = await _list_lines(sources.view(reader), **filters, account=reader.account)
        page, more = items[: query.limit], items[query.limit :]
        cursor = None
        if more:
            last = OwnCursor(made_at=time.time(), as_of=seq, number=page[-1].number)
            cursor = encode_cursor(last)
        body = models.OwnSubmissions(items=page, next_cursor=cursor, as_of=seq)
        return json_response(request, body, seq)


def _add_submission(router: APIRouter, sources: ReadSources) -> None:
    submissions = SubmissionReader(sources, ReadSnapshots(sources.reads))

    @router.get("/v1/submissions/{number}")
    async def read_submission(
        request: Request,
        reader: CurrentReader,
        number: NumberInPath,
        query: Annotated[SubmissionQuery, Query()],
    ) -> TypedResponse[models.SubmissionPage]:
        """A submission; with `after` or an earlier ETag, the response waits for changes."""
        await sources.wait_until_folded(number)
        view = sources.view(reader)
        after = query.after
        if after is None:
            known = known_version(request) if query.wait_s else None
            after = -1 if known is None else known
        submission = await submissions.wait_for_version(view, number, after, query.wait_s)
        if submission is None:
            raise unknown_submission(number)
        if query.source:
            if reason := view.source_hidden(submission, now()):
                raise Refused("no_access", f"you cannot see its source: {reason}", "source")
            submission |= await _show_source(view, sources.blobs, submission)
        return json_response(request, view.page(submission), submission["version"])

    @router.get("/internal/submissions/{number}")
    async def submission(number: NumberInPath) -> Row:
        """The id of a submission number; ingest decides who may know it."""
        await sources.wait_until_folded(number)
        if rows := await sources.reads.rows("submission_id", number=number):
            return rows[0]
        raise unknown_submission(number)


async def _list_lines(view: ReaderView, **values: object) -> list[models.SubmissionLine]:
    names = (
        *("problem", "participant", "account", "gpu", "state", "mode", "tag"),
        *("before", "limit"),
    )
    filters = {name: values.get(name) for name in names}
    if isinstance(filters["problem"], str):
        filters["problem"] = filters["problem"].lower()
    rows = await view.rows("submissions", **filters)
    lines = [view.line(row) | _state_deadline(row) for row in rows]
    return convert(lines, list[models.SubmissionLine])


@dataclass(frozen=True)
class SubmissionReader:
    """Reads submissions as pages show them, and waits for their changes."""

    sources: ReadSources
    snapshots: ReadSnapshots

    async def wait_for_version(
        self, view: ReaderView, number: int, after: int, wait_s: float
    ) -> Row | None:
        """The submission once it is newer than a version, or after a while."""
        until = time.monotonic() + wait_s
        seq, submission = self.sources.progress.seq, await self._read_visible(view, number)
        while not self.sources.progress.is_over:
            if submission and (submission["version"] > after or submission["is_over"]):
                break
            if (left := until - time.monotonic()) <= 0:
                break
            if submission is None and seq >= number:
                break  # The reader cannot see it, and never will.
            await self._wait_for_news(submission, seq, min(left, RECHECK_S))
            seq, submission = self.sources.progress.seq, await self._read_visible(view, number)
        return submission

    async def _wait_for_news(self, submission: Row | None, seq: int, within_s: float) -> None:
        """Wait until a submission may have changed, or the read models if it is not in them yet.

        Events folded since it was read, from `seq` on, may be about it.
        """
        if submission is None:
            await self.sources.progress.wait(within_s)
            return
        with self.sources.progress.follow(submission["id"]) as moved, suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                if self.sources.progress.seq == seq:
                    await moved.wait()

    async def _read_visible(self, view: ReaderView, number: int) -> Row | None:
        """A submission if the reader can see it; the reads are shared by all readers."""
        snapshot = await self.snapshots.now()
        submission = await snapshot.find_once(number, lambda: _read_full(snapshot, number))
        if submission is not None:
            submission = await view.add_embargo(submission)
        if submission is None or not view.sees(submission):
            return None
        if submission["are_ranks_hidden"]:
            submission |= {"ranking": hide_places(submission["ranking"])}
        if submission["is_over"]:
            return submission
        reported = self.sources.live.find_progress(submission["id"], submission["agent"])
        progress = {"progress": safe_progress(reported)}
        return submission | progress | {"queue": describe_wait(self.sources.live, submission)}


async def _read_full(snapshot: ReadSnapshot, number: int) -> Row | None:
    """Everything stored about a submission, whoever may see it."""
    rows = await snapshot.reads.rows("submission", number=number, at=snapshot.at)
    if not rows:
        return None
    row = prepare_row(rows[0])
    decided = row.pop("decided")
    end = SubmissionEnd(row["mode"], row["outcome"], row["is_held"], row["is_eligible"])
    timeline = [_make_entry(line, end) for line in row.pop("timeline")]
    is_over = row["state"] == "finished"
    cases = make_public_cases(row)
    if row.pop("has_baselines"):
        board = LeaderboardKey(row["problem"], row["gpu"], row["problem_version"])
        cases = await add_speedups(snapshot.reads, board, cases, row["fixed_us"])
    row["cases"] = cases
    del row["roofs"], row["fixed_us"]
    results = await snapshot.reads.rows("results", id=row["id"]) if is_over else []
    computed = {
        "version": timeline[-1]["seq"] if timeline else number,
        "is_over": is_over,
        "source": None,
        "timeline": timeline,
        "progress": None,
        "queue": None,
        "moderation": _find_moderation(decided),
        "ranking": await describe_ranking(snapshot, row, decided),
        "results": [add_interval(result) for result in results],
        "files": [_make_download(number, file) for file in row["files"]],
    }
    return row | _state_deadline(row) | computed


def _make_entry(line: list[Any], end: SubmissionEnd) -> Row:
    entry = dict(zip(TIMELINE_FIELDS, line, strict=False))
    kind = entry["type"]
    return entry | {"type": public_name(kind, end), "state": STATE_AFTER.get(kind)}


def _state_deadline(row: Row) -> Row:
    """The deadline of the submission's state, and the service responsible for it."""
    state, until_at = STATES.get(row["state"]), None
    if state is not None:
        lease_until_at: datetime | None = row["lease_until_at"]
        until_at = state_deadline(
            row["state"], row["deadline_at"], row["state_since"], lease_until_at
        )
    return {"state_deadline_at": until_at, "state_owner": state.owner if state else None}


def _make_download(number: int, file: Row) -> Row:
    url = f"/v1/submissions/{number}/files/{quote(file['name'], safe='')}"
    return file | {"kind": KINDS.get(file["name"], "artefact"), "url": url}


def _find_moderation(decided: Row) -> Row | None:
    instants = ("decided_at", "appealed_at", "banned_at", "withdrawn_at")
    return decided if any(decided[name] is not None for name in instants) else None


class DownloadResponse(Response):
    """A blob to send; `slots` limits how many are in memory at once.

    With `is_harness_code` only a harness code is sent.
    """

    is_harness_code = False

    def __init__(self, blobs: BlobStore, digest: str, slots: asyncio.Semaphore) -> None:
        super().__init__()
        self.blobs, self.digest, self.slots = blobs, digest, slots
        self.sent = {"X-Content-Type-Options": "nosniff", "ETag": f'"{digest}"'}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Fetch and send. Raises Failed, or Refused if the blob is gone or must not be sent."""
        async with self.slots:
            try:
                data = await self.blobs.get(self.digest)
            except BlobNotFound as missing:
                raise Refused("not_found", f"the file is no longer stored: {missing}") from missing
            if self.is_harness_code and not is_harness(data):
                raise _unknown_harness(self.digest)
            await Response(data, 200, self.sent)(scope, receive, send)


async def _show_source(view: ReaderView, blobs: BlobStore, submission: Row) -> Row:
    """The files of a submission as its page shows them. Raises Failed, or Refused if it is gone."""
    entry, *others = await read_source_files(blobs, view, submission)
    files = [{"name": file.name, "text": file.text} for file in (entry, *others)]
    return {"source": entry.text, "source_files": files}


async def read_source_files(
    blobs: BlobStore, view: ReaderView, submission: Row
) -> list[SourceFile]:
    """The files of a submission, the entry file first, whose own name only its owner and staff see.

    Raises Failed, or Refused if they are gone.
    """
    name = submission["name"]
    try:
        entry, *others = unpack_files(name, await blobs.get(submission["source_digest"]))
    except BlobNotFound as missing:
        raise Refused("not_found", f"the source is no longer stored: {missing}") from missing
    visible_name = name if view.owns(submission) else f"{ENTRY_STEM}{suffix(name)}"
    return [SourceFile(visible_name, entry.data), *others]


def is_harness(data: bytes) -> bool:
    """Whether a blob is a harness code: its digest comes from an agent and may name any blob.

    >>> is_harness(b"def custom_kernel(data): ...")
    False
    """
    return data.startswith(ZIP_MAGIC) and data[NAME_OFFSET:].startswith(FIRST_NAME)


def file_name(version: str, digest: str) -> str:
    """A safe file name for a harness code, whatever version its agent claims.

    >>> file_name('2"/../x', "7de7c33fe0f55c48")
    'warpboard-harness-2-x-7de7c33fe0f5.zip'
    """
    plain = UNSAFE_CHARS.sub("-", version)[:VERSION_MAX].strip("-")
    return f"warpboard-harness-{plain}-{digest[:DIGEST_SHOWN]}.zip"


def downloads_router(sources: ReadSources) -> APIRouter:
    """The routes of a run's files and of harness codes."""
    router, slots = APIRouter(route_class=DocumentedRoute), asyncio.Semaphore(DOWNLOADS_MAX)

    @router.get("/v1/submissions/{number}/files/{name}")
    async def file(who: CurrentReader, name: str, number: NumberInPath) -> Response:
        """A file of an own submission's newest run; GET /v1/submissions/{number} lists them."""
        await sources.wait_until_folded(number)
        row = await sources.view(who).own(number)
        file_row = next((item for item in row["files"] if item["name"] == name), None)
        if file_row is None:
            known = ", ".join(item["name"] for item in row["files"]) or "none"
            raise Refused("not_found", f"no file {name!r}; available: {known}", "name")
        download = DownloadResponse(sources.blobs, file_row["digest"], slots)
        # A submission wrote it: browsers must save it and never render it as ours.
        download.sent |= {
            "Content-Type": file_row["media"] if MEDIA.match(file_row["media"]) else BYTES,
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        }
        return download

    _add_harness_routes(router, sources)
    return router


def _add_harness_routes(router: APIRouter, sources: ReadSources) -> None:
    slots = asyncio.Semaphore(DOWNLOADS_MAX)

    @router.get("/v1/harnesses")
    async def list_harnesses(limit: Limit = 50) -> Harnesses:
        """The harness codes of registered agents, newest registration first."""
        alive = frozenset(sources.live.agents)
        rows = await sources.reads.rows("harnesses", digest=None, limit=limit)
        items = [_make_harness(row, alive) for row in rows]
        return Harnesses(items=convert(items, list[Harness]), as_of=sources.progress.seq)

    @router.get("/v1/harnesses/{digest}")
    async def download_harness(digest: str) -> Response:
        """The files of a harness code as a zip; its SHA-256 is the digest in the path."""
        rows = await sources.reads.rows("harnesses", digest=digest, limit=1)
        if not rows:
            raise _unknown_harness(digest)
        download = DownloadResponse(sources.blobs, digest, slots)
        download.is_harness_code = True
        name = file_name(rows[0]["version"], digest)
        disposition = f'attachment; filename="{name}"'
        download.sent |= {"Content-Type": ZIP, "Content-Disposition": disposition}
        return download


def _unknown_harness(digest: str) -> Refused:
    return Refused("not_found", f"there is no harness code {digest[:64]!r} here", "digest")


def _make_harness(row: Row, alive: frozenset[str]) -> Row:
    agents = [agent | {"is_alive": agent["id"] in alive} for agent in row["agents"]]
    name = file_name(row["version"], row["digest"])
    return row | {"agents": agents, "name": name, "url": f"/v1/harnesses/{row['digest']}"}
