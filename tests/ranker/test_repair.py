"""A damaged log is compared with its archive and repaired from it."""

from pathlib import Path

import pytest

from ranker.archive.postgres import open_archive
from ranker.export.backup import export_log
from shared.errors import Refused
from shared.events import LogImported
from shared.nats.bus import NatsBus
from shared.nats.connection import api_request, publish
from shared.nats.event_log import NatsLog
from shared.nats.repair import append_raw
from shared.nats.streams import LogMonitor, ensure_streams, stream_state
from shared.servers.nats import NatsServer
from shared.subjects import STREAM, WATERMARKS, subject
from tests.contracts.samples import new_event
from tests.ranker.archived_log import ArchivedLog, start_archived_log
from tests.support.damage import break_middle, fill_log, find_blocks, flip_bit

pytestmark = [
    pytest.mark.long,
    pytest.mark.server,
]


@pytest.fixture
async def platform(own_nats: NatsServer, postgres_dsn: str, tmp_path: Path) -> ArchivedLog:
    return await start_archived_log(own_nats, postgres_dsn, tmp_path)


async def test_a_hole_is_named_and_healed(platform: ArchivedLog) -> None:
    await fill_log(platform.server.login())
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


async def test_durable_readers_go_on_where_they_stood(platform: ArchivedLog) -> None:
    nc = await platform.connect()
    inbox = await NatsBus(nc).news("test-outbox", "job.>")
    log = NatsLog(nc)
    assert await inbox.next(0.5) is None
    seqs = [await log.append(new_event("job.outbox", None)) for _ in range(3)]
    first = await inbox.next(10)
    assert first is not None
    await first.ack()
    await inbox.close()
    await fill_log(platform.server.login())
    await platform.archive_alone()
    break_middle(platform.server)
    assert (await platform.repair())["is_repaired"]
    again = await NatsBus(nc).news("test-outbox", "job.>")
    second = await again.next(10)
    assert second is not None
    assert (first.recorded.seq, second.recorded.seq) == (seqs[0], seqs[1])
    await again.close()
    await nc.close()


async def test_a_flip_that_the_server_does_not_report_is_found(platform: ArchivedLog) -> None:
    await fill_log(platform.server.login())
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


async def test_a_lost_end_is_put_back_behind_what_is_there(platform: ArchivedLog) -> None:
    before = await platform.events()
    platform.server.kill()
    (block,) = find_blocks(platform.server.folder)
    flip_bit(block, 0.6)
    platform.server.start()
    scrubbed = await platform.scrub()
    assert scrubbed.missing.ranges == [(scrubbed.log_last_seq + 1, len(before))]
    assert (await platform.repair())["is_repaired"]
    assert (await platform.events())[:-1] == before


async def test_a_repair_that_was_broken_off_goes_on_from_its_file(platform: ArchivedLog) -> None:
    before = await platform.events()
    platform.server.kill()
    (block,) = find_blocks(platform.server.folder)
    flip_bit(block, 0.6)
    platform.server.start()
    await export_log(platform.settings, platform.file, "archive")
    nc = await platform.connect()
    await api_request(nc, f"STREAM.DELETE.{STREAM}")
    await ensure_streams(nc)
    some = [(subject(item.envelope.aggregate), item.envelope.id, item.body) for item in before[:10]]
    await append_raw(nc, some, 0)
    await nc.close()
    assert (await platform.repair())["is_repaired"]
    assert (await platform.events())[:-1] == before


async def test_events_that_only_the_log_has_are_kept(platform: ArchivedLog) -> None:
    await fill_log(platform.server.login())
    await platform.archive_now()
    await fill_log(platform.server.login(), 3)
    before = await platform.events()
    break_middle(platform.server)
    scrubbed = await platform.scrub()
    assert (scrubbed.is_clean, scrubbed.unarchived.count) == (False, 3)
    assert (await platform.repair())["is_repaired"]
    assert (await platform.events())[:-1] == before


async def test_another_event_is_replaced_only_when_asked(platform: ArchivedLog) -> None:
    before = await platform.events()
    nc = await platform.connect()
    await api_request(nc, f"STREAM.DELETE.{STREAM}")
    await ensure_streams(nc)
    some = [(subject(item.envelope.aggregate), item.envelope.id, item.body) for item in before]
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


async def test_a_damaged_archive_repairs_nothing(platform: ArchivedLog) -> None:
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


async def test_an_end_that_is_nowhere_is_given_up_only_when_asked(platform: ArchivedLog) -> None:
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
    platform: ArchivedLog,
) -> None:
    """The archive stands before a hole, and the log goes on behind it."""
    archived = len(await platform.events())
    await fill_log(platform.server.login())
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


async def test_a_whole_log_needs_no_repair(platform: ArchivedLog) -> None:
    code, output = await platform.run("repair", str(platform.file))
    assert (code, output["is_repaired"], platform.file.exists()) == (0, False, False)
