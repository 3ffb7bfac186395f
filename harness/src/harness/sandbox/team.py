"""The workers of one box as the supervisor sees them: sockets, output, and end."""

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from harness.defences import ALL_DEFENCES, Defences
from harness.messages import CaseFailed, status_failure, worker_failure
from harness.output import OutputLog, describe_fault, read_fault
from harness.sandbox.box import BoxSpec, StopTimeout, make_channel
from harness.sandbox.keeper import FREEZE_S_MAX
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.linux import Activity
from harness.sandbox.preparation import PreparationBudget, PreparationPart
from harness.worker import protocol

_CHUNK_BYTES = 64 * 1024
_STATUS_S_MAX = 1.0
_SPIN_NS = 300_000
_NOT_FROZEN = (
    f"the submission did not stop within {FREEZE_S_MAX:.0f} s: "
    "it was in a system call that can only be interrupted by killing it"
)


class Team:
    """One worker per rank, all in one box; their output is drained while waiting.

    `freezing_s` is the total time it took to freeze the workers, and `preparation` the budget of
    their imports and warm-ups.
    """

    def __init__(
        self,
        launcher: ZygoteLauncher,
        spec: BoxSpec,
        log: OutputLog,
        preparation: PreparationBudget,
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        self.log = log
        self.preparation = preparation
        self._defences = defences
        self.ranks = spec.ranks
        self._launcher, self._spec = launcher, spec
        self.freezing_s = 0.0
        self._shown_usage: dict[str, float] | None = None
        pairs = [make_channel() for _ in range(spec.ranks)]
        self._controls = [own_end for own_end, _ in pairs]
        worker_ends = [worker_end for _, worker_end in pairs]
        self._output, output_end = os.pipe()
        os.set_blocking(self._output, False)
        try:
            descriptors = [control.fileno() for control in worker_ends]
            self._box = launcher.start(spec, descriptors, output_end)
        finally:
            os.close(output_end)
            for control in worker_ends:
                control.close()
        self._ended = False
        self._poll = select.poll()
        control_descriptors = [control.fileno() for control in self._controls]
        for descriptor in (self._box.pidfd, self._output, *control_descriptors):
            self._poll.register(descriptor, select.POLLIN)
        self._has_output = True
        self._may_spin = bool(spec.cores)
        self._polls = [select.poll() for _ in self._controls]
        for poll, control in zip(self._polls, self._controls, strict=True):
            poll.register(control, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def can_freeze(self) -> bool:
        """Whether the workers can be frozen between calls."""
        return self._box.can_freeze

    def freeze(self) -> None:
        """Freeze the workers.

        Raises CaseFailed if they do not stop in time, SandboxFault if nothing can be frozen here.
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
            raise CaseFailed("timed_out", _NOT_FROZEN) from slow
        finally:
            self.freezing_s += time.monotonic() - began

    def can_machine_stop_boxes(self) -> bool:
        """Return whether an empty box like this one can be frozen and killed."""
        pairs = [make_channel() for _ in range(self.ranks)]
        output, output_end = os.pipe()
        try:
            box = self._launcher.start(
                self._spec, [worker_end.fileno() for _, worker_end in pairs], output_end
            )
            with contextlib.suppress(StopTimeout):
                if box.can_freeze:
                    box.freeze()
                return box.end()
            return False
        finally:
            for descriptor in (output, output_end):
                os.close(descriptor)
            for own_end, worker_end in pairs:
                own_end.close()
                worker_end.close()

    def thaw(self) -> None:
        """Let the workers run again. Raises SandboxFault."""
        if self._box.can_freeze:
            self._box.thaw()

    def cpu_us(self) -> int | None:
        """Return the CPU microseconds of the workers; None if they cannot be read."""
        return self._box.cpu_us()

    def activity(self) -> Activity:
        """Return what the processes of the box do."""
        return self._box.activity()

    def waited_us(self) -> float:
        """Return the microseconds that workers waited for a core; 0 if not counted."""
        return self._box.waited_us()

    def usage(self) -> dict[str, float]:
        """Return CPU seconds and peak memory, as the box counts them."""
        return self._box.usage() if self._shown_usage is None else self._shown_usage

    def withhold_output(self) -> None:
        """From now on keep nothing of what the workers print, and of what they use.

        They are about to be given a hidden case, of which they could tell in either.
        """
        if self._shown_usage is None:
            self._shown_usage = self._box.usage()
            self.log = OutputLog()

    def send(self, rank: int, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a packet without blocking. Raises CaseFailed if it cannot be sent."""
        control = self._controls[rank]
        try:
            if descriptors:
                socket.send_fds(control, [message], descriptors, socket.MSG_DONTWAIT)
            else:
                control.send(message, socket.MSG_DONTWAIT)
        except BlockingIOError as error:
            raise CaseFailed("protocol", "the worker does not read its socket") from error
        except OSError:
            raise self._closed_failure() from None

    def require_silence(self) -> None:
        """Raise CaseFailed if a worker sent something unexpected, or ended."""
        for descriptor, _ in self._poll.poll(0):
            if descriptor == self._output:
                continue
            for rank, control in enumerate(self._controls):
                if control.fileno() == descriptor:
                    self._receive(rank)
            if descriptor == self._box.pidfd:
                raise self._closed_failure()
            raise CaseFailed("protocol", "the worker sent an unexpected message")

    def receive(self, rank: int, until: float, waited_for: str) -> bytes:
        """Return a rank's next packet, waiting until an instant of the monotonic clock.

        Raises CaseFailed: timed_out, output_limit, crashed, protocol, or the failure it reports.
        """
        self._spin(rank)
        control = self._controls[rank].fileno()
        while True:
            left_s = until - time.monotonic()
            ready = [descriptor for descriptor, _ in self._poll.poll(max(0.0, left_s * 1000))]
            if self._output in ready:
                self._drain()
            if control in ready:
                return _require_no_failure(self._receive(rank))
            if self._box.pidfd in ready:
                raise self._closed_failure()
            if left_s <= 0:
                raise CaseFailed("timed_out", waited_for)
            if ready and self._output not in ready:
                # Another rank answered first; its packet is read when its turn comes.
                poll = select.poll()
                output = (self._output,) if self._has_output else ()
                for descriptor in (control, self._box.pidfd, *output):
                    poll.register(descriptor, select.POLLIN)
                poll.poll(max(0.0, left_s * 1000))

    def receive_prepared(self, rank: int, part: PreparationPart) -> bytes:
        """Return a rank's next packet while a part of the preparation lasts.

        Raises CaseFailed: as `receive`, and `timed_out` if the part's time is over.
        """
        while (answer := self.try_receive(rank, part.look_at)) is None:
            part.look()
        return answer

    def try_receive(self, rank: int, ends_at: float) -> bytes | None:
        """Return a rank's next packet, None if none arrives in time. Raises CaseFailed."""
        try:
            return self.receive(rank, ends_at, "")
        except CaseFailed as failure:
            if failure.verdict == "timed_out":
                return None
            raise

    def _spin(self, rank: int) -> None:
        """Poll for a short call's answer without sleeping: waking up takes as long as the call.

        Only if the workers have cores of their own.
        """
        if not self._may_spin:
            return
        ends_at = time.perf_counter_ns() + _SPIN_NS
        poll = self._polls[rank].poll
        while not poll(0) and time.perf_counter_ns() < ends_at:
            continue

    def end(self) -> bool:
        """Kill the workers and all their processes; False if one could not be killed."""
        if self._ended:
            return self._box.end()
        self._ended = True
        is_empty = self._box.end()
        self._drain_rest()
        for control in self._controls:
            control.close()
        os.close(self._output)
        return is_empty

    def _receive(self, rank: int) -> bytes:
        try:
            message = self._controls[rank].recv(protocol.ANSWER_BYTES_MAX + 1, socket.MSG_DONTWAIT)
        except OSError:
            message = b""
        if not message:
            raise self._closed_failure()
        return message

    def _closed_failure(self) -> CaseFailed:
        """Return why the socket is unusable: the worker died, or closed its end."""
        self.thaw()
        status = self._box.status(_STATUS_S_MAX)
        self._drain_rest()
        if self._defences.attributes_memory_kills and self._box.is_out_of_memory():
            return CaseFailed("out_of_memory", "the memory limit was reached")
        if status is None:
            return CaseFailed("protocol", "the worker closed its control socket")
        failure = status_failure(status)
        fault = self._describe_fault() if status < 0 else ""
        return CaseFailed(failure.verdict, f"{failure.message}\n{fault}") if fault else failure

    def _describe_fault(self) -> str:
        """Return where in the submission a signal ended the process; "" if that is unknown."""
        main = self._spec.main
        frames = read_fault(self.log.whole(), main)
        if not frames:
            return ""
        path = Path(self._spec.submission, main)
        return describe_fault(frames, main, path.read_text(errors="replace"))

    def _drain(self) -> None:
        chunk = self._read()
        if chunk == b"" and self._has_output:
            self._has_output = False
            self._poll.unregister(self._output)
        self.log.add(chunk or b"")
        if self.log.is_over:
            raise CaseFailed("output_limit", "more than 1 MiB was printed")

    def _drain_rest(self) -> None:
        """Read what is left in the pipe; a pipe holds less than the limit."""
        while not self.log.is_over and (chunk := self._read()):
            self.log.add(chunk)

    def _read(self) -> bytes | None:
        """Return the next bytes: b"" at the end, None if there is nothing now."""
        try:
            return os.read(self._output, _CHUNK_BYTES)
        except BlockingIOError:
            return None


def _require_no_failure(message: bytes) -> bytes:
    """Return the message; raise CaseFailed if it reports a failure or is malformed."""
    if message[:1] != protocol.FAILED:
        return message
    try:
        body = json.loads(message[1:])
        kind, text = str(body["kind"]), str(body["text"])
    except (KeyError, RecursionError, TypeError, ValueError):
        raise CaseFailed("protocol", "the worker sent a malformed message") from None
    if len(message) > protocol.ANSWER_BYTES_MAX or kind not in protocol.FAILURE_KINDS:
        raise CaseFailed("protocol", "the worker sent a malformed message")
    raise worker_failure(kind, text)
