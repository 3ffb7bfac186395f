"""The public entry: takes requests and returns reports, from a supervisor that stays warm."""

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from harness.build.command import BUILD_S_MAX
from harness.build.command import probe_toolchains as toolchains
from harness.code import pack_harness as code
from harness.devices.access import GPU_LIMITS, FoundGpu, find_gpus, probe_device
from harness.devices.device import DeviceFault
from harness.devices.device import describe_machine as environment
from harness.devices.lock import DEVICE_WAIT_S_MAX
from harness.inspections import Finding, InspectReport, InspectRequest, LazyShare
from harness.messages import (
    CANCEL,
    CANCELLED,
    LEFT_BEHIND,
    LINE_BYTES_MAX,
    READY,
    VERSION,
    Accepted,
    CaseReport,
    DuelReport,
    Message,
    Progress,
    Request,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
    failed_request,
    failed_run,
    from_line,
    to_line,
)
from harness.sandbox import host
from harness.sandbox.box import Limits
from harness.sandbox.host import total_bytes as memory_bytes
from harness.sandbox.probe import Isolation
from harness.sandbox.probe import probe_isolation as isolation
from harness.vocabulary import CPU_DEVICE, MODES, VERDICTS

__all__ = [
    "DOUBTFUL",
    "VERDICTS",
    "VERSION",
    "CaseReport",
    "DeviceFault",
    "DuelReport",
    "Finding",
    "FoundGpu",
    "Harness",
    "InspectReport",
    "InspectRequest",
    "Isolation",
    "LazyShare",
    "MessageHandler",
    "Progress",
    "RunReport",
    "RunRequest",
    "StageFinished",
    "Started",
    "SupervisorFailed",
    "code",
    "environment",
    "evaluate",
    "find_gpus",
    "isolation",
    "memory_bytes",
    "probe_device",
    "sandbox_bytes_max",
    "toolchains",
    "usual_sandbox_bytes",
]

MessageHandler = Callable[[Started | Progress | StageFinished], Awaitable[None]]

# Its imports may come from a slow disk that is busy with others.
READY_S_MAX = 300.0
# More than twice the time that the supervisor waits for processes to end.
END_S = 120.0
_MESSAGES_MAX = 10_000
_LAST_WORDS_BYTES = 2000
_PREFIX = "warpboard-"

_EXTRA_S = 120.0
# An inspection that exceeds its limit still finishes the current case.
_CALLS_AFTER = 30

# A supervisor is replaced after this many submissions, and after a failure of its own.
_RUNS_MAX = 500
# After these failures the supervisor is replaced, and a self-test checks the machine.
DOUBTFUL = ("supervisor", "sandbox", "device")

_SELF_TEST_SIZE = 4096
# Imports come from a slow disk on some machines.
_SELF_TEST_BUDGET_S = 60
# A known kernel, run as a submission: a machine where it fails must not judge others.
_SELF_TEST_KERNEL = """
def custom_kernel(data):
    values, output = data
    output.copy_(values)
    return output
"""
# Copying a vector must pass wherever a submission can be judged.
_SELF_TEST_REFERENCE = """
import torch


def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, generator=generator), torch.empty(size)


def ref_kernel(data):
    values, output = data
    output.copy_(values)
    return output


def check_implementation(data, output):
    return bool(torch.equal(data[0], output)), "the copy differs from its source"
"""


class SupervisorFailed(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The supervisor ended, or sent something unexpected."""


def make_runs_folder() -> Path:
    """Make a folder for runs; also remove those of processes that no longer exist."""
    parent = Path(tempfile.gettempdir())
    for old in parent.glob(f"{_PREFIX}*-*"):
        pid = old.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    folder.chmod(0o711)
    return folder


async def exchange_request(
    process: Process,
    request: Request,
    on_message: MessageHandler,
    on_accept: Callable[[Accepted], None],
) -> RunReport | InspectReport:
    """Send a request and return its report. Raises SupervisorFailed, and errors of `on_message`."""
    assert process.stdin is not None
    assert process.stdout is not None
    token = secrets.token_hex(8)
    with contextlib.suppress(ConnectionError, RuntimeError):  # of a closed pipe, libuv's loop
        process.stdin.write(f"{token} {to_line(request)}".encode())
        await process.stdin.drain()
    once: set[type[Message]] = set()
    for _ in range(_MESSAGES_MAX):
        message = await _read_message(process.stdout, token)
        if isinstance(message, RunReport | InspectReport):
            return message
        # The supervisor sends both before the author's code runs, which could only repeat them.
        if message is None or type(message) in once:
            continue
        if isinstance(message, Accepted | Started):
            once.add(type(message))
        if isinstance(message, Accepted):
            on_accept(message)
        else:
            await on_message(message)
    raise SupervisorFailed("the supervisor sent too many messages")


async def cancel_run(process: Process) -> bool:
    """End the supervisor's current run; False if the supervisor did not confirm that.

    It confirms once nothing of the run is left, with a token that no author's code has seen.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    token = secrets.token_hex(8)
    answer = f"{token} {CANCELLED}\n".encode()
    with contextlib.suppress(ConnectionError, RuntimeError, TimeoutError, ValueError):
        async with asyncio.timeout(END_S):
            process.stdin.write(f"{token} {CANCEL}\n".encode())
            await process.stdin.drain()
            while line := await process.stdout.readline():
                if line == answer:
                    return True
    return False


async def _read_message(stream: asyncio.StreamReader, token: str) -> Message | None:
    """Return the next message; None for a line of another run. Raises SupervisorFailed."""
    try:
        line = (await stream.readline()).decode()
        if not line:
            raise SupervisorFailed("the supervisor ended without a report")
        line_token, _, text = line.partition(" ")
        # An author's code may write lines here, which must not count for another run.
        return from_line(text) if line_token == token else None
    except ValueError as error:
        raise SupervisorFailed(str(error)) from error


async def read_last_error(process: Process) -> str:
    """Return the last line of the supervisor's standard error: its error, if it died."""
    assert process.stderr is not None
    tail = b""
    while chunk := await process.stderr.read(_LAST_WORDS_BYTES):
        tail = (tail + chunk)[-_LAST_WORDS_BYTES:]
    return tail.decode(errors="replace").strip().rpartition("\n")[2]


def usual_sandbox_bytes(device: str) -> int:
    """Return the memory of this machine that every submission may use, per rank."""
    return (Limits() if device == CPU_DEVICE else GPU_LIMITS).memory_bytes


def sandbox_bytes_max(device: str) -> int:
    """Return the most memory of this machine that an author can give submissions, per rank."""
    return max(usual_sandbox_bytes(device), host.sandbox_bytes_max())


async def _ignore_message(_: object) -> None:
    """Ignore a message that no caller asked for."""


class Harness:
    """Runs submissions one after the other; the first one starts the supervisor.

    Use it in one thread that outlives it, because the supervisor ends with that thread. `options`
    are the supervisor's: `level` (the highest of LEVELS to use, by default what the machine
    supports), `state` (a folder for what was compiled), `device_lock`, `slot` and `slots` (of a
    `harness.pool.HarnessPool`), and for tests those of `harness.defences.Overrides`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._folder: Path | None = None
        self._process: Process | None = None
        self._last_words: asyncio.Task[str] | None = None
        self._runs = 0
        self._needs_restart = False
        self._lock = asyncio.Lock()
        self._has_survivors = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def warm(self) -> None:
        """Start the supervisor, if none runs, and wait until it can take a run.

        Raises SupervisorFailed if it cannot be started; the next run tries again and reports it.
        """
        async with self._lock:
            try:
                await self._get_supervisor()
            except SupervisorFailed:
                await self.close()
                raise

    async def _get_supervisor(self) -> Process:
        """Return a supervisor that can take a run, started if needed. Raises SupervisorFailed."""
        if self._needs_restart:
            await self.close()
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._note_survivors(self._process)
        self._last_words = None
        try:
            if self._folder is None:
                self._folder = make_runs_folder()
            options = json.dumps(self._options | {"folder": str(self._folder)})
            # In its own session, without our environment, which may hold secrets.
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-m", "harness.supervisor.server"),
                *(str(os.getpid()), options),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={"PATH": os.defpath, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
                limit=LINE_BYTES_MAX,
                pass_fds=self._options.get("device_lock", ()),
            )
        except OSError as error:
            raise SupervisorFailed(f"the supervisor cannot be started: {error}") from error
        self._last_words = asyncio.create_task(read_last_error(process))
        self._runs = 0
        assert process.stdout is not None
        try:
            async with asyncio.timeout(READY_S_MAX):
                if await process.stdout.readline() != f"{READY}\n".encode():
                    raise SupervisorFailed("the supervisor ended before it was ready")
        except TimeoutError as error:
            reason = f"the supervisor was not ready within {READY_S_MAX:.0f} s"
            raise SupervisorFailed(reason) from error
        return process

    async def evaluate(self, request: RunRequest, on_message: MessageHandler) -> RunReport:
        """Run one submission, awaiting `on_message` for each message on the way.

        Takes at most three times the stages' budgets, the budget of its preparation, and two
        minutes. Raises only the errors of `on_message`, and cancellation, once nothing of the run
        is left.
        """
        began = time.monotonic()
        if request.mode not in MODES:
            return failed_run("supervisor", f"unknown mode {request.mode!r}")
        async with self._lock:
            report = await self._send_request(request, on_message, READY_S_MAX + _EXTRA_S, began)
        assert isinstance(report, RunReport)
        return report

    async def self_test(self, device: str = "cpu", gpus: Sequence[int] = ()) -> str:
        """Run a known kernel as a submission; return why it did not pass, "" if it did.

        After a failure of the platform this shows whether the machine or the run was at fault.
        """
        with tempfile.TemporaryDirectory(prefix="warpboard-self-test-") as folder:
            paths = await asyncio.to_thread(_write_self_test, Path(folder))
            problem, kernel, out = map(str, paths)
            request = RunRequest(problem, kernel, "test", out, device=device, gpus=list(gpus))
            report = await self.evaluate(request, _ignore_message)
        return "" if report.verdict == "passed" else report.reason

    async def inspect(
        self, request: InspectRequest, on_message: MessageHandler = _ignore_message
    ) -> InspectReport:
        """Inspect a problem's own code, without a submission.

        Takes at most the request's limit, some calls of the author's code, and two minutes. Raises
        only cancellation, once nothing of it is left.
        """
        limit_s = request.limit_s + _CALLS_AFTER * request.call_s + BUILD_S_MAX + _EXTRA_S
        limit_s += DEVICE_WAIT_S_MAX if "device_lock" in self._options else 0.0
        async with self._lock:
            report = await self._send_request(request, on_message, limit_s, time.monotonic())
        assert isinstance(report, InspectReport)
        return report

    async def close(self) -> None:
        """End the supervisor and every process beneath it."""
        process, self._process = self._process, None
        self._needs_restart = False
        if process is not None:
            await asyncio.shield(asyncio.create_task(self._end(process)))
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def is_ready(self) -> bool:
        """Whether its supervisor can take a run now."""
        is_alive = self._process is not None and self._process.returncode is None
        return is_alive and not self._needs_restart

    @property
    def pid(self) -> int | None:
        """The supervisor's process, None if there is none."""
        return self._process.pid if self._process is not None else None

    @property
    def has_left(self) -> bool:
        """Whether a process of a run could not be killed, so that no run beside it is safe.

        The supervisor's exit status says so, never its report, which an author's code could forge.
        """
        self._note_survivors(self._process)
        return self._has_survivors

    def _note_survivors(self, process: Process | None) -> None:
        self._has_survivors |= process is not None and process.returncode == LEFT_BEHIND

    async def _end(self, process: Process) -> None:
        """End the supervisor: on SIGTERM it kills everything left of the run, then exits."""
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        self._note_survivors(process)

    async def _send_request(
        self, request: Request, on_message: MessageHandler, limit_s: float, began: float
    ) -> RunReport | InspectReport:
        limit, loop = asyncio.timeout(limit_s), asyncio.get_running_loop()
        sent_at = loop.time()

        def extend_limit(accepted: Accepted) -> None:
            """Give a run the time that its budgets allow, counted from the start as well."""
            nonlocal limit_s
            limit_s = accepted.budgets_s + _EXTRA_S
            limit.reschedule(sent_at + limit_s)

        process: Process | None = None
        report: RunReport | InspectReport | None = None
        reason = ""
        try:
            async with limit:
                process = await self._get_supervisor()
                report = await exchange_request(process, request, on_message, extend_limit)
        except SupervisorFailed as silent:
            reason = str(silent)
        except TimeoutError:
            if not limit.expired():
                raise
            reason = f"the supervisor took more than {limit_s:.0f} s"
        finally:
            self._runs += 1
            has_failed = bool(reason) or process is None
            is_doubtful = has_failed or (report is not None and report.failure_code in DOUBTFUL)
            # Ending it takes long, and somebody waits for the verdict.
            self._needs_restart = isinstance(report, RunReport) and report.has_left
            if is_doubtful or self._runs >= _RUNS_MAX:
                await self.close()
            elif report is None and process is not None:
                await self._cancel_run(process)
        if report is not None:
            return report
        last_words = await self._read_last_words()
        reason = f"{reason}: {last_words}" if last_words else reason
        return failed_request(request, "supervisor", reason, time.monotonic() - began)

    async def _cancel_run(self, process: Process) -> None:
        """End the current run; also the supervisor, unless it confirms that nothing is left."""
        is_cancelled = False
        try:
            is_cancelled = await cancel_run(process)
        finally:
            if not is_cancelled:
                await self.close()

    async def _read_last_words(self) -> str:
        """Return its last error line; a surviving process may keep the stream open for ever."""
        if self._last_words is None:
            return ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                return await self._last_words
        return ""


async def evaluate(
    request: RunRequest, on_message: MessageHandler, options: Mapping[str, Any] = {}
) -> RunReport:
    """Run one submission with a harness of its own, of which nothing is left afterwards."""
    async with Harness(**options) as harness:
        return await harness.evaluate(request, on_message)


def _write_self_test(folder: Path) -> tuple[Path, Path, Path]:
    """Write the problem to a folder. Return the problem, the kernel and an empty output folder."""
    problem, kernel, out = folder / "problem", folder / "kernel.py", folder / "out"
    problem.mkdir()
    out.mkdir()
    kernel.write_text(_SELF_TEST_KERNEL)
    (problem / "reference.py").write_text(_SELF_TEST_REFERENCE)
    size = _SELF_TEST_SIZE
    manifest = {
        "slug": "self-test",
        "lang": "py",
        "files": {"reference.py": hashlib.sha256(_SELF_TEST_REFERENCE.encode()).hexdigest()},
        "submission": "submission.py",
        "tests": [{"name": f"size={size}", "args": {"size": size, "seed": 1}}],
        "benchmarks": [{"name": f"size={size}", "args": {"size": size, "seed": 2}}],
        "ranking_by": "last",
        "budgets_s": dict.fromkeys(("build", "test", "benchmark", "ranked"), _SELF_TEST_BUDGET_S),
    }
    (problem / "manifest.json").write_text(json.dumps(manifest))
    return problem, kernel, out
