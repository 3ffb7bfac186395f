"""Beginning to write a problem: a folder with a small one that is whole."""

from dataclasses import dataclass
from pathlib import Path

from shared.errors import Refused
from warpboard.domain import drafts
from warpboard.domain.outcome import OK
from warpboard.service.ports import Disk, Screen


@dataclass(frozen=True)
class Asked:
    """Into which folder, whose name is the problem's, and in which form."""

    folder: Path
    form: str
    as_json: bool


async def new(disk: Disk, screen: Screen, asked: Asked) -> int:
    """Write the folder; nothing if one is there. Errors: Refused."""
    slug = drafts.checked_slug(asked.folder.name)
    if disk.exists(asked.folder):
        what = f"{asked.folder} is there already: take another name, or remove it first"
        raise Refused("exists", what, "NAME")
    names = drafts.FILES[asked.form]
    pages = {name: disk.page(drafts.page(asked.form, name)) for name in names}
    disk.lay_out(asked.folder, {name: drafts.filled(pages[name], slug) for name in names})
    if asked.as_json:
        screen.json({"folder": str(asked.folder), "slug": slug, "files": sorted(names)})
        return OK
    for name in names:
        screen.say(str(asked.folder / name))
    screen.note(f"next: warpboard problem check {asked.folder}")
    return OK
