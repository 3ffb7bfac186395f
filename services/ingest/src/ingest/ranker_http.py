"""Reads, passed on to ranker, which owns the read models."""

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from ingest.service import Answer
from shared.errors import Failed

READERS_MAX = 1000
PASSED = ("accept", "if-none-match")
RETURNED = ("content-type", "etag", "retry-after", "warpboard-projection-lag")


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
            raise Failed("the leaderboards cannot be read for a moment; ask again") from error
        returned = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
        return Answer(answer.status_code, returned, answer.content)


def client(url: str) -> httpx.AsyncClient:
    """A client with limits: connect in 2 s, answer in 30 s (a read may wait 25 s for news)."""
    limits = httpx.Limits(max_connections=READERS_MAX)
    return httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(30, connect=2), limits=limits)
