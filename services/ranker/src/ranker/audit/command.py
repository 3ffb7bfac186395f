"""The audit command: of the running platform, or of an exported file alone."""

import asyncio
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias

from msgspec import convert
from msgspec.structs import replace

from ranker.archive.archiver import read_own_key
from ranker.archive.log_file import LogFileReader, open_log_file
from ranker.archive.postgres import PACKAGE, Archive, open_archive
from ranker.archive.postgres import SCHEMA as ARCHIVE_SCHEMA
from ranker.audit.contests import LiveContest, audit_contest
from ranker.audit.leaderboards import LiveLeaderboard, audit
from ranker.audit.log_audit import LogCopy
from ranker.audit.rating import LiveRating, audit_rating
from ranker.domain.contests import derive_divisions, find_round, find_windows
from ranker.domain.rating import rate
from ranker.domain.rows import LeaderboardKey
from ranker.domain.stored_log import CHAIN_START, DamagedCopy, PublishedSeal, StoredEvent
from ranker.postgres import SCHEMA, Reader
from ranker.service.contest_confirmations import read_announced
from ranker.service.contests import FINALISTS, RoundReader, decode_definition, read_roster
from ranker.service.decisions import Reads
from ranker.service.leaderboard import key_values, read_top
from ranker.service.progress import log_progress
from ranker.service.rating import read_boards
from ranker.settings import Settings
from shared.api.audits import (
    AuditReport,
    AuditRequest,
    ContestAuditReport,
    ContestAuditRequest,
    Finding,
    RatingAuditReport,
    RatingAuditRequest,
)
from shared.clock import now
from shared.contests.definition import ContestPlace
from shared.errors import Failed, Refused
from shared.event_log import EventLog, Feed, Gap, RecordedEvent
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.postgres import await_migrations, create_pool, migrate
from shared.verdicts import verify_verdict

CATCH_UP_S_MAX = 30.0
POLL_S = 0.05
ENTRIES_MAX = 1_000_000
LOOKS_MAX = 100

Request: TypeAlias = AuditRequest | ContestAuditRequest | RatingAuditRequest
Report: TypeAlias = AuditReport | ContestAuditReport | RatingAuditReport
LiveState: TypeAlias = LiveLeaderboard | LiveContest | LiveRating


def _make_request(options: Namespace, known_key: str | None) -> Request:
    keys = [*options.key, *([known_key] if known_key else [])]
    scope: dict[str, Any] = {"as_of": options.as_of, "as_of_seq": options.as_of_seq, "keys": keys}
    is_of_board = options.problem is not None or options.version is not None
    if options.round is not None and options.contest is None:
        raise Refused("usage", "--round is a round of a --contest", "round")
    if options.rating:
        if is_of_board or options.contest is not None:
            reason = "--rating audits all problems: name no problem, GPU type, --version, --contest"
            raise Refused("usage", reason, "rating")
        return RatingAuditRequest(**scope)
    if options.contest is not None:
        if is_of_board:
            reason = "--contest audits a contest: name no problem, GPU type or --version"
            raise Refused("usage", reason, "contest")
        return ContestAuditRequest(options.contest, options.round, **scope)
    if options.problem is None or options.gpu is None:
        reason = "name a problem and a GPU type, or --contest SLUG, or --rating"
        raise Refused("usage", reason, "problem")
    return AuditRequest(options.problem, options.gpu, options.version, **scope)


async def audit_live(
    settings: Settings, options: Namespace, published: Sequence[PublishedSeal]
) -> Report:
    """Audit log, archive and live read models of a running platform. Raises Refused or Failed."""
    request = _make_request(options, read_own_key(settings))
    async with _open_platform(settings) as (reader, archive_store, copy):
        live = None
        if request.as_of is None and request.as_of_seq is None:
            live = await _read_live(reader, request)
            await _wait_for_archive(archive_store, live.seq)
            request = replace(request, as_of_seq=live.seq)
        return await _audit(request, copy, live, published)


async def audit_file(options: Namespace, published: Sequence[PublishedSeal]) -> Report:
    """Audit an exported file; without other keys, seals are checked with the file's own."""
    reader = open_log_file(options.file)
    request = _make_request(options, None if options.key else reader.header.key)
    return await _audit(request, FileCopy(reader), None, published)


async def _audit(
    request: Request, copy: LogCopy, live: LiveState | None, published: Sequence[PublishedSeal]
) -> Report:
    # The live state was read for this request, so it is of the same kind.
    match request, live:
        case ContestAuditRequest(), LiveContest() | None:
            return await audit_contest(request, copy, verify_verdict, live, published)
        case RatingAuditRequest(), LiveRating() | None:
            return await audit_rating(request, copy, verify_verdict, live, published)
        case AuditRequest(), LiveLeaderboard() | None:
            return await audit(request, copy, verify_verdict, live, published)
        case _:
            raise AssertionError("a live state of another kind")


@asynccontextmanager
async def _open_platform(
    settings: Settings,
) -> AsyncIterator[tuple[Reader, Archive, "ArchiveCopy"]]:
    """Open the read models, the archive, and the events of a running platform."""
    dsn = settings.postgres_dsn
    await asyncio.to_thread(await_migrations, dsn, "shared", "accounts")
    for package, schema_name in (("ranker", SCHEMA), (PACKAGE, ARCHIVE_SCHEMA)):
        await asyncio.to_thread(migrate, dsn, package, schema_name)
    nc = await connect(settings.bus_login, "ranker-audit")
    try:
        async with (
            create_pool(dsn, 1, 1, SCHEMA) as connections,
            open_archive(dsn) as archive_store,
        ):
            yield Reader(connections), archive_store, ArchiveCopy(archive_store, NatsLog(nc))
    finally:
        await nc.close()


async def _read_live(reader: Reader, request: Request) -> LiveState:
    """What readers see at one moment: read again if something was folded meanwhile."""
    for _ in range(LOOKS_MAX):
        (before,), at = await reader.rows("checkpoint"), now()
        if not before["seq"]:
            raise Refused("nothing_folded", "nothing is folded yet: start the platform first")
        live = await _read_state(reader, request, before["seq"], at)
        (after,) = await reader.rows("checkpoint")
        if before == after:
            return live
    raise Failed("the read models kept changing: audit with --as-of-seq")


async def _read_state(reader: Reader, request: Request, seq: int, at: datetime) -> LiveState:
    match request:
        case ContestAuditRequest():
            return await _read_contest(reader, request, seq, at)
        case RatingAuditRequest():
            return LiveRating(seq, at, rate(await read_boards(reader, at)))
        case AuditRequest():
            board = await _find_board(reader, request)
            return LiveLeaderboard(seq, at, await read_entries(reader, board, at))


async def _find_board(reader: Reader, request: AuditRequest) -> LeaderboardKey:
    problems = await reader.rows("newest_version", slug=request.problem)
    number = request.version or (problems[0]["number"] if problems else 0)
    return LeaderboardKey(request.problem, request.gpu, number)


async def _read_contest(
    reader: Reader, request: ContestAuditRequest, seq: int, at: datetime
) -> LiveContest:
    """The standing that organisers see."""
    rows = await reader.rows("contests", contest=request.contest)
    if not rows:
        raise Refused("not_found", f"there is no contest {request.contest!r}", "contest")
    contest = decode_definition(rows[0])
    round_ = request.round or find_round(contest, at)
    counted = await RoundReader(reader, contest, round_, at).read(find_windows(contest, round_))
    roster = await read_roster(reader, contest.slug)
    announced = await read_announced(reader, contest.slug)
    results = {
        stage: convert(row["places"], list[ContestPlace])
        for stage, row in announced.items()
        if stage != FINALISTS
    }
    return LiveContest(seq, at, derive_divisions(contest, round_, roster, counted), results)


async def read_entries(reader: Reads, board: LeaderboardKey, at: datetime) -> list[dict[str, Any]]:
    """Read the entries with the places and confirmations that readers see."""
    placed = await read_top(reader, board, ENTRIES_MAX, at)
    rows = await reader.rows("confirmations_shown", **key_values(board))
    confirmations = {row["submission"]: row["shown"] for row in rows}
    return [
        row
        | {"rank": place.rank, "best_rank": place.best_rank, "is_tied": place.is_tied}
        | {"duel": place.duel}
        | {"confirmation": confirmations.get(row["submission"], "")}
        for place, row in placed
    ]


async def _wait_for_archive(archive_store: Archive, seq: int) -> None:
    until = time.monotonic() + CATCH_UP_S_MAX
    while (archived := await archive_store.checkpoint()) < seq:
        if time.monotonic() > until:
            raise Failed(f"the archive is at event {archived}, the read models are at {seq}")
        await asyncio.sleep(POLL_S)


PAGE = 2000


class ArchiveCopy:
    """The events of the archive, each compared with the same event of the log."""

    def __init__(self, archive: Archive, log: EventLog) -> None:
        self._archive = archive
        self._log = log
        self._findings: list[Finding] = []
        self._log_page: Iterator[RecordedEvent] = iter(())
        self._last = 0
        self._read = 0

    def findings(self) -> Sequence[Finding]:
        """The first difference between the log and the archive."""
        return self._findings

    async def events(self) -> AsyncIterator[StoredEvent]:
        """Every event of the archive up to its checkpoint at the start."""
        end, read_seq = await self._archive.checkpoint(), 0
        self._last = await self._log.last()
        if self._last < end:
            reason = f"the log ends at {self._last}, but its archive has {end} events"
            self._findings.append(Finding(self._last + 1, reason))
        feed = self._log.follow(0)
        try:
            while page := await self._archive.page(read_seq, min(PAGE, max(end - read_seq, 1))):
                log_progress("events", read_seq, end)
                for stored in page[: end - read_seq]:
                    await self._compare_with_log(feed, stored)
                    yield stored
                read_seq = page[-1].seq
                if read_seq >= end:
                    break
        finally:
            await feed.close()
        if read_seq < end:
            self._findings.append(
                Finding(read_seq + 1, f"the archive ends at {read_seq}, not at {end}")
            )

    async def _compare_with_log(self, feed: Feed, stored: StoredEvent) -> None:
        """Compare up to the first difference; from there on only the archive is read."""
        while not self._findings and stored.seq <= self._last:
            event = await self._next_logged(feed)
            if event is None or event.seq == stored.seq:
                if event is not None and event.body != stored.body:
                    reason = "the log and its archive have different events here"
                    self._findings.append(Finding(stored.seq, reason))
                return

    async def _next_logged(self, feed: Feed) -> RecordedEvent | None:
        event = next(self._log_page, None)
        if event is not None:
            return event
        try:
            page = await feed.take(PAGE)
        except Gap as error:
            self._findings.append(Finding(self._read + 1, f"the log cannot be read: {error}"))
            return None
        self._read, self._log_page = page[-1].seq, iter(page)
        return next(self._log_page)


class FileCopy:
    """The events of an exported file; needs no server."""

    def __init__(self, lines: LogFileReader) -> None:
        self._lines = lines
        self._findings: list[Finding] = []

    def findings(self) -> Sequence[Finding]:
        """Where the file is damaged or contradicts itself."""
        return self._findings

    async def events(self) -> AsyncIterator[StoredEvent]:
        """Every event up to the first damage."""
        h, seq = CHAIN_START, 0
        try:
            for stored in self._lines.events():
                log_progress("events", stored.seq, self._lines.header.count)
                h, seq = stored.chain_after(h), stored.seq
                yield stored
        except DamagedCopy as damaged:
            self._findings.append(Finding(damaged.seq + 1, damaged.reason))
            return
        if self._lines.end is not None and self._lines.end.h != h.hex():
            self._findings.append(Finding(seq, "the chain is not the one in the last line"))
