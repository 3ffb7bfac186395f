"""The cost of reads does not grow with the leaderboard: counted in buffers, not timed."""

import pytest
from bench import replay_log
from bench.query_reads import count, fill

from ranker.domain.rows import LeaderboardKey
from ranker.postgres import SCHEMA, ReadModels
from ranker.service.decisions import Metrics
from ranker.service.leaderboard import rank_top, read_page
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import project
from shared import subjects
from shared.clock import now
from shared.events import SubmissionFinished
from shared.postgres import connect
from tests.support.lives import say
from tests.support.memory import MemoryLog

# Each fills a database with thousands of runs.
pytestmark = [pytest.mark.server, pytest.mark.long]
FEW, MANY = 10_000, 40_000
FLAT_MAX = 2.0
# A new entry, its group and the few that follow until one begins where it did before.
ROWS_WRITTEN_MAX = 12
SCORES_US = (50.0, 99.0, *(300.0 * number + 0.5 for number in range(1, 19)))
TABLES = ("entry", "tie_group", "tie_block")


async def empty(dsn: str) -> None:
    async with await connect(dsn, SCHEMA) as connection:
        tables = "result, submission, run, entry, tie_group, tie_block, accounts.participant"
        await connection.execute(f"truncate {tables} cascade".encode())


async def follow(log: MemoryLog, models: ReadModels) -> None:
    async for _ in project(log, models, ProjectionProgress(), Metrics(), until=await log.last()):
        pass


@pytest.fixture
async def log(postgres_dsn: str) -> MemoryLog:
    """A folded log with a published problem."""
    log = MemoryLog()
    await replay_log.write(log, 2)
    async with await connect(postgres_dsn, SCHEMA) as connection:
        await follow(log, ReadModels(connection))
    return log


@pytest.mark.usefixtures("log")
async def test_four_times_the_runs_take_no_more_buffers(postgres_dsn: str) -> None:
    await fill(postgres_dsn, FEW)
    few = await count(postgres_dsn)
    await empty(postgres_dsn)
    await fill(postgres_dsn, MANY)
    many = await count(postgres_dsn)
    for read in ("first page", "a submission"):
        assert many[read].buffers <= FLAT_MAX * few[read].buffers, (read, few, many)
        assert many[read].statements == few[read].statements


async def ranked(log: MemoryLog, number: int, score_us: float) -> None:
    """Append a submission of a new participant with a score."""
    submission = f"new{number}"
    await say(log, *replay_log.received(submission, "ranked", f"new-account{number}"))
    end = SubmissionFinished(
        outcome="passed",
        is_eligible=True,
        code="ranked",
        reason="",
        score_us=score_us,
        error=0.001,
        freedom=22,
        delta=0.003,
    )
    await say(log, subjects.submission(submission), end)


async def test_a_new_entry_writes_few_rows_however_many_are_behind_it(
    postgres_dsn: str, log: MemoryLog
) -> None:
    await fill(postgres_dsn, MANY)
    async with await connect(postgres_dsn, SCHEMA) as connection:
        models = ReadModels(connection)
        for table in TABLES:
            copy = f"create table {table}_copy as table {table}"
            await connection.execute(copy.encode())
        for number, score_us in enumerate(SCORES_US):
            await ranked(log, number, score_us)
            await follow(log, models)
        written = 0
        for table in TABLES:
            changed = f"table {table} except table {table}_copy"
            written += len(await (await connection.execute(changed.encode())).fetchall())
        assert written <= ROWS_WRITTEN_MAX * len(SCORES_US)
        board, at = LeaderboardKey(replay_log.PROBLEM, replay_log.GPU, 1), now()
        page = await read_page(models, board, range(3000), at)
        all_placed = await rank_top(models, board, 3000, at)
        assert [item.place for item in page.placed] == [item.place for item in all_placed][:3000]
