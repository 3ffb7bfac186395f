"""`/admin create-local`: a folder of this machine as a leaderboard, while one develops."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from discord import app_commands

from discord_edge.bot.asking import Here, say
from discord_edge.bot.staff import begun, roles_of
from discord_edge.bot.submitting import gpus
from discord_edge.domain.publishing import Draft, instant
from discord_edge.domain.wishes import matching
from discord_edge.domain.wording import escaped
from discord_edge.service.ports import User
from shared.clock import now
from shared.errors import Refused
from shared.folders import problem_files, task_folders
from shared.problems import compile_problem

ADMIN = "admin"
SUFFIX = "-dev"
DAYS = 365
WHY = "published from a folder to develop on, by /admin create-local"


async def folders(here: Here, typed: str) -> list[app_commands.Choice[str]]:
    """The folders that hold a problem, for who may publish them."""
    root = here.client.local if ADMIN in roles_of(here) else None
    found = [] if root is None else await asyncio.to_thread(task_folders, root)
    names = [one.relative_to(root).as_posix() for one in found if root is not None]
    return [
        app_commands.Choice(name=one, value=one)
        for one in matching(typed, [one for one in names if len(one) <= 100])
    ]


@app_commands.command(name="create-local", description="Publish a folder of the bot's machine")
@app_commands.describe(
    directory="Where its task.yml is",
    gpu="GPU types, apart by commas; those of its files if none is said",
    closed="Let members alone see it",
)
@app_commands.autocomplete(directory=folders, gpu=gpus)
async def create_local(
    here: Here, directory: str, gpu: str | None = None, closed: bool = False
) -> None:
    """Publish a folder under its name with -dev behind, unchecked, for a year."""
    user = await begun(here, ADMIN)
    folder = await asyncio.to_thread(_folder, here.client.local, directory.strip())
    slug = f"{folder.name.lower()}{SUFFIX}"
    files = await asyncio.to_thread(problem_files, folder, here.client.local)
    version = await asyncio.to_thread(compile_problem, slug, files)
    named = tuple(one.strip() for one in (gpu or "").split(",") if one.strip())
    until = now() + timedelta(days=DAYS)
    seen = "closed" if closed else "public"
    draft = Draft(version, until, named or version.gpus, seen, None, WHY)
    await _publish(here, user, draft, files)


def _folder(root: Path | None, directory: str) -> Path:
    """Errors: Refused for a folder that has no problem, or lies elsewhere."""
    if root is not None and "\0" not in directory:
        folder = (root / directory).resolve()
        if folder in [one.resolve() for one in task_folders(root)]:
            return folder
    what = f"{directory[:60]!r} is no folder with a task.yml where problems are developed"
    raise Refused("bad_directory", what, "directory")


async def _publish(here: Here, user: User, draft: Draft, files: dict[str, bytes]) -> None:
    made = await here.client.api.publish(user, str(here.id), draft.fields, files)
    state = "published" if made["is_new"] else "was there already"
    said = f"**{escaped(draft.version.slug)}** version {made['number']} {state}"
    await say(here, f"{said}; it closes {instant(draft.ends_at)}.")


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (create_local,)
