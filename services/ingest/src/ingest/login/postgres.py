"""Pending logins and passwords in Postgres (migration 0004)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncCursor
from psycopg.errors import UniqueViolation
from psycopg_pool import AsyncConnectionPool

from ingest.accounts.rules import accounts_lost
from ingest.login.rules import (
    GRANT_DAYS,
    REMEMBERED_S,
    CliLogin,
    DeviceLogin,
    LoginState,
    StoredPassword,
)
from ingest.ports import Identity
from ingest.postgres import check_has_name
from shared.postgres import borrow_connection, load_statements

PURGES = ("purge_cli_logins", "purge_device_logins", "purge_login_states")
LOGINS_AWAY = (
    "the logins cannot be reached",
    "the logins cannot be read or written for a moment; ask again",
)


@dataclass(frozen=True)
class _Table:
    """Runs statements of sql/logins.sql."""

    pool: AsyncConnectionPool

    async def _execute(self, statement: str, values: Mapping[str, Any]) -> int:
        """Run a statement and return the number of rows it touched. Raises `Failed`."""
        count, _ = await self._ask(statement, values)
        return count

    async def _fetch_row(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Run a statement and return its row. Raises `Failed`."""
        _, row = await self._ask(statement, values)
        return row

    async def _ask(
        self, statement: str, values: Mapping[str, Any]
    ) -> tuple[int, tuple[Any, ...] | None]:
        sql = load_statements("ingest", "logins.sql")[statement].encode()
        with check_has_name(values.get("account")):
            async with borrow_connection(self.pool, *LOGINS_AWAY) as connection:
                cursor: AsyncCursor[Any] = await connection.execute(sql, values)
                row = await cursor.fetchone() if cursor.description else None
        return cursor.rowcount, row


class PostgresCliLoginStore(_Table):
    """CLI ids in accounts.cli_login."""

    async def add(self, cli: str, login: CliLogin) -> None:
        """Store a new CLI id. Raises `Failed`."""
        await self._execute("add_cli_login", {"cli": cli} | vars(login))

    async def find(self, cli: str) -> CliLogin | None:
        """Return a CLI id, or None. Raises `Failed`."""
        row = await self._fetch_row("cli_login_of", {"cli": cli})
        return None if row is None else CliLogin(*row)

    async def claim(self, cli: str, account: str, at: datetime) -> bool:
        """Assign it to an account; False if that is not possible. Raises `Failed`."""
        values = {"cli": cli, "account": account, "at": at}
        return await self._execute("claim_cli_login", values) == 1


class PostgresDeviceLoginStore(_Table):
    """Devices in accounts.device_login."""

    async def add(self, device: str, code: str, login: DeviceLogin) -> bool:
        """Store a device; False if its user code is in use. Raises `Failed`."""
        values = {"device": device, "code": code} | vars(login) | {"scopes": list(login.scopes)}
        return await self._execute("add_device_login", values) == 1

    async def by_code(self, code: str) -> DeviceLogin | None:
        """Return the device with this user code. Raises `Failed`."""
        row = await self._fetch_row("device_login_by_code", {"code": code})
        return None if row is None else DeviceLogin(*row)

    async def by_hash(self, device: str) -> DeviceLogin | None:
        """Return the device with this device code. Raises `Failed`."""
        row = await self._fetch_row("device_login_by_hash", {"device": device})
        return None if row is None else DeviceLogin(*row)

    async def answer(self, code: str, account: str | None, at: datetime) -> bool:
        """Approve or deny it; False if it was answered before. Raises `Failed`."""
        values = {"code": code, "account": account, "is_denied": account is None, "at": at}
        return await self._execute("answer_device_login", values) == 1

    async def polled(self, device: str, at: datetime, since: datetime) -> bool:
        """Store the time of a poll; False if it polls too often. Raises `Failed`."""
        values = {"device": device, "at": at, "since": since}
        return await self._execute("poll_device_login", values) == 1

    async def finish(self, device: str, token: int) -> None:
        """Store the number of its token. Raises `Failed`."""
        await self._execute("finish_device_login", {"device": device, "token": token})


class PostgresLoginStateStore(_Table):
    """OAuth logins in progress, in accounts.login_state."""

    async def add(self, state: str, login: LoginState) -> None:
        """Store a login. Raises `Failed`."""
        await self._execute("add_login_state", {"state": state} | vars(login))

    async def take(self, state: str) -> LoginState | None:
        """Return and remove a login. Raises `Failed`."""
        row = await self._fetch_row("take_login_state", {"state": state})
        return None if row is None else LoginState(*row)


class PostgresPasswordStore(_Table):
    """Passwords in accounts.password, and new accounts."""

    async def find(self, name: str) -> StoredPassword | None:
        """Return the password of a name. Raises `Failed`."""
        row = await self._fetch_row("password_of", {"name": name})
        return None if row is None else StoredPassword(*row)

    async def is_lost(self) -> bool:
        """Return whether names and passwords were lost. Raises `Failed`."""
        return await self._fetch_row("is_lost", {}) is not None

    async def has_any(self) -> bool:
        """Return whether there is any password. Raises `Failed`."""
        return await self._fetch_row("any_password", {}) is not None

    async def renew(self, name: str, hashed: str, at: datetime) -> None:
        """Replace the hash of a password with a newer one. Raises `Failed`."""
        await self._execute("set_password", {"name": name, "hash": hashed, "at": at})

    async def open_with_password(
        self, name: str, identity: Identity, hashed: str, at: datetime
    ) -> bool:
        """Create name, account, identity and password; False if the name is taken.

        Raises `Failed`.
        """
        values = {"name": name, "hash": hashed, "at": at} | identity._asdict()
        return await self._open("open_with_password", values)

    async def open_with_identity(self, name: str, identity: Identity) -> bool:
        """Create name, account and identity; False if one of them is taken. Raises `Failed`."""
        return await self._open("open_with_identity", {"name": name} | identity._asdict())

    async def _open(self, statement: str, values: Mapping[str, Any]) -> bool:
        try:
            is_done = await self._execute(statement, values) == 1
        except UniqueViolation:  # Somebody else was faster; the transaction was rolled back.
            return False
        if not is_done and await self.is_lost():
            raise accounts_lost()
        return is_done


class ExpiredLoginCleanup(_Table):
    """Deletes logins that were never finished."""

    async def purge(self, at: datetime) -> int:
        """Delete expired logins and return how many. Raises `Failed`."""
        values = {
            "before": at - timedelta(seconds=REMEMBERED_S),
            "linked_before": at - timedelta(days=GRANT_DAYS),
        }
        return sum([await self._execute(statement, values) for statement in PURGES])
