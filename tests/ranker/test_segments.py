"""Segments of the log, and a stream truncated behind them: nothing is lost or different."""

import asyncio
import dataclasses
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from ranker.archive.archiver import Sealer, run_archiver
from ranker.archive.postgres import Archive, open_archive
from ranker.archive.segments import Segmenter, SegmentSchedule, TruncationReport
from ranker.blobs import collect_blobs
from ranker.domain.stored_log import SealInterval
from ranker.service.decisions import Metrics
from shared import events, subjects
from shared.clock import new_id, now
from shared.errors import Failed, Refused
from shared.event_log import Conflict, NewEvent, RecordedEvent
from shared.events import Fact, LogTruncated, SegmentSealed
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import api_request, connect
from shared.nats.event_log import NatsLog
from shared.nats.feed import NatsFeed, decode_events
from shared.nats.inbox import InboxConfig, NatsInbox
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.streams import LogMonitor, ensure_streams, stream_info, stream_state
from shared.nats.subprocess_feed import SubprocessFeed
from shared.nats.truncation import TRUNCATION, read_truncation
from shared.segments import OpenHistories, Segment, is_cut
from shared.servers.nats import NatsServer
from shared.signing import load_key
from shared.subjects import STREAM, history_of
from shared.wire import EventMetadata, make_envelope
from tests.ranker.archived_log import ArchivedLog, start_archived_log
from tests.ranker.test_export import command
from tests.support import lives
from tests.support.lives import AGENT, Life
from tests.support.memory import MemoryLog
from tests.support.servers import SharedNats, prepared_database
from tests.support.waits import eventually

pytestmark = pytest.mark.server

SEGMENT_EVENTS = 5
OLD = Life("s1")
OLD_HISTORIES = (
    subjects.submission(OLD.id),
    subjects.job(OLD.job),
    subjects.run(AGENT, OLD.run),
)


class Segmented:
    """An archived log that is sealed to its end, with segments of five events."""

    def __init__(self, archived: ArchivedLog, nc: Client, archive: Archive) -> None:
        self.archived = archived
        self.nc = nc
        self.log = NatsLog(nc)
        self.archive = archive
        key_file = archived.settings.seal_key
        assert key_file is not None
        self.key = load_key(key_file)
        self.segmented = NatsSegmentedLog(nc)
        self.segmenter = Segmenter(self.segmented, archive, self.key, SEGMENT_EVENTS)

    async def archive_all(self) -> None:
        """Archive everything that is in the log."""
        await run_archiver(self.log, self.archive, Metrics(), until=await self.log.last())

    async def seal(self) -> list[SegmentSealed]:
        """Seal the chain to its end, and export everything."""
        await self.archive_all()
        sealer = Sealer(self.log, self.archive, self.key, SealInterval(1, 0.0), Metrics())
        await sealer.look()
        await self.archive_all()
        return await self.segmenter.seal(only_full=False)

    async def truncate(self) -> TruncationReport:
        """Drop what is over, without waiting for readers that have just looked."""
        await self.archive_all()
        return await self.segmenter.truncate(0.0, pause_s=0.0)

    async def events(self, log: NatsLog | None = None) -> list[RecordedEvent]:
        """Everything that a reader from the first event on gets."""
        log = log or NatsLog(self.nc)
        last, read = await log.last(), list[RecordedEvent]()
        feed = log.follow(0)
        async with asyncio.timeout(30):
            while len(read) < last:
                read += await feed.take()
        await feed.close()
        return read

    async def say(self, aggregate: str, fact: Fact, expected: int | None, actor: str) -> int:
        """Append an event."""
        stamp = EventMetadata(new_id(), now(), actor, "", "")
        return await self.log.append(NewEvent(make_envelope(fact, aggregate, stamp), expected))

    async def stored(self) -> set[int]:
        """The sequences that the stream itself still has."""
        sequences = set[int]()
        for seq in range(1, await self.log.last() + 1):
            answer = await self.nc.request(
                f"$JS.API.DIRECT.GET.{STREAM}", b'{"seq": %d}' % seq, timeout=5
            )
            if not (answer.headers or {}).get("Status"):
                sequences.add(seq)
        return sequences

    async def damage(self) -> str:
        """What a service that starts now says about the log."""
        monitor = LogMonitor(self.nc, "test", lambda _part, _reason: None)
        await monitor.check()
        return monitor.damage


@pytest.fixture
async def segmented(
    own_nats: NatsServer, postgres_dsn: str, tmp_path: Path
) -> AsyncIterator[Segmented]:
    archived = await start_archived_log(own_nats, postgres_dsn, tmp_path)
    nc = await archived.connect()
    async with open_archive(postgres_dsn) as archive:
        yield Segmented(archived, nc, archive)
    await nc.close()


@pytest.mark.long
async def test_segments_have_every_sealed_event_byte_for_byte(segmented: Segmented) -> None:
    new = await segmented.seal()
    assert await segmented.segmenter.verify() == []
    read = [
        event for part in new for event in (await segmented.segmented.segments.read(part)).events
    ]
    logged = await segmented.events()
    assert [event.body for event in read] == [event.body for event in logged[: len(read)]]
    assert [part.first for part in new] == list(range(1, len(read) + 1, SEGMENT_EVENTS))
    assert await segmented.segmenter.seal(only_full=False) == []
    assert (await read_truncation(segmented.nc)).seq == 0


async def test_a_truncated_stream_shows_readers_the_same_log(segmented: Segmented) -> None:
    await segmented.seal()
    before = await segmented.events()
    histories = {name: await segmented.log.history(name) for name in OLD_HISTORIES}
    account = await segmented.log.history(subjects.agent(AGENT))
    newest = await segmented.log.newest([*OLD_HISTORIES, subjects.agent(AGENT)])
    fingerprints = [await segmented.log.fingerprint(seq) for seq in range(1, 12)]
    report = await segmented.truncate()
    assert (report.dropped, report.messages_after) == (12, len(before) + 1 - 12)
    stored = await segmented.stored()
    dropped = [event for event in before if event.seq not in stored]
    assert all(is_cut(event.envelope.aggregate) for event in dropped)
    assert {history_of(event.envelope.aggregate) for event in dropped} >= set(OLD_HISTORIES)
    after = await segmented.events()
    assert after[: len(before)] == before
    assert isinstance(after[-1].fact, LogTruncated)
    log = NatsLog(segmented.nc)
    assert {name: await log.history(name) for name in OLD_HISTORIES} == histories
    assert await log.history(subjects.agent(AGENT)) == account
    assert await log.newest([*OLD_HISTORIES, subjects.agent(AGENT)]) == newest
    assert [await log.fingerprint(seq) for seq in range(1, 12)] == fingerprints
    assert None not in fingerprints
    assert await segmented.damage() == ""
    aside = SubprocessFeed(segmented.archived.settings.bus_login, "test", 0)
    read = list[RecordedEvent]()
    async with asyncio.timeout(30):
        while len(read) < len(after):
            read += await aside.take()
    await aside.close()
    assert read == after


@pytest.mark.long
async def test_audit_replay_scrub_and_backup_find_the_same_as_before(segmented: Segmented) -> None:
    platform = segmented.archived
    await segmented.seal()
    audit = ("audit", "identity", "CPU", "--as-of-seq", "14", "--json")
    _, before = await platform.run(*audit)
    await segmented.truncate()
    await platform.archive_now()
    code, after = await platform.run(*audit)
    assert code == 0
    # The log goes on: everything else is the same.
    growing = {"events": 0, "chain": "", "seals": 0}
    assert after | growing == before | growing
    code, live = await platform.run("audit", "identity", "CPU", "--json")
    assert (code, len(live["rows"])) == (0, 2)
    code, replayed = await platform.run("replay", "--source", "stream")
    assert (code, replayed["entries"]) == (0, 2)
    assert (await platform.scrub()).is_clean
    code, copy = await platform.run("export", str(platform.file), "--without-accounts")
    events_count = len(await segmented.events())
    assert (code, copy["events"]) == (0, events_count)


class Killed(BaseException):
    """The process was killed here."""


async def kill_truncation(segmented: Segmented, write: int, when: str) -> int:
    """Truncate in a process that is killed at one of its writes; return its exit status."""
    settings = segmented.archived.settings
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.ranker.killed_truncation"),
        *(settings.nats_credentials, settings.nats_url, settings.postgres_dsn),
        *(str(settings.seal_key), str(write), when),
    )
    async with asyncio.timeout(30):
        return await process.wait()


@pytest.mark.long
async def test_a_truncation_that_is_killed_at_each_step_loses_nothing(segmented: Segmented) -> None:
    run = await expire(segmented, "late")
    for _ in range(3):
        await segmented.seal()
    await segmented.archive_all()
    before = await segmented.events()
    names = (*OLD_HISTORIES, run)
    histories = {name: await segmented.log.history(name) for name in names}
    # The announcement, a purge of each kind for each segment, and the confirmation. From the third
    # step on the announcement is there. The last one leaves the run's reports without its orders.
    steps = [(1, "before"), (1, "after"), (1, "after"), (3, "after"), (15, "after")]
    for write, when in steps:
        assert await kill_truncation(segmented, write, when) == -signal.SIGKILL
        assert (await segmented.events())[: len(before)] == before
        log = NatsLog(segmented.nc)
        assert {name: await log.history(name) for name in names} == histories
        assert await segmented.damage() == ""
    truncation = await read_truncation(segmented.nc)
    assert truncation.seq > 0
    assert truncation.kept is None
    purges = 4 * sum(
        part.last <= truncation.seq for part in await segmented.segmented.segments.list()
    )
    for when in ("before", "after"):
        assert await kill_truncation(segmented, purges + 1, when) == -signal.SIGKILL
        assert (await segmented.events())[: len(before)] == before
        log = NatsLog(segmented.nc)
        assert {name: await log.history(name) for name in names} == histories
    confirmed = await read_truncation(segmented.nc)
    assert (confirmed.seq, confirmed.kept is not None) == (truncation.seq, True)
    stored = await segmented.stored()
    assert len([seq for seq in stored if seq <= confirmed.seq]) == confirmed.kept
    assert await segmented.damage() == ""
    assert (await segmented.archived.scrub()).is_clean
    assert (await segmented.truncate()).seq >= confirmed.seq


@pytest.mark.long
async def test_a_segment_that_was_stored_but_not_named_is_exported_again(
    segmented: Segmented, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_event: NewEvent) -> int:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(segmented.segmented.log, "append", refuse)
        with pytest.raises(Killed):
            await segmented.seal()
    assert len(await segmented.seal()) > 2
    assert await segmented.segmenter.verify() == []


async def test_two_rankers_do_not_export_overlapping_segments(
    segmented: Segmented, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Segmenter(NatsSegmentedLog(segmented.nc), segmented.archive, segmented.key, 3)
    build = segmented.segmenter._build

    async def build_late(first: int, until: int) -> Segment:
        segment = await build(first, until)
        await other.seal(only_full=False)
        return segment

    monkeypatch.setattr(segmented.segmenter, "_build", build_late)
    assert await segmented.seal() == []
    segments = await NatsSegmentedLog(segmented.nc).segments.list()
    assert [segment.last for segment in segments[:3]] == [3, 6, 9]
    assert segments[-1].last > 10
    assert await segmented.segmenter.verify() == []


async def test_a_living_history_goes_on_after_a_truncation(segmented: Segmented) -> None:
    await segmented.seal()
    await segmented.truncate()
    agent = subjects.agent(AGENT)
    version = (await segmented.log.history(agent))[-1].seq
    assert version < (await read_truncation(segmented.nc)).seq
    fact = events.AgentCordoned(reason="test")
    with pytest.raises(Conflict):
        await segmented.say(agent, fact, 0, "operator:op")
    seq = await segmented.say(agent, fact, version, "operator:op")
    assert [event.seq for event in await segmented.log.history(agent)][-2:] == [version, seq]
    with pytest.raises(Conflict):
        await segmented.say(agent, fact, version, "operator:op")


@pytest.mark.long
async def test_a_version_of_a_dropped_history_is_refused(segmented: Segmented) -> None:
    await segmented.seal()
    await segmented.truncate()
    submission = subjects.submission(OLD.id)
    history = await segmented.log.history(submission)
    fact = events.SubmissionCancelRequested(reason="late")
    with pytest.raises(Conflict):
        await segmented.say(submission, fact, history[-1].seq, "account:ada")


async def finish(segmented: Segmented, name: str) -> str:
    """Append a submission that ends, and return its aggregate."""
    aggregate, received = Life(name).facts()[0]
    version = await segmented.say(aggregate, received, 0, "account:ada")
    finished = events.SubmissionFinished(outcome="passed", is_eligible=False, code="", reason="")
    await segmented.say(aggregate, finished, version, "service:ranker")
    return aggregate


async def test_a_process_reads_a_dropped_history_that_it_wrote_itself(
    segmented: Segmented,
) -> None:
    aggregate = await finish(segmented, "own")
    history = await segmented.log.history(aggregate)
    for _ in range(3):
        await segmented.seal()
    report = await segmented.truncate()
    assert report.seq >= history[-1].seq
    async with asyncio.timeout(10):
        assert await segmented.log.history(aggregate) == history


async def expire(segmented: Segmented, name: str) -> str:
    """Append a run that expired after it began, and a late result; return the run's aggregate."""
    life = Life(name)
    for aggregate, fact in life.facts()[:4]:
        await lives.say(segmented.log, aggregate, fact)
    run = subjects.run(AGENT, life.run)
    await lives.say(segmented.log, run, events.JobExpired(reason="silent", code="agent_lost"))
    await lives.say(segmented.log, run, events.RunDiscarded(verdict="passed"))
    finished = events.SubmissionFinished(
        outcome="infra_failed", is_eligible=False, code="", reason=""
    )
    await lives.say(segmented.log, subjects.submission(life.id), finished)
    return run


async def test_a_history_is_whole_while_its_kinds_are_dropped(segmented: Segmented) -> None:
    run = await expire(segmented, "late")
    history = await segmented.log.history(run)
    for _ in range(3):
        await segmented.seal()
    whole = segmented.segmented.drop

    async def drop_orders(until: int) -> None:
        until = max(until, (await read_truncation(segmented.nc)).seq)
        for kind in ("submission", "job", "run"):
            body = {"filter": subjects.subject(f"{kind}.>"), "seq": until + 1}
            await api_request(segmented.nc, f"STREAM.PURGE.{STREAM}", body)
        raise Killed

    segmented.segmented.drop = drop_orders  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await segmented.truncate()
    assert await NatsLog(segmented.nc).history(run) == history
    segmented.segmented.drop = whole  # type: ignore[method-assign]
    assert (await segmented.truncate()).seq >= history[-1].seq
    assert await NatsLog(segmented.nc).history(run) == history


async def test_a_late_result_does_not_hold_a_truncation_back() -> None:
    open_histories = OpenHistories()
    log = MemoryLog()
    life = Life("late")
    run = subjects.run(AGENT, life.run)
    late = [
        *life.facts()[:4],
        (run, events.JobExpired(reason="silent", code="agent_lost")),
        (run, events.RunDiscarded(verdict="passed")),
    ]
    for aggregate, fact in late:
        await lives.say(log, aggregate, fact)
    for event in log.since(0):
        open_histories.fold(event)
    assert open_histories.oldest == (subjects.submission(life.id), 1)
    finished = events.SubmissionFinished(
        outcome="infra_failed", is_eligible=False, code="", reason=""
    )
    await lives.say(log, subjects.submission(life.id), finished)
    open_histories.fold(log.since(0)[-1])
    assert open_histories.oldest is None


async def test_what_is_not_over_holds_a_truncation_back(segmented: Segmented) -> None:
    waiting = Life("waits")
    aggregate, received = waiting.facts()[0]
    seq = await segmented.say(aggregate, received, 0, "account:ada")
    await segmented.seal()
    for _ in range(3):
        await segmented.seal()
    report = await segmented.truncate()
    assert report.seq < seq
    assert any(aggregate in reason and "is not over" in reason for reason in report.held_by)


@pytest.mark.long
async def test_what_is_young_holds_a_truncation_back(segmented: Segmented) -> None:
    await segmented.seal()
    await segmented.seal()
    young = (await segmented.segmenter.plan(2.0)).seq
    assert 0 < young < (await segmented.segmenter.plan(0.0)).seq
    assert now() - (await segmented.events())[young - 1].envelope.at > timedelta(days=2)


@pytest.mark.long
async def test_an_outbox_that_lags_behind_holds_a_truncation_back(segmented: Segmented) -> None:
    inbox = NatsInbox(segmented.nc, InboxConfig("discord-edge", ("submission.>",)))
    delivery = await inbox.next(5)
    assert delivery is not None
    await segmented.seal()
    report = await segmented.truncate()
    assert report.seq == 0
    assert any("discord-edge" in reason for reason in report.held_by)
    await inbox.close()


@asynccontextmanager
async def without_blob(segmented: Segmented, digest: str) -> AsyncIterator[None]:
    """Lose a blob."""
    store = NatsBlobStore(segmented.nc)
    async for blob in store.kept():
        if blob.digest == digest:
            await store.remove(blob)
    yield


async def test_nothing_is_dropped_if_a_segment_is_missing(segmented: Segmented) -> None:
    new = await segmented.seal()
    async with without_blob(segmented, new[1].events.digest):
        with pytest.raises(Refused, match="segment of events 6 to 10 is damaged or missing"):
            await segmented.truncate()
    assert (await read_truncation(segmented.nc)).seq == 0
    assert len(await segmented.stored()) == await segmented.log.last()


@pytest.mark.long
async def test_a_missing_segment_is_named_and_can_be_put_back(
    segmented: Segmented, tmp_path: Path
) -> None:
    platform, folder = segmented.archived, tmp_path / "copies"
    new = await segmented.seal()
    code, saved = await platform.run("segments", "save", str(folder))
    assert (code, saved["files"]) == (0, 2 * len(new))
    assert (saved["truncated_seq"], saved["is_truncating"]) == (0, False)
    await segmented.truncate()
    before = await segmented.events()
    async with without_blob(segmented, new[0].events.digest):
        with pytest.raises(Failed, match="segment of events 1 to 5 is damaged or missing"):
            await segmented.events()
        code, verified = await platform.run("segments", "verify")
        assert (code, verified["findings"][0]["seq"]) == (1, 1)
    code, loaded = await platform.run("segments", "load", str(folder))
    assert (code, loaded["files"]) == (0, 1)
    assert await segmented.events() == before
    assert (await platform.run("segments", "verify"))[0] == 0
    async with without_blob(segmented, new[1].events.digest):
        code, repaired = await platform.run("segments", "repair")
    assert (code, repaired["repaired"]) == (0, 1)
    assert (await NatsLog(segmented.nc).history(OLD_HISTORIES[0]))[0].seq == 3


@pytest.mark.long
async def test_a_forged_segment_is_found(segmented: Segmented, tmp_path: Path) -> None:
    new = await segmented.seal()
    other = load_key(tmp_path / "other.key")
    fake = Segmenter(segmented.segmented, segmented.archive, other, SEGMENT_EVENTS)
    stored = await segmented.segmented.segments.read(new[0])
    body = stored.events[0].body.replace(b"identity", b"identitx")
    forged = stored._replace(events=[stored.events[0]._replace(body=body), *stored.events[1:]])
    await fake._store(forged, segmented.segmented.segments.version)
    findings = [finding.what for finding in await segmented.segmenter.verify()]
    assert any("does not have the hash chain" in what for what in findings)
    assert any("is not signed with a known key" in what for what in findings)
    with pytest.raises(Refused, match="nothing was dropped"):
        await segmented.truncate()


async def test_a_reader_is_not_disturbed_by_a_truncation_in_front_of_it(
    segmented: Segmented,
) -> None:
    await segmented.seal()
    before = await segmented.events()
    feed = NatsFeed(segmented.nc, 0)
    read = decode_events(await feed.raw(3))
    slow = NatsFeed(segmented.nc, 7)
    await segmented.truncate()
    async with asyncio.timeout(30):
        while len(read) < len(before):
            read += decode_events(await feed.raw(4))
        late = decode_events(await slow.raw(100))
    await feed.close()
    await slow.close()
    assert read[: len(before)] == before
    assert late[0] == before[7]


@pytest.mark.long
async def test_what_is_lost_of_the_kept_events_is_found_and_repaired(segmented: Segmented) -> None:
    await segmented.seal()
    await segmented.truncate()
    await segmented.archived.archive_now()
    before = await segmented.events()
    await api_request(segmented.nc, "STREAM.PURGE.EVENTS", {"filter": "events.agent.>"})
    assert "1 of its" in await segmented.damage()
    report = await segmented.archived.scrub()
    assert report.missing.count == 1
    with pytest.raises(Refused, match="missing"):
        await segmented.truncate()
    await segmented.archived.repair()
    state = await stream_state(segmented.nc, STREAM)
    assert state.messages == state.last_seq
    assert (await read_truncation(segmented.nc)).seq == 0
    assert (await segmented.events())[: len(before)] == before
    assert await segmented.damage() == ""


@pytest.mark.long
async def test_a_backup_of_a_truncated_log_is_restored_whole(
    segmented: Segmented, shared_nats: SharedNats, postgres_server_dsn: str
) -> None:
    await segmented.seal()
    await segmented.truncate()
    await segmented.archived.archive_now()
    before, file = await segmented.events(), segmented.archived.file
    code, _ = await segmented.archived.run("export", str(file), "--without-accounts")
    assert code == 0
    with prepared_database(postgres_server_dsn) as dsn:
        place: Any = {"nats_url": shared_nats.fresh_url(), "nats_credentials": ""}
        restored = dataclasses.replace(segmented.archived.settings, postgres_dsn=dsn, **place)
        code, output = await command(restored, "import", str(file), "--incomplete")
        assert code == 0, output
    nc = await connect(restored.bus_login, "test")
    state = await stream_state(nc, STREAM)
    assert state.messages == state.last_seq
    assert (await read_truncation(nc)).seq == 0
    assert (await segmented.events(NatsLog(nc)))[: len(before)] == before
    await nc.close()


async def test_blobs_of_segments_are_not_removed(segmented: Segmented) -> None:
    await segmented.seal()
    await segmented.truncate()
    store = NatsBlobStore(segmented.nc)
    await store.put(b"nobody refers to this")
    later = now() + timedelta(days=30)
    collection = await collect_blobs(NatsLog(segmented.nc), store, later, is_trial=False)
    assert collection.removed == 1
    assert await segmented.segmenter.verify() == []


async def test_events_lost_behind_a_truncation_are_still_a_gap(segmented: Segmented) -> None:
    await segmented.seal()
    await segmented.truncate()
    seq = await segmented.say("problem.p2", events.IntakePaused(reason="x"), None, "operator:op")
    await segmented.say("problem.p3", events.IntakePaused(reason="x"), None, "operator:op")
    await api_request(segmented.nc, "STREAM.PURGE.EVENTS", {"filter": "events.problem.p2"})
    assert "1 of its" in await segmented.damage()
    feed: Any = NatsLog(segmented.nc).follow(seq - 1)
    with pytest.raises(Exception, match=f"after event {seq - 1} came {seq + 1}"):
        await feed.take()
    await feed.close()


@pytest.mark.long
async def test_only_one_truncation_runs(segmented: Segmented) -> None:
    await segmented.seal()
    await segmented.archive_all()
    results = await asyncio.gather(
        *(segmented.segmenter.truncate(0.0, pause_s=0.5) for _ in range(2)), return_exceptions=True
    )
    assert sum(isinstance(result, TruncationReport) for result in results) >= 1
    refused = [result for result in results if isinstance(result, Refused)]
    assert all("another truncation is running" in str(result.reason) for result in refused)
    assert [e.fact for e in await segmented.log.history(TRUNCATION)][-1].kept is not None  # type: ignore[union-attr]


async def test_a_stream_that_allows_no_purge_is_not_truncated(segmented: Segmented) -> None:
    await segmented.seal()
    config = (await stream_info(segmented.nc, STREAM)).config
    await api_request(segmented.nc, f"STREAM.UPDATE.{STREAM}", config | {"deny_purge": True})
    await ensure_streams(segmented.nc)
    with pytest.raises(Refused, match="allows no purge"):
        await segmented.truncate()


@pytest.mark.long
async def test_ranker_exports_full_segments_and_truncates_by_itself(segmented: Segmented) -> None:
    await segmented.archive_all()
    sealer = Sealer(segmented.log, segmented.archive, segmented.key, SealInterval(1, 0), Metrics())
    await sealer.look()
    await segmented.archive_all()
    measured = list[tuple[int, int]]()

    class Watching(Metrics):
        def segmented(self, seq: int, truncated_seq: int) -> None:
            measured.append((seq, truncated_seq))

    dsn, events_max = segmented.archived.settings.postgres_dsn, 4
    schedule = SegmentSchedule(
        *(segmented.segmented, dsn, segmented.key, 2.0, Watching(), lambda _part, _reason: None),
        events_max=events_max,
        pause_s=0.0,
    )
    running = asyncio.create_task(schedule.run())
    await eventually(lambda: bool(measured) or running.done(), 30)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    (sizes,) = measured
    segments = await segmented.segmented.segments.list()
    assert {segment.last - segment.first + 1 for segment in segments} == {events_max}
    assert 0 < sizes[1] <= sizes[0] == segments[-1].last


async def test_what_log_and_archive_disagree_about_is_not_exported(segmented: Segmented) -> None:
    await segmented.archive_all()
    await segmented.archive.connection.execute(
        "update event_archive set body = convert_to('{}', 'UTF8') where seq = 4"
    )
    with pytest.raises(Refused, match="chain breaks between events 1 and"):
        await segmented.segmenter.seal(only_full=False)
    assert await segmented.segmented.segments.list() == []
