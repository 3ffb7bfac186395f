"""What the client needs of the read side, as the caller or internally as staff."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from ingest.access.callers import Caller, check_problem
from ingest.ports import ReadProxy, ReadResponse
from shared.api.leaderboards import Entry
from shared.api.problems import Problem
from shared.api.queues import QueueOfGpu
from shared.api.submissions import FullSubmission, SubmissionLine
from shared.errors import Failed, Refused
from shared.reader import Reader

# A failed poll ends the participant's command, so during a deployment it is retried this long.
RETRY_S_MAX = 25.0
RETRY_PAUSE_S = 0.5
FORGOTTEN_S_MAX, FORGOTTEN_S = 2.0, 0.05
PAGE_MAX = 200
PAGES_MAX = 50
REFUSED, BROKEN = 400, 500
STAFF = Reader(is_staff=True)
_Kind = TypeVar("_Kind")


class _Items(msgspec.Struct):
    """A page of a list of the read side."""

    items: list[msgspec.Raw]
    next_cursor: str | None = None


class _Source(msgspec.Struct):
    """The source of a submission."""

    source: str | None = None


@dataclass(frozen=True)
class ReadClient:
    """The read side, for any reader."""

    reads: ReadProxy

    async def submission(
        self, number: int, reader: Reader, after: int = -1, wait_s: float = 0
    ) -> FullSubmission | None:
        """Return a submission as this reader may see it, or None. Raises `Failed`."""
        query: dict[str, object] = {"after": after, "wait_s": wait_s} if wait_s else {}
        answer = await self._get(f"/v1/submissions/{number}", query, reader)
        return None if answer is None else _decode(answer, FullSubmission)

    async def load_own(self, number: int, caller: Caller) -> FullSubmission:
        """Return the caller's own submission.

        Raises `Refused`: 403 for another participant's, 404 if there is none. A caller who may not
        read their own but delete it is checked here, too. Raises `Failed`.
        """
        submission = await self.submission(number, caller.reader)
        if submission is None:
            submission = await self.submission(number, STAFF)
            if submission is None:
                raise unknown_submission(number)
            if await self.problem(submission.problem, caller.reader) is None:
                raise unknown_submission(number)
        if is_withdrawn(submission):
            raise unknown_submission(number)
        if submission.participant_id != caller.account:
            raise Refused("not_yours", f"submission {number} belongs to another participant", "id")
        check_problem(caller, submission.problem)
        return submission

    async def wait_until_known(self, number: int) -> None:
        """Wait briefly until the read side knows a submission."""
        for _ in range(round(FORGOTTEN_S_MAX / FORGOTTEN_S)):
            if await self.submission(number, STAFF) is not None:
                return
            await asyncio.sleep(FORGOTTEN_S)

    async def wait_until_deleted(self, number: int) -> None:
        """Wait briefly until the read side knows that a submission was deleted."""
        for _ in range(round(FORGOTTEN_S_MAX / FORGOTTEN_S)):
            submission = await self.submission(number, STAFF)
            if submission is None or is_withdrawn(submission):
                return
            await asyncio.sleep(FORGOTTEN_S)

    async def list_own(
        self, caller: Caller, problem: str | None, limit: int, offset: int
    ) -> list[SubmissionLine]:
        """Return the caller's submissions that are not deleted, newest first. Raises `Failed`."""
        if caller.account is None:
            return []
        query: dict[str, object] = {"problem": problem} if problem else {}
        pages = self._pages("/v1/me/submissions", query, caller.reader, SubmissionLine)
        return await _take_page(pages, limit, offset)

    async def list_all(
        self, query: dict[str, object], limit: int, offset: int
    ) -> list[SubmissionLine]:
        """Return any submissions that are not deleted, newest first. Raises `Failed`."""
        async with aclosing(self.iterate_all(query, STAFF, PAGES_MAX)) as summaries:
            return await _take_page(summaries, limit, offset)

    async def iterate_all(
        self, query: dict[str, object], reader: Reader, pages_max: int | None = None
    ) -> AsyncGenerator[SubmissionLine, None]:
        """Yield the submissions this reader may see, newest first; at most `pages_max` pages.

        Raises `Failed`.
        """
        cursor: int | None = None
        for _ in range(pages_max) if pages_max else count():
            more = {"limit": PAGE_MAX} | ({"before": cursor} if cursor else {})
            answer = await self._get("/v1/submissions", query | more, reader)
            page = [] if answer is None else _decode_page(answer, SubmissionLine)[0]
            for summary in page:
                yield summary
            if len(page) < PAGE_MAX:
                return
            cursor = page[-1].number

    async def source(self, number: int, reader: Reader) -> str | None:
        """Return the source of a submission, None if it is hidden or gone. Raises `Failed`."""
        answer = await self._get(f"/v1/submissions/{number}", {"source": "true"}, reader)
        return None if answer is None else _decode(answer, _Source).source

    async def stats(self, problem: str | None, *, is_last_day: bool) -> dict[str, Any]:
        """Return statistics of the platform or of one problem. Raises `Failed`."""
        query: dict[str, object] = {"problem": problem} if problem else {}
        query |= {"is_last_day": "true"} if is_last_day else {}
        answer = await self._get("/internal/stats", query, STAFF)
        return {} if answer is None else _decode(answer, dict[str, Any])

    async def problems(self, reader: Reader) -> list[Problem]:
        """Return all problems that this reader may see. Raises `Failed`."""
        pages = self._pages("/v1/problems", {"state": "all"}, reader, Problem)
        return [problem async for problem in pages]

    async def problem(self, slug: str, reader: Reader) -> Problem | None:
        """Return a problem, None if it does not exist for this reader. Raises `Failed`."""
        answer = await self._get(f"/v1/problems/{quote(slug, safe='')}", {}, reader)
        return None if answer is None else _decode(answer, Problem)

    async def queue(self, gpu: str) -> QueueOfGpu | None:
        """Return the queue of a GPU type in any case, None if there is none. Raises `Failed`."""
        answer = await self._get(f"/v1/queue/{quote(gpu, safe='')}", {}, Reader())
        return None if answer is None else _decode(answer, QueueOfGpu)

    async def leaderboard(
        self, slug: str, gpu: str, reader: Reader, count_max: int | None = None
    ) -> list[Entry]:
        """Return a leaderboard, best first, with at most `count_max` entries. Raises `Failed`."""
        path = f"/v1/leaderboards/{quote(slug, safe='')}/{quote(gpu, safe='')}"
        entries: list[Entry] = []
        async for entry in self._pages(path, {}, reader, Entry):
            entries.append(entry)
            if len(entries) == count_max:
                break
        return entries

    async def _pages(
        self, path: str, query: dict[str, object], reader: Reader, item_type: type[_Kind]
    ) -> AsyncIterator[_Kind]:
        """Yield the items of a list with cursors, as far as they are read."""
        page_query = query | {"limit": PAGE_MAX}
        for _ in range(PAGES_MAX):
            answer = await self._get(path, page_query, reader)
            if answer is None:
                return
            page, cursor = _decode_page(answer, item_type)
            for item in page:
                yield item
            if cursor is None:
                return
            page_query["cursor"] = cursor

    async def _get(
        self, path: str, query: dict[str, object], reader: Reader
    ) -> ReadResponse | None:
        """Return a successful response or None for a refusal; retry while the read side is away."""
        until = time.monotonic() + RETRY_S_MAX
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
                raise Failed("the results are unavailable for a moment: try again")
            await asyncio.sleep(RETRY_PAUSE_S)


def is_withdrawn(submission: FullSubmission) -> bool:
    """Return whether a submission was deleted."""
    return submission.moderation is not None and submission.moderation.is_withdrawn


def unknown_submission(number: int) -> Refused:
    """Return the refusal for a submission that does not exist."""
    return Refused("unknown_submission", f"there is no submission {number}", "id")


async def _take_page(
    pages: AsyncIterator[SubmissionLine], limit: int, offset: int
) -> list[SubmissionLine]:
    """Return a page of a list, without deleted submissions."""
    summaries: list[SubmissionLine] = []
    async for summary in pages:
        if not summary.is_withdrawn:
            summaries.append(summary)
        if len(summaries) >= offset + limit:
            break
    return summaries[offset:]


def _decode_page(answer: ReadResponse, item_type: type[_Kind]) -> tuple[list[_Kind], str | None]:
    page = _decode(answer, _Items)
    return [_decode_json(item, item_type) for item in page.items], page.next_cursor


def _decode(answer: ReadResponse, response_type: type[_Kind]) -> _Kind:
    return _decode_json(answer.body, response_type)


def _decode_json(data: bytes | msgspec.Raw, response_type: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(data, type=response_type)
    except msgspec.DecodeError as error:
        raise Failed(f"the read side sent an invalid response: {error}") from error
