"""What a service's own settings find wrong with the servers that they name."""

import pytest
from psycopg.conninfo import make_conninfo

from shared import server_checks
from shared.bus_keys.login import BusLogin
from shared.database.postgres import prepare
from shared.database.roles import BACKUP, OWNER, RANKER, SERVICES
from shared.nats.connection import api_request, connect
from shared.nats.streams import ensure_streams
from shared.server_checks import find_problems
from shared.servers.nats import NatsServer
from tests.support.servers import postgres_database
from tests.support.waits import find_free_ports

PREFIX = "WARPBOARD_RANKER"
NATS, POSTGRES, PUBLIC = f"{PREFIX}_NATS_URL", f"{PREFIX}_POSTGRES_DSN", f"{PREFIX}_PUBLIC_URL"


def login_settings(login: BusLogin) -> dict[str, str]:
    """The settings of a login."""
    names = (NATS, f"{PREFIX}_NATS_CREDENTIALS", f"{PREFIX}_NATS_CA")
    return dict(zip(names, login, strict=True))


async def test_a_bus_with_our_streams_or_none_is_fine(own_nats: NatsServer) -> None:
    settings = login_settings(own_nats.login())
    assert await find_problems(PREFIX, settings) == []
    nc = await connect(own_nats.login(), "test")
    await ensure_streams(nc)
    assert await find_problems(PREFIX, settings) == []
    config = {"name": "BLOBS", "subjects": ["blobs.*"], "storage": "file", "allow_direct": False}
    await api_request(nc, "STREAM.UPDATE.BLOBS", config)
    await nc.close()
    problems = await find_problems(PREFIX, settings)
    assert f"{NATS}: stream BLOBS has allow_direct=False, expected True" in problems


async def test_missing_credentials_and_a_wrong_address_are_named(
    own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_checks, "BUS_S_MAX", 0.5)
    (port,) = find_free_ports(1)
    for url in (f"nats://127.0.0.1:{port}", own_nats.login().url):
        host = url.rpartition("@")[2].removeprefix("nats://")
        (problem,) = await find_problems(PREFIX, {NATS: url})
        assert problem.startswith(f"{NATS}: no NATS server at {host}")


@pytest.mark.server
async def test_only_a_role_that_was_prepared_is_one_of_a_service(postgres_server_dsn: str) -> None:
    with postgres_database(postgres_server_dsn) as dsn:
        (problem,) = await find_problems(PREFIX, {POSTGRES: dsn})
        assert problem.startswith(f"{POSTGRES}: role ")
        assert "is a superuser" in problem
        passwords = dict.fromkeys((OWNER, *SERVICES, BACKUP), "secret")
        prepare(dsn, passwords)
        ranker = make_conninfo(dsn, user=RANKER, password="secret")
        assert await find_problems(PREFIX, {POSTGRES: ranker}) == []
        elsewhere = make_conninfo(dsn, user=RANKER, password="secret", dbname="postgres")
        (problem,) = await find_problems(PREFIX, {POSTGRES: elsewhere})
        assert "may use no table: run python -m shared.database" in problem


async def test_an_address_without_tls_is_named() -> None:
    (port,) = find_free_ports(1)
    (problem,) = await find_problems(PREFIX, {PUBLIC: f"https://127.0.0.1:{port}"})
    assert problem.startswith(f"{PUBLIC}: 127.0.0.1:{port} cannot be reached with TLS")
