"""Pending logins and passwords in Postgres."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from psycopg import AsyncCursor
from psycopg.errors import ForeignKeyViolation, UniqueViolation
from psycopg_pool import AsyncConnectionPool

from ingest.identity.login.rules import GRANT_DAYS, REMEMBERED_S
from ingest.identity.names import accounts_lost, name_lost
from ingest.ports import Identity
from shared.postgres import borrow_connection, load_statements

PURGES = ("purge_cli_logins", "purge_device_logins", "purge_login_states")
LOGINS_AWAY = (
    "the logins cannot be reached",
    "the logins cannot be read or written for a moment; ask again",
)
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class LoginStore:
    """Runs the statements of sql/logins.sql. All methods may raise `Failed`."""

    pool: AsyncConnectionPool

    async def execute(self, statement: str, **values: Any) -> int:
        """Run a statement and return the number of rows it touched."""
        async with self._run(statement, values) as cursor:
            return cursor.rowcount

    async def find(
        self, row_type: Callable[..., _Row], statement: str, **values: Any
    ) -> _Row | None:
        """Run a statement and return its row, None if there is none."""
        async with self._run(statement, values) as cursor:
            row = await cursor.fetchone()
        return None if row is None else row_type(*row)

    async def open_account(
        self, statement: str, name: str, identity: Identity, **values: Any
    ) -> bool:
        """Create name, account and identity; False if one of them is taken.

        Raises `Refused` if all names were lost.
        """
        try:
            is_opened = (
                await self.execute(statement, name=name, **identity._asdict(), **values) == 1
            )
        except UniqueViolation:  # Somebody else was faster; the transaction was rolled back.
            return False
        if not is_opened and await self.is_lost():
            raise accounts_lost()
        return is_opened

    async def is_lost(self) -> bool:
        """Return whether names and passwords were lost."""
        return await self.find(bool, "is_lost") is not None

    async def purge(self, at: datetime) -> int:
        """Delete logins that were never finished, and return how many."""
        before, linked_before = (
            at - timedelta(seconds=REMEMBERED_S),
            at - timedelta(days=GRANT_DAYS),
        )
        values = {"before": before, "linked_before": linked_before}
        return sum([await self.execute(statement, **values) for statement in PURGES])

    @asynccontextmanager
    async def _run(
        self, statement: str, values: Mapping[str, Any]
    ) -> AsyncIterator[AsyncCursor[Any]]:
        sql = load_statements("ingest", "logins.sql")[statement].encode()
        with check_has_name(values.get("account")):
            async with borrow_connection(self.pool, *LOGINS_AWAY) as connection:
                yield await connection.execute(sql, values)


@contextmanager
def check_has_name(account: object) -> Iterator[None]:
    """Refuse rows that refer to a missing participant. Raises `Refused` (`name_lost`)."""
    try:
        yield
    except ForeignKeyViolation as error:
        raise name_lost(str(account)) from error
