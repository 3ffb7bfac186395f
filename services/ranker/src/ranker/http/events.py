"""The history of a submission, live: server-sent events that a cut connection takes up again."""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, cast

import msgspec
from fastapi import Header, Query, Request

from ranker.domain.story import Told, story
from ranker.http.access import Asker, Seen, safe_progress, unknown
from ranker.http.answers import NumberInPath, answered
from ranker.http.shapes.history import Told as Shape
from ranker.http.waiting import WAITING, expected
from ranker.service import Alive, News, Reads
from shared.answers import Answer
from shared.errors import Failed, Refused
from shared.event_log import Recorded
from shared.file_limit import STREAMS_MAX
from shared.http import Live

PLACE_MAX = 2**53 - 1
# So many streams ask Postgres at once; the others wait for their turn.
ASKING_MAX = 16
STREAM_S_MAX = 3600.0
NOTICE_S = 2.0
# The archive follows the read models within this.
GAP_S = 0.3
SILENT_S_MAX = 15.0
LOOK_S = 10.0
PAGE_MAX = 500
BEGINNING = b"retry: 2000\n\n"
STILL_HERE = b": still here\n\n"
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
JSON, EVENTS = "application/json", "text/event-stream"

Place = Annotated[int, Query(ge=0, le=PLACE_MAX)]
LastPlace = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=PLACE_MAX)]
Row = dict[str, Any]


class Bodies(Protocol):
    """Where events lie that are not remembered any more."""

    async def some(self, seqs: Sequence[int]) -> list[Recorded]:
        """Those of some events, at most 1000, that are there, in order. Errors: Failed."""
        ...


@dataclass(frozen=True)
class Page:
    """What comes after a place in a submission's history; `last` is the place it goes up to."""

    row: Row
    told: list[Told]
    last: int
    is_whole: bool

    @property
    def is_end(self) -> bool:
        """Whether the submission is over, and nothing more is to be told now."""
        return self.is_whole and self.row["state"] == "finished"


@dataclass
class Histories:
    """The histories of submissions as readers may see them, followed by many at once."""

    reads: Reads
    news: News
    live: Alive
    bodies: Bodies | None = None
    open: int = 0
    streams_max: int = STREAMS_MAX
    asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ASKING_MAX))

    async def events(
        self,
        number: NumberInPath,
        request: Request,
        who: Asker,
        after: Place = 0,
        last_event_id: LastPlace = None,
    ) -> Answer[list[Shape]] | Live:
        """What happened to a submission after a place, and what happens until it is over."""
        seen = Seen(self.reads, who)
        place = after if last_event_id is None else last_event_id
        page = await self.page(seen, number, place)
        accept = request.headers.get("accept", "")
        if JSON in accept and EVENTS not in accept:
            whole = await self._whole(seen, number, page)
            return answered(request, cast("list[Shape]", whole))
        if self.open >= self.streams_max:
            what = f"{self.streams_max} streams are open here"
            raise Refused("too_many_streams", what, None, 2.0)
        stream = Stream(self, seen, number, page.row["id"], place)
        return Live(self._counted(stream.pieces()), 200, HEADERS)

    async def page(self, seen: Seen, number: int, after: int) -> Page:
        """What comes after a place. Errors: Refused if there is no such submission for them."""
        async with self.asking:
            rows = await seen.rows("history", number=number)
            if not rows or not seen.sees(rows[0]):
                raise unknown(number)
            row = rows[0]
            due = [line[0] for line in row.pop("timeline") if line[0] > after]
            events = await self._bodies(due[:PAGE_MAX])
        told = story(events, row["mode"], is_own=seen.owns(row))
        last = events[-1].seq if events else after
        return Page(row, told, last, len(events) == len(due))

    async def _whole(self, seen: Seen, number: int, page: Page) -> list[Told]:
        told = list(page.told)
        while page.told and not page.is_whole:
            page = await self.page(seen, number, page.last)
            told += page.told
        return told

    async def _bodies(self, due: Sequence[int]) -> list[Recorded]:
        """The events, up to the first that the archive does not have yet."""
        found = {seq: self.news.heard[seq] for seq in due if seq in self.news.heard}
        missing = [seq for seq in due if seq not in found]
        if missing and self.bodies is not None:
            found |= {event.seq: event for event in await self.bodies.some(missing)}
        there: list[Recorded] = []
        for seq in due:
            if seq not in found:
                break
            there.append(found[seq])
        return there

    async def _counted(self, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            async for piece in pieces:
                yield piece
        finally:
            self.open -= 1
            await pieces.aclose()


@dataclass
class Stream:
    """One reader's stream of one submission; `place` is the last that was told."""

    histories: Histories
    seen: Seen
    number: int
    submission: str
    place: int
    spoke_at: float = 0.0
    queue: Row | None = None
    progress: Row | None = None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """All that is to be told, then `end`; without an `end` the reader may come again."""
        yield self._said(BEGINNING)
        news, until = self.histories.news, time.monotonic() + STREAM_S_MAX
        with news.following(self.submission) as moved:
            while time.monotonic() < until:
                moved.clear()
                try:
                    page = await self._page()
                except Refused:  # It exists for them no longer.
                    return
                for piece in self._told(page):
                    yield piece
                if news.is_over or (page is not None and page.is_end):
                    return
                async for notice in self._quiet(moved, page):
                    yield self._said(notice)

    async def _page(self) -> Page | None:
        """The next events; None while they cannot be read, which may pass. Errors: Refused."""
        try:
            return await self.histories.page(self.seen, self.number, self.place)
        except Failed:
            return None

    def _told(self, page: Page | None) -> Iterator[bytes]:
        """A page's events, and the end where it is the last."""
        if page is None:
            return
        for one in page.told:
            yield self._said(block(one["type"], one, one["id"]))
        self.place = page.last
        if page.is_end:
            yield block("end", {"number": self.number, "id": self.place})

    async def _quiet(self, moved: asyncio.Event, page: Page | None) -> AsyncIterator[bytes]:
        """What is told while nothing happens; it ends when something may have happened.

        An instance that stands by hears of nothing: so it looks by itself every now and then.
        """
        until = time.monotonic() + LOOK_S
        while not moved.is_set() and time.monotonic() < until:
            is_gap = page is not None and not page.is_whole
            try:
                async with asyncio.timeout(GAP_S if is_gap else NOTICE_S):
                    await moved.wait()
                    return
            except TimeoutError:
                pass
            if page is None or is_gap:
                return
            async for notice in self._notices(page.row):
                yield notice
            if time.monotonic() - self.spoke_at >= SILENT_S_MAX:
                yield STILL_HERE

    async def _notices(self, row: Row) -> AsyncIterator[bytes]:
        """What is new and is kept nowhere: to its owner the case at hand, or what it waits for."""
        if not self.seen.owns(row):
            return
        progress = safe_progress(self.histories.live.progress.get(row["id"]))
        if progress is not None and progress != self.progress:
            self.progress = progress
            yield block("progress", progress)
        if row["state"] in WAITING and (queue := self._queue(row)) is not None:
            yield block("queue", queue)

    def _queue(self, row: Row) -> Row | None:
        """What it waits for, if that is another matter than a moment ago."""
        found = expected(self.histories.live, row)
        if found is None or _news(found) == _news(self.queue or {}):
            return None
        self.queue = found
        return found

    def _said(self, piece: bytes) -> bytes:
        self.spoke_at = time.monotonic()
        return piece


def _news(queue: Row) -> Row:
    """What of a place in the queue is worth telling: not the instant at which it was looked at."""
    return {name: value for name, value in queue.items() if name != "as_of"}


def block(name: str, data: object, place: int | None = None) -> bytes:
    r"""One event as bytes; without a place nobody resumes from it.

    >>> block("end", {"id": 7}, 7)
    b'id: 7\nevent: end\ndata: {"id":7}\n\n'
    """
    head = b"" if place is None else b"id: %d\n" % place
    return head + b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
