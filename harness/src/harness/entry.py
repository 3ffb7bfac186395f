"""The public entry: a request in, a report out, and nothing left running."""

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from pathlib import Path

from harness.devices.cpu import Cpu
from harness.messages import (
    FAILURE_CODES,
    LEVEL,
    LINE_BYTES_MAX,
    MODES,
    STAGES,
    VERDICTS,
    VERSION,
    CaseReport,
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

__all__ = [
    "FAILURE_CODES",
    "LEVEL",
    "MODES",
    "VERDICTS",
    "VERSION",
    "CaseReport",
    "Progress",
    "RunReport",
    "RunRequest",
    "StageFinished",
    "Started",
    "environment",
    "evaluate",
]

Told = Callable[[Started | Progress | StageFinished], Awaitable[None]]

_MARGIN_S = 60.0
_END_S = 15.0
_MESSAGES_MAX = 10_000
_LAST_WORDS_BYTES = 2000


def environment() -> dict[str, str]:
    """What results should say about this machine: python, torch, cpu, cores, platform."""
    return Cpu().describe()


async def evaluate(request: RunRequest, told: Told) -> RunReport:
    """Runs one submission, awaiting `told` for each message on the way.

    It is to be awaited in a thread that outlives the run, since the supervisor ends with it.
    Units: at most the sum of the stages' budgets and a minute.
    Errors: those of `told`, and cancellation, once nothing of the run is left; no others.
    """
    began = time.monotonic()
    try:
        limit_s = _limit_s(request)
    except ProblemFault as fault:
        return failed("problem_fault", str(fault))
    process = await _start()
    last_words = asyncio.create_task(_last_words(process))
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            return await _listen(process, request, told)
    except _Silent as silent:
        reason = str(silent)
    except TimeoutError:
        if not limit.expired():
            raise
        reason = f"the supervisor took more than {limit_s:.0f} s"
    finally:
        await asyncio.shield(asyncio.create_task(_end(process, last_words)))
    said = last_words.result()
    return failed("supervisor", f"{reason}: {said}" if said else reason, time.monotonic() - began)


class _Silent(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The supervisor ended, or said what it never says."""


def _limit_s(request: RunRequest) -> float:
    problem = load(Path(request.problem))
    stages = STAGES[request.mode]
    return sum(problem.budget_s(stage, request.mode) for stage in stages) + _MARGIN_S


async def _start() -> Process:
    """A supervisor in a session of its own, without our environment, for it may hold secrets."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        "harness.supervisor",
        str(os.getpid()),
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
    with contextlib.suppress(ConnectionError):
        process.stdin.write(to_line(request).encode())
        await process.stdin.drain()
    process.stdin.close()
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


async def _end(process: Process, last_words: asyncio.Task[str]) -> None:
    """SIGTERM makes the keeper kill all that is left of the run, and it ends after that."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
            await last_words
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        last_words.cancel()
        await process.wait()
