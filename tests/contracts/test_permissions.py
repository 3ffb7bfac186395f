"""Each subject of the table of permissions, as each user, on a real nats-server."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import nats.errors
import pytest
from docs.bus import USERS
from nats.aio.client import Client

from ingest.identity.access.feed import SNAPSHOT_NAME
from scheduler.service import SNAPSHOT
from shared.bus_keys.permissions import (
    INGEST,
    MAINTENANCE,
    PUBLISH,
    SCHEDULER,
    SERVICES,
    SUBSCRIBE,
    allowed,
    is_allowed,
    user_rights,
)
from shared.nats.connection import connect
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from tests.support.servers import skip_without_nats

pytestmark = pytest.mark.server
HANDLED_S = 0.3
# What nobody but maintenance may do, or nobody at all, beside what the table has.
ELSEWHERE = (
    *("events.audit.segment", "events.audit.truncation", "events.audit.seal"),
    *("snapshots.ingest.0", "snapshots.scheduler.0", "snapshots.other.0"),
    *("events.account.eve", "events.run.gpu7.r1", "events.nothing", "agents.other.report"),
    *("$JS.API.STREAM.DELETE.EVENTS", "$JS.API.STREAM.PURGE.EVENTS", "$JS.API.STREAM.LIST"),
    *("$JS.API.STREAM.MSG.DELETE.EVENTS", "$JS.API.STREAM.PURGE.WATERMARKS"),
    *("$KV.LEASES.agent.other", "progress.other.s1", "readers.discord-edge.append"),
    *("readers.launcher-other.append", "watermarks.scrub", "$SYS.REQ.CLAIMS.UPDATE"),
    *("$JS.API.CONSUMER.MSG.NEXT.EVENTS.gpu-agent-other", "_INBOX_scheduler.x", "nothing"),
)


def subjects() -> list[str]:
    """Every subject of the table with words for its wildcards, and some that it has not."""
    patterns = [
        pattern
        for user in USERS
        for verb in (PUBLISH, SUBSCRIBE)
        for pattern in allowed(user_rights(user), verb)
    ]
    words = (pattern.replace("*", "x").replace(">", "x") for pattern in patterns)
    return sorted({*words, *ELSEWHERE})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    skip_without_nats()
    others = [user for user in USERS if user not in SERVICES]
    server = NatsServer(tmp_path_factory.mktemp("permissions"), users=others)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Prober:
    """A connection of one user, and what the server refuses it."""

    def __init__(self, nc: Client) -> None:
        self.nc = nc
        self.refused: list[str] = []
        nc._error_cb = self._note

    async def _note(self, error: Exception) -> None:
        assert isinstance(error, nats.errors.Error)
        self.refused.append(str(error).lower())

    async def find_allowed(self, verb: str, names: Sequence[str]) -> dict[str, bool]:
        """Try each subject once, and return whether the server permits it."""
        for name in names:
            if verb == PUBLISH:
                await self.nc.publish(name, b"")
            else:
                await self.nc.subscribe(name)
        # The server answers in order; the client handles refusals in tasks of their own.
        await self.nc.flush()
        await asyncio.sleep(HANDLED_S)
        word = "publish to" if verb == PUBLISH else "subscription to"
        reasons = "\n".join(self.refused)
        return {name: f'violation for {word} "{name.lower()}"' not in reasons for name in names}


@pytest.fixture(params=USERS)
async def prober(server: NatsServer, request: pytest.FixtureRequest) -> AsyncIterator[Prober]:
    nc = await connect(server.login(request.param), request.param)
    yield Prober(nc)
    await nc.close()


@pytest.mark.feature("N18")
@pytest.mark.parametrize("verb", [PUBLISH, SUBSCRIBE])
async def test_the_server_allows_what_the_table_says_and_nothing_else(
    prober: Prober, verb: str, request: pytest.FixtureRequest
) -> None:
    user: str = request.node.callspec.params["prober"]
    actual = await prober.find_allowed(verb, subjects())
    assert actual == {subject: is_allowed(user, verb, subject) for subject in subjects()}
    # The test would notice a server that allows everything, or nothing.
    assert any(actual.values())
    assert user in SERVICES[-1:] or not all(actual.values())


@pytest.mark.parametrize("user", [user for user in USERS if user not in SERVICES])
async def test_no_answer_to_a_user_apart_reaches_a_subject_of_the_services(
    server: NatsServer, user: str
) -> None:
    services = await connect(server.login(), "services")
    await ensure_streams(services)

    async def answer_all() -> None:
        subscription = await services.subscribe("*.*.*")
        async for message in subscription.messages:
            if message.subject.startswith(("agents.", "readers.")) and message.reply:
                await services.publish(message.reply, b'{"forged": true}')

    answering = asyncio.create_task(answer_all())
    nc = await connect(server.login(user), user)
    targets = ("events.account.eve", "blobs.x", "watermarks.scrub", "$JS.API.STREAM.DELETE.BLOBS")
    try:
        await services.flush()
        for pattern in allowed(user_rights(user), PUBLISH):
            subject = pattern.replace("*", "x").replace(">", "x")
            for target in targets:
                await nc.publish(subject, b"{}", reply=target)
        await nc.flush()
        await asyncio.sleep(0.2)
        for stream in ("EVENTS", "BLOBS", "WATERMARKS"):
            info = await services.request(f"$JS.API.STREAM.INFO.{stream}", b"", 2)
            assert b'"messages":0' in info.data, stream
    finally:
        answering.cancel()
        await nc.close()
        await services.close()


def test_a_service_alone_stores_its_snapshots() -> None:
    for owner, name in ((INGEST, SNAPSHOT_NAME), (SCHEDULER, SNAPSHOT)):
        may_store = {user for user in USERS if is_allowed(user, PUBLISH, f"snapshots.{name}.0")}
        assert may_store == {owner, MAINTENANCE}
