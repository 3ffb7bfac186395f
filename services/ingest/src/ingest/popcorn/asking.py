"""What the read side is asked for the client, as the caller or, inside, as staff."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from ingest.domain.callers import Caller, check_problem
from ingest.popcorn.seen import Entry, Listed, Problem, Shown
from ingest.service.ports import Answer, Reads
from shared.errors import Failed, Refused
from shared.reader import Reader

# A poll that is refused ends the participant's command, so a deploy holds it for this long.
HELD_S_MAX = 25.0
PAUSE_S = 0.5
FORGOTTEN_S_MAX, FORGOTTEN_S = 2.0, 0.05
PAGE_MAX = 200
PAGES_MAX = 50
REFUSED, BROKEN = 400, 500
STAFF = Reader(is_staff=True)
_Kind = TypeVar("_Kind")


class _Items(msgspec.Struct):
    """A list, as the read side gives it."""

    items: list[msgspec.Raw]
    next_cursor: str | None = None


class _Source(msgspec.Struct):
    """A submission, of which its text is wanted."""

    source: str | None = None


@dataclass(frozen=True)
class Asking:
    """The read side, for whoever asks."""

    reads: Reads

    async def submission(
        self, number: int, reader: Reader, after: int = -1, wait_s: float = 0
    ) -> Shown | None:
        """A submission as they may see it; None if it is not there for them. Errors: Failed."""
        query: dict[str, object] = {"after": after, "wait_s": wait_s} if wait_s else {}
        answer = await self._held(f"/v1/submissions/{number}", query, reader)
        return None if answer is None else _read(answer, Shown)

    async def owned(self, number: int, caller: Caller) -> Shown:
        """Their own submission. Errors: Refused, 403 for another's, 404 if there is none.

        Who may not read their own, and yet delete it, is told here whose it is.
        """
        seen = await self.submission(number, caller.reader)
        if seen is None:
            seen = await self.submission(number, STAFF)
            if seen is None or await self._is_closed(seen.problem, caller):
                raise unknown_submission(number)
        if seen.is_withdrawn:
            raise unknown_submission(number)
        if seen.account != caller.account:
            raise Refused("not_yours", f"submission {number} is another participant's", "id")
        check_problem(caller, seen.problem)
        return seen

    async def arrived(self, number: int) -> None:
        """Wait a moment until the read side knows a submission."""
        for _ in range(round(FORGOTTEN_S_MAX / FORGOTTEN_S)):
            if await self.submission(number, STAFF) is not None:
                return
            await asyncio.sleep(FORGOTTEN_S)

    async def forgotten(self, number: int) -> None:
        """Wait a moment until the read side knows that a submission was deleted."""
        for _ in range(round(FORGOTTEN_S_MAX / FORGOTTEN_S)):
            seen = await self.submission(number, STAFF)
            if seen is None or seen.is_withdrawn:
                return
            await asyncio.sleep(FORGOTTEN_S)

    async def _is_closed(self, slug: str, caller: Caller) -> bool:
        return await self.problem(slug, caller.reader) is None

    async def mine(
        self, caller: Caller, problem: str | None, limit: int, offset: int
    ) -> list[Listed]:
        """One's own submissions that are not deleted, newest first. Errors: Failed."""
        if caller.account is None:
            return []
        query: dict[str, object] = {"problem": problem} if problem else {}
        pages = self._pages("/v1/me/submissions", query, caller.reader, Listed)
        return await _part(pages, limit, offset)

    async def listed(self, query: dict[str, object], limit: int, offset: int) -> list[Listed]:
        """Anybody's submissions that are not deleted, newest first. Errors: Failed."""
        async with aclosing(self.every(query, STAFF, PAGES_MAX)) as found:
            return await _part(found, limit, offset)

    async def every(
        self, query: dict[str, object], reader: Reader, pages_max: int | None = None
    ) -> AsyncGenerator[Listed, None]:
        """All submissions that they may see, newest first, or so many pages. Errors: Failed."""
        before: int | None = None
        for _ in range(pages_max) if pages_max else count():
            more = {"limit": PAGE_MAX} | ({"before": before} if before else {})
            answer = await self._held("/v1/submissions", query | more, reader)
            page = [] if answer is None else _items(answer, Listed)[0]
            for one in page:
                yield one
            if len(page) < PAGE_MAX:
                return
            before = page[-1].number

    async def source(self, number: int, reader: Reader) -> str | None:
        """A submission's text; None if it is not theirs to see, or not kept. Errors: Failed."""
        answer = await self._held(f"/v1/submissions/{number}", {"source": "true"}, reader)
        return None if answer is None else _read(answer, _Source).source

    async def stats(self, problem: str | None, *, is_last_day: bool) -> dict[str, Any]:
        """How much there was to do. Errors: Failed."""
        query: dict[str, object] = {"problem": problem} if problem else {}
        query |= {"is_last_day": "true"} if is_last_day else {}
        answer = await self._held("/internal/stats", query, STAFF)
        return {} if answer is None else _read(answer, dict[str, Any])

    async def problems(self, reader: Reader) -> list[Problem]:
        """All problems that they may see. Errors: Failed."""
        pages = self._pages("/v1/problems", {"state": "all"}, reader, Problem)
        return [one async for one in pages]

    async def problem(self, slug: str, reader: Reader) -> Problem | None:
        """A problem; None if it is not there for them. Errors: Failed."""
        answer = await self._held(f"/v1/problems/{quote(slug, safe='')}", {}, reader)
        return None if answer is None else _read(answer, Problem)

    async def queue(self, gpu: str) -> dict[str, Any] | None:
        """The queue of a GPU type, whatever its case; None if there is none. Errors: Failed."""
        answer = await self._held(f"/v1/queue/{quote(gpu, safe='')}", {}, Reader())
        return None if answer is None else _read(answer, dict[str, Any])

    async def leaderboard(
        self, slug: str, gpu: str, reader: Reader, most: int | None = None
    ) -> list[Entry]:
        """A leaderboard, best first; no more pages are read than so many need. Errors: Failed."""
        path = f"/v1/leaderboards/{quote(slug, safe='')}/{quote(gpu, safe='')}"
        found: list[Entry] = []
        async for one in self._pages(path, {}, reader, Entry):
            found.append(one)
            if len(found) == most:
                break
        return found

    async def _pages(
        self, path: str, query: dict[str, object], reader: Reader, kind: type[_Kind]
    ) -> AsyncIterator[_Kind]:
        """All of a list that goes on by cursors, as far as anybody reads."""
        asked = query | {"limit": PAGE_MAX}
        for _ in range(PAGES_MAX):
            answer = await self._held(path, asked, reader)
            if answer is None:
                return
            page, cursor = _items(answer, kind)
            for one in page:
                yield one
            if cursor is None:
                return
            asked["cursor"] = cursor

    async def _held(self, path: str, query: dict[str, object], reader: Reader) -> Answer | None:
        """An answer that is there, or None; asked again while the read side is away."""
        until = time.monotonic() + HELD_S_MAX
        while True:
            try:
                answer = await self.reads.read(path, urlencode(query), {}, reader)
            except Failed:
                answer = None
            if answer is not None and answer.status < REFUSED:
                return answer
            if answer is not None and answer.status < BROKEN:
                return None
            if time.monotonic() > until:
                raise Failed("the results cannot be read for a moment; ask again")
            await asyncio.sleep(PAUSE_S)


def unknown_submission(number: int) -> Refused:
    """What is said of a submission that is not there."""
    return Refused("unknown_submission", f"there is no submission {number}", "id")


async def _part(pages: AsyncIterator[Listed], limit: int, offset: int) -> list[Listed]:
    """So many of a list behind an offset, without what was deleted."""
    found: list[Listed] = []
    async for one in pages:
        if not one.is_withdrawn:
            found.append(one)
        if len(found) >= offset + limit:
            break
    return found[offset:]


def _items(answer: Answer, kind: type[_Kind]) -> tuple[list[_Kind], str | None]:
    page = _read(answer, _Items)
    return [msgspec.json.decode(one, type=kind) for one in page.items], page.next_cursor


def _read(answer: Answer, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise Failed(f"the read side answered what cannot be read: {error}") from error
