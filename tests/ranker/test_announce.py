"""An operator's URL gets each event at least once with one key, and none from history."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from nats.aio.client import Client

from ranker.settings import check_url
from ranker.webhooks.sender import (
    ANNOUNCE_CONSUMER,
    ANNOUNCE_TARGET,
    ANNOUNCED_AGGREGATES,
    OperatorWebhook,
    announce,
)
from shared.errors import Refused
from shared.event_log import NewEvent
from shared.events import AuditSealed, Fact, PodiumChanged, RecordSet
from shared.nats.bus import NatsBus, NatsDeadLetters
from shared.nats.event_log import NatsLog
from shared.outbox import OutboxSender
from shared.postgres import PostgresOutbox, create_pool
from shared.wire import EventMetadata, make_envelope
from tests.contracts.samples import T0
from tests.support.examples import example_event
from tests.support.waits import eventually

RANKING, SEAL = "ranking.matmul.H200", "audit.seal"
# What the next request meets; when there is nothing more, 204.
FAIL, GONE, HANG, DIE = 503, 410, 0, -1
HANG_S = 30.0
# A stall of the machine must not make an answer late, unless it is meant to be.
WITHIN_S, SHORT_S = 10.0, 1.0
DELAYS_S = (0.02, 0.02, 0.02, 0.02)


@dataclass
class Operator:
    """A real HTTP server that records requests and answers as the test demands."""

    meets: list[int] = field(default_factory=list)
    got: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""

    def keys(self, seq: int) -> list[str]:
        """The keys of an event, one per request."""
        return [key for key, body in self.got if body["seq"] == seq]


@pytest.fixture
def operator() -> Iterator[Operator]:
    operator_ = Operator()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            operator_.got.append((self.headers["Idempotency-Key"], json.loads(body)))
            meets = operator_.meets.pop(0) if operator_.meets else 204
            if meets == HANG:
                released.wait(HANG_S)
            if meets > 0:
                self.send_response(meets)
                self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    released = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    operator_.url = f"http://127.0.0.1:{server.server_port}/in"
    yield operator_
    released.set()
    server.shutdown()
    thread.join(10)
    server.server_close()


async def say(nats_client: Client, kind: type[Fact], aggregate: str, number: int) -> int:
    stamp = EventMetadata(f"e{number}", T0, "service:ranker", "s1", "e0")
    return await NatsLog(nats_client).append(
        NewEvent(make_envelope(example_event(kind), aggregate, stamp), None)
    )


@asynccontextmanager
async def announcing(
    nats_client: Client, postgres_dsn: str, operator: Operator, within_s: float = WITHIN_S
) -> AsyncIterator[None]:
    """Run the announcer as in ranker, with short waits."""
    inbox = await NatsBus(nats_client).news(ANNOUNCE_CONSUMER, *ANNOUNCED_AGGREGATES)
    assert await inbox.next(0.05) is None
    async with create_pool(postgres_dsn, 1, 2, "accounts") as rows, httpx.AsyncClient() as http:
        webhook = OperatorWebhook(http, operator.url, within_s)
        sender = OutboxSender(inbox, PostgresOutbox(rows), ANNOUNCE_TARGET, webhook.post, DELAYS_S)
        task = asyncio.create_task(sender.run())
        yield
        task.cancel()
        await asyncio.wait({task})
    await inbox.close()


@pytest.mark.feature("P20")
@pytest.mark.server
async def test_records_podiums_and_seals_are_posted_as_json(
    nats_client: Client, postgres_dsn: str, operator: Operator
) -> None:
    async with announcing(nats_client, postgres_dsn, operator):
        kinds: list[tuple[type[Fact], str]] = [
            (RecordSet, RANKING),
            (PodiumChanged, RANKING),
            (AuditSealed, SEAL),
        ]
        seqs = [
            await say(nats_client, kind, aggregate, n) for n, (kind, aggregate) in enumerate(kinds)
        ]
        await eventually(lambda: len(operator.got) == 3)
    bodies = [body for _, body in operator.got]
    assert [body["seq"] for body in bodies] == seqs
    assert [body["event"]["type"] for body in bodies] == [
        "RecordSet",
        "PodiumChanged",
        "AuditSealed",
    ]
    assert bodies[0]["event"]["agg"] == RANKING
    assert bodies[0]["event"]["data"]["score_us"] == 1.5
    assert len({key for key, _ in operator.got}) == 3


@pytest.mark.server
@pytest.mark.parametrize("meets", [FAIL, HANG, DIE])
async def test_an_event_comes_again_under_its_key_until_it_is_taken(
    nats_client: Client, postgres_dsn: str, operator: Operator, meets: int
) -> None:
    operator.meets += [meets, meets]
    within_s = SHORT_S if meets == HANG else WITHIN_S
    async with announcing(nats_client, postgres_dsn, operator, within_s):
        first = await say(nats_client, RecordSet, RANKING, 1)
        second = await say(nats_client, AuditSealed, SEAL, 2)
        await eventually(lambda: len(operator.got) >= 4)
    assert len(operator.keys(first)) + len(operator.keys(second)) == 4
    assert len(set(operator.keys(first))) == len(set(operator.keys(second))) == 1
    assert set(operator.keys(first)) != set(operator.keys(second))


@pytest.mark.server
async def test_what_is_refused_or_never_taken_is_a_dead_letter(
    nats_client: Client, postgres_dsn: str, operator: Operator
) -> None:
    operator.meets += [GONE, *[FAIL] * 5]
    async with announcing(nats_client, postgres_dsn, operator):
        await say(nats_client, RecordSet, RANKING, 1)
        await say(nats_client, RecordSet, RANKING, 2)
        letters = NatsDeadLetters(nats_client)

        async def both() -> bool:
            return len(await letters.list()) == 2

        await eventually(both)
        reasons = [letter.reason for letter in await letters.list()]
    assert reasons == ["the announce URL answered 410", "the announce URL answered 503"]


class ForgetfulBus(NatsBus):
    """Says when the server has deleted a consumer, which it lists no longer some time before.

    A consumer of the same name that is made meanwhile goes on where the old one was.
    """

    def __init__(self, nats_client: Client) -> None:
        super().__init__(nats_client)
        self.has_forgotten = asyncio.Event()

    async def forget(self, consumer: str) -> None:
        """Delete it."""
        await super().forget(consumer)
        self.has_forgotten.set()


@pytest.mark.server
async def test_no_history_is_posted_and_a_restart_goes_on(
    nats_client: Client, postgres_dsn: str, operator: Operator
) -> None:
    bus = NatsBus(nats_client)
    await say(nats_client, RecordSet, RANKING, 1)
    async with running(announce(operator.url, postgres_dsn, bus)):
        await eventually(lambda: has_consumer(nats_client))
        second = await say(nats_client, RecordSet, RANKING, 2)
        await eventually(lambda: operator.got)
    third = await say(nats_client, RecordSet, RANKING, 3)
    async with running(announce(operator.url, postgres_dsn, bus)):
        await eventually(lambda: third in posted(operator))
    assert posted(operator) == [second, third]
    forgetful = ForgetfulBus(nats_client)
    async with running(announce(None, postgres_dsn, forgetful)):
        await asyncio.wait_for(forgetful.has_forgotten.wait(), 30)
    assert not await has_consumer(nats_client)
    await say(nats_client, RecordSet, RANKING, 4)
    async with running(announce(operator.url, postgres_dsn, bus)):
        await eventually(lambda: has_consumer(nats_client))
        fifth = await say(nats_client, RecordSet, RANKING, 5)
        await eventually(lambda: fifth in posted(operator))
    assert posted(operator) == [second, third, fifth]


def posted(operator: Operator) -> list[int]:
    """Return the events in order; a post that was not recorded before a restart is repeated."""
    return list(dict.fromkeys(body["seq"] for _, body in operator.got))


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    yield
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def has_consumer(nats_client: Client) -> bool:
    answer = await nats_client.request("$JS.API.CONSUMER.NAMES.EVENTS", b"", 2)
    return ANNOUNCE_CONSUMER in (json.loads(answer.data)["consumers"] or [])


@pytest.mark.parametrize("url", ["ftp://x.org", "x.org/in", "http://", "https:///in"])
def test_a_setting_that_is_no_url_is_told(url: str) -> None:
    with pytest.raises(Refused, match="WARPBOARD_RANKER_ANNOUNCE_URL is"):
        check_url(url)


def test_a_url_and_none_at_all_are_settings() -> None:
    check_url("https://hooks.example.org/in")
    check_url(None)
