"""Our streams and buckets, and their settings."""

from datetime import datetime
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.errors import Failed
from shared.health import StreamState
from shared.nats.connection import RequestDenied, api_request, retry_request
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
from shared.wire import EVENT_BYTES_MAX

SECOND_NS = 1_000_000_000
DUPLICATE_WINDOW_S = 600
MARKER_S = 60
DAY_S = 86_400
NAME_IN_USE = 10058

LEASES_STREAM = f"KV_{LEASES}"
LARGE_STREAM = f"OBJ_{LARGE}"
MAX_DELIVERIES_ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER"

Settings = dict[str, object]

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
    "deny_purge": True,
    "allow_direct": True,
    "allow_atomic": True,
    "duplicate_window": DUPLICATE_WINDOW_S * SECOND_NS,
}
# The newest message of each subject.
_NEWEST: Settings = {"storage": "file", "max_msgs_per_subject": 1, "allow_direct": True}
_BLOBS: Settings = _NEWEST | {"name": BLOBS, "subjects": ["blobs.*"]}
# Uploads of agents: each writes under its own name only, so none can replace another's bytes.
_UPLOADS: Settings = _NEWEST | {"name": UPLOADS, "subjects": ["uploads.>"]}
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
    "allow_msg_ttl": True,
    "subject_delete_marker_ttl": MARKER_S * SECOND_NS,
    "allow_rollup_hdrs": True,
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
# shared.nats.monitor. The size limit makes the server use small files, which it soon removes.
_WATERMARKS: Settings = _NEWEST | {
    "name": WATERMARKS,
    "subjects": ["watermarks.*"],
    "max_bytes": 1024 * 1024,
}
_ALL = (_EVENTS, _BLOBS, _UPLOADS, _LARGE, _LEASES, _DEADLETTERS, _SNAPSHOTS, _WATERMARKS)


class StreamInfo(msgspec.Struct):
    """A stream as its leader reports it; `ts` is the time there.

    `created` distinguishes it from another stream of its name.
    """

    config: Settings
    state: StreamState
    created: str
    ts: datetime

    @property
    def replicas(self) -> int:
        """How many servers have a copy of it."""
        count = self.config["num_replicas"]
        assert isinstance(count, int), "the server always reports it"
        return count


_decode_info = msgspec.json.Decoder(StreamInfo).decode


async def ensure_streams(nc: Client, replicas: int = 1) -> None:
    """Ensure that every stream and bucket exists with our settings; safe to run concurrently.

    Errors: Failed if one exists with other settings, or after 30 s without an answer.
    """
    for settings in _ALL:
        await retry_request(nc, partial(_create_stream, nc, settings, replicas))


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


async def _create_stream(nc: Client, settings: Settings, replicas: int) -> None:
    name = settings["name"]
    try:
        await api_request(nc, f"STREAM.CREATE.{name}", settings | {"num_replicas": replicas})
    except RequestDenied as denied:
        if denied.code != NAME_IN_USE:
            raise
        # Only its replicas, which operators change, may differ.
        actual_settings = (await stream_info(nc, str(name))).config
        for key, expected in settings.items():
            actual = actual_settings.get(key)
            if actual != expected:
                reason = f"stream {name} has {key}={actual!r}, not {expected!r}: it is not ours"
                raise Failed(reason) from denied
