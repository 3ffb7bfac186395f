"""The log of a folder's platform checked, copied and folded anew, by the ranker's commands."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpboard.processes.ranker import alone, either, running, stopped
from warpboard.service.machine import Auditing, Repairing, Replaying


@dataclass(frozen=True)
class LocalBooks:
    """The books of platforms on this machine; the commands get this process's environment."""

    environ: Mapping[str, str]

    async def replay(self, folder: Path, asked: Replaying) -> dict[str, Any]:
        """How a projection folded anew compares with the live one. Errors: Refused; Failed."""
        options = ["--projection", asked.projection, "--source", asked.source]
        options += ["--file", str(asked.file)] if asked.file is not None else []
        options += ["--switch"] if asked.is_switched else []
        return (await running(folder, "replay", *options)).answer

    async def audit(self, folder: Path, asked: Auditing) -> dict[str, Any]:
        """The report on a leaderboard. Errors: Refused; Failed."""
        arguments = _audit(asked)
        if asked.file is not None:
            return (await alone(self.environ, *arguments)).answer
        return (await either(folder, self.environ, *arguments)).answer

    async def export(self, folder: Path, file: Path, left_out: Collection[str]) -> dict[str, Any]:
        """What was backed up, whether the platform runs or not. Errors: as audit."""
        arguments = ["export", str(file), *(f"--without-{part}" for part in left_out)]
        return (await either(folder, self.environ, *arguments)).answer

    async def import_(
        self, folder: Path, file: Path, actor: str, *, is_incomplete_allowed: bool
    ) -> dict[str, Any]:
        """What is now in the log, empty before, of a platform that is down. Errors: as audit."""
        arguments = ["import", str(file), "--actor", actor]
        arguments += ["--incomplete"] if is_incomplete_allowed else []
        return (await stopped(folder, self.environ, *arguments)).answer

    async def scrub(self, folder: Path) -> dict[str, Any]:
        """How the log compares with its archive, event by event. Errors: as audit."""
        return (await either(folder, self.environ, "scrub")).answer

    async def repair(self, folder: Path, asked: Repairing) -> dict[str, Any]:
        """What was put back into the log of a platform that is down. Errors: as audit."""
        arguments = ["repair", str(asked.file.absolute()), "--actor", asked.actor]
        arguments += ["--overwrite"] if asked.overwrite else []
        arguments += ["--accept-loss"] if asked.accept_loss else []
        return (await stopped(folder, self.environ, *arguments)).answer

    async def collect(self, folder: Path, *, is_trial: bool) -> dict[str, Any]:
        """Which blobs that no event names were, or would be, removed. Errors: as audit."""
        return (await running(folder, "gc", "--dry-run" if is_trial else "--apply")).answer


def _audit(asked: Auditing) -> list[str]:
    given = {
        "--version": asked.version,
        "--as-of": asked.as_of,
        "--as-of-seq": asked.as_of_seq,
        "--file": asked.file,
        "--seals": asked.seals,
    }
    found = ["audit", asked.problem, asked.gpu, "--json"]
    for name, value in given.items():
        found += [name, str(value)] if value is not None else []
    for key in asked.keys:
        found += ["--key", key]
    return found
