"""Data outside the log: names, identities, passwords, notes, webhooks and Discord threads.

All tables of these schemas are copied by COPY into one file that only its owner may read. They are
copied after the log, so that every account in the copied log has its rows.
"""

import asyncio
import io
import tarfile
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from psycopg import AsyncConnection, sql

from shared.database.roles import OWNED
from shared.errors import Refused
from shared.postgres import await_migrations, connect, load_statements, translate_outages
from shared.private_files import open_private

FORMAT = "warpboard-accounts/1"
INDEX = "tables.json"
MIGRATION = "migration"
NAMES = ("accounts", "participant")
MEMBER_BYTES_MAX = 1024 * 1024 * 1024
DAMAGE_ERRORS = (tarfile.TarError, EOFError, OSError, KeyError, zlib.error, msgspec.DecodeError)


class Table(msgspec.Struct, frozen=True):
    """A table in a copy; tables that others refer to come first."""

    schema: str
    name: str
    columns: list[str]
    rows: int
    identities: list[str] = []

    @property
    def member(self) -> str:
        """Its name in the file."""
        return f"{self.schema}.{self.name}"


class Index(msgspec.Struct, frozen=True):
    """The contents of a copy of the accounts."""

    format: str
    tables: list[Table]


async def save_accounts(path: Path, dsn: str) -> int:
    """Copy all tables from one snapshot; returns the number of participants.

    Raises Failed or OSError.
    """
    part = path.with_name(f"{path.name}.part")
    tables: list[Table] = []
    try:
        async with _open_snapshot(dsn) as connection:
            with open_private(part) as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
                for table in await _list_tables(connection):
                    data, rows = await _copy_out(connection, table)
                    tables.append(msgspec.structs.replace(table, rows=rows))
                    _add(tar, table.member, data)
                _add(tar, INDEX, msgspec.json.encode(Index(FORMAT, tables)))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return sum(table.rows for table in tables if (table.schema, table.name) == NAMES)


class AccountsCopy:
    """A copy of the accounts in a file, read whole. Raises Refused `bad_accounts`."""

    def __init__(self, path: Path) -> None:
        self._data: dict[str, bytes] = {}
        try:
            with tarfile.open(path, "r:gz") as tar:
                for member in tar:
                    file = tar.extractfile(member) if member.size <= MEMBER_BYTES_MAX else None
                    self._data[member.name] = b"" if file is None else file.read()
            index = msgspec.json.decode(self._data[INDEX], type=Index)
        except DAMAGE_ERRORS as error:
            raise Refused("bad_accounts", f"{path} cannot be read: {error}", "file") from error
        unknown = [table.schema for table in index.tables if table.schema not in OWNED]
        absent = [table.member for table in index.tables if table.member not in self._data]
        if index.format != FORMAT or unknown or absent:
            reason = f"{path} is not a copy of accounts in the format {FORMAT!r}"
            raise Refused("bad_accounts", reason, "file")
        self.tables = index.tables

    @property
    def participants(self) -> int:
        """The number of participants in the copy."""
        return sum(table.rows for table in self.tables if (table.schema, table.name) == NAMES)

    async def is_there(self, dsn: str) -> bool:
        """Whether the database already has exactly these participants.

        Raises Refused `accounts_not_empty` if it has others, or Failed.
        """
        async with _open_snapshot(dsn) as connection:
            for table in await _list_tables(connection):
                if (table.schema, table.name) != NAMES:
                    continue
                data, rows = await _copy_out(connection, table)
                expected = self._data.get(table.member, b"")
                if not rows:
                    return False
                if sorted(data.splitlines()) != sorted(expected.splitlines()):
                    reason = f"the database has {rows} participants that are not the backup's"
                    raise Refused("accounts_not_empty", f"{reason}: restore into an empty one")
                return True
        return False

    async def load(self, dsn: str, last_seq: int) -> None:
        """Restore all rows, or none, into a database without participants.

        Readers' positions past `last_seq`, the end of the restored log, are moved there. Raises
        Failed.
        """
        for schema in dict.fromkeys(table.schema for table in self.tables):
            try:
                await asyncio.to_thread(await_migrations, dsn, OWNED[schema], schema, 0.0)
            except ModuleNotFoundError as error:
                reason = f"the backup has the tables of {OWNED[schema]}: install it first"
                raise Refused("not_installed", reason) from error
        with translate_outages("the accounts cannot be restored"):
            async with await connect(dsn) as connection, connection.transaction():
                for table in reversed(self.tables):
                    await connection.execute(_compose("empty", table))
                for table in self.tables:
                    await self._copy_in(connection, table)
                await connection.execute(_sql("clamp_places").encode(), {"last": last_seq})

    async def _copy_in(self, connection: AsyncConnection[Any], table: Table) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
        statement = _compose("copy_in", table, columns=columns)
        async with connection.cursor().copy(statement) as copy:
            await copy.write(self._data[table.member])
        for column in table.identities:
            values = {"table": f"{table.schema}.{table.name}", "column": column}
            name = sql.Identifier(column)
            await connection.execute(_compose("go_on", table, column=name), values)


@asynccontextmanager
async def _open_snapshot(dsn: str) -> AsyncIterator[AsyncConnection[Any]]:
    """A read-only connection that sees one snapshot. Raises Failed."""
    with translate_outages("the accounts cannot be copied"):
        async with await connect(dsn) as connection, connection.transaction():
            await connection.execute(_sql("one_moment").encode())
            yield connection


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    tar.addfile(member, io.BytesIO(data))


async def _list_tables(connection: AsyncConnection[Any]) -> list[Table]:
    cursor = await connection.execute(_sql("tables").encode(), {"schemas": list(OWNED)})
    tables = {
        (schema, name): Table(schema, name, columns, 0, identities)
        for schema, name, columns, identities in await cursor.fetchall()
        if name != MIGRATION
    }
    cursor = await connection.execute(_sql("references").encode(), {"schemas": list(OWNED)})
    needs: dict[tuple[str, str], set[tuple[str, str]]] = {key: set() for key in tables}
    for schema, name, other_schema, other in await cursor.fetchall():
        if (schema, name) != (other_schema, other):
            needs[schema, name].add((other_schema, other))
    return [tables[key] for key in _sort_tables(needs)]


def _sort_tables(needs: dict[tuple[str, str], set[tuple[str, str]]]) -> Sequence[tuple[str, str]]:
    order: list[tuple[str, str]] = []
    while len(order) < len(needs):
        ready = [key for key in sorted(needs) if key not in order and needs[key] <= {*order}]
        assert ready, "no two tables refer to each other"
        order += ready
    return order


async def _copy_out(connection: AsyncConnection[Any], table: Table) -> tuple[bytes, int]:
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    statement = _compose("copy_out", table, columns=columns)
    async with connection.cursor().copy(statement) as copy:
        data = b"".join([bytes(piece) async for piece in copy])
    # In the text format of COPY each line is a row: line ends within values are escaped.
    return data, data.count(b"\n")


def _sql(name: str) -> str:
    return load_statements("ranker.export", "accounts.sql")[name]


def _compose(name: str, table: Table, **parts: sql.Composable) -> sql.Composed:
    full = sql.Identifier(table.schema, table.name)
    return sql.SQL(_sql(name)).format(table=full, **parts)
