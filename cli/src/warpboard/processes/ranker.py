"""Commands of the platform's own ranker: run as its service is, or beside its servers alone."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from shared.errors import Failed, Refused
from warpboard.processes.platform import Platform
from warpboard.processes.services import Place, Service, local_services
from warpboard.processes.state import describe
from warpboard.processes.supervision import supervise

COMMAND_S_MAX = 3600.0
END_S_MAX = 10.0
LAST_WORDS = 500
# What the command itself says: the request cannot be done as it is.
REFUSED = 2


class Said(NamedTuple):
    """What a command answered, and its exit code: 0 is well, 1 is that something differs."""

    code: int
    answer: dict[str, Any]


async def running(folder: Path, *arguments: str, within_s: float = COMMAND_S_MAX) -> Said:
    """A command beside the platform that runs in a folder. Errors: Refused; Failed."""
    pid = _ranker(folder)
    if pid is None:
        raise Failed(f"no platform runs in {folder}: start it with warpboard up")
    return await alone(_environ(pid), *arguments, within_s=within_s)


async def stopped(folder: Path, environ: Mapping[str, str], *arguments: str) -> Said:
    """A command beside a folder's servers, which run for as long as it does, without services.

    Errors: Refused while the platform runs there; InUse; Failed.
    """
    if _ranker(folder) is not None:
        raise Refused("platform_runs", f"a platform runs in {folder}: stop it with warpboard down")
    places: list[Place] = []
    said: list[Said] = []

    def servers_alone(place: Place) -> Sequence[Service]:
        places.append(place)
        return ()

    async def work(_: Platform) -> None:
        (place,) = places
        told = next(one.environ for one in local_services(place) if one.name == "ranker")
        said.append(await alone({**environ, **told}, *arguments))

    number = await supervise(Platform(folder, environ, table=servers_alone), work)
    if number is not None:
        # All is stopped: the signal ends this process as it would have without us.
        signal.raise_signal(number)
        raise Failed(f"ended by {number.name}")
    return said[0]


async def either(folder: Path, environ: Mapping[str, str], *arguments: str) -> Said:
    """A command beside the platform if it runs, beside its servers if it does not."""
    if _ranker(folder) is not None:
        return await running(folder, *arguments)
    return await stopped(folder, environ, *arguments)


async def alone(
    environ: Mapping[str, str], *arguments: str, within_s: float = COMMAND_S_MAX
) -> Said:
    """A command that is told where everything is, or needs no server. Errors: Refused; Failed."""
    process = await asyncio.create_subprocess_exec(
        # -P: a folder here that has the name of a module must not stand in for it.
        *(sys.executable, "-P", "-m", "ranker", *arguments),
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(within_s):
            out, err = await process.communicate()
    except TimeoutError as late:
        raise Failed(f"{arguments[0]} was not over after {within_s:.0f} s") from late
    finally:
        await _end(process)
    assert process.returncode is not None, "it was waited for"
    return _said(process.returncode, out, err.decode(errors="replace").strip())


def _ranker(folder: Path) -> int | None:
    """The process of the folder's ranker, if it runs."""
    rows = (row for row in describe(folder) if row.name == "ranker")
    return next((row.pid for row in rows), None)


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


def _said(code: int, out: bytes, words: str) -> Said:
    if code == REFUSED:
        raise Refused("ranker_refused", words[-LAST_WORDS:])
    try:
        answer = json.loads(out.decode().strip().rpartition("\n")[2])
    except ValueError as error:
        why = words[-LAST_WORDS:] or "it said nothing"
        raise Failed(f"the ranker's command did not end: {why}") from error
    if not isinstance(answer, dict):
        raise Failed(f"the ranker's command said something else: {str(answer)[:LAST_WORDS]}")
    return Said(code, answer)
