"""`warpboard demo --optimise`: a kernel made faster by search and by evolution, and ranked."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from shared.api.archive import ArchiveSearch
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.problem_versions import load_problem
from shared.problems.warpboard_yml import PublishSettings
from warpboard.api import Api, Response
from warpboard.context import AppContext, PlatformTarget
from warpboard.domain.output import FAILED, OK
from warpboard.files import read_template
from warpboard.service.answers import wait_until_over
from warpboard.service.optimisation.loop import Budget
from warpboard.service.optimisation.pool import Proposal
from warpboard.service.optimisation.proposers import declared_values
from warpboard.service.publication import UNKNOWN_PROBLEM, compile_folder, publish
from warpboard.terminal.optimise import (
    EVOLUTION,
    SEARCH,
    Outcome,
    Run,
    outcome_table,
    run_optimiser,
    submit_best,
)

PROBLEM = "life"
START, ARCHIVED = "start.py", "archived.py"
# Who submits the kernel that is in the archive, and who makes the start faster, and how.
ARCHIVIST, PARTICIPANTS = "linus", {EVOLUTION: "grace", SEARCH: "ada"}
SPEEDUP_MIN = 1.3
BUDGET = Budget(evaluations=60, seconds=60.0)
POPULATION = 6
RANKED_S_MAX = 120.0
INDEXED_S_MAX, PAUSE_S = 30.0, 0.5
# Nothing else of the platform may use the machine while it times.
SETTINGS = {
    "WARPBOARD_RANKER_DUELS": "false",
    "WARPBOARD_RANKER_CONFIRMATIONS": "false",
    "WARPBOARD_RANKER_RETIMES": "false",
    "WARPBOARD_SCHEDULER_BASELINE_PAUSE_S": "3600",
}
SHIPPED = {"unchecked": "shipped with the platform: `make problems` checks them"}


async def run_optimise_demo(
    context: AppContext, url: str, gpu: str, problems: Path, folder: Path
) -> int:
    """Archive a kernel, make another one faster in two ways, and rank both results.

    Return 0 if each is ranked, and certainly at least SPEEDUP_MIN times as fast as the start.
    Raises Refused and Failed.
    """
    await publish_archived(context, url, gpu, problems)
    ended: dict[str, Outcome] = {}
    source = read_template(f"optimise/{START}.txt")
    for by, participant in PARTICIPANTS.items():
        run = Run(
            load_problem(problems / PROBLEM, PROBLEM),
            Proposal("start", START, source, values=declared_values(START, source)),
            Path(tempfile.mkdtemp(prefix=f"{by}-", dir=folder)),
            by,
            BUDGET,
            population=POPULATION,
            gpu=gpu,
            devices=("cpu",),
            level_min="none",
        )
        own_context = context.at(PlatformTarget(url=url, participant=participant))
        ended[by] = await run_optimiser(own_context, run, PROBLEM)
        count = ended[by].evaluations
        context.report(f"{participant}: {by} took {count} evaluations, in {run.out}")
    rows = [
        (by, outcome, await _rank(context, url, gpu, by, outcome)) for by, outcome in ended.items()
    ]
    context.report(outcome_table(rows, f"{PROBLEM} on {gpu}"))
    is_good = all(is_fast_enough(outcome, answer) for _, outcome, answer in rows)
    if not is_good:
        reason = f"not every result is ranked and certainly {SPEEDUP_MIN} times as fast"
        context.screen.note(f"warpboard: {reason}: times are noisy while the machine is busy")
    document = {"is_good": is_good, "results": [_describe(*row) for row in rows]}
    context.show(document, [])
    return OK if is_good else FAILED


async def publish_archived(context: AppContext, url: str, gpu: str, problems: Path) -> None:
    """Publish the problem, whose sources all may read, and submit a kernel for the archive."""
    async with context.operator_api() as operator_api:
        settings = PublishSettings(source_visible="always")
        problem = compile_folder(problems / PROBLEM, PROBLEM, (gpu,), settings)
        await publish(operator_api, context.screen, problem, SHIPPED)
    async with context.connect(url, ARCHIVIST) as api:
        source = read_template(f"optimise/{ARCHIVED}.txt").encode()
        request = SubmissionRequest(ARCHIVED, source, PROBLEM, "ranked", (gpu,))
        number = (await api.submit(request, new_id())).value.submissions[0].number
        await wait_until_over({number: api}, context.screen, RANKED_S_MAX)
        await _wait_until_indexed(api)
    context.report(f"{ARCHIVIST}: submission {number} is in the archive")


async def _wait_until_indexed(api: Api) -> None:
    """Wait until the archive finds a kernel of the problem. Raises Failed."""
    try:
        async with asyncio.timeout(INDEXED_S_MAX):
            while not await _has_kernel(api):  # noqa: ASYNC110  (another process reads it)
                await asyncio.sleep(PAUSE_S)
    except TimeoutError as late:
        raise Failed(f"the archive has no kernel after {INDEXED_S_MAX:.0f} s") from late


async def _has_kernel(api: Api) -> bool:
    try:
        body = {"problem": PROBLEM}
        answer = await api.act(ArchiveSearch, "POST", "archive", "search", body=body)
    except Refused as refused:
        if refused.code != UNKNOWN_PROBLEM:
            raise
        return False
    return bool(answer.value.items)


async def _rank(
    context: AppContext, url: str, gpu: str, by: str, outcome: Outcome
) -> Response[FullSubmission] | None:
    """Submit the best kernel of a run as its participant; None if there is none to submit."""
    if not outcome.is_confirmed:
        return None
    async with context.connect(url, PARTICIPANTS[by]) as api:
        return await submit_best(context, api, outcome, PROBLEM, gpu)


def is_fast_enough(outcome: Outcome, answer: Response[FullSubmission] | None) -> bool:
    """Return whether a result is ranked, and by its interval as fast as the demo promises."""
    line = outcome.confirmation
    if answer is None or line is None or line.interval is None or not outcome.is_confirmed:
        return False
    ranking = answer.value.ranking
    is_ranked = ranking is not None and ranking.rank is not None
    return is_ranked and line.speedup_over == "start" and line.interval[0] >= SPEEDUP_MIN


def _describe(by: str, outcome: Outcome, answer: Response[FullSubmission] | None) -> dict[str, Any]:
    line = outcome.confirmation
    submission = answer.value if answer else None
    return {
        "by": by,
        "start": dict(outcome.start.proposal.values),
        "best": dict(outcome.best.proposal.values) if outcome.best else {},
        "speedup": line.speedup if line else None,
        "interval": line.interval if line else None,
        "evaluations": outcome.evaluations,
        "submission": submission.number if submission else None,
        "parent": outcome.parent,
        "rank": submission.ranking.rank if submission and submission.ranking else None,
    }
