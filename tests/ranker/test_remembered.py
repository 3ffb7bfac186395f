"""What is remembered of the newest rows is what the tables have, or it is read again."""

import pytest

from ranker.__main__ import SCHEMA
from ranker.domain.batch import Needs, Rows, Told, tell
from ranker.domain.fold import fold
from ranker.domain.remembered import LINES_MAX, LIVES_MAX, RUN_BYTES_MAX, Remembered
from ranker.postgres import ReadModels
from shared.memory import MemoryLog
from shared.postgres import Fenced, connect, migrate
from tests.ranker.test_fold import told
from tests.support.lives import Life, begin, live


def wanted() -> Needs:
    return Needs(submissions={"s1", "s2"}, jobs={"job-s1", "job-s2"}, runs={"run-s1", "run-s2"})


def known(rows: Rows) -> Remembered:
    found = Remembered()
    found.keep(rows, 8)
    return found


def test_what_was_folded_is_wanted_no_more() -> None:
    asked, rows = wanted(), fold(Rows(), told())
    found = known(rows).recall(asked)
    assert (asked.submissions, asked.jobs, asked.runs) == ({"s2"}, {"job-s2"}, {"run-s2"})
    assert found.jobs["job-s1"] is found.submissions["s1"] is rows.submissions["s1"]


def test_what_is_long_is_read_again() -> None:
    rows = fold(Rows(), told())
    rows.submissions["s1"].timeline *= LINES_MAX
    rows.runs["run-s1"].log_head = "x" * (RUN_BYTES_MAX + 1)
    asked = wanted()
    assert known(rows).recall(asked) == Rows()
    assert asked == wanted()


def test_the_oldest_is_forgotten_first() -> None:
    found, first = Remembered(), fold(Rows(), told())
    found.keep(first, 8)
    lives = fold(Rows(), told()).submissions["s1"]
    for number in range(LIVES_MAX):
        lives.id = lives.job = f"x{number}"
        found.keep(Rows(submissions={lives.id: lives}), 8)
    assert "s1" not in found.submissions
    assert len(found.submissions) == len(found.jobs) == LIVES_MAX


async def a_log() -> list[Told]:
    log = MemoryLog()
    await begin(log)
    await live(log, Life("s1"), Life("s2"))
    return [tell(one) for one in log.since(0)]


async def states(models: ReadModels) -> list[tuple[str, str]]:
    cursor = await models.connection.execute(b"select id, state from submission order by id")
    return [(id_, state) for id_, state in await cursor.fetchall()]


@pytest.mark.server
async def test_what_another_wrote_meanwhile_is_read_again(postgres_dsn: str) -> None:
    events = await a_log()
    async with (
        await connect(postgres_dsn, SCHEMA) as first,
        await connect(postgres_dsn, SCHEMA) as second,
    ):
        one, two = ReadModels(first), ReadModels(second)
        await one.write(0, events[:5])
        await two.write(5, events[5:8])
        with pytest.raises(Fenced):
            await one.write(5, events[5:])
        await one.write(8, events[8:])
        assert await states(one) == [("s1", "ranking"), ("s2", "ranking")]


@pytest.mark.server
async def test_what_was_folded_ahead_and_is_not_written_next_is_forgotten(
    postgres_dsn: str,
) -> None:
    events = await a_log()
    async with await connect(postgres_dsn, SCHEMA) as connection:
        models = ReadModels(connection)
        models.prepare(events[:9])
        await models.write(0, events[:5])
        models.prepare(events[5:9])
        with pytest.raises(Fenced):
            await models.write(4, events[5:9])
        await models.write(5, events[5:])
        assert await states(models) == [("s1", "ranking"), ("s2", "ranking")]


@pytest.mark.server
async def test_a_batch_that_needs_what_is_not_remembered_is_not_folded_ahead(
    postgres_dsn: str,
) -> None:
    events = await a_log()
    async with (
        await connect(postgres_dsn, SCHEMA) as first,
        await connect(postgres_dsn, SCHEMA) as second,
    ):
        one, two = ReadModels(first), ReadModels(second)
        await one.write(0, events[:5])
        two.remembered.seq = 5
        two.prepare(events[5:])
        await two.write(5, events[5:])
        assert await states(two) == [("s1", "ranking"), ("s2", "ranking")]


@pytest.mark.server
async def test_tables_that_were_switched_in_are_read_again(postgres_dsn: str) -> None:
    migrate(postgres_dsn, "ranker", "beside")
    events = await a_log()
    async with (
        await connect(postgres_dsn, SCHEMA) as first,
        await connect(postgres_dsn, "beside") as second,
    ):
        models, beside = ReadModels(first), ReadModels(second)
        for one in (models, beside):
            await one.write(0, events[:6])
        await second.execute(b"update submission set reason = 'mended'")
        await first.execute(f"alter schema {SCHEMA} rename to old".encode())
        await first.execute(f"alter schema beside rename to {SCHEMA}".encode())
        await models.write(6, events[6:])
        found = await first.execute(b"select reason from submission where id = 's1'")
        assert await found.fetchone() == ("mended",)
