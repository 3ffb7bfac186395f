"""Reads, passed on to ranker, which owns the read models."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from ingest.service import Answer, Stream
from shared.errors import Failed

READERS_MAX = 1000
PASSED = ("accept", "if-none-match")
RETURNED = ("content-type", "etag", "retry-after", "warpboard-projection-lag")
OF_FILES = (*RETURNED, "content-length", "content-disposition", "x-content-type-options")
AWAY = "the leaderboards cannot be read for a moment; ask again"


@dataclass(frozen=True)
class Ranker:
    """The read side, asked over HTTP."""

    client: httpx.AsyncClient

    async def read(self, path: str, query: str, headers: Mapping[str, str]) -> Answer:
        """Pass one GET on. Errors: Failed if ranker does not answer."""
        passed = {name: headers[name] for name in PASSED if name in headers}
        url = f"{path}?{query}" if query else path
        try:
            answer = await self.client.get(url, headers=passed)
        except httpx.HTTPError as error:
            raise Failed(AWAY) from error
        return Answer(answer.status_code, _returned(answer, RETURNED), answer.content)

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[Stream]:
        """Pass a download on, piece by piece. Errors: Failed if ranker does not answer."""
        try:
            async with self.client.stream("GET", path) as answer:
                sent = _returned(answer, OF_FILES)
                yield Stream(answer.status_code, sent, answer.aiter_raw())
        except httpx.HTTPError as error:
            raise Failed(AWAY) from error


def _returned(answer: httpx.Response, names: Sequence[str]) -> dict[str, str]:
    return {name: answer.headers[name] for name in names if name in answer.headers}


def client(url: str) -> httpx.AsyncClient:
    """A client with limits: connect in 2 s, answer in 30 s (a read may wait 25 s for news)."""
    limits = httpx.Limits(max_connections=READERS_MAX)
    return httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(30, connect=2), limits=limits)
