"""Logins that wait, and passwords, in the tables of migration 0004."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncCursor
from psycopg.errors import UniqueViolation
from psycopg_pool import AsyncConnectionPool

from ingest.domain.account_tables import accounts_lost
from ingest.login.domain import GRANT_DAYS, REMEMBERED_S, CliLogin, DeviceLogin
from ingest.login.ports import LoginState, Password
from ingest.postgres import refuse_nameless
from ingest.service.ports import Identity
from shared.postgres import borrow_connection, statements

PURGES = ("purge_cli_logins", "purge_device_logins", "purge_login_states")
LOGINS_AWAY = (
    "the logins cannot be reached",
    "the logins cannot be read or written for a moment; ask again",
)


@dataclass(frozen=True)
class _Table:
    """Statements of sql/logins.sql over a pool."""

    pool: AsyncConnectionPool

    async def _say(self, statement: str, values: Mapping[str, Any]) -> int:
        """Carry one out; how many rows it touched. Errors: Failed."""
        count, _ = await self._ask(statement, values)
        return count

    async def _row(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The one row that it answers. Errors: Failed."""
        _, row = await self._ask(statement, values)
        return row

    async def _ask(
        self, statement: str, values: Mapping[str, Any]
    ) -> tuple[int, tuple[Any, ...] | None]:
        sql = statements("ingest", "logins.sql")[statement].encode()
        with refuse_nameless(values.get("account")):
            async with borrow_connection(self.pool, *LOGINS_AWAY) as connection:
                cursor: AsyncCursor[Any] = await connection.execute(sql, values)
                row = await cursor.fetchone() if cursor.description else None
        return cursor.rowcount, row


class PostgresCliLogins(_Table):
    """CLI ids in accounts.cli_login."""

    async def add(self, cli: str, login: CliLogin) -> None:
        """Keep one that was given out. Errors: Failed."""
        await self._say("add_cli_login", {"cli": cli} | vars(login))

    async def find(self, cli: str) -> CliLogin | None:
        """What is known of one. Errors: Failed."""
        row = await self._row("cli_login_of", {"cli": cli})
        return None if row is None else CliLogin(*row)

    async def claim(self, cli: str, account: str, at: datetime) -> bool:
        """Make it this account's; False if it may not be. Errors: Failed."""
        values = {"cli": cli, "account": account, "at": at}
        return await self._say("claim_cli_login", values) == 1


class PostgresDeviceLogins(_Table):
    """Devices in accounts.device_login."""

    async def add(self, device: str, code: str, login: DeviceLogin) -> bool:
        """Keep one; False if its user code is in use. Errors: Failed."""
        values = {"device": device, "code": code} | vars(login) | {"scopes": list(login.scopes)}
        return await self._say("add_device_login", values) == 1

    async def by_code(self, code: str) -> DeviceLogin | None:
        """The one that shows a user code. Errors: Failed."""
        row = await self._row("device_login_by_code", {"code": code})
        return None if row is None else DeviceLogin(*row)

    async def by_hash(self, device: str) -> DeviceLogin | None:
        """The one that holds a device code. Errors: Failed."""
        row = await self._row("device_login_by_hash", {"device": device})
        return None if row is None else DeviceLogin(*row)

    async def answer(self, code: str, account: str | None, at: datetime) -> bool:
        """Let it in or turn it away; False if that was said already. Errors: Failed."""
        values = {"code": code, "account": account, "is_denied": account is None, "at": at}
        return await self._say("answer_device_login", values) == 1

    async def polled(self, device: str, at: datetime, since: datetime) -> bool:
        """Note that it asks; False if it asked a moment ago. Errors: Failed."""
        values = {"device": device, "at": at, "since": since}
        return await self._say("poll_device_login", values) == 1

    async def finish(self, device: str, token: int) -> None:
        """Note that it was given its token. Errors: Failed."""
        await self._say("finish_device_login", {"device": device, "token": token})


class PostgresLoginStates(_Table):
    """Browsers on their way, in accounts.login_state."""

    async def add(self, state: str, login: LoginState) -> None:
        """Keep one. Errors: Failed."""
        await self._say("add_login_state", {"state": state} | vars(login))

    async def take(self, state: str) -> LoginState | None:
        """Hand it over once. Errors: Failed."""
        row = await self._row("take_login_state", {"state": state})
        return None if row is None else LoginState(*row)


class PostgresPasswords(_Table):
    """Passwords in accounts.password, and how participants come to a name."""

    async def find(self, name: str) -> Password | None:
        """The password of a name. Errors: Failed."""
        row = await self._row("password_of", {"name": name})
        return None if row is None else Password(*row)

    async def is_lost(self) -> bool:
        """Whether names and passwords were lost. Errors: Failed."""
        return await self._row("is_lost", {}) is not None

    async def has_any(self) -> bool:
        """Whether anybody has one. Errors: Failed."""
        return await self._row("any_password", {}) is not None

    async def renew(self, name: str, hashed: str, at: datetime) -> None:
        """Keep the same password under a newer hash. Errors: Failed."""
        await self._say("set_password", {"name": name, "hash": hashed, "at": at})

    async def open_with_password(
        self, name: str, identity: Identity, hashed: str, at: datetime
    ) -> bool:
        """A name with account, identity and password; False if it is taken. Errors: Failed."""
        values = {"name": name, "hash": hashed, "at": at} | identity._asdict()
        return await self._opened("open_with_password", values)

    async def open_with_identity(self, name: str, identity: Identity) -> bool:
        """A name with its account and identity; False if one is taken. Errors: Failed."""
        return await self._opened("open_with_identity", {"name": name} | identity._asdict())

    async def _opened(self, statement: str, values: Mapping[str, Any]) -> bool:
        try:
            is_done = await self._say(statement, values) == 1
        except UniqueViolation:  # Somebody else was faster, and nothing of this was kept.
            return False
        if not is_done and await self.is_lost():
            raise accounts_lost()
        return is_done


class Purge(_Table):
    """Forgets logins that nobody finished."""

    async def purge(self, at: datetime) -> int:
        """How many were forgotten. Errors: Failed."""
        values = {
            "before": at - timedelta(seconds=REMEMBERED_S),
            "linked_before": at - timedelta(days=GRANT_DAYS),
        }
        return sum([await self._say(one, values) for one in PURGES])
