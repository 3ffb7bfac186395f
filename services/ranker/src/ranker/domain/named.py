"""Which blobs an event names."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from shared.events import HARNESS_CODE, Blob
from shared.wire import Envelope

DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def named(envelope: Envelope) -> Iterator[str]:
    """The digest of every blob in an event's data, whatever its type and version.

    >>> from datetime import datetime
    >>> said = b'{"log":{"digest":"ab","bytes":2},"details":{"harness_code":"%s"}}' % (b"c" * 64)
    >>> event = Envelope(id="", type="", v=1, at=datetime(2026, 1, 1), agg="", actor="", corr="",
    ...     cause="", data=msgspec.Raw(said))
    >>> [digest[:4] for digest in named(event)]
    ['ab', 'cccc']
    """
    data = bytes(envelope.data)
    if b'"digest"' not in data and HARNESS_CODE.encode() not in data:
        return
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # An agent may write bytes that nobody can read: they name nothing.
    yield from _within(found)


def _within(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _within(one)
    elif isinstance(value, dict) and {"digest", "bytes"} <= value.keys():
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(value, Blob).digest
    elif isinstance(value, dict):
        code = value.get(HARNESS_CODE)
        if isinstance(code, str) and DIGEST.match(code):
            yield code
        for one in value.values():
            yield from _within(one)
