"""A ranker over a log in memory, whose first three entries have duels or confirmations."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from ranker.__main__ import SCHEMA
from ranker.audit.auditing import Question, audit
from ranker.domain.kept import kept
from ranker.domain.report import Report
from ranker.http import application
from ranker.live import Live
from ranker.postgres import Reader, ReadModels
from ranker.service import News
from shared import events, signing
from shared.memory import MemoryBlobs, MemoryLog
from shared.postgres import connect, pool
from shared.testing import eventually
from tests.ranker.audited import chained
from tests.support.lives import begin
from tests.support.ranking import is_folded, ranker_of, running

Said = TypeVar("Said", bound=events.Fact)


class Podium:
    """A log, the read models that are folded from it, and their HTTP API."""

    def __init__(self, log: MemoryLog, models: ReadModels, http: httpx.AsyncClient) -> None:
        self.log, self.models, self.http = log, models, http

    def find(self, kind: type[Said]) -> list[tuple[str, Said]]:
        """The facts of one kind, each with the id of its aggregate."""
        return [
            (event.envelope.agg.rpartition(".")[2], event.fact)
            for event in self.log.since(0)
            if isinstance(event.fact, kind)
        ]

    async def settle(self) -> None:
        """Wait until the read models hold everything, and nothing more is said."""

        async def is_still() -> bool:
            last = await self.log.last()
            await asyncio.sleep(0.05)
            return await is_folded(self.log, self.models) and last == await self.log.last()

        await eventually(is_still)

    async def rows(self) -> list[dict[str, Any]]:
        """The entries of the leaderboard."""
        answer = await self.http.get("/v1/leaderboards/identity/CPU")
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    async def audit(self) -> Report:
        """The leaderboard as the log alone gives it."""
        rows = chained([kept(event) for event in self.log.since(0)])

        class Copy:
            async def events(self) -> AsyncIterator[Any]:
                for row in rows:
                    yield row

            def findings(self) -> list[Any]:
                return []

        return await audit(Question("identity", "CPU"), Copy(), signing.verify)


@asynccontextmanager
async def podium_at(
    dsn: str, *, has_duels: bool = False, has_confirmations: bool = False
) -> AsyncIterator[Podium]:
    """A platform with one agent that is enrolled and one problem."""
    log, news = MemoryLog(), News()
    await begin(log)
    async with (
        await connect(dsn, SCHEMA) as writing,
        await connect(dsn, SCHEMA) as reading,
        pool(dsn, 1, 4, SCHEMA) as connections,
        running(
            ranker_of(
                log,
                ReadModels(writing),
                news,
                has_duels=has_duels,
                has_confirmations=has_confirmations,
            )
        ),
    ):
        app = application(Reader(connections), news, Live(), log.last, MemoryBlobs())
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://ranker") as http:
            yield Podium(log, ReadModels(reading), http)
