"""Our streams and buckets, their settings, and whether the log is whole and written.

A server that finds a damaged block silently drops what it cannot read. After a failed write it
stores nothing until it is restarted, however much space is free by then. So each service checks for
itself: at its start, after each reconnection, and every few seconds. With a new connection it also
reads the newest part of the log, and each check includes what ranker's scrub has found.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial

import msgspec
from nats.aio.client import Client
from prometheus_client import Gauge

from shared.errors import Failed
from shared.event_log import Gap
from shared.health import (
    LOG_PART,
    LOG_STORE_PART,
    HealthReporter,
    ScrubState,
    StreamState,
    count_missing,
    describe_damage,
    describe_failed_write,
    describe_scrub,
    describe_unreadable,
)
from shared.metrics import metric_prefix
from shared.nats.connection import (
    NO_CLUSTER,
    NO_PEERS,
    NO_STREAM,
    REQUEST_ERRORS,
    STORE_FAILED,
    RequestDenied,
    TemporaryError,
    api_request,
    publish,
    read_pages,
    retry_request,
)
from shared.nats.scrub import find_still_unreadable, find_unreadable, read_scrub_state
from shared.nats.truncation import read_truncation
from shared.subjects import (
    BLOBS,
    DEADLETTERS,
    LARGE,
    LEASES,
    SNAPSHOTS,
    STREAM,
    UPLOADS,
    WATERMARKS,
)
from shared.wire import EVENT_BYTES_MAX, HEADERS_BYTES_MAX

SECOND_NS = 1_000_000_000
DUPLICATE_WINDOW_S = 600
MARKER_S = 60
DAY_S = 86_400
NAME_IN_USE = 10058
REPLICA_COUNTS = (1, 3, 5)

UPLOAD_CHUNK_BYTES = 512 * 1024
UPLOAD_S_MAX = 3600
BEAT_BYTES_MAX = 64 * 1024

LEASES_STREAM = f"KV_{LEASES}"
LARGE_STREAM = f"OBJ_{LARGE}"
MAX_DELIVERIES_ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER"

Settings = dict[str, object]

log = logging.getLogger(__name__)

_EVENTS: Settings = {
    "name": STREAM,
    "subjects": ["events.>"],
    "storage": "file",
    "retention": "limits",
    "discard": "new",
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msg_size": EVENT_BYTES_MAX,
    "deny_delete": True,
    # Only ranker may purge, and only histories that are over and in segments.
    "deny_purge": False,
    "allow_direct": True,
    "allow_atomic": True,
    "duplicate_window": DUPLICATE_WINDOW_S * SECOND_NS,
}
# The newest message of each subject.
_NEWEST: Settings = {"storage": "file", "max_msgs_per_subject": 1, "allow_direct": True}
_BLOBS: Settings = _NEWEST | {"name": BLOBS, "subjects": ["blobs.*"]}
# Chunks of the large blobs that agents send, until the blob is assembled.
_UPLOADS: Settings = _NEWEST | {
    "name": UPLOADS,
    "subjects": ["uploads.*.*.*"],
    "max_age": UPLOAD_S_MAX * SECOND_NS,
    "max_msg_size": UPLOAD_CHUNK_BYTES + HEADERS_BYTES_MAX,
}
# An object store in the layout of all NATS clients: chunks, and one description per object.
_LARGE: Settings = {
    "name": LARGE_STREAM,
    "subjects": [f"$O.{LARGE}.C.>", f"$O.{LARGE}.M.>"],
    "storage": "file",
    "discard": "new",
    "allow_rollup_hdrs": True,
    "allow_direct": True,
}
_LEASES: Settings = _NEWEST | {
    "name": LEASES_STREAM,
    "subjects": [f"$KV.{LEASES}.>"],
    "storage": "memory",
    "discard": "new",
    # Agents write here. With a rollup one could remove the heartbeats of all. The server must not
    # leave markers of what expired either: that allows rollups, whatever these settings say.
    "allow_rollup_hdrs": False,
    "allow_msg_ttl": True,
    "max_msg_size": BEAT_BYTES_MAX + HEADERS_BYTES_MAX,
    "deny_delete": True,
}
# The server's own advisories on events that a consumer of the log gave up.
_DEADLETTERS: Settings = {
    "name": DEADLETTERS,
    "subjects": [
        f"{MAX_DELIVERIES_ADVISORY}.MAX_DELIVERIES.{STREAM}.>",
        f"{MAX_DELIVERIES_ADVISORY}.MSG_TERMINATED.{STREAM}.>",
    ],
    "storage": "file",
    "max_age": 90 * DAY_S * SECOND_NS,
    "max_msgs": 100_000,
    "allow_direct": True,
}
# The parts of each snapshot, written in one batch.
_SNAPSHOTS: Settings = {
    "name": SNAPSHOTS,
    "subjects": ["snapshots.>"],
    "storage": "file",
    "max_msgs_per_subject": 1,
    "allow_atomic": True,
}
# Each service regularly writes its own, to learn whether NATS stores anything; see
# shared.nats.streams. The size limit makes the server use small files, which it soon removes.
_WATERMARKS: Settings = _NEWEST | {
    "name": WATERMARKS,
    "subjects": ["watermarks.*"],
    "max_bytes": 1024 * 1024,
}
_ALL = (_EVENTS, _BLOBS, _UPLOADS, _LARGE, _LEASES, _DEADLETTERS, _SNAPSHOTS, _WATERMARKS)


class ClusterInfo(msgspec.Struct):
    """Where a stream is; a server on its own has no `name` of a cluster."""

    name: str = ""
    leader: str = ""


class StreamInfo(msgspec.Struct):
    """A stream as its leader reports it; `ts` is the time there.

    `created` distinguishes it from another stream of its name.
    """

    config: Settings
    state: StreamState
    created: str
    ts: datetime
    cluster: ClusterInfo = msgspec.field(default_factory=ClusterInfo)

    @property
    def replicas(self) -> int:
        """How many servers have a copy of it."""
        count = self.config["num_replicas"]
        assert isinstance(count, int), "the server always reports it"
        return count


_decode_info = msgspec.json.Decoder(StreamInfo).decode


async def ensure_streams(nc: Client, replicas: int = 1) -> None:
    """Ensure that every stream and bucket exists with our settings; safe to run concurrently.

    A stream with fewer replicas gets `replicas` while it is in use; none loses replicas, because
    services may be started with different values. Logs a warning if a cluster has one replica.
    Errors: Failed if a stream exists with other settings, the servers cannot have that many
    replicas, or after 30 s without an answer.
    """
    if replicas not in REPLICA_COUNTS:
        raise Failed(f"REPLICAS is {replicas}: expected {', '.join(map(str, REPLICA_COUNTS))}")
    for settings in _ALL:
        await retry_request(nc, partial(_create_with_peers, nc, settings, replicas))
    stream = await retry_request(nc, partial(stream_info, nc, STREAM))
    if stream.replicas == 1 and stream.cluster.name:
        log.warning(
            "NATS is a cluster, but one server alone has the log: if its disk is lost, so is the "
            "log. Start the service with REPLICAS=3: it copies the streams while they are in use"
        )


async def inspect_streams(nc: Client) -> tuple[list[str], datetime | None]:
    """Return each setting of a stream that is not ours, and the server's time.

    Streams that do not exist yet are fine; if none exists, the time is not known. Errors: Failed
    without an answer.
    """
    problems, time_at_server = list[str](), None
    for settings in _ALL:
        name = str(settings["name"])
        try:
            stream = await stream_info(nc, name)
        except RequestDenied as denied:
            if denied.code != NO_STREAM:
                problems.append(f"stream {name} cannot be read: {denied}")
            continue
        except REQUEST_ERRORS as error:
            raise Failed(f"stream {name} cannot be read: {str(error) or 'no answer'}") from error
        time_at_server = stream.ts
        problems += [
            f"stream {name} has {key}={stream.config.get(key)!r}, expected {expected!r}"
            for key, expected in settings.items()
            if stream.config.get(key) != expected
        ]
    return problems, time_at_server


async def ensure_leases(nc: Client) -> None:
    """Ensure that the bucket of heartbeats exists, trying once: restarted servers lose it.

    It gets as many replicas as the log has. Errors: those of the request, for the caller to retry.
    """
    await _create_stream(nc, _LEASES, (await stream_info(nc, STREAM)).replicas)


async def stream_info(nc: Client, stream: str) -> StreamInfo:
    """Return a stream's settings and state. Errors: those of the request."""
    return _decode_info(await api_request(nc, f"STREAM.INFO.{stream}"))


async def stream_state(nc: Client, stream: str) -> StreamState:
    """Return the sequences and the size of a stream. Errors: those of the request."""
    return (await stream_info(nc, stream)).state


async def _create_with_peers(nc: Client, settings: Settings, replicas: int) -> None:
    """Create a stream, or say that a cluster lacks servers: it may still be forming."""
    try:
        await _create_stream(nc, settings, replicas)
    except TemporaryError as error:
        if error.code != NO_PEERS:
            raise
        reason = f"REPLICAS is {replicas}, but fewer members of the cluster are up with JetStream"
        raise TemporaryError(f"{reason}: {error}", error.code) from error


async def _create_stream(nc: Client, settings: Settings, replicas: int) -> None:
    name, desired = settings["name"], settings | {"num_replicas": replicas}
    try:
        await api_request(nc, f"STREAM.CREATE.{name}", desired)
    except RequestDenied as denied:
        if denied.code == NO_CLUSTER:
            raise Failed(_describe_no_cluster(replicas)) from denied
        if denied.code != NAME_IN_USE:
            raise
        await _update_stream(nc, desired)


async def _update_stream(nc: Client, settings: Settings) -> None:
    """Give an existing stream our settings, and more replicas if it has fewer.

    Errors: Failed if it is not ours, or the server cannot change what differs.
    """
    name, replicas = settings["name"], settings["num_replicas"]
    stream = await stream_info(nc, str(name))
    subjects = stream.config.get("subjects")
    if subjects != settings["subjects"]:
        reason = f"stream {name} has subjects={subjects!r}, not {settings['subjects']!r}"
        raise Failed(f"{reason}: it is not ours")
    # The server never allows purges where they were denied, and then the log only cannot be
    # truncated.
    changes = {
        key: expected
        for key, expected in settings.items()
        if key not in ("num_replicas", "deny_purge") and stream.config.get(key) != expected
    }
    assert isinstance(replicas, int), "the caller sets it"
    if stream.replicas < replicas:
        if not stream.cluster.name:
            raise Failed(_describe_no_cluster(replicas))
        changes["num_replicas"] = replicas
    if not changes:
        return
    try:
        await api_request(nc, f"STREAM.UPDATE.{name}", stream.config | changes)
    except RequestDenied as denied:
        differences = _describe_changes(stream.config, changes)
        raise Failed(
            f"stream {name} cannot be changed ({differences}): {denied.reason}. Back the log up, "
            "remove the stream and restore it: docs/operating/backup-and-restore.md"
        ) from denied
    log.warning("changed stream %s: %s", name, _describe_changes(stream.config, changes))


def _describe_changes(config: Settings, changes: Settings) -> str:
    return ", ".join(f"{key} from {config.get(key)!r} to {new!r}" for key, new in changes.items())


def _describe_no_cluster(replicas: int) -> str:
    return (
        f"REPLICAS is {replicas}, but the NATS server is not in a cluster: set REPLICAS=1, or make "
        "the server a member of a cluster (deploy/three-machines/README.md)"
    )


CHECK_S = 5.0
POLL_S = 0.25
# Without a successful check for longer, the state of the log is unknown.
UNCHECKED_S_MAX = 15.0
# A single missing answer within 2 s may be a slow disk.
UNSTORED_S_MAX = 3.0
# A new leader of a cluster may lack the events that the old one acknowledged last.
SHORT_S_MAX = 3.0
SHORT_PAUSE_S = 0.25
# A page of the file system, so that writing a watermark fails on a full disk.
WATERMARK_BYTES = 4096


class Watermark(msgspec.Struct):
    """A message in the stream WATERMARKS: the last sequence that a service has seen."""

    last_seq: int = 0
    padding: str = ""


class LogMonitor:
    """Watches the log for one service; `report` is called with the unhealthy part and the reason.

    `damage` says that events are missing, `store_failure` that NATS stores nothing; "" is healthy.
    """

    def __init__(
        self, nc: Client, service: str, report: HealthReporter, check_s: float = CHECK_S
    ) -> None:
        self._nc = nc
        self._service = service
        self._report = report
        self._check_s = check_s
        self.known_seq = 0
        self._checked_at = time.monotonic()
        self._checked_connection: int | None = None
        self._unstored_since: float | None = None
        self._last_seq = 0
        self._unmarked_since: float | None = None
        self._append_failure = ""
        self._mark_failure = ""
        self._unreadable: Sequence[int] = ()
        self._scrubbed = ScrubState()
        self._checked = asyncio.Event()
        self.missing_events = 0
        self.damage = ""

    @property
    def store_failure(self) -> str:
        """Why NATS stores no events now, as far as known; "" if it does."""
        unchecked_s = time.monotonic() - self._checked_at
        if unchecked_s > UNCHECKED_S_MAX:
            return f"NATS has not said for {unchecked_s:.0f} s how the log is"
        reason = self._append_failure or self._mark_failure
        return reason and f"NATS stores nothing: {reason}; see docs/operating/disk-full.md"

    @property
    def problem(self) -> str:
        """Why the log must not be used now; "" if it is healthy."""
        return self.damage or self.store_failure

    @property
    def is_checked(self) -> bool:
        """Whether the log was checked since the last (re)connection."""
        return self._checked_connection == self._nc.stats["reconnects"]

    def require_whole(self) -> None:
        """Prevent reads and appends that depend on a complete log.

        Errors: Failed if events are missing; a temporary error until that is known.
        """
        if self.damage:
            raise Failed(self.damage)
        if not self.is_checked:
            raise TemporaryError(
                "the log has not been checked since the connection to NATS was made"
            )

    async def until_whole(self) -> None:
        """Wait until the log was checked and is complete; `watch` must be running."""
        while self.damage or not self.is_checked:
            self._checked.clear()
            await self._checked.wait()

    async def watch(self) -> None:
        """Check without end. Errors: Gap once a damaged log is complete again.

        State folded from a damaged log may lack events: the process has to restart.
        """
        self._report(LOG_PART, "the log has not been checked yet")
        while True:
            await self._try_check()
            if self._checked_connection is not None:
                self._report(LOG_PART, self.damage or None)
            self._report(LOG_STORE_PART, self.store_failure or None)
            self._checked.set()
            for _ in range(max(1, int(self._check_s / POLL_S))):
                await asyncio.sleep(POLL_S)
                # After a reconnection it checks soon.
                if self._nc.is_connected and not self.is_checked:
                    break

    def _note_stored(self) -> None:
        self._unstored_since, self._append_failure = None, ""

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Learn from an append whether the server stores anything; errors as for require_whole.

        Repeated or final failures mean that it stores nothing.
        """
        self.require_whole()
        try:
            yield
        except (TimeoutError, TemporaryError) as error:
            self._unstored_since = self._unstored_since or time.monotonic()
            is_final = isinstance(error, TemporaryError) and error.code == STORE_FAILED
            if is_final or time.monotonic() - self._unstored_since > UNSTORED_S_MAX:
                is_answered = isinstance(error, TemporaryError)
                self._append_failure = str(error) if is_answered else "an append was not answered"
            raise
        self._note_stored()

    async def _try_check(self) -> None:
        connection = self._nc.stats["reconnects"]
        if not self._nc.is_connected:
            return
        if connection != self._checked_connection:
            # A restarted server may store again.
            self._note_stored()
        try:
            await self.check()
        except (*REQUEST_ERRORS, Failed) as error:
            log.warning("the log could not be checked: %s", str(error) or "no answer")
            return
        self._checked_at, self._checked_connection = time.monotonic(), connection
        await self._write_watermark()

    async def check(self) -> None:
        """Check once whether all events exist. Errors: as watch, and those of the requests."""
        if self._checked_connection is None:
            self.known_seq = max(self.known_seq, await read_known_seq(self._nc))
        stream = await stream_state(self._nc, STREAM)
        deadline = time.monotonic() + SHORT_S_MAX
        while stream.last_seq < self.known_seq and time.monotonic() < deadline:
            await asyncio.sleep(SHORT_PAUSE_S)
            stream = await stream_state(self._nc, STREAM)
        # Only after the state of the stream: what it had then cannot have been dropped before.
        truncation = await read_truncation(self._nc)
        is_new = not self.is_checked
        if is_new:
            self._unreadable = await find_unreadable(self._nc, stream, truncation.seq)
        elif self._unreadable:
            self._unreadable = await find_still_unreadable(self._nc, self._unreadable)
        try:
            self._scrubbed = await read_scrub_state(self._nc)
        except REQUEST_ERRORS:
            # On a cluster another stream's leader may be away; what was read before still holds.
            if self._checked_connection is None:
                raise
        self._evaluate(stream, truncation.dropped_max, is_new=is_new or bool(self.damage))

    def _evaluate(self, stream: StreamState, dropped: int, *, is_new: bool) -> None:
        """Distinguish a log that lost events from one whose newest event was never written.

        Only the same server can report the latter: another server may have lost the event.
        """
        failed_write = "" if is_new else describe_failed_write(stream, self.known_seq, dropped)
        if failed_write:
            self._append_failure = failed_write
            return
        previous_damage = self.damage
        counted_damage = describe_damage(stream, self.known_seq, dropped)
        unreadable = describe_unreadable(self._unreadable)
        self.damage = counted_damage or unreadable or describe_scrub(self._scrubbed)
        counted = count_missing(stream, self.known_seq, dropped)
        self.missing_events = max(counted, len(self._unreadable), self._scrubbed.damaged_events)
        if not counted_damage:
            self.known_seq = max(self.known_seq, stream.last_seq)
        if self.damage and not previous_damage:
            log.critical("%s", self.damage)
        if previous_damage and not self.damage:
            raise Gap("the log was damaged and is complete again: restart to fold all of it")
        if stream.last_seq > self._last_seq:
            # An append was stored since the last check.
            self._note_stored()
        self._last_seq = stream.last_seq

    async def _write_watermark(self) -> None:
        """Write to the disk, in a stream that keeps one message per service."""
        watermark = Watermark(self.known_seq, "." * WATERMARK_BYTES)
        try:
            await publish(
                self._nc, f"watermarks.{self._service}", msgspec.json.encode(watermark), {}
            )
        except REQUEST_ERRORS as error:
            self._unmarked_since = self._unmarked_since or time.monotonic()
            is_final = not isinstance(error, TimeoutError)
            if is_final or time.monotonic() - self._unmarked_since > UNSTORED_S_MAX:
                self._mark_failure = str(error) or "a write was not answered"
            return
        self._unmarked_since, self._mark_failure = None, ""


async def read_known_seq(nc: Client) -> int:
    """Return the last sequence of the log that any service has seen, from their watermarks."""
    known_seq = 0
    for message in await read_pages(nc, WATERMARKS, "watermarks.*"):
        with suppress(msgspec.MsgspecError):
            watermark = msgspec.json.decode(message.data, type=Watermark)
            known_seq = max(known_seq, watermark.last_seq)
    return known_seq


class MonitorMetrics:
    """Whether the log has all its events, and whether NATS stores new ones."""

    def __init__(self, service: str, monitor: LogMonitor) -> None:
        missing = "Events that the log has lost, cannot read, or has in another form"
        failing = "1 while NATS stores no events"
        for name, text, value in (
            ("log_missing_events", missing, lambda: monitor.missing_events),
            ("log_store_failing", failing, lambda: bool(monitor.store_failure)),
        ):
            gauge = Gauge(f"{metric_prefix(service)}_{name}", text)
            gauge.set_function(value)
