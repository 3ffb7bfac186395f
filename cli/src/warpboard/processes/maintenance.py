"""Runs the ranker's commands beside a platform on this machine, or beside its servers."""

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from shared.api.fields import JsonObject
from shared.errors import Failed, Refused
from shared.servers.postgresql import Postgres
from warpboard.processes.platform import Platform, supervise
from warpboard.processes.services import PlatformConfig, Service, describe, local_services

COMMAND_S_MAX = 3600.0
END_S_MAX = 10.0
ERROR_CHARS_MAX = 500
LINE_BYTES_MAX = 1024 * 1024
# The exit code of a command that refuses the request.
REFUSED = 2
# -P: a folder here with the name of a module must not be imported instead.
RANKER = ("-P", "-m", "ranker")
RANKER_CREDENTIALS = "WARPBOARD_RANKER_NATS_CREDENTIALS"
PROGRESS = re.compile(r"progress: (.+), (\d+) of (\d+)$")
# The roles of Postgres that a command has instead of ranker's.
ROLES = {"export": "backup", "import": "owner"}
# Called with a step, and how much of it is done, of how much.
ShowStep = Callable[[str, int, int], None]


async def run_beside_platform(
    folder: Path, *arguments: str, show: ShowStep | None = None
) -> JsonObject:
    """Run a command beside the platform of a folder. Raises Refused and Failed."""
    pid = _find_ranker(folder)
    if pid is None:
        raise Failed(f"no platform runs in {folder}: start it with warpboard up")
    environ = {**_read_environ(pid), **_role_environ(folder, arguments[0])}
    return await run_alone(environ, *arguments, show=show)


async def run_beside_servers(
    folder: Path, environ: Mapping[str, str], *arguments: str, show: ShowStep | None = None
) -> JsonObject:
    """Run a command beside a folder's servers, which are started for it without services.

    Raises Refused while the platform runs there, InUse and Failed.
    """
    if _find_ranker(folder) is not None:
        raise Refused("platform_runs", f"a platform runs in {folder}: stop it with warpboard down")
    ranker_environ: dict[str, str] = {}
    results: list[JsonObject] = []

    def servers_alone(config: PlatformConfig) -> Sequence[Service]:
        for service in local_services(config):
            if service.name == "ranker":
                ranker_environ.update(_as_maintenance(service.environ))
        ranker_environ.update(_role_environ(folder, arguments[0]))
        return ()

    async def work(_: Platform) -> None:
        results.append(await run_alone({**environ, **ranker_environ}, *arguments, show=show))

    number = await supervise(Platform(folder, environ, table=servers_alone), work)
    if number is not None:
        # Everything is stopped; the signal now ends this process as usual.
        signal.raise_signal(number)
        raise Failed(f"ended by {number.name}")
    return results[0]


async def run_in_folder(
    folder: Path, environ: Mapping[str, str], *arguments: str, show: ShowStep | None = None
) -> JsonObject:
    """Run a command beside the platform if it runs, else beside its servers."""
    if _find_ranker(folder) is not None:
        return await run_beside_platform(folder, *arguments, show=show)
    return await run_beside_servers(folder, environ, *arguments, show=show)


async def run_alone(
    environ: Mapping[str, str],
    *arguments: str,
    show: ShowStep | None = None,
    within_s: float = COMMAND_S_MAX,
) -> JsonObject:
    """Run a command whose environment names the servers, or that needs none.

    `show` is called with each step and how much of it is done. Raises Refused and Failed.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *RANKER, *["--progress"] * (show is not None), *arguments),
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
        limit=LINE_BYTES_MAX,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(within_s):
            out, errors, _ = await asyncio.gather(
                process.stdout.read(), _read_errors(process.stderr, show), process.wait()
            )
    except TimeoutError as late:
        raise Failed(f"{arguments[0]} was not over after {within_s:.0f} s") from late
    finally:
        await _end_process(process)
    if process.returncode == REFUSED:
        raise Refused("ranker_refused", errors)
    try:
        answer = json.loads(out.decode().strip().rpartition("\n")[2])
    except ValueError as error:
        reason = errors or "it printed nothing"
        raise Failed(f"the ranker's command gave no answer: {reason}") from error
    if not isinstance(answer, dict):
        text = str(answer)[:ERROR_CHARS_MAX]
        raise Failed(f"expected a JSON object from the ranker's command, got {text}")
    return answer


async def _read_errors(stream: asyncio.StreamReader, show: ShowStep | None) -> str:
    """Return the end of what the command writes, without its progress, which is shown."""
    errors = ""
    async for line in stream:
        text = line.decode(errors="replace")
        if show is not None and (progress := PROGRESS.match(text)):
            show(progress[1], int(progress[2]), int(progress[3]))
        else:
            errors = (errors + text)[-ERROR_CHARS_MAX:]
    return errors.strip()


def _role_environ(folder: Path, command: str) -> dict[str, str]:
    """Return the setting of a command that reads or writes tables which ranker's role may not."""
    if command not in ROLES:
        return {}
    dsn = Postgres(folder.absolute() / "postgres").dsn_of(ROLES[command])
    return {"WARPBOARD_RANKER_POSTGRES_DSN": dsn}


def _find_ranker(folder: Path) -> int | None:
    return next((row.pid for row in describe(folder) if row.name == "ranker"), None)


def _read_environ(pid: int) -> dict[str, str]:
    """Return the environment of a process, which names the servers and their passwords."""
    try:
        environ_text = Path(f"/proc/{pid}/environ").read_text(
            encoding="utf-8", errors="surrogateescape"
        )
    except OSError as error:
        raise Failed(f"the environment of the ranker cannot be read: {error}") from error
    environ = dict(line.split("=", 1) for line in environ_text.split("\0") if "=" in line)
    return _as_maintenance(environ)


def _as_maintenance(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment of the ranker with the user of the bus that may repair and remove."""
    own = Path(environ[RANKER_CREDENTIALS])
    return {**environ, RANKER_CREDENTIALS: str(own.with_name("maintenance.creds"))}


async def _end_process(process: Process) -> None:
    """Interrupt the command, so that it removes what it made; kill it if it stays."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S_MAX):
                await process.wait()
