"""The supervisor as a process: started, asked, listened to, ended."""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from harness.inspection import InspectReport
from harness.messages import (
    LINE_BYTES_MAX,
    READY,
    Message,
    Progress,
    Request,
    RunReport,
    StageFinished,
    Started,
    from_line,
    to_line,
)

Told = Callable[[Started | Progress | StageFinished], Awaitable[None]]

# What it imports may come from a slow disk, beside others.
READY_S_MAX = 300.0
# More than twice what the supervisor waits for processes that do not die.
END_S = 120.0
_MESSAGES_MAX = 10_000
_LAST_WORDS_BYTES = 2000
_PREFIX = "warpboard-"


class Silent(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The supervisor ended, or said what it never says."""


def folder() -> Path:
    """Where runs are laid out; those of processes that are no more are removed on the way."""
    place = Path(tempfile.gettempdir())
    for old in place.glob(f"{_PREFIX}*-*"):
        pid = old.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(old, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    made.chmod(0o711)
    return made


async def start(options: Mapping[str, Any]) -> Process:
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


async def ready(process: Process) -> None:
    """Wait for its first line, which it says when it can take a run. Errors: Silent."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_S_MAX):
            if await process.stdout.readline() != f"{READY}\n".encode():
                raise Silent("the supervisor ended before it was ready")
    except TimeoutError as error:
        raise Silent(f"the supervisor was not ready within {READY_S_MAX:.0f} s") from error


async def listen(process: Process, request: Request, told: Told) -> RunReport | InspectReport:
    """The report that a request ends with. Errors: Silent; those of `told`."""
    assert process.stdin is not None
    assert process.stdout is not None
    token = secrets.token_hex(8)
    with contextlib.suppress(ConnectionError, RuntimeError):  # of a closed pipe, libuv's loop
        process.stdin.write(f"{token} {to_line(request)}".encode())
        await process.stdin.drain()
    started = 0
    for _ in range(_MESSAGES_MAX):
        message = await _next(process.stdout, token)
        if isinstance(message, RunReport | InspectReport):
            return message
        started += isinstance(message, Started)
        # How it begins a run says before it meets the author's code, which could only say it again.
        is_again = isinstance(message, Started) and started > 1
        if message is not None and not is_again:
            await told(message)
    raise Silent("the supervisor said too much")


async def _next(said: asyncio.StreamReader, token: str) -> Message | None:
    """The next line; None if it is of no run, or of another. Errors: Silent."""
    try:
        line = (await said.readline()).decode()
        if not line:
            raise Silent("the supervisor ended without a report")
        whose, _, text = line.partition(" ")
        # An author's code may write here, and is to be heard in no other run.
        return from_line(text) if whose == token else None
    except ValueError as error:
        raise Silent(str(error)) from error


async def last_words(process: Process) -> str:
    """The end of what the supervisor wrote to its standard error: its traceback, if it died."""
    assert process.stderr is not None
    kept = b""
    while chunk := await process.stderr.read(_LAST_WORDS_BYTES):
        kept = (kept + chunk)[-_LAST_WORDS_BYTES:]
    return kept.decode(errors="replace").strip().rpartition("\n")[2]


async def end(process: Process) -> None:
    """SIGTERM makes the supervisor kill all that is left of the run, and it ends after that."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
