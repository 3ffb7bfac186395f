"""Runs the checks of each service of a deployment, and looks at this machine's disks."""

import asyncio
import os
import shutil
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from warpboard.domain.deployment import SERVICES, Finding

CHECK_S_MAX = 30.0
FREE_SHARE_MIN = 0.1
FREE_BYTES_MIN = 2 * 1024**3
GIB = 1024**3
BACKUP_AGE_S_MAX = 26 * 3600
# Where services keep files, and the file of which the folder counts.
FOLDERS = (
    "WARPBOARD_GPU_AGENT_DATA",
    "WARPBOARD_LAUNCHER_DATA",
    "WARPBOARD_RANKER_RELEASES",
    "WARPBOARD_RANKER_SEAL_KEY",
)
BACKUP_GAUGE = "warpboard_backup_completed_timestamp_seconds"


async def check_services(
    services: Sequence[str], settings: Mapping[str, str], environ: Mapping[str, str]
) -> list[Finding]:
    """Return what the services and the servers that they use find wrong.

    What is not ours, such as PATH, they get from `environ`.
    """
    others = {name: value for name, value in environ.items() if not name.startswith("WARPBOARD_")}
    checks = [
        (name, arguments)
        for name in services
        for arguments in (
            (SERVICES[name].module, "check"),
            ("shared.server_checks", SERVICES[name].prefix),
        )
    ]
    answers = await asyncio.gather(
        *(_run_check(words, others | dict(settings)) for _, words in checks)
    )
    return [
        Finding(name, problem)
        for (name, _), problems in zip(checks, answers, strict=True)
        for problem in problems
    ]


async def _run_check(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Run a module that prints a line for each problem."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", *words),
        env=environ,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(CHECK_S_MAX):
            out, errors = await process.communicate()
    except TimeoutError:
        return [f"its check was not over after {CHECK_S_MAX:.0f} s"]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode in (0, 2):
        return out.decode(errors="replace").splitlines()
    last = errors.decode(errors="replace").strip().rpartition("\n")[2]
    return [f"its check failed: {last or f'exit code {process.returncode}'}"]


def find_full_disks(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield each folder of the settings that is missing, not writable, or on a full disk."""
    for name in FOLDERS:
        if not (value := environ.get(name)):
            continue
        path = Path(value)
        folder = next(parent for parent in (path, *path.parents) if parent.is_dir())
        if not os.access(folder, os.W_OK):
            yield Finding("disk", f"{name}: {folder} is not writable for user {os.geteuid()}")
        usage = shutil.disk_usage(folder)
        # A file system without a disk has no size.
        if usage.total and usage.free < max(FREE_BYTES_MIN, FREE_SHARE_MIN * usage.total):
            free, total = usage.free / GIB, usage.total / GIB
            yield Finding("disk", f"{name}: {folder} has {free:.1f} of {total:.1f} GiB free")


def find_old_backup(metrics: Path) -> Iterator[Finding]:
    """Yield whether the last backup is too old, by the file that it writes for node_exporter."""
    try:
        lines = metrics.read_text(encoding="utf-8").splitlines()
        (completed_at_s,) = (
            float(line.split()[1]) for line in lines if line.startswith(BACKUP_GAUGE)
        )
    except (OSError, ValueError, IndexError) as error:
        yield Finding("backup", f"{metrics} does not say when a backup was completed: {error}")
        return
    age_s = time.time() - completed_at_s
    if age_s > BACKUP_AGE_S_MAX:
        hours = f"{age_s / 3600:.0f} hours ago"
        yield Finding(
            "backup", f"the last one was completed {hours}: see docs/operating/backup-old.md"
        )
