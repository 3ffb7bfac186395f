"""Checking problem directories here: each of their solutions must end as its folder says."""

import time
from pathlib import Path

from warpboard.domain import trials
from warpboard.domain.answers import Progress, Run, read
from warpboard.domain.demo import Sample, needed_gpus
from warpboard.domain.outcome import FAILED, OK
from warpboard.domain.progress import News
from warpboard.domain.trials import Checked, Trial
from warpboard.domain.units import count_text
from warpboard.service.ports import Disk, Harness, ProblemFiles, Screen, Terms, Wish
from warpboard.service.publishing import Asked, compiled


async def check(disk: Disk, harness: Harness, screen: Screen, asked: Asked) -> int:
    """Compile each problem and run its solutions here; 1 if one ends as it must not.

    Errors: Refused for a problem that does not compile; Failed.
    """
    folders = [one for path in asked.folders for one in disk.contest(path) or (path,)]
    problems = [compiled(disk, screen, folder, None, asked.gpus) for folder in folders]
    found: list[Checked] = []
    async with harness.warm() as warm:
        for folder, problem in zip(folders, problems, strict=True):
            found.append(await _checked(disk, warm, screen, folder, problem))
            if not asked.as_json:
                screen.say(found[-1].sentence)
    if asked.as_json:
        screen.json(trials.document(found))
    else:
        _tell(screen, found)
    return OK if all(one.is_good for one in found) else FAILED


def _tell(screen: Screen, found: list[Checked]) -> None:
    """One problem file by file; of several the sums, and what ended as it must not."""
    ended = [trial for one in found for trial in one.trials]
    if len(found) > 1:
        screen.table(trials.summary(found))
        ended = [trial for trial in ended if trial.is_shown and not trial.is_expected]
    if ended:
        screen.table(trials.table(ended))


async def _checked(
    disk: Disk, harness: Harness, screen: Screen, folder: Path, problem: ProblemFiles
) -> Checked:
    found, told = disk.samples(folder, problem.slug), []
    wanted = [(one, True) for one in found.correct] + [(one, False) for one in found.wrong]
    began = time.monotonic()
    with screen.live([problem.slug]) as live:
        for done, (sample, must_pass) in enumerate(wanted):
            what = count_text(len(wanted), "solution")
            news = News(what, done, len(wanted), estimate=f": {sample.name}")
            live.show(problem.slug, news)
            told.append(await _trial(harness, problem, sample, must_pass))
    files = len(problem.version_files)
    took_s = time.monotonic() - began
    return Checked(problem.slug, files, problem.ranking_by, tuple(told), took_s)


async def _trial(harness: Harness, problem: ProblemFiles, sample: Sample, must_pass: bool) -> Trial:
    if gpus := needed_gpus(sample):
        reason = f"needs a GPU: {', '.join(gpus)}"
        return Trial(problem.slug, sample.name, must_pass, "", reason, is_shown=False)
    wish = Wish(sample.name, sample.source, problem.slug, "test")
    run = read(await harness.run(problem, wish, _unheard, Terms()), Run)
    return Trial(problem.slug, sample.name, must_pass, run.verdict or "", run.reason or "")


async def _unheard(_: Progress) -> None:
    """The cases of one solution are over too soon to be told."""
