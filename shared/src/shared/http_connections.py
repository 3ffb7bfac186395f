"""Limits on the connections of HTTP clients: how many, how long, and how slow they may be.

uvicorn waits for a request's head and body for ever, and its parser takes a head of any length.
"""

import asyncio
import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from shared.errors import Refused
from shared.file_limit import CONNECTIONS_MAX

# Ours are under 4 KiB; servers in front allow 8 to 64 KiB.
HEAD_BYTES_MAX = 64 * 1024
# A client that takes nothing of its last answer for so long is cut off.
CLOSE_S_MAX = 5.0
ANSWER = (
    b"HTTP/1.1 %s\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s"
)


@dataclass(frozen=True)
class HttpLimits:
    """What a client may take of a server.

    A request's head is whole within `head_s` of the connection or of its first byte. Its body may
    take `body_s`, and one second more per `body_bytes_per_s_min`.
    """

    head_s: float = 10.0
    body_s: float = 20.0
    body_bytes_per_s_min: int = 16 * 1024
    connections_max: int = CONNECTIONS_MAX


def check_times(prefix: str, limits: HttpLimits) -> None:
    """Check the limits that are settings. Raises `Refused` for times that are not above 0."""
    for name in ("head_s", "body_s"):
        seconds = getattr(limits, name)
        if not 0 < seconds < math.inf:
            reason = f"{prefix}_{name.upper()} is {seconds}: expected a number of seconds above 0"
            raise Refused("bad_settings", reason, name)


class _Phase(Enum):
    """What a connection waits for."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection that ends when its request is too slow, or its head too long.

    At the limit of connections the one that waits longest for a client gives way to a new one.
    """

    limits = HttpLimits()
    # Connections for which nothing is being done, the oldest first.
    waiting: "dict[LimitedHttpProtocol, None]"

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._phase = _Phase.HEAD
        self._timed_phase: _Phase | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._body_began = 0.0
        self._body_bytes = 0
        self._head_bytes = 0
        self._unsent_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a head; Source: asyncio, as are the next two."""
        # uvloop's transports derive from nothing of asyncio's.
        super().connection_made(cast("asyncio.Transport", transport))
        self.waiting[self] = None
        self._time_phase()
        if len(self.connections) > self.limits.connections_max:
            next(iter(self.waiting)).give_way()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._phase = _Phase.IDLE
        self._time_phase()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request, and wait for the next one as long as it may take."""
        if self._phase is _Phase.IDLE:
            self._phase = _Phase.HEAD
            self._head_bytes = 0
        self._body_bytes += len(data)
        super().data_received(data)
        if self._phase is _Phase.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse_head()
        self._time_phase()

    def on_message_begin(self) -> None:
        """Begin a head; Source: llhttp, as are the other callbacks."""
        self._head_bytes, self._phase = 0, _Phase.HEAD
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count what is whole; nobody looks at what is beyond the limit."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes <= HEAD_BYTES_MAX:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer, unless the head was too long."""
        self._phase, self._timed_phase = _Phase.BODY, None
        self.waiting.pop(self, None)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse_head()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of a body, unless its head was refused."""
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request if this one was answered before it was whole."""
        self._phase = _Phase.IDLE
        if self.cycle is None:
            return
        super().on_message_complete()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            self._wait_idle()

    def on_response_complete(self) -> None:
        """Be one of those that wait again, and keep nothing of a body that nobody read."""
        self.cycle.body.clear()
        if not self.pipeline:
            self.waiting[self] = None
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; a client that still takes its last answer gets more time."""
        unsent = self.transport.get_write_buffer_size()
        if unsent in (0, self._unsent_bytes):
            self._close()
        else:
            self._unsent_bytes = unsent
            self._wait_idle()

    def give_way(self) -> None:
        """Close this connection, for there are too many."""
        self.waiting.pop(self, None)
        if self._phase is _Phase.HEAD:
            self._answer(b"503 Service Unavailable", "too many connections", "unavailable")
        else:
            self._close()

    def _wait_idle(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _time_phase(self) -> None:
        """Have a timer for the phase that the connection is in now."""
        if self._phase is self._timed_phase:
            return
        self._timed_phase = self._phase
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._phase is _Phase.HEAD:
            self._timer = self.loop.call_later(self.limits.head_s, self._end_slow_head)
        elif self._phase is _Phase.BODY:
            self._body_began, self._body_bytes = self.loop.time(), 0
            self._timer = self.loop.call_later(self.limits.body_s, self._end_slow_body)

    def _end_slow_head(self) -> None:
        if self._is_answering():
            # What is being answered goes first.
            self._timer = self.loop.call_later(self.limits.head_s, self._end_slow_head)
        elif self._head_bytes:
            reason = f"the head of a request must be whole within {self.limits.head_s:g} s"
            self._answer(b"408 Request Timeout", reason, "request_timeout")
        else:
            self._close()

    def _end_slow_body(self) -> None:
        limits, now = self.limits, self.loop.time()
        due_at = self._body_began + limits.body_s + self._body_bytes / limits.body_bytes_per_s_min
        if self.flow.read_paused:
            # It is we who do not read.
            self._timer = self.loop.call_later(limits.body_s, self._end_slow_body)
        elif now < due_at:
            self._timer = self.loop.call_later(due_at - now, self._end_slow_body)
        elif not self._is_answering() or self.cycle.response_started:
            self._close()
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            reason = (
                f"the body of a request must be whole within {limits.body_s:g} s, and a second "
                f"more per {limits.body_bytes_per_s_min:,} bytes"
            )
            self._answer(b"408 Request Timeout", reason, "request_timeout")

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse_head(self) -> None:
        reason = "the request has too many or too long headers"
        self._answer(b"431 Request Header Fields Too Large", reason, "headers_too_large")

    def _answer(self, status: bytes, detail: str, code: str) -> None:
        """Send an error of the usual shape, and close the connection."""
        if not self.transport.is_closing():
            body = f'{{"detail":"{detail}","code":"{code}"}}'.encode()
            self.transport.write(ANSWER % (status, len(body), body))
        self._close()

    def _close(self) -> None:
        """Close after what was written is sent; a client that takes nothing is cut off."""
        if self.transport.is_closing():
            return
        has_unsent = self.transport.get_write_buffer_size() > 0
        self.transport.close()
        if has_unsent:
            self.loop.call_later(CLOSE_S_MAX, self.transport.abort)


def limited_protocol(limits: HttpLimits) -> type[LimitedHttpProtocol]:
    """Return the protocol of one server's connections."""

    class ServerProtocol(LimitedHttpProtocol):
        """A connection of this server, with its limits and the others that wait."""

    ServerProtocol.limits, ServerProtocol.waiting = limits, {}
    return ServerProtocol
