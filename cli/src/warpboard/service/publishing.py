"""Publishing problem directories."""

from collections.abc import Sequence
from pathlib import Path

from shared.errors import Refused
from warpboard.domain.answers import Answer, Published, read
from warpboard.domain.outcome import OK
from warpboard.service.patience import persist
from warpboard.service.ports import Api, Disk, ProblemFiles, Screen

REPEAT_S_MAX = 30.0


async def add(
    api: Api, disk: Disk, screen: Screen, folders: Sequence[Path], slug: str | None
) -> int:
    """Publish each directory, after all of them compiled here. Errors: Refused; Failed."""
    if slug is not None and len(folders) != 1:
        raise Refused("usage", "--slug names one directory, not several")
    for problem in [_compiled(disk, screen, folder, slug) for folder in folders]:
        published = read(await publish(api, screen, problem), Published)
        screen.say(added(published))
    return OK


async def publish(api: Api, screen: Screen, problem: ProblemFiles) -> Answer:
    """What the platform says to one problem; asked again while it does not answer."""
    return await persist(
        lambda: api.publish(problem.slug, problem.files),
        REPEAT_S_MAX,
        lambda trouble: screen.note(f"warpboard: {trouble}"),
    )


def added(published: Published) -> str:
    """What became of a problem, in a line."""
    if published.is_new:
        return f"{published.slug} version {published.number} published"
    return f"{published.slug} unchanged: version {published.number}"


def _compiled(disk: Disk, screen: Screen, folder: Path, slug: str | None) -> ProblemFiles:
    try:
        problem = disk.problem(folder, slug)
    except Refused as refused:
        raise Refused(refused.code, f"{folder}: {refused.reason}", refused.field) from refused
    for warning in problem.warnings:
        screen.note(f"{folder}: {warning}")
    return problem
