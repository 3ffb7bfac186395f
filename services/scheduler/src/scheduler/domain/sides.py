"""Work that ends no submission: canaries, rejudges, duels and confirmations."""

import statistics
from collections.abc import Iterator
from datetime import timedelta

from scheduler.domain.board import Agent, Board, Job, Pool, Run, canary_job, rejudge_job
from scheduler.domain.match import Candidate
from scheduler.domain.moves import Move, Say, World, about_agent, about_job
from shared import events, subjects
from shared.events import DUEL, Requires
from shared.ids import confirmation_job, duel_job

CANARY_S_MAX = 900.0
CANARY_MODE = "benchmark"
# So many good canaries say what is usual; before, a slow one is no drift.
CANARY_FIRST = 3
CANARY_PAUSE_S_MIN = 1.0
# Beyond it no JSON has a number for what an agent may claim.
CANARY_RATIO_MAX = 1e6
REJUDGE_S_MAX = 24 * 3600.0
REJUDGE_BATCH_MAX = 100
REJUDGE_ATTEMPTS_MAX = 3
# A duel or a confirmation waits so long, behind everybody who waits for a verdict.
REPEAT_S_MAX = 24 * 3600.0
# Where the platform failed it is tried once more; then it ends without a result.
REPEAT_ATTEMPTS_MAX = 2
REPEAT_CLASS = "rejudge"


def rejudges(board: Board, world: World) -> Iterator[Move]:
    """A job for each submission of a rejudge that has none yet."""
    for id_, rejudge in board.rejudges.items():
        requires = board.requires.get(rejudge.to_digest, Requires())
        deadline_at = world.now + timedelta(seconds=REJUDGE_S_MAX)
        says = []
        for item in rejudge.items[:REJUDGE_BATCH_MAX]:
            queued = events.JobQueued(
                submission=item.submission,
                account=item.account,
                problem=rejudge.problem,
                problem_digest=rejudge.to_digest,
                gpu=item.gpu,
                mode="ranked",
                deadline_at=deadline_at,
                attempts_max=REJUDGE_ATTEMPTS_MAX,
                class_="rejudge",
                requires=requires,
                rejudge=id_,
                source=item.source,
                name=item.name,
            )
            job = rejudge_job(id_, item.submission)
            says.append(Say(subjects.job(job), queued, 0, job, id_))
        yield tuple(says)


def duels(board: Board, world: World) -> Iterator[Move]:
    """A job for each duel that has none yet, behind everybody who waits for a verdict."""
    for id_, wanted in board.duels.items():
        queued = events.JobQueued(
            submission=wanted.first.submission,
            account=wanted.first.account,
            problem=wanted.problem,
            problem_digest=wanted.problem_digest,
            gpu=wanted.gpu,
            mode=DUEL,
            deadline_at=world.now + timedelta(seconds=REPEAT_S_MAX),
            attempts_max=REPEAT_ATTEMPTS_MAX,
            class_=REPEAT_CLASS,
            requires=board.requires.get(wanted.problem_digest, Requires()),
            source=wanted.first.source,
            name=wanted.first.name,
            duel=id_,
            rival=wanted.second.source,
            rival_name=wanted.second.name,
        )
        job = duel_job(id_)
        yield (Say(subjects.job(job), queued, 0, job, id_),)


def confirmations(board: Board, world: World) -> Iterator[Move]:
    """A job for each confirmation that has none yet, for any agent but the first."""
    for id_, requested in board.confirmations.items():
        queued = events.JobQueued(
            submission=requested.item.submission,
            account=requested.item.account,
            problem=requested.problem,
            problem_digest=requested.problem_digest,
            gpu=requested.gpu,
            mode="ranked",
            deadline_at=world.now + timedelta(seconds=REPEAT_S_MAX),
            attempts_max=REPEAT_ATTEMPTS_MAX,
            class_=REPEAT_CLASS,
            requires=board.requires.get(requested.problem_digest, Requires()),
            source=requested.item.source,
            name=requested.item.name,
            confirmation=id_,
            excluded_agents=[requested.agent],
        )
        job = confirmation_job(id_)
        yield (Say(subjects.job(job), queued, 0, job, id_),)


def canaries(board: Board, world: World, alive: dict[str, list[Candidate]]) -> Iterator[Move]:
    """The next canary of every agent that is due for one; a cordoned one has them too."""
    for gpu, pool in board.pools.items():
        if pool.canary is None or pool.paused is not None:
            continue
        for one in alive.get(gpu, ()):
            is_able = not one.out_of_service and CANARY_MODE in one.said.modes
            if is_able and _is_canary_due(one.agent, pool, world):
                yield (_canary(board, pool, one, world),)


def _is_canary_due(agent: Agent, pool: Pool, world: World) -> bool:
    assert pool.canary is not None, "asked only where there is one"
    if agent.canary_job or not agent.version:
        return False
    every_s = max(pool.canary.chosen.every_s, CANARY_PAUSE_S_MIN)
    return agent.canary_at is None or world.now >= agent.canary_at + timedelta(seconds=every_s)


def _canary(board: Board, pool: Pool, one: Candidate, world: World) -> Say:
    assert pool.canary is not None, "asked only where there is one"
    chosen = pool.canary.chosen
    queued = events.JobQueued(
        submission=chosen.submission,
        account=chosen.account,
        problem=chosen.problem,
        problem_digest=chosen.problem_digest,
        gpu=one.said.gpu,
        mode=CANARY_MODE,
        deadline_at=world.now + timedelta(seconds=CANARY_S_MAX),
        attempts_max=1,
        class_="canary",
        requires=board.requires.get(chosen.problem_digest, Requires()),
        agent=one.name,
        source=chosen.source,
        name=chosen.name,
    )
    job = canary_job(one.name, one.agent.canaries)
    return Say(subjects.job(job), queued, 0, job, chosen.submission)


def judged(board: Board, job: Job, run: Run) -> Move:
    """What a canary that came to a verdict says of its agent, and its end; nothing of others.

    An agent that is worse than usual is in quarantine at once. Before anything is usual, nobody
    is; a canary that fails then is the fault of who chose it.
    """
    canary = board.pools[job.gpu].canary
    if job.class_ != "canary" or canary is None or job.cancel:
        return ()
    usual = canary.times_us
    ratio = min(run.time_us / statistics.median(usual), CANARY_RATIO_MAX) if usual else 1.0
    ratio = round(ratio, 4) if run.time_us > 0 else 0.0
    is_drift = ratio > canary.chosen.ratio_max and len(usual) >= CANARY_FIRST
    is_good = run.verdict == "passed" and run.time_us > 0 and not is_drift
    fact = events.CanaryJudged(run=run.id, ratio=ratio, is_good=is_good)
    finished = about_job(job, events.JobFinished(run=run.id, verdict=run.verdict))
    is_trusted = is_good or len(usual) < CANARY_FIRST or board.agents[run.agent].quarantine
    quarantined = () if is_trusted else (_quarantined(board, run, ratio),)
    return (about_agent(board, run.agent, fact), *quarantined, finished)


def _quarantined(board: Board, run: Run, ratio: float) -> Say:
    agent = board.agents[run.agent]
    why = f"took {ratio:g} times as long as usual" if ratio else f"ended {run.verdict}"
    fact = events.AgentQuarantined(reason=f"its canary {why}", failures=agent.failures)
    # After CanaryJudged in the same batch, which is where the version is expected.
    return Say(subjects.agent(run.agent), fact, None, run.id, run.agent)
