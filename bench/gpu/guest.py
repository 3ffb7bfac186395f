"""The worker of an experiment: a forked process that answers 2 x + 1, honestly or not.

It uses the very gate of the harness's workers, and CUDA's driver for whatever a submission could
do besides. Everything CUDA is opened after the fork.
"""

import ctypes
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from harness.devices.cuda.driver import NON_BLOCKING, NOT_READY, Driver, Kernel, Nvrtc
from harness.devices.cuda.host import become_mps_client, module_loading
from harness.devices.cuda.rules import architecture_name
from harness.sandbox import linux
from harness.worker import protocol
from harness.worker.cuda import CudaCase

KERNELS = ("w_work", "w_fma", "w_peek", "w_touch", "w_fault")
NOBODY = 64001
DESCRIPTORS_MAX = 4
PEEKERS = 128
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_NEW_PID_SPACE = 0x20000000
_NEW_MOUNT_SPACE = 0x20000
_PRIVATE_AND_BELOW = 0x44000
_WAIT_AT_LEAST = 0
_WAIT_AND = 2
_ONE = 0x3F800000


class Guest:
    """One worker with a mode: what it does when it is asked to answer."""

    def __init__(self, control: socket.socket, mode: str) -> None:
        self._control = control
        self._mode = mode
        self._calls = 0
        self._is_open = False

    def open(self) -> None:
        """Open the context and compile the kernels, once."""
        if self._is_open:
            return
        import torch

        began = time.perf_counter()
        self._torch: Any = torch
        self._torch.cuda.init()
        self._torch.zeros(1, device="cuda")
        self._context_s = time.perf_counter() - began
        self._driver = Driver()
        compute = torch.cuda.get_device_capability()
        source = (Path(__file__).parent / "work.cu").read_text()
        code = Nvrtc().compile(source, "work.cu", architecture_name(compute))
        module = self._driver.pointer("cuModuleLoadData", ctypes.c_char_p(code))
        self._kernels = {name: Kernel(self._driver, module, name) for name in KERNELS}
        self._finished = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._side = self._driver.pointer("cuStreamCreate", NON_BLOCKING)
        self._event = self._driver.pointer("cuEventCreate", 2)
        self._blocks = 4 * torch.cuda.get_device_properties(0).multi_processor_count
        torch.cuda.synchronize()
        self._kernels_s = time.perf_counter() - began - self._context_s
        self._is_open = True

    def serve(self) -> None:
        """Answers until the socket closes."""
        while True:
            message, descriptors, _, _ = socket.recv_fds(
                self._control, protocol.LAYOUT_BYTES_MAX, DESCRIPTORS_MAX
            )
            if not message:
                return
            if message[:1] == protocol.CASE:
                self.open()
                self._open_case(message[1:], descriptors)
            else:
                self._answer(message)

    def _open_case(self, layout: bytes, descriptors: list[int]) -> None:
        began = time.perf_counter()
        self._case = CudaCase(layout, descriptors)
        said = {
            "context_s": self._context_s,
            "kernels_s": self._kernels_s,
            "case_s": time.perf_counter() - began,
            "is_legacy": not self._case._gate._events,  # noqa: SLF001  (V2 asks for it)
        }
        self._control.send(protocol.READY + json.dumps(said).encode())

    def _answer(self, message: bytes) -> None:
        end = 1 + protocol.NONCE_BYTES
        nonce, wish = message[1:end], json.loads(message[end:])
        self._calls += 1
        data = self._case.data(b"")
        if self._mode == "peekq":
            self._mark(data[0])
        self._case.gate(nonce)
        if self._mode == "early":
            self._case.release(nonce)
        getattr(self, f"_do_{self._mode}", self._do_honest)(data, wish)
        if self._mode != "early":
            self._case.release(nonce)
        self._control.send(protocol.ARMED + nonce)
        self._settle()
        self._control.send(protocol.DONE + nonce)

    def _settle(self) -> None:
        """Waits for the device; a kernel that stays would be waited for too, so not for that."""
        if self._mode != "peek":
            self._case.settle()
        while self._driver.status("cuStreamQuery", 1) == NOT_READY:
            time.sleep(0.0001)

    def _launch(self, name: str, data: Any, value: int, stream: int = 0) -> None:
        given, out = data
        arguments = (
            ctypes.c_uint64(given.data_ptr()),
            ctypes.c_uint64(out.data_ptr()),
            ctypes.c_uint64(given.numel()),
            ctypes.c_uint64(value),
        )
        if name == "w_peek":
            finished = ctypes.c_uint64(self._finished.data_ptr())
            self._kernels[name](stream, (PEEKERS, 256), *arguments, finished)
        else:
            self._kernels[name](stream, (self._blocks, 256), *arguments)

    def _do_honest(self, data: Any, wish: dict[str, Any]) -> None:
        """Raw launches, on the legacy stream as `<<<>>>` would put them."""
        self._launch("w_work", data, wish.get("ns", 0))

    def _do_null(self, data: Any, wish: dict[str, Any]) -> None:
        """Nothing at all."""

    def _do_torch(self, data: Any, _: dict[str, Any]) -> None:
        self._torch.mul(data[0], 2, out=data[1]).add_(1)

    def _do_fma(self, data: Any, wish: dict[str, Any]) -> None:
        self._launch("w_fma", data, wish["links"])

    def _do_alternate(self, data: Any, wish: dict[str, Any]) -> None:
        self._launch("w_work", data, wish["ns"] * (2 if self._calls % 2 else 1))

    def _do_drift(self, data: Any, wish: dict[str, Any]) -> None:
        self._launch("w_work", data, int(wish["ns"] * (1 + 0.0002 * self._calls)))

    def _do_slow(self, data: Any, wish: dict[str, Any]) -> None:
        """A launcher that takes its time."""
        until = time.perf_counter() + wish["sleep_us"] / 1e6
        while time.perf_counter() < until:
            pass
        self._launch("w_work", data, wish.get("ns", 0))

    def _do_sync(self, data: Any, wish: dict[str, Any]) -> None:
        """Reads a value back in the middle, as `.item()` does."""
        self._launch("w_work", data, wish.get("ns", 0))
        data[1].view(-1)[0].item()

    def _do_stream2(self, data: Any, wish: dict[str, Any]) -> None:
        """Work that obeys the gate, on a stream that the done does not wait for."""
        self._driver("cuEventRecord", self._event, 0)
        self._follow()
        self._launch("w_work", data, wish.get("ns", 0), self._side.value or 0)

    def _do_peek(self, data: Any, wish: dict[str, Any]) -> None:
        """One kernel stays and looks; the calls themselves only wait for it."""
        if self._calls == 1:
            self._launch("w_peek", data, wish.get("ns", 0), self._side.value or 0)
        at, due = self._finished.data_ptr(), PEEKERS * self._calls
        self._driver("cuStreamWaitValue32_v2", 1, at, due, _WAIT_AT_LEAST)

    def _do_peekq(self, data: Any, wish: dict[str, Any]) -> None:
        """Work behind a queued wait for a word of the input; the gated stream waits for it."""
        self._launch("w_work", data, wish.get("ns", 0), self._side.value or 0)
        self._driver("cuEventRecord", self._event, self._side)
        self._wait_for_side()

    def _do_prefetch(self, data: Any, wish: dict[str, Any]) -> None:
        """Warms the cache with what is there before the gate opens."""
        self._launch("w_touch", data, 0, self._side.value or 0)
        self._launch("w_work", data, wish.get("ns", 0))

    def _do_fault(self, data: Any, _: dict[str, Any]) -> None:
        self._launch("w_fault", data, 0)

    def _mark(self, given: Any) -> None:
        last = given.data_ptr() + 4 * (given.numel() - 1)
        self._driver("cuMemsetD32Async", last, 0, 1, self._side)
        self._driver("cuStreamWaitValue32_v2", self._side, last, _ONE, _WAIT_AND)

    def _follow(self) -> None:
        """Makes the side stream wait for the event."""
        library = ctypes.CDLL("libcuda.so.1")
        library.cuStreamWaitEvent(self._side, self._event, 0)

    def _wait_for_side(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        library.cuStreamWaitEvent(ctypes.c_void_p(1), self._event, 0)


def start(
    mode: str, *, mps: dict[str, str], is_apart: bool = False, opens_at_once: bool = True
) -> tuple[int, socket.socket]:
    """Fork a guest; return its pid and the socket to it.

    `is_apart` gives it a uid and a pid namespace. With `opens_at_once` it opens its context while
    the referee opens its own: loading all kernels of torch takes each of them some seconds.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    ours.close()
    try:
        if is_apart:
            _part()
        become_mps_client(module_loading(forced="EAGER") | mps)
        server = Guest(theirs, mode)
        if opens_at_once:
            server.open()
        server.serve()
        os._exit(0)
    except ConnectionError:
        os._exit(0)
    except BaseException:  # noqa: BLE001  (the experiment must hear it, whatever it was)
        said = traceback.format_exc(limit=3).encode()[-2000:]
        try:
            theirs.send(protocol.FAILED + said)
        finally:
            sys.stderr.flush()
            os._exit(1)


def _part() -> None:
    """A pid namespace of its own and the throwaway uid, where we are root."""
    if os.getuid():
        raise PermissionError("only root can part from the referee's uid")
    linux.unshare(_NEW_PID_SPACE | _NEW_MOUNT_SPACE, "pid and mount namespaces")
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    linux.mount("none", "/", flags=_PRIVATE_AND_BELOW)
    linux.mount("proc", "/proc", "proc")
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    # A change of uid clears both; CUDA needs a /proc/self of its own.
    for option, value in ((_PR_SET_DUMPABLE, 1), (_PR_SET_PDEATHSIG, 9)):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
