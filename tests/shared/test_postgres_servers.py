"""Postgres with a standby: what survives a failover; and with TLS: whom a service believes."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
import trustme

from shared.errors import Failed
from shared.postgres import (
    WriteProbe,
    await_migrations,
    borrow_connection,
    connect,
    create_pool,
    migrate,
)
from shared.server_checks import find_postgres_certificate_problems
from tests.support.postgres import NetworkPostgres, SystemPostgres, promote, start_standby
from tests.support.servers import skip_without_postgres
from tests.support.waits import eventually

pytestmark = [pytest.mark.server, pytest.mark.long]

OUTAGE_S_MAX = 20.0
WRITES_MIN = 50


class Pair(NamedTuple):
    """A primary and its standby, and a DSN that names both."""

    primary: NetworkPostgres
    standby: NetworkPostgres
    dsn: str


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Commits are acknowledged once both servers have them."""
    skip_without_postgres()
    with ExitStack() as stack:
        primary = NetworkPostgres(tmp_path / "primary")
        stack.callback(primary.stop)
        primary.start()
        migrate(primary.dsn_at(), "shared", "accounts")
        standby = start_standby(primary, tmp_path / "standby")
        stack.callback(standby.stop)
        with psycopg.connect(primary.dsn_at(), autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = '*'")
            connection.execute("select pg_reload_conf()")
        ports = (primary.port, standby.port)
        yield Pair(primary, standby, primary.dsn_at(*ports, target_session_attrs="read-write"))


async def test_after_a_failover_everything_that_was_written_is_there(pair: Pair) -> None:
    acknowledged: list[str] = []
    outages: list[float] = []

    async with create_pool(pair.dsn, 1, 4) as pool:

        async def write() -> None:
            """Write one row after the other, each until it is acknowledged."""
            number, failed_at = 0, 0.0
            while True:
                name = f"name{number}"
                try:
                    async with borrow_connection(pool, "a test writes") as connection:
                        await connection.execute(
                            b"insert into accounts.participant (account, name) values (%s, %s)"
                            b" on conflict do nothing",
                            [name, name],
                        )
                except Failed:
                    failed_at = failed_at or time.monotonic()
                    await asyncio.sleep(0.1)
                    continue
                if failed_at:
                    outages.append(time.monotonic() - failed_at)
                    failed_at = 0.0
                acknowledged.append(name)
                number += 1

        writing = asyncio.create_task(write())
        await eventually(lambda: len(acknowledged) > WRITES_MIN)
        pair.primary.kill()
        await asyncio.to_thread(promote, pair.standby)
        before = len(acknowledged)
        await eventually(lambda: len(acknowledged) > before + WRITES_MIN, within_s=OUTAGE_S_MAX)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        probe = WriteProbe(pool)
        await probe.look()
        assert probe.trouble == ""
    # Everything that connects finds the server that accepts writes.
    await_migrations(pair.dsn, "shared", "accounts", 0.0)
    async with await connect(pair.dsn, "accounts") as connection:
        rows = await (await connection.execute(b"select name from participant")).fetchall()
    assert {name for (name,) in rows} >= set(acknowledged)
    assert max(outages, default=0.0) < OUTAGE_S_MAX


async def test_a_standby_alone_is_an_outage_that_says_why(pair: Pair) -> None:
    pair.primary.kill()
    with pytest.raises(Failed, match="session is read-only"):
        await connect(pair.dsn)


class Secure(NamedTuple):
    """A server with a certificate for localhost, and the authority that signed it."""

    server: NetworkPostgres
    authority: trustme.CA
    dsn: str


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A Postgres that accepts only TLS from the network."""
    folder = tmp_path_factory.mktemp("secure")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    server = SystemPostgres(folder / "postgres")
    server.folder.mkdir(mode=0o711)
    server.start()
    try:
        files = {
            "server.crt": certificate.cert_chain_pems[0],
            "server.key": certificate.private_key_pem,
        }
        for name, blob in files.items():
            blob.write_to_path(server.data / name)
            server.give(server.data / name, 0o600)
        hba = server.data / "pg_hba.conf"
        hba.write_text("local all all scram-sha-256\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        server.stop()
        server.settings["ssl"] = "on"
        server.start()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        dsn = server.dsn_at(host="localhost", hostaddr="127.0.0.1")
        yield Secure(server, authority, f"{dsn} sslmode=verify-full sslrootcert={folder}/ca.pem")
    finally:
        server.stop()


async def test_a_service_believes_a_certificate_of_its_authority_alone(
    secure: Secure, tmp_path: Path
) -> None:
    async with await connect(secure.dsn) as connection:
        query = b"select ssl, version from pg_stat_ssl where pid = pg_backend_pid()"
        assert await (await connection.execute(query)).fetchone() == (True, "TLSv1.3")
    async with (
        create_pool(secure.dsn, 1, 1) as pool,
        borrow_connection(pool, "a test reads") as pooled,
    ):
        assert pooled.pgconn.ssl_in_use
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    with pytest.raises(Failed, match="certificate verify failed"):
        await connect(f"{secure.dsn} sslrootcert={tmp_path / 'other.pem'}")
    with pytest.raises(Failed, match='server certificate for "localhost" does not match'):
        await connect(f"{secure.dsn} host=db1.example.org")
    with pytest.raises(Failed, match=r"no pg_hba\.conf entry .* no encryption"):
        await connect(f"{secure.dsn} sslmode=disable")


def count_sockets() -> int:
    """How many sockets this process has open."""
    return sum(path.is_socket() for path in Path("/proc/self/fd").iterdir())


async def test_the_doctor_closes_its_connections(secure: Secure, tmp_path: Path) -> None:
    """Else the garbage collector finds them, and warns in whatever runs then."""
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    known = count_sockets()
    for dsn in (secure.dsn, f"{secure.dsn} sslrootcert={tmp_path / 'other.pem'}"):
        async for _ in find_postgres_certificate_problems(dsn):
            pass
        assert count_sockets() == known


async def test_the_doctor_names_a_certificate_that_expires_soon_or_is_not_of_the_authority(
    secure: Secure, tmp_path: Path
) -> None:
    async def problems(dsn: str) -> list[str]:
        return [problem async for problem in find_postgres_certificate_problems(dsn)]

    assert await problems(secure.dsn) == []
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    (refused,) = await problems(f"{secure.dsn} sslrootcert={tmp_path / 'other.pem'}")
    assert f"localhost:{secure.server.port} cannot be reached with TLS" in refused
    soon = datetime.now(UTC) + timedelta(days=3, hours=1)
    certificate = secure.authority.issue_cert("localhost", not_after=soon)
    certificate.cert_chain_pems[0].write_to_path(secure.server.data / "server.crt")
    certificate.private_key_pem.write_to_path(secure.server.data / "server.key")
    with psycopg.connect(secure.server.dsn_at(), sslmode="require", autocommit=True) as connection:
        connection.execute("select pg_reload_conf()")
    (problem,) = await eventually(lambda: problems(secure.dsn))
    assert f"the certificate of localhost:{secure.server.port} ends in 3 days" in problem
