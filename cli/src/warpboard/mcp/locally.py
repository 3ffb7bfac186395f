"""The tool that runs a kernel here, in the agents' own harness, without the platform's machines."""

import asyncio
import time

from shared.errors import Refused
from shared.problems import compile_problem
from shared.problems.score import score_us
from warpboard.domain import starters
from warpboard.domain.answers import Progress, Run, read
from warpboard.domain.outcome import local_lines
from warpboard.domain.problems import Problem
from warpboard.domain.progress import step
from warpboard.domain.rooflines import with_roofline
from warpboard.mcp import asks, bounds, tells
from warpboard.mcp.hands import Hands, kernel
from warpboard.mcp.results import failing, timed
from warpboard.mcp.tasks import problem
from warpboard.service.ports import Api, ProblemFiles, Terms, Wish

REFERENCES = ("reference.py", "reference.cuh")
FILES_MAX = 64
HERE = "CPU"


async def run_locally(hands: Hands, asked: asks.RunLocally) -> tells.Ran:
    """How a kernel does on this machine's CPU, with seeds of our own. Errors: Refused; Failed."""
    name, source = kernel(hands, asked.source, asked.path, asked.language)
    found = await problem(hands.api, asked.problem)
    files = await _compiled(hands.api, found)
    wish = Wish(name, source, found.slug, asked.mode)
    began = time.monotonic()

    async def told(progress: Progress) -> None:
        await hands.told(time.monotonic() - began, asked.within_s, step(progress).whole)

    try:
        async with asyncio.timeout(asked.within_s):
            answer = await hands.harness.run(files, wish, told, Terms())
    except TimeoutError as late:
        what = f"not over after {asked.within_s:g} s: allow more by within_s, or submit it"
        raise Refused("too_slow", what, "within_s") from late
    answer = with_roofline(answer, files.manifest, HERE)
    return _told(files, wish, read(answer, Run))


async def _compiled(api: Api, found: Problem) -> ProblemFiles:
    """The problem as the harness takes it, from what participants may read of it."""
    names = [one.name for one in found.files][:FILES_MAX]
    files = {name: await api.file("problems", found.slug, "files", name) for name in names}
    if not any(name in files for name in (*REFERENCES, found.main)):
        what = f"{found.slug} shows no reference, so it cannot be run here: submit with mode test"
        raise Refused("no_reference", what, "problem")
    files = starters.folder(found, files, found.gpus)
    version = compile_problem(found.slug, files)
    return ProblemFiles(
        slug=found.slug,
        files=files,
        manifest=version.manifest,
        version_files=version.files,
        ranking_by=version.ranking_by,
    )


def _told(files: ProblemFiles, wish: Wish, run: Run) -> tells.Ran:
    bad, cut = failing(run)
    times, more = timed(run)
    times_us = [one.time_us for one in times]
    is_scored = run.verdict == "passed" and bool(times_us) and not more
    score = score_us(files.ranking_by, times_us) if is_scored else None
    log, long = bounds.tail(run.log_tail or run.log_head, bounds.TEXT_CHARS)
    return tells.Ran(
        problem=files.slug,
        verdict=run.verdict,
        summary=local_lines(wish.name, wish.mode, run, score),
        stage=run.stage,
        reason=bounds.brief(run.reason or "") or None,
        score_us=score,
        failing=bad,
        timed=times,
        log=log,
        cut=[*cut, *more, *([f"log: {long}"] if long else [])],
    )
