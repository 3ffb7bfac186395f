"""Maintenance of a folder's log by the ranker's commands, beside a platform or its servers."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Failed, Refused
from shared.presentation.responses import JsonObject
from warpboard.processes.platform import Platform, supervise
from warpboard.processes.services import PlatformConfig, Service, local_services
from warpboard.processes.state import describe
from warpboard.service.machine import AuditOptions, RepairOptions, ReplayOptions

COMMAND_S_MAX = 3600.0
END_S_MAX = 10.0
ERROR_CHARS_MAX = 500
# The exit code of a command that refuses the request.
REFUSED = 2


@dataclass(frozen=True)
class LocalLogMaintenance:
    """Maintenance of platforms on this machine, with this process's environment."""

    environ: Mapping[str, str]

    async def replay(self, folder: Path, options: ReplayOptions) -> JsonObject:
        """Compare a rebuilt projection with the live one. Raises Refused and Failed."""
        arguments = ["--projection", options.projection, "--source", options.source]
        arguments += ["--file", str(options.file)] if options.file is not None else []
        arguments += ["--switch"] if options.is_switched else []
        return await run_beside_platform(folder, "replay", *arguments)

    async def audit(self, folder: Path, options: AuditOptions) -> JsonObject:
        """Audit a leaderboard. Raises Refused and Failed."""
        arguments = _audit_arguments(options)
        if options.file is not None:
            return await run_alone(self.environ, *arguments)
        return await run_in_folder(folder, self.environ, *arguments)

    async def export(self, folder: Path, file: Path, left_out: Collection[str]) -> JsonObject:
        """Write a backup, whether the platform runs or not. Raises as audit does."""
        arguments = ["export", str(file), *(f"--without-{part}" for part in left_out)]
        return await run_in_folder(folder, self.environ, *arguments)

    async def import_(
        self, folder: Path, file: Path, actor: str, *, is_incomplete_allowed: bool
    ) -> JsonObject:
        """Restore a backup into the empty log of a platform that is down. Raises as audit does."""
        arguments = ["import", str(file), "--actor", actor]
        arguments += ["--incomplete"] if is_incomplete_allowed else []
        return await run_beside_servers(folder, self.environ, *arguments)

    async def scrub(self, folder: Path) -> JsonObject:
        """Compare the log with its archive, event by event. Raises as audit does."""
        return await run_in_folder(folder, self.environ, "scrub")

    async def repair(self, folder: Path, options: RepairOptions) -> JsonObject:
        """Restore missing events in the log of a platform that is down. Raises as audit does."""
        arguments = ["repair", str(options.file.absolute()), "--actor", options.actor]
        arguments += ["--overwrite"] if options.overwrite else []
        arguments += ["--accept-loss"] if options.accept_loss else []
        return await run_beside_servers(folder, self.environ, *arguments)

    async def collect(self, folder: Path, *, is_trial: bool) -> JsonObject:
        """Remove blobs that no event names, or list them with `is_trial`. Raises as audit does."""
        return await run_beside_platform(folder, "gc", "--dry-run" if is_trial else "--apply")


def _audit_arguments(options: AuditOptions) -> list[str]:
    request = options.request
    named_values = {
        "--version": request.version,
        "--as-of": request.as_of and request.as_of.isoformat(),
        "--as-of-seq": request.as_of_seq,
        "--file": options.file,
        "--seals": options.seals,
    }
    arguments = ["audit", request.problem, request.gpu, "--json"]
    for name, value in named_values.items():
        arguments += [name, str(value)] if value is not None else []
    for key in request.keys:
        arguments += ["--key", key]
    return arguments


async def run_beside_platform(
    folder: Path, *arguments: str, within_s: float = COMMAND_S_MAX
) -> JsonObject:
    """Run a command beside the platform of a folder. Raises Refused and Failed."""
    pid = _find_ranker(folder)
    if pid is None:
        raise Failed(f"no platform runs in {folder}: start it with warpboard up")
    return await run_alone(_read_environ(pid), *arguments, within_s=within_s)


async def run_beside_servers(
    folder: Path, environ: Mapping[str, str], *arguments: str
) -> JsonObject:
    """Run a command beside a folder's servers, which are started for it without services.

    Raises Refused while the platform runs there, InUse and Failed.
    """
    if _find_ranker(folder) is not None:
        raise Refused("platform_runs", f"a platform runs in {folder}: stop it with warpboard down")
    configs: list[PlatformConfig] = []
    results: list[JsonObject] = []

    def servers_alone(config: PlatformConfig) -> Sequence[Service]:
        configs.append(config)
        return ()

    async def work(_: Platform) -> None:
        (config,) = configs
        ranker_environ = next(
            service.environ for service in local_services(config) if service.name == "ranker"
        )
        results.append(await run_alone({**environ, **ranker_environ}, *arguments))

    number = await supervise(Platform(folder, environ, table=servers_alone), work)
    if number is not None:
        # Everything is stopped; the signal now ends this process as usual.
        signal.raise_signal(number)
        raise Failed(f"ended by {number.name}")
    return results[0]


async def run_in_folder(folder: Path, environ: Mapping[str, str], *arguments: str) -> JsonObject:
    """Run a command beside the platform if it runs, else beside its servers."""
    if _find_ranker(folder) is not None:
        return await run_beside_platform(folder, *arguments)
    return await run_beside_servers(folder, environ, *arguments)


async def run_alone(
    environ: Mapping[str, str], *arguments: str, within_s: float = COMMAND_S_MAX
) -> JsonObject:
    """Run a command whose environment names the servers, or that needs none. Raises Refused and
    Failed.
    """
    process = await asyncio.create_subprocess_exec(
        # -P: a folder here with the name of a module must not be imported instead.
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
        await _end_process(process)
    assert process.returncode is not None, "the process was waited for"
    return _parse_result(process.returncode, out, err.decode(errors="replace").strip())


def _find_ranker(folder: Path) -> int | None:
    """Return the process of the folder's ranker, if it runs."""
    return next((row.pid for row in describe(folder) if row.name == "ranker"), None)


def _read_environ(pid: int) -> dict[str, str]:
    """Return the environment of a process, which names the servers and their passwords."""
    try:
        environ_text = Path(f"/proc/{pid}/environ").read_text(
            encoding="utf-8", errors="surrogateescape"
        )
    except OSError as error:
        raise Failed(f"the environment of the ranker cannot be read: {error}") from error
    return dict(line.split("=", 1) for line in environ_text.split("\0") if "=" in line)


async def _end_process(process: Process) -> None:
    """Interrupt the command, so that it removes what it made; kill it if it stays."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_S_MAX)


def _parse_result(code: int, out: bytes, errors: str) -> JsonObject:
    if code == REFUSED:
        raise Refused("ranker_refused", errors[-ERROR_CHARS_MAX:])
    try:
        answer = json.loads(out.decode().strip().rpartition("\n")[2])
    except ValueError as error:
        reason = errors[-ERROR_CHARS_MAX:] or "it printed nothing"
        raise Failed(f"the ranker's command gave no answer: {reason}") from error
    if not isinstance(answer, dict):
        raise Failed(
            f"expected a JSON object from the ranker's command, got {str(answer)[:ERROR_CHARS_MAX]}"
        )
    return answer
