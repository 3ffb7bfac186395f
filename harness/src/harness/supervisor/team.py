"""The workers of one box as their supervisor sees them: sockets, an output, an end."""

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Self

from harness.sandbox.box import Box, Launcher, StopTimeout
from harness.sandbox.freezer import FREEZE_S_MAX
from harness.sandbox.spec import Spec
from harness.supervisor.defences import ALL, Defences
from harness.supervisor.output import Log
from harness.supervisor.verdict import CaseFailed, of_failure, of_status
from harness.worker import protocol

_CHUNK_BYTES = 64 * 1024
_LAST_WORDS_S = 1.0
_SPIN_NS = 300_000
_NOT_STOPPED = (
    f"the submission was told to stop and did not within {FREEZE_S_MAX:.0f} s: "
    "it was in a system call that nothing but its end can interrupt"
)


class Team:
    """One worker for each rank, all in one box; what they print is drained while one waits.

    `freezing_s` is how long it took in all to stop the workers.
    """

    def __init__(
        self,
        launcher: Launcher,
        spec: Spec,
        log: Log,
        *,
        may_spin: bool,
        defences: Defences = ALL,
    ) -> None:
        self.log = log
        self._defences = defences
        self.ranks = spec.ranks
        self._launcher, self._spec = launcher, spec
        self.freezing_s = 0.0
        pairs = [_socket_pair() for _ in range(spec.ranks)]
        self._controls = [ours for ours, _ in pairs]
        theirs = [other for _, other in pairs]
        self._output, written = os.pipe()
        os.set_blocking(self._output, False)
        try:
            descriptors = [control.fileno() for control in theirs]
            self._box: Box = launcher.start(spec, descriptors, written)
        finally:
            os.close(written)
            for control in theirs:
                control.close()
        self._ended = False
        self._poll = select.poll()
        for descriptor in (self._box.pidfd, self._output, *map(_number, self._controls)):
            self._poll.register(descriptor, select.POLLIN)
        self._is_printing = True
        self._may_spin = may_spin
        self._ready = [_watch(control) for control in self._controls]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def can_freeze(self) -> bool:
        """Whether the workers can be stopped between calls."""
        return self._box.can_freeze

    def freeze(self) -> None:
        """Stops the workers where they are.

        Errors: CaseFailed, if they do not stop in time; SandboxFault, if nothing stops here.
        """
        if not self._box.can_freeze:
            return
        began = time.monotonic()
        try:
            self._box.freeze()
        except StopTimeout as slow:
            self.end()
            if not self._defences.blames_unstoppable or not self.can_machine_stop_boxes():
                raise
            raise CaseFailed("timed_out", _NOT_STOPPED) from slow
        finally:
            self.freezing_s += time.monotonic() - began

    def can_machine_stop_boxes(self) -> bool:
        """Whether a box like this one, in which nothing runs yet, can be frozen and killed."""
        pairs = [_socket_pair() for _ in range(self.ranks)]
        read, written = os.pipe()
        try:
            box = self._launcher.start(self._spec, [other.fileno() for _, other in pairs], written)
            with contextlib.suppress(StopTimeout):
                if box.can_freeze:
                    box.freeze()
                return box.end()
            return False
        finally:
            for descriptor in (read, written):
                os.close(descriptor)
            for ours, theirs in pairs:
                ours.close()
                theirs.close()

    def thaw(self) -> None:
        """Lets the workers run on. Errors: SandboxFault."""
        if self._box.can_freeze:
            self._box.thaw()

    def cpu_us(self) -> int | None:
        """Microseconds of processor that the workers have used, where they can be read at once."""
        return self._box.cpu_us()

    def waited_us(self) -> float:
        """Microseconds that the workers wanted a core and had none; 0 where nobody counts them."""
        return self._box.waited_us()

    def usage(self) -> dict[str, float]:
        """Processor seconds and the peak of memory, as the box counts them."""
        return self._box.usage()

    def send(self, rank: int, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Sends a packet without ever blocking. Errors: CaseFailed, if it cannot be sent."""
        control = self._controls[rank]
        try:
            if descriptors:
                socket.send_fds(control, [message], descriptors, socket.MSG_DONTWAIT)
            else:
                control.send(message, socket.MSG_DONTWAIT)
        except BlockingIOError as error:
            raise CaseFailed("protocol", "the worker does not read its socket") from error
        except OSError:
            raise self._closed() from None

    def require_silence(self) -> None:
        """Errors: CaseFailed, if a worker said what nobody asked for, or ended."""
        for descriptor, _ in self._poll.poll(0):
            if descriptor == self._output:
                continue
            for rank, control in enumerate(self._controls):
                if control.fileno() == descriptor:
                    self._receive(rank)
            if descriptor == self._box.pidfd:
                raise self._closed()
            raise CaseFailed("protocol", "the worker sent a message that was not asked for")

    def receive(self, rank: int, until: float, waited_for: str) -> bytes:
        """A rank's next packet, waited for until an instant of the monotonic clock.

        Errors: CaseFailed: timed_out, output_limit, crashed, protocol, or the failure it tells.
        """
        self._spin(rank)
        control = self._controls[rank].fileno()
        while True:
            left_s = until - time.monotonic()
            ready = [descriptor for descriptor, _ in self._poll.poll(max(0.0, left_s * 1000))]
            if self._output in ready:
                self._drain()
            if control in ready:
                return _unless_failed(self._receive(rank))
            if self._box.pidfd in ready:
                raise self._closed()
            if left_s <= 0:
                raise CaseFailed("timed_out", waited_for)
            if ready and self._output not in ready:
                # Another rank spoke first; its word is read when it is asked for.
                self._wait_for(control, left_s)

    def heard(self, rank: int, until: float) -> bytes | None:
        """A rank's next packet; None if none comes in time. Errors: CaseFailed."""
        try:
            return self.receive(rank, until, "")
        except CaseFailed as failure:
            if failure.verdict == "timed_out":
                return None
            raise

    def _spin(self, rank: int) -> None:
        """Looks for a short call's answer without sleeping: to be woken takes as long as the call.

        Only where the workers have cores of their own.
        """
        if not self._may_spin:
            return
        until = time.perf_counter_ns() + _SPIN_NS
        poll = self._ready[rank].poll
        while not poll(0) and time.perf_counter_ns() < until:
            continue

    def end(self) -> bool:
        """Kills the workers and all that they left behind; False if something would not die."""
        if self._ended:
            return self._box.end()
        self._ended = True
        is_empty = self._box.end()
        self._drain_rest()
        for control in self._controls:
            control.close()
        os.close(self._output)
        return is_empty

    def _wait_for(self, control: int, left_s: float) -> None:
        one = select.poll()
        for descriptor in (control, self._box.pidfd):
            one.register(descriptor, select.POLLIN)
        if self._is_printing:
            one.register(self._output, select.POLLIN)
        one.poll(max(0.0, left_s * 1000))

    def _receive(self, rank: int) -> bytes:
        try:
            message = self._controls[rank].recv(protocol.ANSWER_BYTES_MAX + 1, socket.MSG_DONTWAIT)
        except OSError:
            message = b""
        if not message:
            raise self._closed()
        return message

    def _closed(self) -> CaseFailed:
        """Why the socket is of no more use: the worker died, or it only closed its end."""
        self.thaw()
        status = self._box.status(_LAST_WORDS_S)
        self._drain_rest()
        if self._defences.attributes_memory_kills and self._box.is_out_of_memory():
            return CaseFailed("out_of_memory", "the memory limit was reached")
        if status is None:
            return CaseFailed("protocol", "the worker closed its control socket")
        return of_status(status)

    def _drain(self) -> None:
        chunk = self._read()
        if chunk == b"" and self._is_printing:
            self._is_printing = False
            self._poll.unregister(self._output)
        self.log.add(chunk or b"")
        if self.log.is_over:
            raise CaseFailed("output_limit", "more than 1 MiB was printed")

    def _drain_rest(self) -> None:
        """What is left in the pipe; a pipe holds less than the limit."""
        while not self.log.is_over and (chunk := self._read()):
            self.log.add(chunk)

    def _read(self) -> bytes | None:
        """The next bytes, none at the end, None if there is nothing now."""
        try:
            return os.read(self._output, _CHUNK_BYTES)
        except BlockingIOError:
            return None


def _watch(control: socket.socket) -> select.poll:
    poll = select.poll()
    poll.register(control, select.POLLIN)
    return poll


def _number(control: socket.socket) -> int:
    return control.fileno()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _unless_failed(message: bytes) -> bytes:
    """The message, unless it is the worker's word that it failed, or not a message at all."""
    if message[:1] != protocol.FAILED:
        return message
    try:
        said = json.loads(message[1:])
        kind, text = str(said["kind"]), str(said["text"])
    except (KeyError, RecursionError, TypeError, ValueError):
        raise CaseFailed("protocol", "the worker sent a malformed message") from None
    if len(message) > protocol.ANSWER_BYTES_MAX or kind not in protocol.FAILURE_KINDS:
        raise CaseFailed("protocol", "the worker sent a malformed message")
    raise of_failure(kind, text)
