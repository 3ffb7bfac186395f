"""The worker process: loads the submission and answers calls until the socket closes.

Nothing it reports is trusted: the submission may rewrite all of it at run time, and can only harm
itself so. What counts is what the supervisor finds in the answer's memory, by its own clock.

As a program, started by exec, its arguments are the control socket's
descriptor and the file's path.
"""

import array
import contextlib
import gc
import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.worker import programs, protocol, settings, submission
from harness.worker.cuda import CudaBatch, CudaCase, LocalCase, open_context
from harness.worker.explanations import explain_exception
from harness.worker.memory import AnswerMismatch, SharedCase
from harness.worker.protocol import SubmissionFailure
from harness.worker.submission import Call, CaseBinder, load_submission

_ANCILLARY_BYTES = 64
# How many operators tell what the dispatch of one costs.
_DISPATCHES = 32
_SCHEDSTAT_BYTES_MAX = 128
_HEAD_BYTES = 1 + protocol.NONCE_BYTES


def serve(descriptor: int, path: str) -> None:
    """Answer on a control socket until it closes; `path` is the submitted file."""
    control = socket.socket(fileno=descriptor)
    sys.argv[1:] = []
    # A process that the submission spawns runs this one's main module again, which is not ours.
    sys.modules["__main__"] = ModuleType("__main__")
    server = WorkerServer(control, Path(path))
    with contextlib.suppress(ConnectionError):
        server.serve()


class WorkerServer:
    """One worker: its socket, its submission, and the current case."""

    def __init__(self, control: socket.socket, path: Path) -> None:
        self._control = control
        self._path = path
        self._home = ""
        # One buffer for all messages: allocating one of this size costs more than a call's message.
        self._buffers = [memoryview(bytearray(protocol.LAYOUT_BYTES_MAX))]
        self._load: CaseBinder | None = None
        self._call: Call | None = None
        self._prepare: Callable[[], None] = lambda: None
        self._nonce = b""
        self._is_bare = False

    def serve(self) -> None:
        """Handle one message after another; a call is recognised first, because it is timed.

        Whatever the next call needs is created after the answer, so that the call is as short as
        that of compiled code that answers by itself.
        """
        while not self._is_bare:
            message, descriptors = self._receive()
            if message[:1] == protocol.GO:
                self._control.send(self._answer(message, self._run))
                self._prepare()
            elif not self._handle(message, descriptors):
                return
        self._answer_at_once()

    def _answer_at_once(self) -> None:
        """Answer calls as fast as possible, without looking at data and without sleeping.

        A submission that speaks the protocol itself can then save only the little by which a
        compiled loop is faster than this one.
        """
        receive, send = self._control.recv, self._control.send
        go, done_kind, bytes_max = protocol.GO, protocol.DONE, protocol.LAYOUT_BYTES_MAX
        while True:
            try:
                message = receive(bytes_max, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            if message[:1] == go:
                send(done_kind + message[1:_HEAD_BYTES])
            elif not message:
                return

    def _handle(self, message: bytes, descriptors: list[int]) -> bool:
        """Handle a message that is not a plain call; False for the end."""
        kind = message[:1]
        if kind == protocol.WARM:
            self._report_result(programs.warm_up_profiler)
        elif kind == protocol.CASE:
            self._open_case(open_case(message[1:], descriptors))
        elif kind == protocol.SETUP:
            self._report_result(lambda: self._set_up(json.loads(message[1:]), descriptors))
        elif kind == protocol.PACK:
            self._report_result(lambda: submission.pack_built(self._home, descriptors[0]))
        elif kind == protocol.PROFILE:
            self._control.send(self._answer(message, self._make_profiled_call(descriptors)))
        elif kind == protocol.RECORD:
            recorded_call = self._make_recorded_call(descriptors[0])
            self._control.send(self._answer(message, recorded_call))
        else:
            return False
        return True

    def _receive(self) -> tuple[bytes, list[int]]:
        size, ancillary, _, _ = self._control.recvmsg_into(self._buffers, _ANCILLARY_BYTES)
        message = bytes(self._buffers[0][:size])
        if not ancillary:
            return message, []
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        return message, descriptors.tolist()

    def _report_result(self, work: Callable[[], object]) -> None:
        try:
            work()
        except SubmissionFailure as reason:
            self._control.send(_encode_failure(reason))
        else:
            self._control.send(protocol.READY)

    def _set_up(self, role: dict[str, Any], descriptors: list[int]) -> None:
        """Become a builder, a profiler, a worker of one submission, a null worker, or a program.

        A worker on a GPU opens its context before it loads anything of the submission. One that
        `only_opens` waits for its role afterwards. Raises SubmissionFailure.
        """
        if environment := role.get("environment"):
            settings.add_environment(environment)
        self._home = role.get("home", self._home)
        if self._carry_out(role, descriptors):
            return
        self._prepare_torch(opens_context=role.get("opens_context", False))
        if role.get("only_opens"):
            return
        if role.get("is_bare_null"):
            self._is_bare = True
            return
        self._load = load_submission(self._path, role, descriptors, self._home)
        if backend := role.get("group"):
            _join_group(backend, self._path)

    def _carry_out(self, role: dict[str, Any], descriptors: list[int]) -> bool:
        """Run the program that the role orders; False if it is that of a worker."""
        if order := role.get("order"):
            programs.run_build_order(order, descriptors[0])
        elif order := role.get("capture"):
            programs.run_capture(order, descriptors, self._path)
        elif order := role.get("listing"):
            programs.list_kernels(order, descriptors)
        elif order := role.get("popcorn"):
            programs.run_program(order, descriptors, self._path.parent)
        else:
            return False
        return True

    def _prepare_torch(self, *, opens_context: bool) -> None:
        # With the collector off, importing torch takes a tenth of the time and frees nothing.
        gc.disable()
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(1)
        gc.freeze()
        gc.enable()
        if opens_context:
            open_context()

    def _open_case(self, case: SharedCase) -> None:
        """Bind the submission to a case; a GPU's work waits for a gate that the referee opens."""
        assert self._load is not None
        call = self._call = self._load(case)
        self._prepare = case.prepare
        if not isinstance(case, CudaCase | LocalCase):
            return

        def make_gated_call(scalars: bytes) -> bytes | None:
            case.gate(self._nonce)
            declaration = call(scalars)
            if case.release(self._nonce):
                self._control.send(protocol.ARMED + self._nonce)
            case.settle()
            return declaration

        self._call = make_gated_call

    def _run(self, scalars: bytes) -> bytes | None:
        assert self._call is not None
        return self._call(scalars)

    def _make_profiled_call(self, descriptors: list[int]) -> Call:
        def run(scalars: bytes) -> None:
            try:
                programs.profile_call(lambda: self._run(scalars), *descriptors)
            except programs.EmptyProfile as empty:
                raise SubmissionFailure("exception", str(empty)) from empty

        return run

    def _make_recorded_call(self, descriptor: int) -> Call:
        return lambda scalars: record_call(lambda: self._run(scalars), descriptor)

    def _answer(self, message: bytes, run: Call) -> bytes:
        self._nonce = message[1:_HEAD_BYTES]
        try:
            declaration = run(message[_HEAD_BYTES:])
        except AnswerMismatch as mismatch:
            return _encode_failure(SubmissionFailure("output", str(mismatch)))
        except SubmissionFailure as reason:
            return _encode_failure(reason)
        except BaseException as error:  # noqa: BLE001  (the supervisor must be told of any error)
            return _encode_failure(explain_exception(error, self._path, "exception"))
        return protocol.DONE + self._nonce + (declaration or b"")


def open_case(layout: bytes, descriptors: list[int]) -> SharedCase:
    """Open the case of a CASE message: on the processor, behind a GPU's gate, or timed locally."""
    case = json.loads(layout)
    kind = next((memory.get("kind", "") for memory in case.get("memories", ())), "")
    if kind == "cuda":
        return CudaBatch(layout, descriptors) if "sets" in case else CudaCase(layout, descriptors)
    return LocalCase(layout, descriptors) if kind == "local" else SharedCase(layout, descriptors)


def _join_group(backend: str, path: Path) -> None:
    """Create the default process group, unless the submission has created its own."""
    distributed: Any = importlib.import_module("torch.distributed")
    if distributed.is_initialized():
        return
    try:
        distributed.init_process_group(backend)
    except Exception as error:
        raise explain_exception(error, path, "import_error") from error


def _encode_failure(reason: SubmissionFailure) -> bytes:
    return protocol.FAILED + json.dumps({"kind": reason.kind, "text": reason.text}).encode()


def record_call(call: Callable[[], bytes | None], descriptor: int) -> bytes | None:
    """Make the call and return its result; write its operators and kernels as JSON into a memory.

    The submission can falsify all of it. So the record shows a composition and may send a run to a
    moderator; it never decides a verdict.

    The keys are total_us; overhead_us, which is what torch's dispatch to Python costs; and
    operators and kernels as rows [name, calls, time_us], those with the most time first; rows that
    are too many are left out. No time contains what the thread waited for a core. Each rank adds a
    line. Raises whatever the call raises.
    """
    torch: Any = importlib.import_module("torch")
    operators: dict[str, list[float]] = {}
    kernels: list[tuple[str, int, float]] = []
    results: list[bytes | None] = []

    def run() -> None:
        results.append(call())

    clock_us = _make_clock()
    counter = _operator_counter(clock_us)
    first_us, operator_us = _dispatch_us(torch, counter, clock_us)
    total_us = 0.0

    def count() -> None:
        nonlocal total_us
        with counter(operators):
            began_us = clock_us()
            run()
            total_us = clock_us() - began_us

    if torch.cuda.is_available():
        kernels = _profile_kernels(torch, count)
    else:
        count()
    rows = [(name, int(calls), time_us) for name, (calls, time_us) in operators.items()]
    record = {
        "total_us": total_us,
        "overhead_us": first_us * len(rows) + operator_us * sum(calls for _, calls, _ in rows),
        "operators": _longest(rows),
        "kernels": _longest(kernels),
    }
    os.write(descriptor, json.dumps(record).encode() + b"\n")
    return results[0]


def _longest(rows: list[tuple[str, int, float]]) -> list[tuple[str, int, float]]:
    longest = sorted(rows, key=lambda row: -row[2])[: protocol.RECORD_ROWS_MAX]
    return [
        (name[: protocol.RECORD_NAME_CHARS_MAX], calls, time_us) for name, calls, time_us in longest
    ]


def _make_clock() -> Callable[[], float]:
    """Return a clock in microseconds that stops while this thread waits for a core.

    Other processes would make a call longer, as if that were the submission's own work.
    """
    try:
        schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return lambda: 1e6 * time.perf_counter()
    # The second number of `schedstat` (Documentation/scheduler/sched-stats.rst).
    return lambda: (
        (time.perf_counter_ns() - int(os.pread(schedule, _SCHEDSTAT_BYTES_MAX, 0).split()[1]))
        / 1000
    )


def _dispatch_us(
    torch: Any,
    counter: Callable[[dict[str, list[float]]], Any],
    clock_us: Callable[[], float],
) -> tuple[float, float]:
    """Return what it costs to count an operator, beside the operator's own time.

    The first time is slower, because torch looks the operator up.
    """
    scalar = torch.zeros(1)
    scalar.add_(1)

    def measure(calls: int) -> float:
        operators: dict[str, list[float]] = {}
        with counter(operators):
            began_us = clock_us()
            for _ in range(calls):
                scalar.add_(1)
            total_us = clock_us() - began_us
        counted_us = sum(time_us for _, time_us in operators.values())
        return max(0.0, total_us - counted_us) / calls

    return measure(1), measure(_DISPATCHES)


def _operator_counter(clock_us: Callable[[], float]) -> Callable[[dict[str, list[float]]], Any]:
    """Return a context that counts the operators that torch dispatches in this thread."""
    dispatch: Any = importlib.import_module("torch.utils._python_dispatch")

    class OperatorCounter(dispatch.TorchDispatchMode):  # type: ignore[misc]  # torch is untyped
        def __init__(self, operators: dict[str, list[float]]) -> None:
            super().__init__()
            self.operators = operators

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # To exempt this class from it, torch would load its compiler: more than a second, which
            # would count as the submission's own code.
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(
            self, operator: Any, _: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            began_us = clock_us()
            try:
                return operator(*args, **(kwargs or {}))
            finally:
                entry = self.operators.setdefault(operator._schema.name, [0, 0.0])  # noqa: SLF001
                entry[0] += 1
                entry[1] += clock_us() - began_us

    return OperatorCounter


def _profile_kernels(torch: Any, run: Callable[[], object]) -> list[tuple[str, int, float]]:
    """Run under torch's profiler; return the GPU's kernels and copies with their times."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        run()
        torch.cuda.synchronize()
    return [
        (row.key, int(row.count), float(row.self_device_time_total))
        for row in profile.key_averages()
        if row.self_device_time_total > 0
    ]


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
