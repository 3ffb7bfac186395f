"""Participants' names, which are never in an event."""

from dataclasses import dataclass, field

from psycopg import OperationalError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from shared.clock import new_id
from shared.errors import Failed
from shared.postgres import statements

ACCOUNTS_MAX = 10_000


@dataclass(frozen=True)
class PostgresPeople:
    """Participants in the table accounts.participant; a name keeps its account for ever."""

    pool: AsyncConnectionPool
    _accounts: dict[str, str] = field(default_factory=dict)

    async def account(self, name: str) -> str:
        """The account of a participant's name, opened when it is new. Errors: Failed."""
        if known := await self.known(name):
            return known
        await self._ask("open_account", {"account": new_id(), "name": name})
        opened = await self.known(name)
        assert opened is not None
        return opened

    async def known(self, name: str) -> str | None:
        """The account of a participant's name, None if nobody has it. Errors: Failed."""
        if name in self._accounts:
            return self._accounts[name]
        row = await self._ask("account_of", {"name": name})
        if row is None:
            return None
        if len(self._accounts) >= ACCOUNTS_MAX:
            del self._accounts[next(iter(self._accounts))]
        self._accounts[name] = str(row[0])
        return self._accounts[name]

    async def is_well(self) -> bool:
        """Whether the database answers."""
        try:
            async with self.pool.connection(timeout=1) as connection:
                await connection.execute(b"select 1")
        except (OperationalError, PoolTimeout):
            return False
        return True

    async def _ask(self, statement: str, values: dict[str, str]) -> tuple[object, ...] | None:
        sql = statements("ingest", "participants.sql")[statement]
        try:
            async with self.pool.connection() as connection:
                cursor = await connection.execute(sql.encode(), values)
                return await cursor.fetchone() if cursor.description else None
        except (OperationalError, PoolTimeout) as error:
            raise Failed(f"the accounts cannot be read: {error}") from error
