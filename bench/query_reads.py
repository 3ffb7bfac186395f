"""What a read of the ranker asks of Postgres: its statements, and the pages they touch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
from psycopg_pool import AsyncConnectionPool

from ranker.domain.rows import LeaderboardKey
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA, Reader, ReadModels
from ranker.service.places import place_leaderboard
from ranker.service.progress import Live, ProjectionProgress
from shared.postgres import connect, create_pool, load_statements
from shared.reader import READER_HEADER, encode_reader
from shared.reader import Reader as Asker
from tests.support.memory import MemoryBlobStore

PROBLEM, GPU = "identity", "H100"
RUNS_A_PARTICIPANT = 10
# The one whose page is read.
SUBMISSION = 500
PATHS = {
    "first page": f"/v1/leaderboards/{PROBLEM}/{GPU}",
    "a submission": f"/v1/submissions/{SUBMISSION}",
}


class Cost(NamedTuple):
    """What one request asked of Postgres: statements, and buffers that they touched."""

    statements: int
    buffers: int


class CountingReads:
    """The reads of the ranker, each statement explained before it is run."""

    def __init__(self, connections: AsyncConnectionPool) -> None:
        self._pool = connections
        self._reader = Reader(connections)
        self.statements = 0
        self.buffers: dict[str, int] = {}

    def client(self, **options: Any) -> httpx.AsyncClient:
        """A client of a read API in this process, which runs its statements here."""
        sources = ReadSources(self, ProjectionProgress(), Live(), _nothing, MemoryBlobStore())
        transport = httpx.ASGITransport(create_app(sources))
        return httpx.AsyncClient(transport=transport, base_url="http://ranker", **options)

    async def rows(self, statement: str, **values: object) -> list[dict[str, Any]]:
        """The rows of a statement of sql/read.sql."""
        self.statements += 1
        sql = load_statements("ranker", "read.sql")[statement]
        explained = f"explain (analyze, buffers, format json) {sql}"
        async with self._pool.connection() as connection:
            cursor = await connection.execute(explained.encode(), values)
            row = await cursor.fetchone()
        assert row is not None, "a plan is one row"
        plan = row[0][0]["Plan"]
        touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        self.buffers[statement] = self.buffers.get(statement, 0) + touched
        return await self._reader.rows(statement, **values)


async def fill(dsn: str, runs: int) -> None:
    """Fill empty read models with a leaderboard, as the ranker would have folded it."""
    program = (Path(__file__).parent / "query.sql").read_text()
    values = {"runs": runs, "accounts": max(1, runs // RUNS_A_PARTICIPANT)}
    async with await connect(dsn, SCHEMA) as connection:
        async with psycopg.AsyncClientCursor(connection) as cursor:
            await cursor.execute("set statement_timeout = '15min'")
            await cursor.execute(program.encode(), values)
        async with connection.transaction():
            await place_leaderboard(ReadModels(connection), LeaderboardKey(PROBLEM, GPU, 1))
        async with psycopg.AsyncClientCursor(connection) as cursor:
            # As autovacuum does after a while: pages that all see need not be looked at.
            await cursor.execute("vacuum analyze")


async def count(dsn: str) -> Mapping[str, Cost]:
    """What each read asks of Postgres."""
    found = {}
    async with create_pool(dsn, 1, 4, SCHEMA) as connections:
        for name, path in PATHS.items():
            reads = CountingReads(connections)
            headers = {READER_HEADER: encode_reader(Asker(is_staff=True))}
            async with reads.client(headers=headers) as http:
                answer = await http.get(path)
            assert answer.status_code == 200, answer.text
            found[name] = Cost(reads.statements, sum(reads.buffers.values()))
    return found


async def _nothing() -> int:
    """No log has anything that is not folded in."""
    return 0
