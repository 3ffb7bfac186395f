"""Limits on the connections of HTTP clients: how many, how long, and how slow they may be.

uvicorn waits for a request's head and body without a limit, and accepts a head of any length.
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
from shared.lifecycle import CONNECTIONS_MAX

# Our own clients' heads are under 4 KiB; proxies allow 8 to 64 KiB.
HEAD_BYTES_MAX = 64 * 1024
# A client that reads nothing of its last response for this long is cut off.
CLOSE_S_MAX = 5.0
RESPONSE = (
    b"HTTP/1.1 %s\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s"
)


@dataclass(frozen=True)
class HttpLimits:
    """What a client may use of a server.

    A request's head must be complete within `head_s` of the connection or of its first byte. Its
    body may take `body_s`, plus one second per `body_bytes_per_s_min`.
    """

    head_s: float = 10.0
    body_s: float = 20.0
    body_bytes_per_s_min: int = 16 * 1024
    connections_max: int = CONNECTIONS_MAX


def check_times(prefix: str, limits: HttpLimits) -> None:
    """Check the limits that are settings. Raises `Refused` for times that are not positive."""
    for name in ("head_s", "body_s"):
        seconds = getattr(limits, name)
        if not 0 < seconds < math.inf:
            reason = f"{prefix}_{name.upper()} is {seconds}: expected a positive number of seconds"
            raise Refused("bad_settings", reason, name)


class _Phase(Enum):
    """What a connection waits for."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection that ends when its request is too slow, or its head too long.

    At the connection limit, the connection that has waited longest for its client is closed for a
    new one.
    """

    limits = HttpLimits()
    # Connections without a request in progress, the oldest first.
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
        """Wait for a head. Source: asyncio, as for the next two."""
        # uvloop's transports do not derive from asyncio's.
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
        """Receive a piece of a request, and start the timer for the next one."""
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
        """Begin a head. Source: llhttp, as for the other callbacks."""
        self._head_bytes, self._phase = 0, _Phase.HEAD
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a complete header; headers beyond the limit are ignored."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes <= HEAD_BYTES_MAX:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Respond, unless the head was too long."""
        self._phase, self._timed_phase = _Phase.BODY, None
        self.waiting.pop(self, None)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse_head()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Store a piece of a body, unless its head was refused."""
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request if this one was answered before it was complete."""
        self._phase = _Phase.IDLE
        if self.cycle is None:
            return
        super().on_message_complete()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            self._wait_idle()

    def on_response_complete(self) -> None:
        """Wait for a request again, and drop the part of a body that nobody read."""
        self.cycle.body.clear()
        if not self.pipeline:
            self.waiting[self] = None
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; a client still reading its last response gets more time."""
        unsent = self.transport.get_write_buffer_size()
        if unsent in (0, self._unsent_bytes):
            self._close()
        else:
            self._unsent_bytes = unsent
            self._wait_idle()

    def give_way(self) -> None:
        """Close this connection, because there are too many."""
        self.waiting.pop(self, None)
        if self._phase is _Phase.HEAD:
            self._send_error(b"503 Service Unavailable", "too many connections", "unavailable")
        else:
            self._close()

    def _wait_idle(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _time_phase(self) -> None:
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
            # The request in progress goes first.
            self._timer = self.loop.call_later(self.limits.head_s, self._end_slow_head)
        elif self._head_bytes:
            reason = f"the head of a request must be complete within {self.limits.head_s:g} s"
            self._send_error(b"408 Request Timeout", reason, "request_timeout")
        else:
            self._close()

    def _end_slow_body(self) -> None:
        limits, now = self.limits, self.loop.time()
        due_at = self._body_began + limits.body_s + self._body_bytes / limits.body_bytes_per_s_min
        if self.flow.read_paused:
            # We paused reading ourselves.
            self._timer = self.loop.call_later(limits.body_s, self._end_slow_body)
        elif now < due_at:
            self._timer = self.loop.call_later(due_at - now, self._end_slow_body)
        elif not self._is_answering() or self.cycle.response_started:
            self._close()
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            reason = (
                f"the body of a request must be complete within {limits.body_s:g} s, plus one "
                f"second per {limits.body_bytes_per_s_min:,} bytes"
            )
            self._send_error(b"408 Request Timeout", reason, "request_timeout")

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse_head(self) -> None:
        reason = "the request has too many or too long headers"
        self._send_error(b"431 Request Header Fields Too Large", reason, "headers_too_large")

    def _send_error(self, status: bytes, detail: str, code: str) -> None:
        """Send an error in the common format, and close the connection."""
        if not self.transport.is_closing():
            body = f'{{"detail":"{detail}","code":"{code}"}}'.encode()
            self.transport.write(RESPONSE % (status, len(body), body))
        self._close()

    def _close(self) -> None:
        """Close after the response is sent; a client that does not read it is cut off."""
        if self.transport.is_closing():
            return
        has_unsent = self.transport.get_write_buffer_size() > 0
        self.transport.close()
        if has_unsent:
            self.loop.call_later(CLOSE_S_MAX, self.transport.abort)


def limited_protocol(limits: HttpLimits) -> type[LimitedHttpProtocol]:
    """Return the protocol class of one server's connections."""

    class ServerProtocol(LimitedHttpProtocol):
        """A connection of this server, with its limits and the others that wait."""

    ServerProtocol.limits, ServerProtocol.waiting = limits, {}
    return ServerProtocol
