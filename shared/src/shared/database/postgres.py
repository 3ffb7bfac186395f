"""Creates roles, migrates the owner's schemas and grants what each role may do."""

import importlib.util
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import Connection, sql

from shared.database.roles import BACKUP, GRANTS, OWNED, OWNER, RANKER, SERVICES
from shared.errors import Refused
from shared.postgres import connect_sync, load_statements, migrate, translate_outages
from shared.private_files import open_private


class Preparation(NamedTuple):
    """What `prepare` did: the roles it created, and how many migrations each schema needed."""

    created_roles: Sequence[str]
    migrations: Mapping[str, int]


def prepare(dsn: str, passwords: Mapping[str, str]) -> Preparation:
    """Create what is missing of roles and owned schemas, migrate them, and grant `GRANTS`.

    Harmless to repeat, also while services run. Errors: Refused if the role of the DSN may not do
    that; Failed.
    """
    with translate_outages("cannot prepare the database"), connect_sync(dsn) as own:
        created = _prepare_roles(own, passwords)
    schemas = [
        schema for schema, package in OWNED.items() if importlib.util.find_spec(package) is not None
    ]
    with (
        translate_outages("cannot prepare the database"),
        connect_sync(dsn, role=OWNER) as owner,
        owner.transaction(),
    ):
        _run(owner, "one_at_a_time")
        _open_database(owner, schemas)
    migrations = {schema: migrate(dsn, OWNED[schema], schema, role=OWNER) for schema in schemas}
    with (
        translate_outages("cannot grant privileges"),
        connect_sync(dsn, role=OWNER) as owner,
        owner.transaction(),
    ):
        _run(owner, "one_at_a_time")
        _grant(owner, schemas)
    return Preparation(created, migrations)


def _prepare_roles(connection: Connection[Any], passwords: Mapping[str, str]) -> Sequence[str]:
    """Create missing roles and set passwords; a role that is no superuser can do neither."""
    roles = (OWNER, *SERVICES, BACKUP)
    with connection.transaction():
        _run(connection, "one_at_a_time")
        present = {name for (name,) in _fetch(connection, "roles", {"roles": list(roles)})}
        missing = [role for role in roles if role not in present]
        ((is_superuser,),) = _fetch(connection, "is_superuser", {})
        if not is_superuser:
            _check_nothing_to_do(connection.info.user, missing, passwords)
            return ()
        for role in missing:
            _run(connection, "create_role", role=sql.Identifier(role))
        for role, password in passwords.items():
            _set_password(connection, role, password)
        _run(connection, "allow_backup", role=sql.Identifier(BACKUP))
        database = sql.Identifier(connection.info.dbname)
        _run(connection, "own_database", database=database, role=sql.Identifier(OWNER))
        owners: dict[str, object] = {"owned": list(OWNED), "owner": OWNER, "ranker": RANKER}
        for (statement,) in _fetch(connection, "ownerships", owners):
            connection.execute(statement.encode())
    return missing


def _check_nothing_to_do(user: str, missing: Sequence[str], passwords: Mapping[str, str]) -> None:
    if missing or passwords:
        change = f"create {', '.join(missing)}" if missing else "set passwords"
        reason = f"{user} may not {change}: connect as a superuser"
        raise Refused("no_superuser", reason, "postgres_dsn")


def _set_password(connection: Connection[Any], role: str, password: str) -> None:
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    ).decode()
    _run(connection, "set_password", role=sql.Identifier(role), verifier=sql.Literal(verifier))


def _open_database(connection: Connection[Any], schemas: Sequence[str]) -> None:
    """Close the database to all but our roles. Raises Refused if a schema has another owner."""
    database = sql.Identifier(connection.info.dbname)
    for schema in schemas:
        _run(connection, "create_schema", schema=sql.Identifier(schema))
    for schema, owner in _fetch(connection, "owners", {"schemas": list(schemas)}):
        if owner != OWNER:
            reason = f"the schema {schema} belongs to {owner}: repeat it as a superuser"
            raise Refused("other_owner", reason)
    _run(connection, "close_database", database=database)
    for role in (*SERVICES, BACKUP):
        _run(connection, "open_database", database=database, role=sql.Identifier(role))
    _run(connection, "let_create", database=database, role=sql.Identifier(RANKER))


def _grant(connection: Connection[Any], schemas: Sequence[str]) -> None:
    for schema in schemas:
        for role in SERVICES:
            parts = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
            _run(connection, "close_schema", **parts)
            tables = {
                table: privileges
                for table, privileges in GRANTS[role].items()
                if table.startswith(f"{schema}.")
            }
            if tables:
                _run(connection, "open_schema", **parts)
            for table, privileges in tables.items():
                _run(
                    connection,
                    "open_table",
                    role=parts["role"],
                    table=sql.Identifier(*table.split(".")),
                    privileges=sql.SQL(privileges),
                )


def rotate(dsn: str, role: str, passfile: Path) -> None:
    """Give a role a new password, and replace the password file that its service's DSN names.

    libpq reads the file for each connection, and open connections stay, so the service goes on.
    Errors: Refused or Failed; then the file is as before.
    """
    password = secrets.token_urlsafe(24)
    fresh = passfile.with_name(f"{passfile.name}.new")
    with translate_outages("cannot change the password"), connect_sync(dsn) as connection:
        with open_private(fresh) as file:
            file.write(f"*:*:*:{role}:{password}\n".encode())
        if passfile.exists():
            shutil.chown(fresh, passfile.stat().st_uid, passfile.stat().st_gid)
        _set_password(connection, role, password)
        fresh.replace(passfile)


def _run(connection: Connection[Any], statement: str, **parts: sql.Composable) -> None:
    text = load_statements("shared", "database.sql")[statement]
    connection.execute(sql.SQL(text).format(**parts))


def _fetch(connection: Connection[Any], statement: str, values: dict[str, object]) -> Any:
    text = load_statements("shared", "database.sql")[statement]
    return connection.execute(text.encode(), values).fetchall()
