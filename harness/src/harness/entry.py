"""The public entry: requests in, reports out, from a supervisor that stays warm between them."""

import asyncio
import contextlib
import itertools
import shutil
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from harness import self_test, supervised
from harness.code import packed
from harness.devices import cpu
from harness.devices.device import DeviceFault
from harness.inspection import Finding, InspectReport, InspectRequest
from harness.messages import (
    CLASSES,
    DUEL,
    FAILURE_CODES,
    LAUNCHERS,
    LEFT_BEHIND,
    LEVELS,
    MODES,
    STAGES,
    VERDICTS,
    VERSION,
    Artefact,
    CaseReport,
    DuelReport,
    Mismatch,
    Progress,
    Request,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
    failed,
    unanswered,
)
from harness.problem import Problem, ProblemFault, load
from harness.sandbox import host_memory
from harness.sandbox.probe import Isolation, probe
from harness.sandbox.spec import Limits
from harness.supervised import Silent, Told
from harness.supervisor.look import Seen, look
from harness.supervisor.outfit import GPU_LIMITS
from harness.timing.policy import processes_max
from harness.toolchains import probe as installed
from harness.toolchains.command import BUILD_S_MAX

__all__ = [
    "CLASSES",
    "DOUBTFUL",
    "DUEL",
    "FAILURE_CODES",
    "LAUNCHERS",
    "LEVELS",
    "MODES",
    "VERDICTS",
    "VERSION",
    "Artefact",
    "CaseReport",
    "DeviceFault",
    "DuelReport",
    "Finding",
    "Harness",
    "InspectReport",
    "InspectRequest",
    "Isolation",
    "Mismatch",
    "Progress",
    "RunReport",
    "RunRequest",
    "Seen",
    "Silent",
    "StageFinished",
    "Started",
    "Told",
    "code",
    "environment",
    "evaluate",
    "isolation",
    "look",
    "memory_bytes",
    "sandbox_bytes_max",
    "toolchains",
]

_MARGIN_S = 120.0
# An inspection that is over its limit still ends the case that it is at.
_CALLS_AFTER = 30

# A supervisor that ran so many submissions is replaced, as is one after a failure of its own.
_RUNS_MAX = 500
_PLATFORM_SHARE = 3
# After these the supervisor is replaced, and a self-test tells whether the machine is at fault.
DOUBTFUL = ("supervisor", "sandbox", "device")


def environment() -> dict[str, str]:
    """What results should say about this machine: harness code, python, torch, cpu, platform."""
    return cpu.describe()


def code() -> bytes:
    """The harness code as a zip: the exact files that run here, and by their SHA-256 their name."""
    return packed()


def isolation() -> Isolation:
    """What this machine can confine a worker by; tries every part, which takes a second."""
    return probe()


def toolchains() -> dict[str, str]:
    """What can compile and profile here, by name, each with its version; asks each program."""
    return installed.probe()


def memory_bytes() -> int:
    """The memory of this machine, or of the control group that we are in if that is less."""
    return host_memory.total_bytes()


def sandbox_bytes_max(device: str) -> int:
    """The most memory of this machine that an author can have submissions use, one rank each."""
    usual = Limits() if device == "cpu" else GPU_LIMITS
    return max(usual.memory_bytes, host_memory.sandbox_bytes_max())


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
        self._needs_restart = False
        self._turn = asyncio.Lock()
        self._has_left = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def warm(self) -> None:
        """Starts the supervisor, if none runs, and waits until it can take a run.

        Errors: Silent, where it cannot be started; the next run will try again, and report it.
        """
        async with self._turn:
            try:
                await self._ready()
            except Silent:
                await self.close()
                raise

    async def _ready(self) -> Process:
        """The supervisor, started if none runs, once it can take a run. Errors: Silent."""
        if self._needs_restart:
            await self.close()
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._look(self._process)
        self._last_words = None
        try:
            if self._folder is None:
                self._folder = supervised.folder()
            options = self._options | {"folder": str(self._folder)}
            self._process = await supervised.start(options)
        except OSError as error:
            raise Silent(f"the supervisor cannot be started: {error}") from error
        self._last_words = asyncio.create_task(supervised.last_words(self._process))
        self._runs = 0
        await supervised.ready(self._process)
        return self._process

    async def evaluate(self, request: RunRequest, told: Told) -> RunReport:
        """Runs one submission, awaiting `told` for each message on the way.

        Units: at most the sum of the stages' budgets, those of its imports and a compiler's, and
        two minutes.
        Errors: those of `told`, and cancellation, once nothing of the run is left; no others.
        """
        began = time.monotonic()
        if request.mode not in STAGES:
            return failed("supervisor", f"there is no mode {request.mode!r}")
        try:
            limit_s = _limit_s(request)
        except ProblemFault as fault:
            return failed("problem_fault", str(fault))
        async with self._turn:
            report = await self._asked(request, told, limit_s, began)
        assert isinstance(report, RunReport)
        return report

    async def self_test(self, device: str = "cpu", gpus: Sequence[int] = ()) -> str:
        """Run a known kernel as a submission; why it did not pass, "" if it did.

        After a failure of the platform this tells whether the machine or the run was at fault.
        """
        with tempfile.TemporaryDirectory(prefix="warpboard-self-test-") as folder:
            problem, kernel, out = await asyncio.to_thread(self_test.prepare, Path(folder))
            request = RunRequest(
                str(problem), str(kernel), "test", str(out), device=device, gpus=list(gpus)
            )
            report = await self.evaluate(request, _unheard)
        return "" if report.verdict == "passed" else report.reason

    async def inspect(self, request: InspectRequest) -> InspectReport:
        """Looks at a problem's own code, with no submission.

        Units: at most the request's limit, some calls of the author's code, and two minutes.
        Errors: cancellation, once nothing of it is left; no others.
        """
        limit_s = request.limit_s + _CALLS_AFTER * request.call_s + BUILD_S_MAX + _MARGIN_S
        async with self._turn:
            report = await self._asked(request, _unheard, limit_s, time.monotonic())
        assert isinstance(report, InspectReport)
        return report

    async def close(self) -> None:
        """Ends the supervisor and all beneath it."""
        process, self._process = self._process, None
        self._needs_restart = False
        if process is not None:
            await asyncio.shield(asyncio.create_task(self._end(process)))
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def has_left(self) -> bool:
        """Whether something of a run would not die: nobody is safe beside it.

        The supervisor's end says so, never its report, which an author's code could have made up.
        """
        self._look(self._process)
        return self._has_left

    def _look(self, process: Process | None) -> None:
        self._has_left |= process is not None and process.returncode == LEFT_BEHIND

    async def _end(self, process: Process) -> None:
        await supervised.end(process)
        self._look(process)

    async def _asked(
        self, request: Request, told: Told, limit_s: float, began: float
    ) -> RunReport | InspectReport:
        limit = asyncio.timeout(limit_s)
        report: RunReport | InspectReport | None = None
        reason = ""
        try:
            async with limit:
                report = await supervised.listen(await self._ready(), request, told)
        except Silent as silent:
            reason = str(silent)
        except TimeoutError:
            if not limit.expired():
                raise
            reason = f"the supervisor took more than {limit_s:.0f} s"
        finally:
            self._runs += 1
            is_doubtful = report is None or report.failure_code in DOUBTFUL
            # Its end takes long, and somebody waits for the verdict.
            self._needs_restart = isinstance(report, RunReport) and report.has_left
            if is_doubtful or self._runs >= _RUNS_MAX:
                await self.close()
        if report is not None:
            return report
        said = await self._said()
        reason = f"{reason}: {said}" if said else reason
        return unanswered(request, "supervisor", reason, _since(began))

    async def _said(self) -> str:
        """Its last words, as far as it left any: who will not die may keep them open for ever."""
        if self._last_words is None:
            return ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(supervised.END_S):
                return await self._last_words
        return ""


async def _unheard(_: object) -> None:
    """An inspection says nothing on the way, and nobody waits for news of a self-test."""


async def evaluate(request: RunRequest, told: Told, options: Mapping[str, Any] = {}) -> RunReport:
    """One run by a harness of its own, of which nothing is left afterwards."""
    async with Harness(**options) as harness:
        return await harness.evaluate(request, told)


def _since(began: float) -> float:
    return time.monotonic() - began


def _limit_s(request: RunRequest) -> float:
    problem = load(Path(request.problem))
    problem.cases("profile", request.mode, request.case)
    stages = STAGES[request.mode]
    sides = 2 if request.mode == DUEL else 1
    budgets_s = sides * sum(problem.budget_s(stage, request.mode) for stage in stages)
    # Every team imports anew, and may take the budget of that each time.
    imports_s = sides * _teams(problem, request.mode) * problem.budget_s("build", request.mode)
    # So may the warm-up call of every shape that is new to a process.
    warm_ups_s = sides * _warm_ups(problem, request.mode) * problem.budget_s("build", request.mode)
    builds_s = imports_s + warm_ups_s + sides * BUILD_S_MAX
    # A budget is the submission's own time: what the platform does between is bounded by this.
    return _PLATFORM_SHARE * budgets_s + builds_s + _MARGIN_S


def _warm_ups(problem: Problem, mode: str) -> int:
    """How many warm-up calls a run makes at most."""
    return sum(
        problem.warm_ups_max(stage, mode) * (processes_max(mode) if stage in ("time", DUEL) else 1)
        for stage in STAGES[mode]
    )


def _teams(problem: Problem, mode: str) -> int:
    """How many teams a run starts at most: for each process that times, and for other ranks."""
    processes, count = processes_max(mode), 0
    for stage in STAGES[mode]:
        cases = problem.cases(stage, mode)
        turns = len([*itertools.groupby(case.ranks for case in cases)]) if stage != "build" else 0
        count += turns * (processes if stage in ("time", DUEL) else 1)
    return count
