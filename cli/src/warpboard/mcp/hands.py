"""What every tool has at hand."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Refused
from shared.problems.languages import SUFFIXES
from warpboard.service.ports import Api, Disk, Harness

PROGRESS = Callable[[float, float, str], Awaitable[None]]


@dataclass(frozen=True)
class Hands:
    """The platform as who runs the server, this machine, and whoever waits for a word.

    `told` hears how far a tool is, of how much, and a sentence.
    """

    api: Api
    disk: Disk
    harness: Harness
    told: PROGRESS


def kernel(hands: Hands, source: str | None, path: str | None, language: str) -> tuple[str, bytes]:
    """A kernel's file name and bytes, given as text or as a file here. Errors: Refused."""
    if (source is None) == (path is None):
        what = "give the kernel once: its text as source, or its file as path"
        raise Refused("bad_source", what, "source")
    if source is not None:
        if not source.strip():
            raise Refused("empty_file", "the kernel has no text: give it whole", "source")
        return f"kernel{SUFFIXES[language]}", source.encode("utf-8", "surrogatepass")
    file = Path(str(path)).expanduser()
    if file.suffix not in SUFFIXES.values():
        ends = ", ".join(SUFFIXES.values())
        raise Refused("bad_extension", f"{file.name} ends in none of {ends}: rename it", "path")
    data = hands.disk.source(file)
    if not data:
        raise Refused("empty_file", f"{file} is empty: write the kernel into it", "path")
    return file.name, data
