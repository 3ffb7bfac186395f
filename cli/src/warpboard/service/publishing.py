"""Checking problem directories here, and publishing them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Refused
from warpboard.domain import trials
from warpboard.domain.answers import Answer, Progress, Run, read
from warpboard.domain.demo import Sample
from warpboard.domain.names import kernelbench_slug
from warpboard.domain.outcome import FAILED, OK
from warpboard.domain.problems import Published
from warpboard.domain.progress import News, step
from warpboard.domain.trials import Trial
from warpboard.domain.units import count_text
from warpboard.service.patience import persist
from warpboard.service.ports import Api, Disk, Harness, ProblemFiles, Screen, Terms, Wish

REPEAT_S_MAX = 30.0
Hear = Callable[[Progress], Awaitable[None]]


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
    problems = [_compiled(disk, screen, one, asked.slug, asked.gpus) for one in asked.folders]
    return await _all(api, screen, problems, as_json=asked.as_json)


async def add_kernelbench(api: Api, disk: Disk, screen: Screen, level: int, asked: Asked) -> int:
    """Publish a level of KernelBench, after all of it compiled here. Errors: Refused; Failed."""
    (folder,) = asked.folders
    found = {kernelbench_slug(level, path.stem): path for path in disk.level(folder, level)}
    problems = [_compiled(disk, screen, path, slug, asked.gpus) for slug, path in found.items()]
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


async def check(disk: Disk, harness: Harness, screen: Screen, asked: Asked) -> int:
    """Compile each problem and run its solutions here; 1 if one ends as it must not.

    Errors: Refused for a problem that does not compile; Failed.
    """
    found: list[Trial] = []
    for folder in [one for path in asked.folders for one in disk.contest(path) or (path,)]:
        problem = _compiled(disk, screen, folder, None, asked.gpus)
        found += await _tried(disk, harness, screen, folder, problem)
        if not asked.as_json:
            counts = count_text(len(problem.version_files), "file")
            screen.say(f"{problem.slug} compiles: {counts}, ranked by {problem.ranking_by}")
    if asked.as_json:
        screen.json(trials.document(found))
    elif found:
        screen.table(trials.table(found))
    return OK if all(one.is_expected for one in found) else FAILED


async def _tried(
    disk: Disk, harness: Harness, screen: Screen, folder: Path, problem: ProblemFiles
) -> list[Trial]:
    found, told = disk.samples(folder, problem.slug), []
    wanted = [(one, True) for one in found.correct] + [(one, False) for one in found.wrong]
    with screen.live([problem.slug]) as live:

        async def hear(progress: Progress) -> None:
            live.show(problem.slug, News(f"{sample.name}: {step(progress).sentence}", done, total))

        total = len(wanted)
        for done, (sample, must_pass) in enumerate(wanted):
            live.show(problem.slug, News(sample.name, done, total))
            told.append(await _trial(harness, problem, sample, must_pass, hear))
    return told


async def _trial(
    harness: Harness, problem: ProblemFiles, sample: Sample, must_pass: bool, hear: Hear
) -> Trial:
    wish = Wish(sample.name, sample.source, problem.slug, "test")
    run = read(await harness.run(problem, wish, hear, Terms()), Run)
    return Trial(problem.slug, sample.name, must_pass, run.verdict or "", run.reason or "")


def _compiled(
    disk: Disk, screen: Screen, folder: Path, slug: str | None, gpus: tuple[str, ...]
) -> ProblemFiles:
    try:
        problem = disk.problem(folder, slug, gpus)
    except Refused as refused:
        raise Refused(refused.code, f"{folder}: {refused.reason}", refused.field) from refused
    for warning in problem.warnings:
        screen.note(f"{folder}: {warning}")
    return problem
