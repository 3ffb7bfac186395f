"""Publishing problems, after they compiled here."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Refused
from warpboard.domain.answers import Answer, read
from warpboard.domain.names import kernelbench_slug
from warpboard.domain.outcome import OK
from warpboard.domain.problems import Published
from warpboard.domain.progress import News
from warpboard.service.patience import persist
from warpboard.service.ports import Api, Disk, ProblemFiles, Screen

REPEAT_S_MAX = 30.0


@dataclass(frozen=True)
class Asked:
    """Which problems are meant, by which name if it is one; GPU types for those without any."""

    folders: Sequence[Path]
    slug: str | None
    as_json: bool
    gpus: tuple[str, ...] = ()


async def add(api: Api, disk: Disk, screen: Screen, asked: Asked) -> int:
    """Publish each problem, after all of them compiled here. Errors: Refused; Failed."""
    if asked.slug is not None and len(asked.folders) != 1:
        raise Refused("usage", "--slug names one problem, not several")
    problems = [compiled(disk, screen, one, asked.slug, asked.gpus) for one in asked.folders]
    return await _all(api, screen, problems, as_json=asked.as_json)


async def add_kernelbench(api: Api, disk: Disk, screen: Screen, level: int, asked: Asked) -> int:
    """Publish a level of KernelBench, after all of it compiled here. Errors: Refused; Failed."""
    (folder,) = asked.folders
    found = {kernelbench_slug(level, path.stem): path for path in disk.level(folder, level)}
    problems = [compiled(disk, screen, path, slug, asked.gpus) for slug, path in found.items()]
    return await _all(api, screen, problems, as_json=asked.as_json)


async def _all(api: Api, screen: Screen, problems: Sequence[ProblemFiles], *, as_json: bool) -> int:
    answers = []
    with screen.live(["publish"]) as live:
        for done, problem in enumerate(problems):
            live.show("publish", News(problem.slug, done, len(problems)))
            answers.append(await publish(api, screen, problem))
    for answer in () if as_json else answers:
        screen.say(added(read(answer, Published)))
    if as_json:
        screen.json({"problems": answers})
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


def compiled(
    disk: Disk, screen: Screen, folder: Path, slug: str | None, gpus: tuple[str, ...]
) -> ProblemFiles:
    """A problem, compiled, with its warnings said. Errors: Refused, with the folder."""
    try:
        problem = disk.problem(folder, slug, gpus)
    except Refused as refused:
        raise Refused(refused.code, f"{folder}: {refused.reason}", refused.field) from refused
    for warning in problem.warnings:
        screen.note(f"{folder}: {warning}")
    return problem
