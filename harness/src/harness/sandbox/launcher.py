"""Starts boxes through a zygote: a process that has imported torch and forks once per box.

The client of a box has its keeper's channel, its freezer's open files, and its end.
"""

import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.sandbox import linux
from harness.sandbox.box import (
    BoxSpec,
    SandboxFault,
    StopTimeout,
    close_descriptors,
    make_channel,
    receive_message,
    send_message,
    spec_to_json,
)
from harness.sandbox.keeper import FREEZE_S_MAX, Freezer
from harness.sandbox.linux import END_S_MAX

_USAGE_S_MAX = 5.0
_START_S_MAX = 30.0
SPARE_S_MAX = 600.0
# A shell, or bubblewrap, adds the number of a signal to this.
_SIGNALLED = 128
_SCHEDSTAT_BYTES_MAX = 128

_FLAGS = ("-I", "-B", "-u", "-X", "faulthandler")
_ENVIRONMENT = {
    "PATH": os.defpath,
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    # A CUDA build of torch must ask for devices without starting the driver, or no fork has one.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
# The first answer waits for the imports; a clear waits for everything that must be killed.
_ANSWER_S_MAX = 120.0
# The zygote needs this much longer to end than the processes beneath it.
_ZYGOTE_EXTRA_S = 5.0


class Box:
    """One box and everything that runs in it, behind its keeper; needs no privilege.

    `pid` and `pidfd` are the keeper's; `pidfd` is readable when nothing of the box is left.
    """

    def __init__(self, keeper: socket.socket, pid: int, pidfd: int, end_s_max: float) -> None:
        self.pidfd = pidfd
        self._pid = pid
        self._keeper = keeper
        self._end_s_max = end_s_max
        self._freezer: Freezer | None = None
        self._schedules: list[int] = []
        self._state: dict[str, Any] = {}
        self._built = 0
        self._is_closed = False
        self._ended: bool | None = None

    @property
    def can_freeze(self) -> bool:
        """Whether the box has a freezer."""
        return self._freezer is not None

    def settle(self, built: int) -> None:
        """Wait until this many workers are within their walls. Raises SandboxFault."""
        ends_at = time.monotonic() + _START_S_MAX
        while self._built < built:
            self._raise_fault()
            if not self._receive(ends_at):
                reason = self._state.get("fault", "the box ended before it was built")
                raise SandboxFault(reason if self._is_closed else "the box was not built in time")

    def freeze(self) -> None:
        """Freeze everything in the box. Raises StopTimeout."""
        if self._ended is not None:
            return
        assert self._freezer is not None, "this box has no freezer"
        if not self._freezer.freeze():
            raise StopTimeout(f"the box did not freeze within {FREEZE_S_MAX} s")

    def thaw(self) -> None:
        """Let everything in the box run again."""
        if self._ended is not None:
            return
        assert self._freezer is not None, "this box has no freezer"
        self._freezer.thaw()

    def cpu_us(self) -> int | None:
        """Return the CPU microseconds of the box; None if they cannot be read."""
        if self._freezer is None or self._ended is not None:
            return None
        return self._freezer.cpu_us()

    def activity(self) -> linux.Activity:
        """Return what the processes of the box do. The control group counts CPU time best."""
        activity, cpu_us = linux.activity(self._pid), self.cpu_us()
        return activity if cpu_us is None else replace(activity, cpu_s=cpu_us / 1e6)

    def waited_us(self) -> float:
        """Return the microseconds that its workers waited for a core; 0 if not counted.

        Only the first thread of each worker is counted.
        """
        # The attendant sends a worker's schedule after starting it, so it may arrive late.
        if not self._schedules:
            self._receive(0.0)
        waited_ns = 0
        for schedule in self._schedules:
            # The second number of `schedstat` (Documentation/scheduler/sched-stats.rst).
            with contextlib.suppress(IndexError, OSError, ValueError):
                waited_ns += int(os.pread(schedule, _SCHEDSTAT_BYTES_MAX, 0).split()[1])
        return waited_ns / 1000

    def status(self, within_s: float) -> int | None:
        """Return how the ranks ended, None while they run. Raises SandboxFault if the box broke."""
        self._receive_until("status", time.monotonic() + within_s)
        self._raise_fault()
        if "status" in self._state:
            return int(self._state["status"])
        if "code" in self._state:
            code: int = self._state["code"]
            return _SIGNALLED - code if code > _SIGNALLED else code
        if self._is_closed:
            raise SandboxFault("the keeper of the box is gone")
        return None

    def is_out_of_memory(self) -> bool:
        """Return whether the kernel killed something because the box reached its memory limit.

        Raises SandboxFault if the machine ran out of memory, and not the box.
        """
        self._request_usage()
        kill = self._state.get("memory_kill", "")
        if kill == "machine":
            reason = "the machine ran out of memory while the submission was below its limit"
            raise SandboxFault(reason)
        return bool(kill == "box")

    def usage(self) -> dict[str, float]:
        """Return what the box has used: cpu_s and peak_memory_mib, as far as known."""
        self._request_usage()
        return dict(self._state.get("usage", {}))

    def end(self) -> bool:
        """Kill everything in the box and remove it; False if something could not be killed."""
        if self._ended is None:
            with contextlib.suppress(OSError):
                send_message(self._keeper, {"end": True})
            ends_at = time.monotonic() + self._end_s_max
            self._receive_until("over", ends_at)
            left_s = max(0.0, ends_at - time.monotonic())
            has_keeper_ended = bool(select.select([self.pidfd], [], [], left_s)[0])
            # If the keeper ended without a report, the launcher has to clean up and check.
            self._ended = has_keeper_ended and bool(self._state.get("is_empty", self._is_closed))
            self._keeper.close()
            self._is_closed = True
            os.close(self.pidfd)
            if self._freezer is not None:
                self._freezer.close()
            close_descriptors(self._schedules)
            self._schedules = []
        return self._ended

    def _request_usage(self) -> None:
        """Request the current numbers; those of a box that is over are known already."""
        if self._is_closed or "over" in self._state:
            return
        self._state.pop("usage", None)
        # The last messages of a keeper that is gone can still be read.
        with contextlib.suppress(OSError):
            send_message(self._keeper, {"usage": True})
        self._receive_until("usage", time.monotonic() + _USAGE_S_MAX)

    def _receive_until(self, key: str, ends_at: float) -> None:
        while key not in self._state and self._receive(ends_at):
            continue

    def _receive(self, ends_at: float) -> bool:
        """Receive one message; False if there is none in time, or will never be one."""
        if self._is_closed:
            return False
        left_s = max(0.0, ends_at - time.monotonic())
        if not select.select([self._keeper], [], [], left_s)[0]:
            return False
        if (received := receive_message(self._keeper)) is None:
            self._is_closed = True
            return False
        message, descriptors = received
        if message.get("group"):
            self._freezer = Freezer(message["group"], *descriptors)
        if message.pop("schedule", False):
            self._schedules += descriptors
        self._built += message.pop("built", 0)
        if "fault" in self._state:
            # The first of several faults is the cause.
            message["fault"] = self._state["fault"]
        self._state |= message
        return True

    def _raise_fault(self) -> None:
        if "fault" in self._state:
            raise SandboxFault(self._state["fault"])


class ZygoteLauncher:
    """Starts boxes through a zygote, which keeps the privileges that its users do not need.

    It is used by one process at a time, which may be a fork of its creator. `end_s_max` limits how
    long killed processes may take to end.
    """

    way = "fork"

    def __init__(
        self,
        walls: Sequence[str] = (),
        imports: Sequence[str] = ("torch",),
        end_s_max: float = END_S_MAX,
        spare_s_max: float = SPARE_S_MAX,
    ) -> None:
        """Return before the zygote is ready.

        `walls` are those that no box may lack, because a client may have been taken over. `imports`
        are imported before each worker is forked. A spare box that has waited for `spare_s_max` is
        ended.
        """
        self.end_s_max = end_s_max
        options = {
            "walls": list(walls),
            "imports": list(imports),
            "end_s_max": end_s_max,
            "spare_s_max": spare_s_max,
        }
        self._socket, zygote_end = make_channel()
        with zygote_end:
            arguments = (str(zygote_end.fileno()), str(os.getpid()), json.dumps(options))
            self._process = subprocess.Popen(
                [sys.executable, *_FLAGS, "-m", "harness.zygote", *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=[zygote_end.fileno()],
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The zygote's pid."""
        return self._process.pid

    def start(self, spec: BoxSpec, controls: Sequence[int], output: int) -> Box:
        """Start a box with all its walls. Raises SandboxFault."""
        assert len(controls) == spec.ranks
        while True:
            own_end, keeper_end = make_channel()
            try:
                request = {"start": spec_to_json(spec), "way": self.way}
                files = [keeper_end.fileno(), output, *controls]
                reply, descriptors = self._request(request, files)
            except SandboxFault:
                own_end.close()
                raise
            finally:
                keeper_end.close()
            box = Box(own_end, reply["pid"], descriptors[0], self.end_s_max)
            try:
                box.settle(spec.ranks)
            except SandboxFault:
                box.end()
                # A spare box may have broken while it waited; there are few of them.
                if "is_spare" not in reply:
                    raise
            else:
                return box

    def make_spares(self, count: int) -> None:
        """Begin to make spare boxes like the box that was started last. Raises SandboxFault.

        They take processor time until `settle_spares` returns.
        """
        self._request({"spares": count})

    def settle_spares(self) -> int:
        """Wait until spare boxes are built; return how many there are. Raises SandboxFault."""
        reply, _ = self._request({"settle": True})
        return int(reply["spares"])

    def counts(self) -> dict[str, int]:
        """Return the zygote's open descriptors, boxes and processes. Raises SandboxFault."""
        reply, _ = self._request({"counts": True})
        return dict(reply["counts"])

    def clear(self) -> None:
        """End every box that is left. Raises SandboxFault."""
        reply, _ = self._request({"clear": True})
        if not reply["is_clear"]:
            raise SandboxFault("a box could not be emptied")

    def close(self) -> None:
        """End every box, then the zygote."""
        # Forks of this process, and what an author's code left, may hold the socket, too.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        within_s = self.end_s_max + _ZYGOTE_EXTRA_S
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(within_s)

    def _request(
        self, request: dict[str, Any], descriptors: Sequence[int] = ()
    ) -> tuple[dict[str, Any], list[int]]:
        token = secrets.token_hex(8)
        try:
            send_message(self._socket, {"token": token, **request}, descriptors)
        except OSError as error:
            raise SandboxFault(f"the zygote is gone: {error}") from error
        ends_at = time.monotonic() + _ANSWER_S_MAX
        while select.select([self._socket], [], [], max(0.0, ends_at - time.monotonic()))[0]:
            if (message := receive_message(self._socket)) is None:
                raise SandboxFault("the zygote is gone")
            reply, reply_descriptors = message
            # A reply to an earlier user that died before reading it is discarded.
            if reply["token"] == token and "fault" not in reply:
                return reply, reply_descriptors
            close_descriptors(reply_descriptors)
            if reply["token"] == token:
                raise SandboxFault(reply["fault"])
        raise SandboxFault(f"the zygote did not answer within {_ANSWER_S_MAX} s")
