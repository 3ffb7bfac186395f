"""The streams and buckets we keep things in, and their settings."""

from functools import partial

import msgspec
from nats.aio.client import Client

from shared.errors import Failed
from shared.health import StreamState
from shared.nats.requests import Denied, ask, patiently
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
GIVEN_UP = "$JS.EVENT.ADVISORY.CONSUMER"

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
_BLOBS: Settings = {
    "name": BLOBS,
    "subjects": ["blobs.*"],
    "storage": "file",
    "max_msgs_per_subject": 1,
    "allow_direct": True,
}
# What agents keep: each writes under its own name alone, so none can replace another's bytes.
_UPLOADS: Settings = {
    "name": UPLOADS,
    "subjects": ["uploads.>"],
    "storage": "file",
    "max_msgs_per_subject": 1,
    "allow_direct": True,
}
# An object store as every NATS client lays it out: chunks, and one description an object.
_LARGE: Settings = {
    "name": LARGE_STREAM,
    "subjects": [f"$O.{LARGE}.C.>", f"$O.{LARGE}.M.>"],
    "storage": "file",
    "discard": "new",
    "allow_rollup_hdrs": True,
    "allow_direct": True,
}
_LEASES: Settings = {
    "name": LEASES_STREAM,
    "subjects": [f"$KV.{LEASES}.>"],
    "storage": "memory",
    "discard": "new",
    "max_msgs_per_subject": 1,
    "allow_msg_ttl": True,
    "subject_delete_marker_ttl": MARKER_S * SECOND_NS,
    "allow_rollup_hdrs": True,
    "deny_delete": True,
    "allow_direct": True,
}
# The server's own words on what a consumer of the log gave up.
_DEADLETTERS: Settings = {
    "name": DEADLETTERS,
    "subjects": [
        f"{GIVEN_UP}.MAX_DELIVERIES.{STREAM}.>",
        f"{GIVEN_UP}.MSG_TERMINATED.{STREAM}.>",
    ],
    "storage": "file",
    "max_age": 90 * DAY_S * SECOND_NS,
    "max_msgs": 100_000,
    "allow_direct": True,
}
# The newest parts of each snapshot, written in one batch.
_SNAPSHOTS: Settings = {
    "name": SNAPSHOTS,
    "subjects": ["snapshots.>"],
    "storage": "file",
    "max_msgs_per_subject": 1,
    "allow_atomic": True,
}
# Each service writes its own now and then, so that it knows whether NATS stores anything; see
# shared.nats.monitor. Its size makes the server use small files, which it removes soon.
_WATERMARKS: Settings = {
    "name": WATERMARKS,
    "subjects": ["watermarks.*"],
    "storage": "file",
    "max_msgs_per_subject": 1,
    "max_bytes": 1024 * 1024,
    "allow_direct": True,
}
_ALL = (_EVENTS, _BLOBS, _UPLOADS, _LARGE, _LEASES, _DEADLETTERS, _SNAPSHOTS, _WATERMARKS)


class _Info(msgspec.Struct):
    config: Settings
    state: StreamState
    created: str = ""


_info = msgspec.json.Decoder(_Info).decode


async def ensure(nc: Client, replicas: int = 1) -> None:
    """Have every stream and bucket there, with our settings; harmless to repeat or to race.

    Errors: Failed if one exists with other settings, or after 30 s without an answer.
    """
    for settings in _ALL:
        await patiently(nc, partial(_create, nc, settings, replicas))


async def ensure_leases(nc: Client) -> None:
    """Have the bucket of heartbeats, once: servers that all restarted have forgotten it.

    It gets as many replicas as the log has. Errors: Denied, Passing and the client's own, for
    the caller's patience.
    """
    log = _info(await ask(nc, f"STREAM.INFO.{STREAM}"))
    await _create(nc, _LEASES, log.config["num_replicas"])


async def state(nc: Client, stream: str) -> StreamState:
    """Where a stream begins and ends, and how much it has, said once by its leader.

    Errors: Denied, Passing.
    """
    return _info(await ask(nc, f"STREAM.INFO.{stream}")).state


async def created(nc: Client, stream: str) -> str:
    """When a stream was made, which tells it from another of its name; errors as state."""
    return _info(await ask(nc, f"STREAM.INFO.{stream}")).created


async def _create(nc: Client, settings: Settings, replicas: object) -> None:
    name = settings["name"]
    try:
        await ask(nc, f"STREAM.CREATE.{name}", settings | {"num_replicas": replicas})
    except Denied as denied:
        if denied.code != NAME_IN_USE:
            raise
        _compare(settings, await ask(nc, f"STREAM.INFO.{name}"))


def _compare(settings: Settings, answer: bytes) -> None:
    """Replicas may differ, for an operator changes them; all else is what the code builds on."""
    found = _info(answer).config
    for key, wanted in settings.items():
        if found.get(key) != wanted:
            seen = found.get(key)
            raise Failed(
                f"stream {settings['name']} has {key}={seen!r}, not {wanted!r}: it is not ours"
            )
