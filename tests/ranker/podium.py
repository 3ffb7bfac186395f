"""A ranker over an in-memory log, whose first three entries have duels or confirmations."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from ranker.audit.leaderboards import audit
from ranker.domain.stored_log import to_stored_event
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA, Reader, ReadModels
from ranker.service.progress import Live, ProjectionProgress
from shared import events
from shared.api.audits import AuditReport, AuditRequest
from shared.postgres import connect, create_pool
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import chain_events
from tests.support.lives import begin
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.ranking import LOOK_S, ranker_of, running, settle

Said = TypeVar("Said", bound=events.Fact)


class Podium:
    """A log, the progress of the ranker that folds it, and the HTTP API of the read models."""

    def __init__(
        self, log: MemoryLog, progress: ProjectionProgress, http: httpx.AsyncClient
    ) -> None:
        self.log, self.progress, self.http = log, progress, http

    def find(self, kind: type[Said]) -> list[tuple[str, Said]]:
        """The facts of one type, each with the id of its aggregate."""
        return [
            (event.envelope.aggregate.rpartition(".")[2], event.fact)
            for event in self.log.since(0)
            if isinstance(event.fact, kind)
        ]

    async def settle(self) -> None:
        """Wait until everything is folded, decided and announced."""
        await settle(self.log, self.progress)

    async def rows(self) -> list[dict[str, Any]]:
        """The entries of the leaderboard."""
        answer = await self.http.get("/v1/leaderboards/identity/CPU")
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    async def audit(self) -> AuditReport:
        """Audit the leaderboard from the log alone."""
        rows = chain_events([to_stored_event(event) for event in self.log.since(0)])

        class Copy:
            async def events(self) -> AsyncIterator[Any]:
                for row in rows:
                    yield row

            def findings(self) -> list[Any]:
                return []

        return await audit(AuditRequest("identity", "CPU"), Copy(), verify_verdict)


@asynccontextmanager
async def open_podium(
    dsn: str,
    *,
    has_duels: bool = False,
    has_confirmations: bool = False,
    look_s: float = LOOK_S,
) -> AsyncIterator[Podium]:
    """Start a platform with one enrolled agent and one problem."""
    log, progress = MemoryLog(), ProjectionProgress()
    await begin(log)
    async with (
        await connect(dsn, SCHEMA) as writing,
        create_pool(dsn, 1, 4, SCHEMA) as connections,
        running(
            ranker_of(
                log,
                ReadModels(writing),
                progress,
                has_duels=has_duels,
                has_confirmations=has_confirmations,
                look_s=look_s,
            )
        ),
    ):
        app = create_app(
            ReadSources(Reader(connections), progress, Live(), log.last, MemoryBlobStore())
        )
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://ranker") as http:
            yield Podium(log, progress, http)
