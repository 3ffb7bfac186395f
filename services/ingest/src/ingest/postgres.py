"""Participants' names, which are never in an event."""

from dataclasses import dataclass

from psycopg import OperationalError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from shared.clock import new_id
from shared.errors import Failed
from shared.postgres import statements


@dataclass(frozen=True)
class PostgresPeople:
    """Participants in the table accounts.participant."""

    pool: AsyncConnectionPool

    async def account(self, name: str) -> str:
        """The account of a participant's name, opened when it is new. Errors: Failed."""
        sql = statements("ingest", "participants.sql")
        try:
            async with self.pool.connection() as connection:
                values = {"account": new_id(), "name": name}
                await connection.execute(sql["open_account"].encode(), values)
                cursor = await connection.execute(sql["account_of"].encode(), values)
                row = await cursor.fetchone()
        except (OperationalError, PoolTimeout) as error:
            raise Failed(f"the accounts cannot be read: {error}") from error
        assert row is not None
        return str(row[0])

    async def is_well(self) -> bool:
        """Whether the database answers."""
        try:
            async with self.pool.connection(timeout=1) as connection:
                await connection.execute(b"select 1")
        except (OperationalError, PoolTimeout):
            return False
        return True
