"""A snapshot of who may do what saves time at the start, and changes nothing else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from nats.aio.client import Client

from ingest.identity.access.feed import SNAPSHOT_NAME, AccessFeed, AccessState
from shared import events, subjects
from shared.clock import new_id, now
from shared.event_log import NewEvent, RecordedEvent
from shared.events import Fact
from shared.nats.blobs import NatsSnapshots
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.repair import append_raw
from shared.nats.streams import ensure_streams
from shared.snapshots import FoldSnapshots
from shared.wire import EventMetadata, make_envelope
from tests.ingest.test_access import issued, revoked
from tests.support.servers import SharedNats
from tests.support.waits import eventually

pytestmark = pytest.mark.server

ADA, GRACE = subjects.account("ada"), subjects.account("grace")
KEPT = issued("t1"), issued("t2"), events.PreferenceSet(preference="overtaken", value="dm")


async def say(log: NatsLog, aggregate: str, *facts: Fact) -> None:
    """Append some facts."""
    for fact in facts:
        await log.append(
            NewEvent(
                make_envelope(
                    fact, aggregate, EventMetadata(new_id(), now(), "account:x", "c", "t")
                ),
                None,
            )
        )


@asynccontextmanager
async def followed(log: NatsLog, nats_client: Client, code: str = "1") -> AsyncIterator[AccessFeed]:
    """A gate that has caught up, and stores a snapshot at its end."""
    store = NatsSnapshots(nats_client)
    feed = AccessFeed(log, snapshots=FoldSnapshots(log, store, SNAPSHOT_NAME, code, AccessState))
    following = asyncio.create_task(feed.run())
    await eventually(lambda: not feed.why_unhealthy() or following.done())
    yield feed
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await feed.save()


def tokens(feed: AccessFeed) -> set[str]:
    """The tokens that are alive."""
    return {token.id for token in feed.rights().tokens.values()}


async def recorded(log: NatsLog) -> Sequence[tuple[str, str, bytes]]:
    """Every event as it is stored."""
    feed, last = log.follow(0), await log.last()
    events: list[RecordedEvent] = []
    while len(events) < last:
        events += await feed.take()
    await feed.close()
    return [
        (subjects.subject(event.envelope.aggregate), event.envelope.id, event.body)
        for event in events
    ]


async def test_after_a_snapshot_only_new_events_are_read(nats_client: Client) -> None:
    log = NatsLog(nats_client)
    await say(log, ADA, *KEPT)
    await say(log, GRACE, events.RoleGranted(role="moderator", reason="r"))
    async with followed(log, nats_client) as feed:
        before = feed.rights()
    await say(log, ADA, issued("t3"))
    async with followed(log, nats_client) as feed:
        assert feed.folded == 1
        assert tokens(feed) == {"t1", "t2", "t3"}
        assert feed.rights().roles == before.roles == {"grace": {"moderator"}}
        assert feed.preferences.find("ada")["overtaken"] == "dm"


async def test_a_snapshot_brings_no_revoked_token_back(nats_client: Client) -> None:
    log = NatsLog(nats_client)
    await say(log, ADA, *KEPT)
    async with followed(log, nats_client):
        pass
    await say(log, ADA, revoked("t1"), issued("t1"))
    async with followed(log, nats_client) as feed:
        assert (feed.folded, tokens(feed)) == (2, {"t2"})
    async with followed(log, nats_client) as feed:
        assert (feed.folded, tokens(feed)) == (0, {"t2"})


async def test_a_snapshot_ahead_of_a_restored_log_is_ignored(
    nats_client: Client, shared_nats: SharedNats, capsys: pytest.CaptureFixture[str]
) -> None:
    log = NatsLog(nats_client)
    await say(log, ADA, issued("t1"), issued("t2"), revoked("t1"))
    async with followed(log, nats_client):
        pass
    backup = (await recorded(log))[:2]
    other = await connect(shared_nats.fresh_url(), "test")
    await ensure_streams(other)
    await append_raw(other, backup, 0)
    restored = NatsLog(other)
    async with followed(restored, nats_client) as feed:
        assert (feed.folded, tokens(feed)) == (2, {"t1", "t2"})
    assert "is not of this log" in capsys.readouterr().err
    await other.close()


async def test_a_snapshot_of_a_diverged_log_is_ignored(
    nats_client: Client, shared_nats: SharedNats, capsys: pytest.CaptureFixture[str]
) -> None:
    log = NatsLog(nats_client)
    await say(log, ADA, issued("t1"), issued("t2"))
    async with followed(log, nats_client):
        pass
    other = await connect(shared_nats.fresh_url(), "test")
    await ensure_streams(other)
    restored = NatsLog(other)
    await append_raw(other, (await recorded(log))[:1], 0)
    await say(restored, ADA, revoked("t1"), issued("t4"))
    async with followed(restored, nats_client) as feed:
        assert (feed.folded, tokens(feed)) == (3, {"t4"})
    assert "is not of this log" in capsys.readouterr().err
    await other.close()


@pytest.mark.parametrize("damage", ["empty", "short", "noise", "flipped"])
async def test_a_damaged_snapshot_is_ignored(
    nats_client: Client, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log, snapshots = NatsLog(nats_client), NatsSnapshots(nats_client)
    await say(log, ADA, *KEPT)
    async with followed(log, nats_client):
        pass
    intact = await snapshots.load(SNAPSHOT_NAME)
    assert intact is not None
    at = len(intact) - 20
    flipped = intact[:at] + bytes([intact[at] ^ 0xFF]) + intact[at + 1 :]
    damaged = {"empty": b"", "short": intact[:-9], "noise": b"what is this", "flipped": flipped}
    await snapshots.save(SNAPSHOT_NAME, damaged[damage])
    async with followed(log, nats_client) as feed:
        assert (feed.folded, tokens(feed)) == (3, {"t1", "t2"})
    assert "the snapshot is damaged" in capsys.readouterr().err


async def test_an_incomplete_snapshot_is_ignored(
    nats_client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    log = NatsLog(nats_client)
    await say(log, ADA, *KEPT)
    async with followed(log, nats_client):
        pass
    await nats_client.request(f"snapshots.{SNAPSHOT_NAME}.1", b"not this", 2)
    async with followed(log, nats_client) as feed:
        assert (feed.folded, tokens(feed)) == (3, {"t1", "t2"})
    assert "the snapshot ingest is damaged, and ignored" in capsys.readouterr().err


async def test_a_snapshot_of_other_code_is_ignored(nats_client: Client) -> None:
    log = NatsLog(nats_client)
    await say(log, ADA, *KEPT)
    async with followed(log, nats_client):
        pass
    async with followed(log, nats_client, code="2") as feed:
        assert (feed.folded, tokens(feed)) == (3, {"t1", "t2"})


async def test_expired_tokens_are_forgotten(nats_client: Client) -> None:
    log = NatsLog(nats_client)
    past, today = now() - timedelta(days=2), now() - timedelta(hours=1)
    await say(log, ADA, issued("old", ends=past), issued("new", ends=today), issued("t1"))
    async with followed(log, nats_client) as feed:
        assert tokens(feed) == {"old", "new", "t1"}
    async with followed(log, nats_client) as feed:
        assert tokens(feed) == {"new", "t1"}
        assert set(feed.rights().named) == {"new", "t1"}
