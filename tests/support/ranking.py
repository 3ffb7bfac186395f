"""A ranker that runs over a log in memory and read models in a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ranker.domain.conclusion import Demand
from ranker.postgres import SCHEMA, ReadModels, ReadsBetweenWrites
from ranker.service.announcements import Announcements, Milestones
from ranker.service.contest_confirmations import ContestConfirmations
from ranker.service.contests import ContestStandings
from ranker.service.decisions import Decisions, Metrics
from ranker.service.podium_jobs import Confirmations, Duels
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import Ranker
from ranker.service.retimes import Retimes
from shared.event_log import EventLog
from shared.postgres import connect
from tests.support.memory import MemoryBlobStore
from tests.support.waits import eventually

LOOSE = Demand("none", ("C2",))
LOOK_S = 0.02


def ranker_of(
    log: EventLog,
    models: ReadModels,
    news: ProjectionProgress | None = None,
    blobs: MemoryBlobStore | None = None,
    wanted: Demand = LOOSE,
    *,
    has_duels: bool = False,
    has_confirmations: bool = False,
    retime_delays_s: tuple[float, ...] = (),
    look_s: float = LOOK_S,
) -> Ranker:
    """A ranker that writes these read models, with duels and confirmations if it has them.

    It times noisy runs again after these delays, if there are any, and looks for what is due in
    contests every `look_s`.
    """
    decisions = Decisions(log, models, blobs or MemoryBlobStore(), Metrics(), wanted)
    reads = ReadsBetweenWrites(models)
    duels = Duels(log, reads, wanted, is_on=has_duels)
    confirmations = Confirmations(log, reads, wanted, is_on=has_confirmations)
    podium_jobs = (duels, confirmations)
    announcing = Announcements(log, reads, podium_jobs=podium_jobs)
    milestones = Milestones(log, reads)
    retimes = Retimes(log, reads, bool(retime_delays_s), retime_delays_s, LOOK_S)
    progress = news or ProjectionProgress()
    standings = ContestStandings(reads, progress, age_s_max=0.0)
    verified = ContestConfirmations(log, reads, standings, look_s)
    return Ranker(decisions, announcing, progress, milestones, *podium_jobs, retimes, verified)


@asynccontextmanager
async def running(ranker: Ranker) -> AsyncIterator[asyncio.Task[None]]:
    """Let it run meanwhile."""
    task = asyncio.create_task(ranker.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def ranking(log: EventLog, dsn: str) -> AsyncIterator[ReadModels]:
    """A ranker that runs; the models are another connection to what it writes."""
    async with (
        await connect(dsn, SCHEMA) as writing,
        await connect(dsn, SCHEMA) as reading,
        running(ranker_of(log, ReadModels(writing))),
    ):
        yield ReadModels(reading)


async def settle(log: EventLog, progress: ProjectionProgress) -> None:
    """Wait until a ranker has folded, decided and announced everything, its own events too."""

    async def is_settled() -> bool:
        return progress.announced_seq == await log.last()

    await eventually(is_settled)


async def is_folded(log: EventLog, models: ReadModels) -> bool:
    """Whether the read models have come to the log's end."""
    return await models.checkpoint() == await log.last()


async def read_standings(models: ReadModels) -> list[dict[str, Any]]:
    """Every entry with its place."""
    return await models._rows(
        """
        select submission, score_us,
               rank() over (
                   partition by problem, problem_number, gpu order by score_us, number
               ) as place
        from entry
        order by problem, problem_number, gpu, place
        """,
        {},
    )


async def read_outcomes(models: ReadModels) -> list[dict[str, Any]]:
    """Every submission with its state."""
    return await models._rows("select id, state, code from submission order by number", {})
