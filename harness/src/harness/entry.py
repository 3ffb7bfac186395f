"""The public entry: requests in, reports out, from a supervisor that stays warm between them."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

from harness.devices import cpu
from harness.devices.device import DeviceFault
from harness.messages import (
    CLASSES,
    FAILURE_CODES,
    LAUNCHERS,
    LEVELS,
    LINE_BYTES_MAX,
    MODES,
    STAGES,
    VERDICTS,
    VERSION,
    Artefact,
    CaseReport,
    Mismatch,
    Progress,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
    failed,
    from_line,
    to_line,
)
from harness.problem import ProblemFault, load
from harness.sandbox.probe import Isolation, probe
from harness.supervisor.look import Seen, look
from harness.timing.policy import PROCESSES
from harness.toolchains import probe as installed
from harness.toolchains.command import BUILD_S_MAX

__all__ = [
    "CLASSES",
    "FAILURE_CODES",
    "LAUNCHERS",
    "LEVELS",
    "MODES",
    "VERDICTS",
    "VERSION",
    "Artefact",
    "CaseReport",
    "DeviceFault",
    "Harness",
    "Isolation",
    "Mismatch",
    "Progress",
    "RunReport",
    "RunRequest",
    "Seen",
    "StageFinished",
    "Started",
    "environment",
    "evaluate",
    "isolation",
    "look",
    "toolchains",
]

Told = Callable[[Started | Progress | StageFinished], Awaitable[None]]

_MARGIN_S = 120.0
_END_S = 15.0
_MESSAGES_MAX = 10_000
_LAST_WORDS_BYTES = 2000

# A supervisor that ran so many submissions is replaced, as is one after a failure of its own.
_RUNS_MAX = 500
_PLATFORM_SHARE = 3
_PREFIX = "warpboard-"
_DOUBTFUL = ("supervisor", "sandbox", "device")


def environment() -> dict[str, str]:
    """What results should say about this machine: python, torch, cpu, cores, platform."""
    return cpu.describe()


def isolation() -> Isolation:
    """What this machine can confine a worker by; tries every part, which takes a second."""
    return probe()


def toolchains() -> dict[str, str]:
    """What can compile and profile here, by name, each with its version; asks each program."""
    return installed.probe()


class Harness:
    """Runs submissions one after the other; the supervisor is started by the first that comes.

    It is to be used in one thread that outlives it, since the supervisor ends with that thread.
    `options` are the supervisor's: `launcher` (one of LAUNCHERS), `level` (at most this one of
    LEVELS, which otherwise is what the machine can give), `state` (a folder for
    what this machine remembers: how fast it usually is, and what was compiled).
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._folder: Path | None = None
        self._process: Process | None = None
        self._last_words: asyncio.Task[str] | None = None
        self._runs = 0
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def warm(self) -> None:
        """Starts the supervisor, so that the first run does not wait for its imports."""
        if self._process is None or self._process.returncode is not None:
            if self._folder is None:
                self._folder = _folder()
            options = self._options | {"folder": str(self._folder)}
            self._last_words = None
            self._process = await _start(options)
            self._last_words = asyncio.create_task(_last_words(self._process))
            self._runs = 0

    async def evaluate(self, request: RunRequest, told: Told) -> RunReport:
        """Runs one submission, awaiting `told` for each message on the way.

        Units: at most the sum of the stages' budgets, those of its imports and a compiler's, and
        two minutes.
        Errors: those of `told`, and cancellation, once nothing of the run is left; no others.
        """
        began = time.monotonic()
        if request.mode not in MODES:
            return failed("supervisor", f"there is no mode {request.mode!r}")
        try:
            limit_s = _limit_s(request)
        except ProblemFault as fault:
            return failed("problem_fault", str(fault))
        async with self._turn:
            return await self._evaluate(request, told, limit_s, began)

    async def close(self) -> None:
        """Ends the supervisor and all beneath it."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.shield(asyncio.create_task(_end(process)))
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def _evaluate(
        self, request: RunRequest, told: Told, limit_s: float, began: float
    ) -> RunReport:
        limit = asyncio.timeout(limit_s)
        report: RunReport | None = None
        reason = ""
        try:
            async with limit:
                report = await _listen(await self._ready(), request, told)
        except _Silent as silent:
            reason = str(silent)
        except TimeoutError:
            if not limit.expired():
                raise
            reason = f"the supervisor took more than {limit_s:.0f} s"
        finally:
            self._runs += 1
            is_doubtful = report is None or report.failure_code in _DOUBTFUL
            if is_doubtful or self._runs >= _RUNS_MAX:
                await self.close()
        if report is not None:
            return report
        said = await self._said()
        return failed("supervisor", f"{reason}: {said}" if said else reason, _since(began))

    async def _ready(self) -> Process:
        """The supervisor, started if need be. Errors: _Silent, where that is not possible."""
        try:
            await self.warm()
        except OSError as error:
            raise _Silent(f"the supervisor cannot be started: {error}") from error
        assert self._process is not None
        return self._process

    async def _said(self) -> str:
        """Its last words, as far as it left any: who will not die may keep them open for ever."""
        if self._last_words is None:
            return ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                return await self._last_words
        return ""


async def evaluate(request: RunRequest, told: Told, options: Mapping[str, Any] = {}) -> RunReport:
    """One run by a harness of its own, of which nothing is left afterwards."""
    async with Harness(**options) as harness:
        return await harness.evaluate(request, told)


class _Silent(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The supervisor ended, or said what it never says."""


def _folder() -> Path:
    """Where runs are laid out; those of processes that are no more are removed on the way."""
    place = Path(tempfile.gettempdir())
    for old in place.glob(f"{_PREFIX}*-*"):
        pid = old.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    folder.chmod(0o711)
    return folder


def _since(began: float) -> float:
    return time.monotonic() - began


def _limit_s(request: RunRequest) -> float:
    problem = load(Path(request.problem))
    stages = STAGES[request.mode]
    budgets_s = sum(problem.budget_s(stage, request.mode) for stage in stages)
    # What is timed imports anew in every process, and may take its budget each time.
    imports_s = PROCESSES[request.mode] * problem.budget_s("build", request.mode)
    # A budget is the submission's own time: what the platform does between is bounded by this.
    return _PLATFORM_SHARE * budgets_s + imports_s + BUILD_S_MAX + _MARGIN_S


async def _start(options: Mapping[str, Any]) -> Process:
    """A supervisor in a session of its own, without our environment, for it may hold secrets."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        "harness.supervisor",
        str(os.getpid()),
        json.dumps(options),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        limit=LINE_BYTES_MAX,
    )


async def _listen(process: Process, request: RunRequest, told: Told) -> RunReport:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError, RuntimeError):  # of a closed pipe, libuv's loop
        process.stdin.write(to_line(request).encode())
        await process.stdin.drain()
    for _ in range(_MESSAGES_MAX):
        try:
            line = await process.stdout.readline()
            message = from_line(line.decode()) if line else None
        except ValueError as error:
            raise _Silent(str(error)) from error
        if message is None:
            raise _Silent("the supervisor ended without a report")
        if isinstance(message, RunReport):
            return message
        await told(message)
    raise _Silent("the supervisor said too much")


async def _last_words(process: Process) -> str:
    """The end of what the supervisor wrote to its standard error: its traceback, if it died."""
    assert process.stderr is not None
    kept = b""
    while chunk := await process.stderr.read(_LAST_WORDS_BYTES):
        kept = (kept + chunk)[-_LAST_WORDS_BYTES:]
    return kept.decode(errors="replace").strip().rpartition("\n")[2]


async def _end(process: Process) -> None:
    """SIGTERM makes the supervisor kill all that is left of the run, and it ends after that."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
