"""The base of the edge's own tables."""

from dataclasses import dataclass
from typing import Any, ClassVar

from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from shared.postgres import borrow_connection, load_statements

SCHEMA = "discord_edge"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Tables:
    """Tables of the pool's schema, with the statements of one file. Methods raise `Failed`."""

    pool: AsyncConnectionPool
    file: ClassVar[str]

    async def execute(self, statement: str, **values: object) -> Rows:
        """Run a statement, and return its rows."""
        text = load_statements("discord_edge", self.file)[statement].encode()
        problem = "the edge's own table cannot be reached"
        async with borrow_connection(self.pool, problem) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(text, values)
            return await cursor.fetchall() if cursor.description else []
