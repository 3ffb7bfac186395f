"""What the client needs of the read side, as the caller or internally as staff."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from ingest.identity.caller import Caller, check_problem
from ingest.ports import ReadProxy, ReadResponse
from shared.api.leaderboards import Entry, Leaderboard, SetScores
from shared.api.problems import Problem
from shared.api.queues import QueueOfGpu
from shared.api.releases import ReleaseList
from shared.api.submissions import FullSubmission, SourceText, SubmissionLine
from shared.errors import Failed, Refused, unknown_submission
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


async def retry_while_unavailable(ask: Callable[[], Awaitable[_Kind]]) -> _Kind:
    """Repeat a question until a service answers. Raises `Failed` after a while."""
    until = time.monotonic() + RETRY_S_MAX
    while True:
        try:
            return await ask()
        except Failed:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(RETRY_PAUSE_S)


class _Page(msgspec.Struct, Generic[_Kind]):
    items: list[_Kind]
    next_cursor: str | None = None


class _Source(msgspec.Struct):
    source_files: list[SourceText] = []


@dataclass(frozen=True)
class ReadClient:
    """The read side, for any reader. All methods may raise `Failed`."""

    reads: ReadProxy

    async def submission(
        self, number: int, reader: Reader, after: int = -1, wait_s: float = 0
    ) -> FullSubmission | None:
        """Return a submission as this reader may see it, or None."""
        query: dict[str, object] = {"after": after, "wait_s": wait_s} if wait_s else {}
        return await self._get(f"/v1/submissions/{number}", query, reader, FullSubmission)

    async def load_own(self, number: int, caller: Caller) -> FullSubmission:
        """Return the caller's own submission.

        Raises `Refused`: 403 for another participant's, 404 if there is none. A caller who may not
        read their own but delete it is checked here, too.
        """
        submission = await self.submission(number, caller.reader)
        if submission is None:
            submission = await self.submission(number, STAFF)
            if submission and await self.problem(submission.problem, caller.reader) is None:
                submission = None
        if submission is None or is_withdrawn(submission):
            raise unknown_submission(number, "id")
        if submission.participant_id != caller.account:
            raise Refused("not_yours", f"submission {number} belongs to another participant", "id")
        check_problem(caller, submission.problem)
        return submission

    async def wait_until(self, number: int, *, is_deleted: bool = False) -> None:
        """Wait briefly until the read side knows a submission, or that it was deleted."""
        for _ in range(round(FORGOTTEN_S_MAX / FORGOTTEN_S)):
            submission = await self.submission(number, STAFF)
            if (submission is None or is_withdrawn(submission)) is is_deleted:
                return
            await asyncio.sleep(FORGOTTEN_S)

    async def list_own(
        self, caller: Caller, problem: str | None, limit: int, offset: int
    ) -> list[SubmissionLine]:
        """Return the caller's submissions that are not deleted, newest first."""
        if caller.account is None:
            return []
        query: dict[str, object] = {"problem": problem} if problem else {}
        path, page_type = "/v1/me/submissions", _Page[SubmissionLine]
        return await _take_page(self._pages(path, query, caller.reader, page_type), limit, offset)

    async def list_all(
        self, query: dict[str, object], limit: int, offset: int
    ) -> list[SubmissionLine]:
        """Return any submissions that are not deleted, newest first."""
        return await _take_page(self.iterate_all(query, STAFF, PAGES_MAX), limit, offset)

    async def iterate_all(
        self, query: dict[str, object], reader: Reader, pages_max: int | None = None
    ) -> AsyncGenerator[SubmissionLine, None]:
        """Yield the submissions this reader may see, newest first; at most `pages_max` pages."""
        page_query = query | {"limit": PAGE_MAX}
        for _ in range(pages_max) if pages_max else count():
            page = await self._get("/v1/submissions", page_query, reader, _Page[SubmissionLine])
            lines = page.items if page else []
            for line in lines:
                yield line
            if len(lines) < PAGE_MAX:
                return
            page_query["before"] = lines[-1].number

    async def source(self, number: int, reader: Reader) -> str | None:
        """Return the entry file of a submission, None if it is hidden or gone."""
        files = await self.source_files(number, reader)
        return files[0].text if files else None

    async def source_files(self, number: int, reader: Reader) -> list[SourceText]:
        """Return the files of a submission, the entry file first; none if hidden or gone."""
        query: dict[str, object] = {"source": "true"}
        submission = await self._get(f"/v1/submissions/{number}", query, reader, _Source)
        return submission.source_files if submission else []

    async def release_licence(self) -> str:
        """Return the operator's licence in the newest release of the archive, "" without one."""
        releases = await self._get("/v1/archive/releases", {}, Reader(), ReleaseList)
        return releases.items[0].licence if releases and releases.items else ""

    async def stats(self, problem: str | None, *, is_last_day: bool) -> dict[str, Any]:
        """Return statistics of the platform or of one problem."""
        query: dict[str, object] = {"problem": problem} if problem else {}
        query |= {"is_last_day": "true"} if is_last_day else {}
        return await self._get("/internal/stats", query, STAFF, dict[str, Any]) or {}

    async def problems(self, reader: Reader) -> list[Problem]:
        """Return all problems that this reader may see."""
        pages = self._pages("/v1/problems", {"state": "all"}, reader, _Page[Problem])
        return [problem async for problem in pages]

    async def problem(self, slug: str, reader: Reader) -> Problem | None:
        """Return a problem, None if it does not exist for this reader."""
        return await self._get(f"/v1/problems/{quote(slug, safe='')}", {}, reader, Problem)

    async def queue(self, gpu: str) -> QueueOfGpu | None:
        """Return the queue of a GPU type in any case, None if there is none."""
        return await self._get(f"/v1/queue/{quote(gpu, safe='')}", {}, Reader(), QueueOfGpu)

    async def leaderboard(
        self, slug: str, gpu: str, reader: Reader, count_max: int | None = None
    ) -> list[Entry]:
        """Return a leaderboard, best first, with at most `count_max` entries."""
        path = f"/v1/leaderboards/{quote(slug, safe='')}/{quote(gpu, safe='')}"
        entries: list[Entry] = []
        async with aclosing(self._pages(path, {}, reader, _Page[Entry])) as pages:
            async for entry in pages:
                entries.append(entry)
                if len(entries) == count_max:
                    break
        return entries

    async def baseline_scores(
        self, slug: str, gpu: str, version: int, reader: Reader
    ) -> dict[str, float]:
        """Return the score of each measured baseline of a problem version, in microseconds."""
        path = f"/v1/leaderboards/{quote(slug, safe='')}/{quote(gpu, safe='')}"
        board = await self._get(path, {"version": version, "limit": 1}, reader, Leaderboard)
        baselines = board.baselines if board else []
        return {it.name: it.score_us for it in baselines if it.score_us is not None}

    async def set_scores(self, prefix: str, gpu: str, reader: Reader) -> SetScores | None:
        """Return fast_p over a set of problems, None if there is no such set."""
        path = f"/v1/sets/{quote(prefix, safe='')}/{quote(gpu, safe='')}"
        return await self._get(path, {}, reader, SetScores)

    async def _pages(
        self, path: str, query: dict[str, object], reader: Reader, page_type: type[_Page[_Kind]]
    ) -> AsyncGenerator[_Kind, None]:
        """Yield the items of a list with cursors, as far as they are read."""
        page_query = query | {"limit": PAGE_MAX}
        for _ in range(PAGES_MAX):
            page = await self._get(path, page_query, reader, page_type)
            if page is None:
                return
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            page_query["cursor"] = page.next_cursor

    async def _get(
        self, path: str, query: dict[str, object], reader: Reader, response_type: type[_Kind]
    ) -> _Kind | None:
        """Return a successful response or None for a refusal; retry while the read side is away."""

        async def read() -> ReadResponse:
            response = await self.reads.read(path, urlencode(query), {}, reader)
            if response.status >= BROKEN:
                raise Failed("the results are unavailable for a moment: try again")
            return response

        response = await retry_while_unavailable(read)
        if response.status >= REFUSED:
            return None
        try:
            return msgspec.json.decode(response.body, type=response_type)
        except msgspec.DecodeError as error:
            raise Failed(f"the read side sent an invalid response: {error}") from error


def is_withdrawn(submission: FullSubmission) -> bool:
    """Return whether a submission was deleted."""
    return submission.moderation is not None and submission.moderation.is_withdrawn


async def _take_page(
    lines: AsyncGenerator[SubmissionLine, None], limit: int, offset: int
) -> list[SubmissionLine]:
    """Return a page of a list, without deleted submissions."""
    page: list[SubmissionLine] = []
    async with aclosing(lines):
        async for line in lines:
            if not line.is_withdrawn:
                page.append(line)
            if len(page) >= offset + limit:
                break
    return page[offset:]
