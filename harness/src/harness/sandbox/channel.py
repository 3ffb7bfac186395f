"""Messages on a SEQPACKET socket: a JSON object each, with descriptors beside it."""

import contextlib
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

_BYTES_MAX = 128 * 1024
_DESCRIPTORS_MAX = 64
_TEXT_CHARS_MAX = 2000
# An end that left with a message of ours unread is told of first, and only once: its own last
# words are still to be had.
_TRIES = 2


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def tell(to: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Sends one message. Errors: OSError, if nobody is there to hear it."""
    socket.send_fds(to, [json.dumps(message).encode()], descriptors, socket.MSG_NOSIGNAL)


def hear(at: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors; None when the other end is closed."""
    for _ in range(_TRIES):
        with contextlib.suppress(ConnectionError):
            return _heard(at)
    return None


def _heard(at: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    said, descriptors, _, _ = socket.recv_fds(at, _BYTES_MAX, _DESCRIPTORS_MAX)
    if not said:
        return None
    message: dict[str, Any] = json.loads(said)
    return message, descriptors


def worded(error: BaseException) -> str:
    """An error as one line that fits a message."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        text = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    return text[:_TEXT_CHARS_MAX]


def close_all(descriptors: Sequence[int]) -> None:
    """Closes what came with a message that nobody wants."""
    for descriptor in descriptors:
        os.close(descriptor)
