"""Messages on a SEQPACKET socket: one JSON object each, with descriptors."""

import contextlib
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

_BYTES_MAX = 128 * 1024
_DESCRIPTORS_MAX = 64
_TEXT_CHARS_MAX = 2000
# If the other end closed with a message of ours unread, the first receive reports that, once; its
# own last messages can still be read.
_TRIES = 2


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_message(
    to: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()
) -> None:
    """Send one message. Raises OSError if the other end is closed."""
    socket.send_fds(to, [json.dumps(message).encode()], descriptors, socket.MSG_NOSIGNAL)


def receive_message(source: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and its descriptors; None when the other end is closed."""
    for _ in range(_TRIES):
        with contextlib.suppress(ConnectionError):
            data, descriptors, _, _ = socket.recv_fds(source, _BYTES_MAX, _DESCRIPTORS_MAX)
            return (json.loads(data), descriptors) if data else None
    return None


def describe_error(error: BaseException) -> str:
    """Return an error as one line that fits a message."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        text = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    return text[:_TEXT_CHARS_MAX]


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors that came with an unwanted message."""
    for descriptor in descriptors:
        os.close(descriptor)
