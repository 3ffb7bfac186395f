"""A damaged log is compared with its archive and repaired from it."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from nats.aio.client import Client

from ranker.archive.archiver import run_archiver
from ranker.archive.postgres import open_archive
from ranker.export.backup import export_log
from ranker.export.repair import ScrubReport, repair_log, scrub_log
from ranker.service.decisions import Metrics
from ranker.settings import Settings
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import LogImported
from shared.nats.bus import NatsBus
from shared.nats.connection import api_request, connect, publish
from shared.nats.event_log import NatsLog
from shared.nats.feed import NatsFeed, decode_events
from shared.nats.repair import append_raw
from shared.nats.streams import LogMonitor, ensure_streams, stream_state
from shared.servers.nats import NatsServer
from shared.settings import Listen
from shared.subjects import STREAM, WATERMARKS, subject
from tests.contracts.samples import new_event
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_export import command, rank
from tests.support.damage import break_middle, fill_log, find_blocks, flip_bit
from tests.support.lives import Life

# nats-py lets go of a socket unclosed when a server dies between two words of its greeting.
pytestmark = [
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.filterwarnings("ignore:.*StreamWriter:pytest.PytestUnraisableExceptionWarning"),
]
NOWHERE = Listen("127.0.0.1", 0)


class Platform(NamedTuple):
    """A ranked and archived log, and the path of its repaired form."""

    server: NatsServer
    settings: Settings
    file: Path

    async def connect(self) -> Client:
        return await connect(self.server.url, "test")

    async def events(self) -> list[RecordedEvent]:
        """The whole log; fails if an event is missing."""
        nc = await self.connect()
        last_seq = (await stream_state(nc, STREAM)).last_seq
        feed, events_ = NatsFeed(nc, 0), list[RecordedEvent]()
        try:
            while len(events_) < last_seq:
                events_ += decode_events(await feed.raw(1000))
        finally:
            await nc.close()
        return events_

    async def run(self, *arguments: str) -> tuple[int, Any]:
        """Run a ranker command in a process; returns its exit code and output."""
        return await command(self.settings, *arguments)

    async def scrub(self) -> ScrubReport:
        return await scrub_log(self.settings)

    async def repair(self, *, overwrite: bool = False, accept_loss: bool = False) -> dict[str, Any]:
        options = {"overwrite": overwrite, "accept_loss": accept_loss}
        return await repair_log(self.settings, self.file, "operator:op", **options)

    async def archive_now(self) -> None:
        nc = await self.connect()
        await rank(NatsLog(nc), self.settings.postgres_dsn)
        await nc.close()


@pytest.fixture
async def platform(own_nats: NatsServer, postgres_dsn: str, tmp_path: Path) -> Platform:
    audited = await AuditPlatform(tmp_path).found()
    await audited.live(Life("s1"))
    await audited.seal()
    await audited.live(Life("s2", account="grace", time_us=50.0))
    settings = Settings(
        nats_url=own_nats.url,
        postgres_dsn=postgres_dsn,
        listen=NOWHERE,
        ops_listen=NOWHERE,
        reader_key="k" * 16,
        seal_key=tmp_path / "seal.key",
    )
    nc = await connect(own_nats.url, "test")
    await ensure_streams(nc)
    events = [
        (subject(event.envelope.agg), event.envelope.id, event.body)
        for event in audited.log.since(0)
    ]
    await append_raw(nc, events, 0)
    await nc.close()
    state = Platform(own_nats, settings, tmp_path / "repaired.gz")
    await state.archive_now()
    return state


async def test_a_hole_is_named_and_healed(platform: Platform) -> None:
    await fill_log(platform.server.url)
    await platform.archive_now()
    before = await platform.events()
    assert (await platform.scrub()).is_clean
    break_middle(platform.server)
    nc = await platform.connect()
    damaged = await stream_state(nc, STREAM)
    code, scrubbed = await platform.run("scrub")
    assert (code, scrubbed["is_clean"]) == (1, False)
    lost = damaged.last_seq - damaged.messages
    assert (scrubbed["missing"]["count"], scrubbed["lost"]["count"]) == (lost, 0)
    ((first, last),) = scrubbed["missing"]["ranges"]
    assert (last - first + 1, damaged.num_deleted) == (lost, lost)
    code, repaired = await platform.run("repair", str(platform.file))
    assert (code, repaired["is_repaired"]) == (0, True), repaired
    after = await platform.events()
    assert after[:-1] == before
    assert isinstance(after[-1].fact, LogImported)
    code, scrubbed = await platform.run("scrub")
    assert (code, scrubbed["is_clean"]) == (0, True), scrubbed
    await platform.archive_now()
    audited = await platform.run("audit", "identity", "CPU", "--json")
    assert audited[1]["is_clean"], audited
    await nc.close()


async def test_durable_readers_go_on_where_they_stood(platform: Platform) -> None:
    nc = await platform.connect()
    inbox = await NatsBus(nc).news("test-outbox", "job.>")
    log = NatsLog(nc)
    assert await inbox.next(0.5) is None
    seqs = [await log.append(new_event("job.outbox", None)) for _ in range(3)]
    first = await inbox.next(10)
    assert first is not None
    await first.ack()
    await inbox.close()
    await fill_log(platform.server.url)
    await _archive_alone(platform)
    break_middle(platform.server)
    assert (await platform.repair())["is_repaired"]
    again = await NatsBus(nc).news("test-outbox", "job.>")
    second = await again.next(10)
    assert second is not None
    assert (first.recorded.seq, second.recorded.seq) == (seqs[0], seqs[1])
    await again.close()
    await nc.close()


async def _archive_alone(platform: Platform) -> None:
    """Archive events that cannot be ranked."""
    nc = await platform.connect()
    log = NatsLog(nc)
    async with open_archive(platform.settings.postgres_dsn) as archive:
        await run_archiver(log, archive, Metrics(), until=await log.last())
    await nc.close()


async def test_a_flip_that_the_server_does_not_report_is_found(platform: Platform) -> None:
    await fill_log(platform.server.url)
    await platform.archive_now()
    before = await platform.events()
    # After an orderly stop the server believes its index, and reads no old block at its start.
    platform.server.stop()
    flip_bit(find_blocks(platform.server.folder)[1])
    platform.server.start()
    nc = await platform.connect()
    state = await stream_state(nc, STREAM)
    await nc.close()
    assert state.messages == state.last_seq == len(before)
    assert (await platform.scrub()).missing.count > 0
    assert (await platform.repair())["is_repaired"]
    assert (await platform.events())[:-1] == before


async def test_a_lost_end_is_put_back_behind_what_is_there(platform: Platform) -> None:
    before = await platform.events()
    platform.server.kill()
    (block,) = find_blocks(platform.server.folder)
    flip_bit(block, 0.6)
    platform.server.start()
    scrubbed = await platform.scrub()
    assert scrubbed.missing.ranges == [(scrubbed.log_last_seq + 1, len(before))]
    assert (await platform.repair())["is_repaired"]
    assert (await platform.events())[:-1] == before


async def test_a_repair_that_was_broken_off_goes_on_from_its_file(platform: Platform) -> None:
    before = await platform.events()
    platform.server.kill()
    (block,) = find_blocks(platform.server.folder)
    flip_bit(block, 0.6)
    platform.server.start()
    await export_log(platform.settings, platform.file, "archive")
    nc = await platform.connect()
    await api_request(nc, f"STREAM.DELETE.{STREAM}")
    await ensure_streams(nc)
    some = [(subject(item.envelope.agg), item.envelope.id, item.body) for item in before[:10]]
    await append_raw(nc, some, 0)
    await nc.close()
    assert (await platform.repair())["is_repaired"]
    assert (await platform.events())[:-1] == before


async def test_events_that_only_the_log_has_are_kept(platform: Platform) -> None:
    await fill_log(platform.server.url)
    await platform.archive_now()
    await fill_log(platform.server.url, 3)
    before = await platform.events()
    break_middle(platform.server)
    scrubbed = await platform.scrub()
    assert (scrubbed.is_clean, scrubbed.unarchived.count) == (False, 3)
    assert (await platform.repair())["is_repaired"]
    assert (await platform.events())[:-1] == before


async def test_another_event_is_replaced_only_when_asked(platform: Platform) -> None:
    before = await platform.events()
    nc = await platform.connect()
    await api_request(nc, f"STREAM.DELETE.{STREAM}")
    await ensure_streams(nc)
    some = [(subject(item.envelope.agg), item.envelope.id, item.body) for item in before]
    some[8] = (some[8][0], some[8][1], some[8][2].replace(b"2026", b"2025"))
    await append_raw(nc, some, 0)
    await nc.close()
    scrubbed = await platform.scrub()
    assert (scrubbed.is_clean, scrubbed.differing.ranges) == (False, [(9, 9)])
    code, refused = await platform.run("repair", str(platform.file))
    assert (code, "--overwrite" in refused) == (2, True), refused
    code, repaired = await platform.run("repair", str(platform.file), "--overwrite")
    assert (code, repaired["is_repaired"]) == (0, True), repaired
    assert (await platform.events())[:-1] == before


async def test_a_damaged_archive_repairs_nothing(platform: Platform) -> None:
    async with open_archive(platform.settings.postgres_dsn) as archive:
        await archive.connection.execute(b"update event_archive set h = sha256(h) where seq = 5")
    scrubbed = await platform.scrub()
    assert (scrubbed.is_clean, scrubbed.archive_findings[0].seq) == (False, 5)
    platform.server.kill()
    (block,) = find_blocks(platform.server.folder)
    flip_bit(block, 0.6)
    platform.server.start()
    with pytest.raises(Refused, match="event 5"):
        await platform.repair()
    assert not platform.file.exists()


async def test_an_end_that_is_nowhere_is_given_up_only_when_asked(platform: Platform) -> None:
    before = await platform.events()
    nc = await platform.connect()
    known = b'{"last_seq": %d}' % (len(before) + 2)
    await publish(nc, "watermarks.test", known, {})
    with pytest.raises(Refused, match="--accept-loss"):
        await platform.repair()
    assert (await platform.run("repair", str(platform.file), "--accept-loss"))[0] == 0
    assert (await platform.events())[:-1] == before
    assert (await stream_state(nc, WATERMARKS)).messages == 0
    monitor = LogMonitor(nc, "test", lambda *_: None)
    await monitor.check()
    assert monitor.damage == ""
    await nc.close()


async def test_events_that_are_nowhere_are_stood_in_for_only_when_asked(
    platform: Platform,
) -> None:
    """The archive stands before a hole, and the log goes on behind it."""
    archived = len(await platform.events())
    await fill_log(platform.server.url)
    break_middle(platform.server)
    nc = await platform.connect()
    state = await stream_state(nc, STREAM)
    await nc.close()
    scrubbed = await platform.scrub()
    ((first, last),) = scrubbed.lost.ranges
    assert (scrubbed.is_clean, scrubbed.archive_last_seq) == (False, archived)
    assert last - first + 1 == state.num_deleted
    with pytest.raises(Refused, match="--accept-loss"):
        await platform.repair()
    assert (await platform.repair(accept_loss=True))["is_repaired"]
    after = await platform.events()
    assert len(after) == state.last_seq + 1
    assert {item.body for item in after[first - 1 : last]} == {b"{}"}
    await platform.archive_now()
    assert (await platform.scrub()).is_clean
    audited = await platform.run("audit", "identity", "CPU", "--json")
    assert audited[1]["is_clean"], audited


async def test_a_whole_log_needs_no_repair(platform: Platform) -> None:
    code, output = await platform.run("repair", str(platform.file))
    assert (code, output["is_repaired"], platform.file.exists()) == (0, False, False)
