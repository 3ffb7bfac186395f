"""An audit of a leaderboard, of a folder's platform or of an exported file, by ranker's command."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from warpboard.processes.ranker import alone, either


class Asked(NamedTuple):
    """What is audited: a leaderboard, at a moment or now, with known keys and kept seals."""

    problem: str
    gpu: str
    version: int | None = None
    as_of: str | None = None
    as_of_seq: int | None = None
    keys: Sequence[str] = ()
    seals: Path | None = None

    def arguments(self) -> list[str]:
        """The same for the ranker's command."""
        given = {
            "--version": self.version,
            "--as-of": self.as_of,
            "--as-of-seq": self.as_of_seq,
            "--seals": self.seals,
        }
        found = ["audit", self.problem, self.gpu, "--json"]
        for name, value in given.items():
            if value is not None:
                found += [name, str(value)]
        for key in self.keys:
            found += ["--key", key]
        return found


async def audit(folder: Path, environ: Mapping[str, str], asked: Asked) -> dict[str, Any]:
    """The report on a folder's platform, up or not; `is_clean` says how it went.

    Errors: Refused; Failed.
    """
    return (await either(folder, environ, *asked.arguments())).answer


async def audit_file(file: Path, environ: Mapping[str, str], asked: Asked) -> dict[str, Any]:
    """The report on an exported file, without any server. Errors: Refused; Failed."""
    arguments = [*asked.arguments(), "--file", str(file)]
    return (await alone(environ, *arguments)).answer
