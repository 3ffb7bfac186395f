"""The read API over a running ranker, as ingest asks it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from fastapi import FastAPI

from ranker.archive.postgres import ArchiveReader
from ranker.domain.conclusion import Demand
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA, ReadModels
from ranker.postgres import Reader as Reading
from ranker.retrieval.postgres import TextStore
from ranker.service.progress import Live, ProjectionProgress
from shared.postgres import connect, create_pool
from shared.reader import READER_HEADER, Reader, encode_reader
from tests.support.lives import Life, begin, live
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.ranking import LOOSE, ranker_of, running, settle
from tests.support.waits import eventually

# Who reads all, as ingest says it.
STAFF = {READER_HEADER: encode_reader(Reader(is_staff=True))}


def as_(account: str | None, *boards: str) -> dict[str, str]:
    """Who reads: a participant, member of some closed leaderboards; None is nobody."""
    return {READER_HEADER: encode_reader(Reader(account=account, boards=list(boards)))}


@dataclass(frozen=True)
class CountedReading(Reading):
    """The reads of a ranker; `statements` has the names of those that were run."""

    statements: list[str] = field(default_factory=list)

    async def rows(self, statement: str, **values: object) -> list[dict[str, Any]]:
        """Run a statement."""
        self.statements.append(statement)
        return await super().rows(statement, **values)


class Reads:
    """The read API as ingest asks it, with the log behind it."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        log: MemoryLog,
        present: Live,
        progress: ProjectionProgress,
    ) -> None:
        self.http = http
        self.log = log
        self.progress = progress
        self.live = present
        self.blobs = MemoryBlobStore()
        self.app = FastAPI()
        self.dsn = ""
        self.statements: list[str] = []

    async def named(self, account: str, name: str) -> None:
        """Give an account a name, as ingest does."""
        async with await connect(self.dsn, "accounts") as connection:
            values = {"account": account, "name": name}
            statement = b"insert into participant (account, name) values (%(account)s, %(name)s)"
            await connection.execute(statement, values)

    async def renamed(self, name: str, wanted: str) -> None:
        """Call somebody otherwise, as ingest does."""
        async with await connect(self.dsn, "accounts") as connection:
            values = {"name": name, "wanted": wanted}
            former = b"insert into former_name select name, account from participant "
            update = b"update participant set name = %(wanted)s "
            for statement in (former, update):
                await connection.execute(statement + b"where name = %(name)s", values)

    async def get(self, path: str) -> Any:
        answer = await self.http.get(f"/v1/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def settle(self) -> None:
        """Wait until everything is folded, decided and announced."""
        await settle(self.log, self.progress)

    async def board(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.get("leaderboards/identity/CPU"))["items"]
        return items

    async def ended(self, *lives: Life) -> list[dict[str, Any]]:
        """Say whole lives; each submission, once all are over."""
        wanted = {life.id for life in lives}
        await live(self.log, *lives)

        async def rows() -> list[dict[str, Any]]:
            items = (await self.get("submissions"))["items"]
            over = [one for one in items if one["id"] in wanted and one["state"] == "finished"]
            return over if len(over) == len(wanted) else []

        numbers = sorted(item["number"] for item in await eventually(rows))
        return [await self.get(f"submissions/{number}") for number in numbers]


@asynccontextmanager
async def reading(
    dsn: str, wanted: Demand = LOOSE, *, has_archive: bool = False
) -> AsyncIterator[Reads]:
    """The read API; with an archive it reads the past that the test has archived."""
    log, news, present = MemoryLog(), ProjectionProgress(), Live()
    await begin(log)
    reads = Reads(httpx.AsyncClient(base_url="http://ranker"), log, present, news)
    reads.dsn = dsn
    async with (
        await connect(dsn, SCHEMA) as writing,
        create_pool(dsn, 1, 4, SCHEMA) as connections,
        running(ranker_of(log, ReadModels(writing), news, reads.blobs, wanted)),
    ):
        counted = CountedReading(connections)
        reads.statements = counted.statements
        sources = ReadSources(counted, news, present, log.last, reads.blobs)
        archive = ArchiveReader(connections) if has_archive else None
        app = create_app(replace(sources, texts=TextStore(connections), archive=archive))
        reads.app = app
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://ranker", headers=STAFF
        ) as http:
            reads.http = http
            await reads.settle()
            yield reads
