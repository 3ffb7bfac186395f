"""Running one file against one problem directory here, without any server."""

from dataclasses import dataclass
from pathlib import Path

from shared.problems.score import score_us
from warpboard.domain import evaluation
from warpboard.domain.answers import Progress, Run, read
from warpboard.domain.duels import DuelRun, duel_lines
from warpboard.domain.outcome import OK, local_exit_code, local_lines
from warpboard.domain.progress import step
from warpboard.domain.rooflines import with_roofline
from warpboard.domain.tables import cases
from warpboard.service.ports import Disk, Harness, ProblemFiles, Screen, Terms, Wish

# What a run here is on, whichever GPU types a problem is for.
HERE = ("CPU",)


@dataclass(frozen=True)
class Asked:
    """What to run, against which problem's folder, in which mode."""

    file: Path
    problem: Path
    mode: str
    level_min: str = "none"
    save: Path | None = None


async def run(disk: Disk, harness: Harness, screen: Screen, asked: Asked, *, as_json: bool) -> int:
    """Run a file for a problem's folder in a mode; the exit code. Errors: Refused; Failed."""
    file, mode = asked.file, asked.mode
    problem = disk.problem(asked.problem, None, HERE)
    wish = Wish(file.name, disk.source(file), problem.slug, mode)
    with screen.live([file.name]) as live:

        async def told(progress: Progress) -> None:
            live.show(file.name, step(progress))

        terms = Terms(asked.level_min, asked.save)
        answer = await harness.run(problem, wish, told, terms)
    answer = with_roofline(answer, problem.manifest, *HERE)
    found = read(answer, Run)
    score = _score_us(problem, found)
    if as_json:
        screen.json(answer | {"score_us": score})
    else:
        screen.table(cases(found.cases))
        for line in local_lines(file.name, mode, found, score):
            screen.say(line)
        if asked.save is not None and found.files:
            screen.say(f"{asked.save} holds {', '.join(one.name for one in found.files)}")
    return local_exit_code(found)


@dataclass(frozen=True)
class DuelRequest:
    """Which two files to time against each other, for which problem's folder."""

    problem: Path
    first: Path
    second: Path
    level_min: str = "none"
    save: Path | None = None


async def duel(
    disk: Disk, harness: Harness, screen: Screen, request: DuelRequest, *, as_json: bool
) -> int:
    """Time two files in alternation here; the exit code. Errors: Refused; Failed."""
    problem = disk.problem(request.problem, None, HERE)
    files = (request.first, request.second)
    first, second = (Wish(file.name, disk.source(file), problem.slug, "duel") for file in files)
    names = names_apart(*files)
    with screen.live([problem.slug]) as live:

        async def told(progress: Progress) -> None:
            live.show(problem.slug, step(progress))

        terms = Terms(request.level_min, request.save)
        answer = await harness.duel(problem, (first, second), told, terms)
    found = read(answer, DuelRun)
    if as_json:
        screen.json(answer)
    else:
        for line in duel_lines(names, found):
            screen.say(line)
        if request.save is not None and found.files:
            screen.say(f"{request.save} holds {', '.join(one.name for one in found.files)}")
    return local_exit_code(found)


def names_apart(first: Path, second: Path) -> tuple[str, str]:
    """The names of two files, with their folders where the names are the same.

    >>> names_apart(Path("a.py"), Path("b.py")), names_apart(Path("old/a.py"), Path("new/a.py"))
    (('a.py', 'b.py'), ('old/a.py', 'new/a.py'))
    """
    if first.name != second.name:
        return first.name, second.name
    return str(first), str(second)


async def explain(
    disk: Disk, harness: Harness, screen: Screen, path: Path, *, as_json: bool
) -> int:
    """Say what a run of this problem does, and how to do it here. Errors: Refused."""
    problem = disk.problem(path, None, HERE)
    told = evaluation.account(problem.slug, problem.manifest, harness.code(), str(path))
    if as_json:
        screen.json(told.document)
    else:
        for name, text in told.rows:
            screen.say(f"{name + ':':<15}{text}")
    return OK


def _score_us(problem: ProblemFiles, found: Run) -> float | None:
    timed = [case.time_us or 0.0 for case in found.cases if case.stage == "time"]
    return score_us(problem.ranking_by, timed) if found.verdict == "passed" and timed else None
