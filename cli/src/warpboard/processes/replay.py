"""The read models folded anew beside a running platform's own, by the ranker's own command."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from shared.errors import Failed
from warpboard.processes.state import describe

REBUILD_S_MAX = 300.0
END_S_MAX = 10.0
LAST_WORDS = 500


async def rebuild(folder: Path) -> dict[str, Any]:
    """What `ranker rebuild` says, run as the platform's ranker is. Errors: Failed."""
    environ = _environ(_ranker(folder))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ranker", "rebuild"),
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(REBUILD_S_MAX):
            out, err = await process.communicate()
    except TimeoutError as late:
        raise Failed(f"the rebuild was not over after {REBUILD_S_MAX:.0f} s") from late
    finally:
        await _end(process)
    return _said(out, err)


def _ranker(folder: Path) -> int:
    """The process of the folder's ranker."""
    for row in describe(folder):
        if row.name == "ranker" and row.pid is not None:
            return row.pid
    raise Failed(f"no platform runs in {folder}: start it with warpboard up")


def _environ(pid: int) -> dict[str, str]:
    """What a process was told at its start: where the servers are, with their passwords."""
    try:
        said = Path(f"/proc/{pid}/environ").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise Failed(f"what ranker was told at its start cannot be read: {error}") from error
    return dict(line.split("=", 1) for line in said.split("\0") if "=" in line)


async def _end(process: Process) -> None:
    """SIGINT lets it drop what it made; whatever stays is killed."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_S_MAX)


def _said(out: bytes, err: bytes) -> dict[str, Any]:
    try:
        said = json.loads(out.decode().strip().rpartition("\n")[2])
    except ValueError as error:
        words = err.decode(errors="replace").strip()[-LAST_WORDS:]
        raise Failed(f"the rebuild did not end: {words or 'it said nothing'}") from error
    if not isinstance(said, dict) or "is_equal" not in said:
        raise Failed(f"the rebuild said something else: {str(said)[:LAST_WORDS]}")
    return said
