"""Live server-sent events: the history of a submission, and the changes of a leaderboard."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Request
from msgspec.structs import replace

from ranker.domain.history import make_public_history
from ranker.http.access import (
    CurrentReader,
    ReaderView,
    ReadSources,
    safe_progress,
)
from ranker.http.leaderboards import find_leaderboard, read_checkpoint
from ranker.http.queues import describe_wait
from ranker.http.responses import NumberInPath, json_response
from ranker.service.progress import LEADERBOARDS
from shared.api.leaderboards import LeaderboardChange
from shared.api.queues import Queue
from shared.api.submissions import HistoryEnd, HistoryEvent, Progress
from shared.errors import Failed, Refused, unknown_submission
from shared.event_log import RecordedEvent
from shared.http import DocumentedRoute, LiveResponse, TypedResponse

SEQUENCE_MAX = 2**53 - 1
# This many streams query Postgres at once; the others wait for their turn.
QUERIES_MAX = 16
STREAM_S_MAX = 3600.0
NOTICE_INTERVAL_S = 2.0
# The archive catches up with the read models within this time.
GAP_S = 0.3
SILENT_S_MAX = 15.0
LOOK_S = 10.0
PAGE_MAX = 500
RETRY_HINT = b"retry: 2000\n\n"
KEEPALIVE = b": still here\n\n"
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
JSON, EVENTS = "application/json", "text/event-stream"

SequenceQuery = Annotated[int, Query(ge=0, le=SEQUENCE_MAX)]
LastEventId = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=SEQUENCE_MAX)]
Row = dict[str, Any]


@dataclass(frozen=True)
class HistoryPage:
    """The events after a sequence of a submission's history, up to `last`."""

    row: Row
    events: list[HistoryEvent]
    last: int
    is_complete: bool

    @property
    def is_end(self) -> bool:
        """Whether the submission is over and there are no more events."""
        return self.is_complete and self.row["state"] == "finished"


@dataclass
class HistoryReader:
    """Submissions' histories as readers may see them, for many readers at once."""

    sources: ReadSources
    open: int = 0
    asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(QUERIES_MAX))

    async def read_all(
        self, view: ReaderView, number: int, page: HistoryPage
    ) -> list[HistoryEvent]:
        """The events of a page and of all after it."""
        all_events = list(page.events)
        while page.events and not page.is_complete:
            page = await self.page(view, number, page.last)
            all_events += page.events
        return all_events

    async def page(self, view: ReaderView, number: int, after: int) -> HistoryPage:
        """The next page after a sequence.

        Raises Refused if the reader cannot see the submission.
        """
        async with self.asking:
            rows = await view.rows("history", number=number)
            if not rows or not view.sees(rows[0]):
                raise unknown_submission(number)
            row = rows[0]
            sequences = [line[0] for line in row.pop("timeline") if line[0] > after]
            events = await self._read_events(sequences[:PAGE_MAX])
        public_events = make_public_history(events, row["mode"], is_own=view.owns(row))
        last = events[-1].seq if events else after
        history = msgspec.convert(public_events, list[HistoryEvent], from_attributes=True)
        return HistoryPage(row, history, last, len(events) == len(sequences))

    async def _read_events(self, sequences: Sequence[int]) -> list[RecordedEvent]:
        """The events, up to the first that the archive does not have yet."""
        recent, archive = self.sources.progress.recent, self.sources.archive
        by_seq = {seq: recent[seq] for seq in sequences if seq in recent}
        missing = [seq for seq in sequences if seq not in by_seq]
        if missing and archive is not None:
            by_seq |= {event.seq: event for event in await archive.read_events(missing)}
        return [by_seq[seq] for seq in takewhile(by_seq.__contains__, sequences)]

    async def count_open(self, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The pieces of a stream, which counts as open until they end."""
        self.open += 1
        try:
            async for piece in pieces:
                yield piece
        finally:
            self.open -= 1
            await pieces.aclose()


@dataclass
class EventStream:
    """One reader's stream of one submission; `place` is the last sequence sent."""

    histories: HistoryReader
    view: ReaderView
    number: int
    submission: str
    place: int
    sent_at: float = 0.0
    queue: Queue | None = None
    progress: Progress | None = None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The bytes of the stream up to `end`; without an `end` the reader may reconnect."""
        yield self._mark_sent(RETRY_HINT)
        progress, until = self.histories.sources.progress, time.monotonic() + STREAM_S_MAX
        with progress.follow(self.submission) as moved:
            while time.monotonic() < until:
                moved.clear()
                try:
                    page = await self.histories.page(self.view, self.number, self.place)
                except Refused:  # The reader can no longer see it.
                    return
                except Failed:  # During an outage.
                    page = None
                for piece in self._format_page(page) if page else ():
                    yield piece
                if progress.is_over or (page is not None and page.is_end):
                    return
                async for notice in self._wait_quietly(moved, page):
                    yield self._mark_sent(notice)

    def _format_page(self, page: HistoryPage) -> Iterator[bytes]:
        for event in page.events:
            yield self._mark_sent(format_event(event.type, event, event.id))
        self.place = page.last
        if page.is_end:
            yield format_event("end", HistoryEnd(number=self.number, id=self.place))

    async def _wait_quietly(
        self, moved: asyncio.Event, page: HistoryPage | None
    ) -> AsyncIterator[bytes]:
        """What is sent between events; ends when there may be new events.

        A standby instance receives no notifications, so it checks by itself now and then.
        """
        until = time.monotonic() + LOOK_S
        while not moved.is_set() and time.monotonic() < until:
            is_gap = page is not None and not page.is_complete
            with suppress(TimeoutError):
                async with asyncio.timeout(GAP_S if is_gap else NOTICE_INTERVAL_S):
                    await moved.wait()
                    return
            if page is None or is_gap:
                return
            async for notice in self._notices(page.row):
                yield notice
            if time.monotonic() - self.sent_at >= SILENT_S_MAX:
                yield KEEPALIVE

    async def _notices(self, row: Row) -> AsyncIterator[bytes]:
        """New values that are not stored: the owner's running case, or the place in the queue."""
        if not self.view.owns(row):
            return
        live = self.histories.sources.live
        progress = safe_progress(live.find_progress(row["id"], row["agent"]))
        if progress is not None and progress != self.progress:
            self.progress = progress
            yield format_event("progress", progress)
        queue, known = describe_wait(live, row), self.queue
        # The instant of the forecast alone is no news.
        if queue and not (known and replace(queue, as_of=known.as_of) == known):
            self.queue = queue
            yield format_event("queue", queue)

    def _mark_sent(self, piece: bytes) -> bytes:
        self.sent_at = time.monotonic()
        return piece


def format_event(name: str, data: object, place: int | None = None) -> bytes:
    r"""Format one event; without a sequence, readers do not resume from it.

    >>> format_event("end", {"id": 7}, 7)
    b'id: 7\nevent: end\ndata: {"id":7}\n\n'
    """
    head = b"" if place is None else b"id: %d\n" % place
    return head + b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


async def _leaderboard_changes(sources: ReadSources, after: int) -> AsyncGenerator[bytes, None]:
    """The bytes of a stream of changes: each names the event up to which a read is complete.

    It does not tell which leaderboard changed, so that no reader costs a query.
    """
    yield RETRY_HINT
    progress, sent, until = sources.progress, after, time.monotonic() + STREAM_S_MAX
    with progress.follow(LEADERBOARDS) as moved:
        seq = progress.seq
        while time.monotonic() < until and not progress.is_over:
            moved.clear()
            if seq > sent:
                sent = seq
                yield format_event("changed", LeaderboardChange(as_of=seq), seq)
            try:
                async with asyncio.timeout(SILENT_S_MAX):
                    await moved.wait()
                seq = progress.seq
            except TimeoutError:
                yield KEEPALIVE
                # A standby instance receives no notifications.
                if progress.at is None:
                    with suppress(Failed):
                        seq = await read_checkpoint(sources.reads)


def events_router(sources: ReadSources) -> APIRouter:
    """The routes of live streams."""
    router, histories = APIRouter(route_class=DocumentedRoute), HistoryReader(sources)

    def live_response(pieces: AsyncGenerator[bytes, None]) -> LiveResponse:
        if histories.open >= sources.streams_max:
            reason = f"{sources.streams_max} streams are open here"
            raise Refused("too_many_streams", reason, None, 2.0)
        return LiveResponse(histories.count_open(pieces), 200, HEADERS)

    @router.get("/v1/submissions/{number}/events")
    async def events(
        number: NumberInPath,
        request: Request,
        reader: CurrentReader,
        after: SequenceQuery = 0,
        last_event_id: LastEventId = None,
    ) -> TypedResponse[list[HistoryEvent]] | LiveResponse:
        """The history of a submission after a sequence, then live until it is over."""
        await sources.wait_until_folded(number)
        view = sources.view(reader)
        after_seq = after if last_event_id is None else last_event_id
        page = await histories.page(view, number, after_seq)
        accept = request.headers.get("accept", "")
        if JSON in accept and EVENTS not in accept:
            all_events = await histories.read_all(view, number, page)
            return json_response(request, all_events)
        stream = EventStream(histories, view, number, page.row["id"], after_seq)
        return live_response(stream.pieces())

    @router.get("/v1/leaderboards/{slug}/{gpu}/events")
    async def leaderboard_events(
        slug: str,
        gpu: str,
        request: Request,
        reader: CurrentReader,
        last_event_id: LastEventId = 0,
    ) -> TypedResponse[LeaderboardChange] | LiveResponse:
        """Live: `changed` at once and when the leaderboard may have changed; then read it."""
        await find_leaderboard(sources.view(reader), slug, gpu, None)
        accept = request.headers.get("accept", "")
        if JSON in accept and EVENTS not in accept:
            change = LeaderboardChange(as_of=await read_checkpoint(sources.reads))
            return json_response(request, change)
        return live_response(_leaderboard_changes(sources, last_event_id or 0))

    return router
