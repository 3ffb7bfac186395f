"""Which blobs an event names."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from shared.events import Blob
from shared.wire import Envelope


def named(envelope: Envelope) -> Iterator[Blob]:
    """Every blob in an event's data, whatever its type and version.

    >>> from datetime import datetime
    >>> event = Envelope(id="", type="", v=1, at=datetime(2026, 1, 1), agg="", actor="", corr="",
    ...     cause="", data=msgspec.Raw(b'{"log":{"digest":"ab","bytes":2}}'))
    >>> [blob.digest for blob in named(event)]
    ['ab']
    """
    if b'"digest"' not in bytes(envelope.data):
        return
    try:
        data = msgspec.json.decode(envelope.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # An agent may write bytes that nobody can read: they name nothing.
    yield from _within(data)


def _within(value: Any) -> Iterator[Blob]:
    if isinstance(value, list):
        for one in value:
            yield from _within(one)
    elif isinstance(value, dict) and {"digest", "bytes"} <= value.keys():
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(value, Blob)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _within(one)
