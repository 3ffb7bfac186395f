"""Beginning with a problem: a folder with what one needs, and no more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Refused
from warpboard.domain import starters
from warpboard.domain.answers import read
from warpboard.domain.outcome import OK
from warpboard.domain.problems import Problem
from warpboard.service.ports import Api, Disk, Screen

FILES_MAX = 64
AGENTS = "AGENTS.md"


@dataclass(frozen=True)
class Asked:
    """Which problem, into which folder, for which GPU types, from which language's template."""

    problem: str
    folder: Path
    gpus: Sequence[str]
    language: str | None
    is_forced: bool
    as_json: bool


async def init(api: Api, disk: Disk, screen: Screen, url: str, asked: Asked) -> int:
    """Write the folder; nothing of it if something is there already, unless forced.

    Errors: Refused; Failed.
    """
    found = read(await api.get("problems", asked.problem), Problem)
    types = starters.gpus(found, asked.gpus)
    start = starters.begun(found, asked.language)
    text = await api.file("problems", found.slug, "templates", start.language, gpu=types)
    given = starters.folder(found, await _files(api, found), types)
    page = starters.agents_page(disk.page("agents.md"), found, start.name, types, url)
    files = {start.name: text, AGENTS: page.encode()}
    files |= {f"{starters.READ}/{name}": data for name, data in given.items()}
    _write(disk, asked, files)
    if asked.as_json:
        screen.json({"folder": str(asked.folder), "kernel": start.name, "files": sorted(files)})
        return OK
    for name in sorted(files):
        screen.say(f"{asked.folder / name}")
    screen.note(f"next: warpboard submit {asked.folder / start.name} --mode test")
    return OK


async def _files(api: Api, found: Problem) -> dict[str, bytes]:
    """The problem's files that participants may read, by name."""
    names = [one.name for one in found.files if _is_plain(one.name)][:FILES_MAX]
    given = {name: await api.file("problems", found.slug, "files", name) for name in names}
    if "statement.md" not in given:
        given["statement.md"] = (found.statement or found.description or found.title).encode()
    return given


def _is_plain(name: str) -> bool:
    """Whether a name of the platform's stays inside the folder."""
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts


def _write(disk: Disk, asked: Asked, files: Mapping[str, bytes]) -> None:
    there = [name for name in sorted(files) if disk.exists(asked.folder / name)]
    if there and not asked.is_forced:
        names = ", ".join(there[:4])
        what = f"{asked.folder} has {names} already: --force overwrites them"
        raise Refused("exists", what, "--force")
    disk.lay_out(asked.folder, files)
