"""The platform's public HTTP API, called for the users of the bot, and caches of its answers.

The public leaderboards are in memory, so that completions never wait, and so are past ranks.
"""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from discord_edge.background import repeat_with_backoff
from shared.api.leaderboards import Leaderboard
from shared.api.problems import FullProblem, Problem, ProblemCheck, Problems, PublishedVersion
from shared.api.submissions import SubmissionReceipts, SubmissionRequest
from shared.api_client import ApiClient, open_http_client, v1_path
from shared.errors import Failed, Refused

NAME_LENGTH_MAX = 100
# The code for a user of Discord whom the platform does not know.
NOBODY = "missing_credential"
BEHIND_S_MAX, STEP_S, STEP_S_MAX = 10.0, 0.2, 2.0
T = TypeVar("T")
# An answer is refreshed after the first time, and no longer used after the second.
FRESH_S, OLD_S = 3.0, 60.0
# Discord waits for three seconds; by then the user has typed on.
WAIT_S_MAX = 0.5
ANSWERS_MAX, READS_MAX = 1000, 32
Key = tuple[Any, ...]
REFRESH_EVERY_S = 2.0
REFRESH_PAGES_MAX = 20
TREND_AGO_S = 7 * 24 * 3600.0
TREND_ENTRIES_MAX = 100
# A past leaderboard is folded from its events, one at a time, and changes little in ten minutes.
TREND_KEPT_S, TRENDS_MAX = 600.0, 200
# Viewers wait no longer: their page has no trend, and the next page has it.
TREND_WAIT_S = 1.0
Ranks = Mapping[str, int]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DiscordUser:
    """A user of Discord: id, name, and the platform roles that their server roles stand for."""

    id: int
    name: str = ""
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlatformApi(ApiClient):
    """The API over one HTTP client, which authenticates with the edge's own token.

    `public_url` is the platform's public address without a trailing slash; empty if unknown. With
    a `user`, the requests are that user's; otherwise they are anonymous. `key` makes each POST
    idempotent.
    """

    client: httpx.AsyncClient
    public_url: str = ""
    user: DiscordUser | None = None
    key: str = ""

    def on_behalf_of(self, user: DiscordUser | None, key: str = "") -> "PlatformApi":
        """Return the API for the requests of a user, under an idempotency key."""
        return replace(self, user=user, key=key)

    def with_key(self, key: str) -> "PlatformApi":
        """Return the API under another idempotency key, for one of several POSTs."""
        return replace(self, key=key)

    def link(self, path: str) -> str:
        """Return the public address of a path; empty if unknown."""
        return f"{self.public_url}{path}" if self.public_url else ""

    async def get(self, model: type[T], *path: str | int, **query: str | int) -> T:
        """Read under /v1. Raises `Refused` and `Failed`."""
        return self.decode(await self.send("GET", v1_path(*path), params=query), model)

    async def get_if_known(self, model: type[T], *path: str | int) -> T | None:
        """Read as `get`; None if the platform does not know the user."""
        try:
            return await self.get(model, *path)
        except Refused as refused:
            if refused.code == NOBODY:
                return None
            raise

    async def read(self, model: type[T], *path: str | int, **query: str | int) -> T | None:
        """Read what the user may see now; None if it is refused. Raises `Failed`."""
        try:
            return await self.get(model, *path, **query)
        except Refused as refused:
            if refused.retry_after_s is not None:
                raise Failed(f"too many requests: {refused.reason}") from refused
            return None

    async def read_as_of(self, sequence: int, model: type[T], *path: str, **query: int) -> T | None:
        """Read as `read`, as of an event or later."""
        await self.wait_for_event(sequence)
        return await self.read(model, *path, **query)

    async def wait_for_event(self, sequence: int) -> None:
        """Wait until the read models contain an event. Raises `Failed` after 10 s."""
        until, step_s = time.monotonic() + BEHIND_S_MAX, STEP_S
        try:
            while (await self.get(Problems, "problems", limit=1)).as_of < sequence:
                if time.monotonic() > until:
                    raise Failed(f"the read models have not reached event {sequence}")
                await asyncio.sleep(step_s)
                step_s = min(2 * step_s, STEP_S_MAX)
        except Refused as refused:
            raise Failed(f"the problems cannot be listed: {refused.reason}") from refused

    async def get_file(self, path: str) -> bytes:
        """Download a small file. Errors as `get`."""
        return (await self.send("GET", path)).content

    async def submit(self, request: SubmissionRequest) -> SubmissionReceipts:
        """Send a submission request, and return its receipts. Errors as `get`."""
        response = await self.send(
            "POST", "/v1/submissions", data=request.form, files=request.uploads
        )
        return self.decode(response, SubmissionReceipts)

    async def request(self, model: type[T], method: str, *path: str | int, **body: object) -> T:
        """Send any request under /v1; `object` accepts any response. Errors as `get`."""
        return self.decode(await self.send(method, v1_path(*path), json=body), model)

    async def publish(
        self, fields: Mapping[str, object], files: Mapping[str, bytes]
    ) -> PublishedVersion:
        """Publish a version of a problem. Errors as `get`."""
        uploads = [("files", item) for item in files.items()]
        response = await self.send("POST", "/v1/problems", data=fields, files=uploads)
        return self.decode(response, PublishedVersion)

    async def request_check(
        self, slug: str, gpus: Sequence[str], files: Mapping[str, bytes]
    ) -> ProblemCheck:
        """Ask for a check of a problem on an agent. Errors as `get`."""
        uploads = [("files", item) for item in files.items()]
        fields = {"slug": slug, "gpu": list(gpus)}
        response = await self.send("POST", "/v1/checks", data=fields, files=uploads)
        return self.decode(response, ProblemCheck)

    def request_headers(self, method: str) -> dict[str, str]:
        """Return the headers that name the user, and the key of a POST."""
        values = {"Idempotency-Key": self.key if method == "POST" else ""}
        if self.user is not None:
            values |= {
                "Warpboard-Discord-User": str(self.user.id),
                "Warpboard-Discord-Name": quote(self.user.name[:NAME_LENGTH_MAX], safe=""),
                "Warpboard-Discord-Roles": ",".join(self.user.roles),
            }
        return {name: value for name, value in values.items() if value}


@asynccontextmanager
async def connect_api(url: str, token: str, public_url: str = "") -> AsyncIterator[PlatformApi]:
    """Open the API at a URL."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    headers = {"Authorization": f"Bearer {token}"}
    async with open_http_client(url, headers, limits=limits) as client:
        yield PlatformApi(client, public_url.rstrip("/"))


@dataclass
class ReadCache:
    """Answers of the platform by user, path and query."""

    api: PlatformApi
    _answers: OrderedDict[Key, tuple[float, Any]] = field(default_factory=OrderedDict)
    _reads: dict[Key, "asyncio.Task[None]"] = field(default_factory=dict)

    async def get(
        self, user: DiscordUser | None, model: type[T], *path: str | int, **query: str | int
    ) -> T | None:
        """Return the last answer to a read under /v1; None if none arrives within half a second."""
        key = (user.id if user else None, path, tuple(sorted(query.items())))
        if self._age_s(key) > FRESH_S and key not in self._reads and len(self._reads) < READS_MAX:
            read = partial(self.api.on_behalf_of(user).get, model, *path, **query)
            task = asyncio.create_task(self._store(key, read))
            self._reads[key] = task
            task.add_done_callback(lambda _: self._reads.pop(key, None))
        if self._age_s(key) > OLD_S and key in self._reads:
            await asyncio.wait({self._reads[key]}, timeout=WAIT_S_MAX)
        return None if self._age_s(key) > OLD_S else self._answers[key][1]

    async def _store(self, key: Key, read: Callable[[], Awaitable[Any]]) -> None:
        try:
            answer = await read()
        except (Refused, Failed) as error:
            _log.info("no completions are available: %s", error)
            return
        self._answers[key] = time.monotonic(), answer
        self._answers.move_to_end(key)
        if len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)

    def _age_s(self, key: Key) -> float:
        read_at = self._answers[key][0] if key in self._answers else float("-inf")
        return time.monotonic() - read_at


@dataclass
class LeaderboardCache:
    """The public leaderboards, at most two seconds old while the platform answers."""

    api: PlatformApi
    known: dict[str, Problem] = field(default_factory=dict)

    async def run(self) -> None:
        """Refresh again and again, for ever; at first at once."""
        with contextlib.suppress(Failed, Refused):
            await self.refresh()
        await repeat_with_backoff(self.refresh, REFRESH_EVERY_S, "the leaderboards")

    async def refresh(self) -> None:
        """Read all leaderboards once. Raises `Refused` and `Failed`."""
        problems: dict[str, Problem] = {}
        query: dict[str, str | int] = {"state": "all", "limit": 100}
        for _ in range(REFRESH_PAGES_MAX):
            page = await self.api.get(Problems, "problems", **query)
            problems |= {problem.slug: problem for problem in page.items}
            if not page.next_cursor:
                break
            query["cursor"] = page.next_cursor
        self.known = problems

    @property
    def open_slugs(self) -> list[str]:
        """The names of the leaderboards that take submissions."""
        return sorted(slug for slug, board in self.known.items() if board.state == "active")

    def gpus(self, slug: str | None) -> list[str]:
        """Return the GPU types of a leaderboard, or of all leaderboards."""
        if slug and slug in self.known:
            return list(self.known[slug].gpus)
        return sorted({gpu for board in self.known.values() for gpu in board.gpus})

    async def get(self, api: PlatformApi, slug: str) -> Problem:
        """Return a problem that the API's user may see, even a closed one. Raises as `get`."""
        if slug in self.known:
            return self.known[slug]
        return await api.get(FullProblem, "problems", slug)


@dataclass
class RankTrends:
    """Ranks of a week ago by participant, as far as the platform keeps the past."""

    wait_s: float = TREND_WAIT_S
    tasks: dict[tuple[str, str], tuple[float, "asyncio.Task[Ranks]"]] = field(default_factory=dict)

    async def past_ranks(self, api: PlatformApi, slug: str, gpu: str) -> Ranks:
        """Return the past ranks on a leaderboard that the user may see; empty if unknown."""
        task = self._read_task(api, slug, gpu)
        await asyncio.wait({task}, timeout=self.wait_s)
        return task.result() if task.done() and not task.cancelled() else {}

    def _read_task(self, api: PlatformApi, slug: str, gpu: str) -> "asyncio.Task[Ranks]":
        now = time.monotonic()
        cached = self.tasks.get((slug, gpu))
        if cached is not None and now - cached[0] < TREND_KEPT_S:
            return cached[1]
        if len(self.tasks) >= TRENDS_MAX:
            self.tasks.pop(next(iter(self.tasks)))
        task = asyncio.create_task(self._read(api, slug, gpu), name=f"trend {slug} {gpu}")
        self.tasks[slug, gpu] = (now, task)
        return task

    async def _read(self, api: PlatformApi, slug: str, gpu: str) -> Ranks:
        ago = datetime.now(UTC) - timedelta(seconds=TREND_AGO_S)
        at = ago.replace(minute=0, second=0, microsecond=0)
        path = ("leaderboards", slug, gpu)
        try:
            board = await api.get(Leaderboard, *path, as_of=at.isoformat(), limit=TREND_ENTRIES_MAX)
        except Refused as refused:
            _log.info("the leaderboard %s on %s has no trend: %s", slug, gpu, refused.reason)
            return {}
        except Failed as failed:
            _log.info("the trend of %s on %s is read again later: %s", slug, gpu, failed)
            self.tasks.pop((slug, gpu), None)
            return {}
        return {entry.participant_id: entry.rank for entry in board.items}
