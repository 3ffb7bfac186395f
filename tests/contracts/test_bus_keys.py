"""Keys of the bus on a running server: enrolled, revoked and rotated without a restart."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.bus_keys.authority import Authority
from shared.bus_keys.permissions import DISCORD_EDGE, INGEST, RANKER, SCHEDULER
from shared.errors import Failed
from shared.nats.account_deployment import deploy_accounts
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from tests.contracts.samples import new_event
from tests.support.servers import skip_without_nats
from tests.support.waits import eventually

pytestmark = pytest.mark.server
CUT_S_MAX = 1.0
APPENDS = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    skip_without_nats()
    server = NatsServer(tmp_path / "nats", users=["agent-a1", "launcher-modal"])
    try:
        server.start()
        yield server
    finally:
        server.stop()


async def deploy(server: NatsServer, user: str) -> None:
    """Give the server a user's account as it is now."""
    await deploy_accounts(server.login("sys"), [server.authority.account_jwt(user)])


async def test_an_agent_that_is_enrolled_later_is_let_in_without_a_restart(
    server: NatsServer,
) -> None:
    server.authority.ensure_user("agent-a2")
    with pytest.raises(Failed, match="revoked or of another operator"):
        await connect(server.login("agent-a2"), "agent", within_s=3)
    await deploy(server, "agent-a2")
    nc = await connect(server.login("agent-a2"), "agent")
    await nc.close()


async def test_a_revoked_agent_is_disconnected_within_a_second(server: NatsServer) -> None:
    lost = asyncio.Event()
    agent = await connect(server.login("agent-a1"), "agent")
    other = await connect(server.login("launcher-modal"), "launcher")

    async def note() -> None:
        lost.set()

    agent._disconnected_cb = note
    server.authority.revoke("agent-a1", keeps_newest=False)
    began_at = time.monotonic()
    await deploy(server, "agent-a1")
    await asyncio.wait_for(lost.wait(), CUT_S_MAX)
    assert time.monotonic() - began_at < CUT_S_MAX
    assert other.is_connected
    with pytest.raises(Failed, match="agent-a1 are revoked"):
        await connect(server.login("agent-a1"), "agent", within_s=1)
    # A new key of the same agent is let in, and the server was never restarted.
    server.authority.issue("agent-a1")
    again = await connect(server.login("agent-a1"), "agent")
    for nc in (agent, other, again):
        await nc.close()


@pytest.mark.parametrize("user", [INGEST, RANKER, SCHEDULER])
async def test_a_service_goes_on_with_new_credentials_and_loses_no_append(
    server: NatsServer, user: str
) -> None:
    nc = await connect(server.login(user), user)
    await ensure_streams(nc)
    log, kind = NatsLog(nc), {INGEST: "account", RANKER: "ranking.p", SCHEDULER: "job"}[user]
    stored: list[int] = []

    async def append_all() -> None:
        for number in range(APPENDS):
            stored.append(await log.append(new_event(f"{kind}.x{number}", 0)))
            await asyncio.sleep(0.01)

    appending = asyncio.create_task(append_all())
    await eventually(lambda: len(stored) > 5)
    old = server.authority.credentials(user).key.public
    server.authority.issue(user)
    server.authority.revoke(user, keeps_newest=True)
    await deploy(server, user)
    await eventually(lambda: nc.stats["reconnects"] == 1)
    await appending
    assert stored == list(range(1, APPENDS + 1))
    assert server.authority.credentials(user).key.public != old
    await nc.close()


@pytest.mark.parametrize("user", [DISCORD_EDGE, "launcher-modal", "agent-a1"])
async def test_a_user_apart_reconnects_with_new_credentials(server: NatsServer, user: str) -> None:
    nc = await connect(server.login(user), user)
    server.authority.issue(user)
    server.authority.revoke(user, keeps_newest=True)
    await deploy(server, user)
    await eventually(lambda: nc.stats["reconnects"] == 1 and nc.is_connected)
    await nc.close()


async def test_credentials_that_expired_or_are_missing_are_named(server: NatsServer) -> None:
    authority: Authority = server.authority
    authority.issue(INGEST, -60)
    with pytest.raises(Failed, match=r"ingest.creds of ingest expired at .*keys rotate ingest"):
        await connect(server.login(INGEST), INGEST, within_s=1)
    authority.credentials_path(INGEST).unlink()
    with pytest.raises(Failed, match=r"cannot be read: .*ingest.creds"):
        await connect(server.login(INGEST), INGEST, within_s=1)
    authority.credentials_path(RANKER).write_text("nothing")
    with pytest.raises(Failed, match=r"expected a \.creds file"):
        await connect(server.login(RANKER), RANKER, within_s=1)
