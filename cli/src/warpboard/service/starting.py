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
    template = starters.template_name(found, asked.language)
    given = await _files(api, found)
    text = given.get(template, b"").decode(errors="replace") if template else ""
    given = {name: data for name, data in given.items() if name not in found.templates.values()}
    reference = given.get("reference.py", b"")
    is_model = starters.is_model(reference)
    if is_model:
        text = text or starters.model(reference)
    kernel, source = starters.starter(found, types, template, text)
    page = starters.agents_page(disk.page("agents.md"), found, kernel, types, url)
    files = {kernel: source.encode(), AGENTS: page.encode()}
    if is_model:
        # The file is a problem by itself, but for where it is to run.
        given["warpboard.yml"] = starters.extras(types).encode()
    elif "reference.py" in given and "task.yml" not in given:
        is_seeded = b"seed" in reference
        given["task.yml"] = starters.task(found, sorted(given), is_seeded).encode()
    files |= {f"{starters.READ}/{name}": data for name, data in given.items()}
    _write(disk, asked, files)
    if asked.as_json:
        screen.json({"folder": str(asked.folder), "kernel": kernel, "files": sorted(files)})
        return OK
    for name in sorted(files):
        screen.say(f"{asked.folder / name}")
    screen.note(f"next: warpboard submit {asked.folder / kernel} --mode test")
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
