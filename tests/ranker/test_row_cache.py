"""Cached rows equal the tables, or are read again."""

import pytest

from ranker.domain.fold import decode_event, fold
from ranker.domain.rows import (
    CACHED_LINES_MAX,
    RUN_BYTES_MAX,
    SUBMISSIONS_MAX,
    DecodedEvent,
    RequiredRows,
    RowCache,
    Rows,
)
from ranker.postgres import SCHEMA, ReadModels
from shared.postgres import CheckpointConflict, connect, migrate
from shared.subjects import job_id_of
from tests.ranker.test_fold import decoded_life
from tests.support.lives import Life, begin, live
from tests.support.memory import MemoryLog


def required_rows() -> RequiredRows:
    return RequiredRows(
        submissions={"s1", "s2"},
        jobs={job_id_of("s1"), job_id_of("s2")},
        runs={"run-s1", "run-s2"},
    )


def known(rows: Rows) -> RowCache:
    cache = RowCache()
    cache.keep(rows, 8)
    return cache


def test_what_was_folded_is_wanted_no_more() -> None:
    required, rows = required_rows(), fold(Rows(), decoded_life())
    recalled = known(rows).recall(required)
    assert (required.submissions, required.jobs, required.runs) == (
        {"s2"},
        {job_id_of("s2")},
        {"run-s2"},
    )
    assert recalled.jobs[job_id_of("s1")] is recalled.submissions["s1"] is rows.submissions["s1"]


def test_what_is_long_is_read_again() -> None:
    rows = fold(Rows(), decoded_life())
    rows.submissions["s1"].timeline *= CACHED_LINES_MAX
    rows.runs["run-s1"].log_head = "x" * (RUN_BYTES_MAX + 1)
    required = required_rows()
    assert known(rows).recall(required) == Rows()
    assert required == required_rows()


def test_the_oldest_is_forgotten_first() -> None:
    recalled, first = RowCache(), fold(Rows(), decoded_life())
    recalled.keep(first, 8)
    lives = fold(Rows(), decoded_life()).submissions["s1"]
    for number in range(SUBMISSIONS_MAX):
        lives.id = lives.job = f"x{number}"
        recalled.keep(Rows(submissions={lives.id: lives}), 8)
    assert "s1" not in recalled.submissions
    assert len(recalled.submissions) == len(recalled.jobs) == SUBMISSIONS_MAX


async def a_log() -> list[DecodedEvent]:
    log = MemoryLog()
    await begin(log)
    await live(log, Life("s1"), Life("s2"))
    return [decode_event(event) for event in log.since(0)]


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
        first_models, second_models = ReadModels(first), ReadModels(second)
        await first_models.write(0, events[:5])
        await second_models.write(5, events[5:8])
        with pytest.raises(CheckpointConflict):
            await first_models.write(5, events[5:])
        await first_models.write(8, events[8:])
        assert await states(first_models) == [("s1", "ranking"), ("s2", "ranking")]


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
        with pytest.raises(CheckpointConflict):
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
        first_models, second_models = ReadModels(first), ReadModels(second)
        await first_models.write(0, events[:5])
        second_models.cache.seq = 5
        second_models.prepare(events[5:])
        await second_models.write(5, events[5:])
        assert await states(second_models) == [("s1", "ranking"), ("s2", "ranking")]


@pytest.mark.server
async def test_tables_that_were_switched_in_are_read_again(postgres_dsn: str) -> None:
    migrate(postgres_dsn, "ranker", "beside")
    events = await a_log()
    async with (
        await connect(postgres_dsn, SCHEMA) as first,
        await connect(postgres_dsn, "beside") as second,
    ):
        models, beside = ReadModels(first), ReadModels(second)
        for item in (models, beside):
            await item.write(0, events[:6])
        await second.execute(b"update submission set reason = 'fixed'")
        await first.execute(f"alter schema {SCHEMA} rename to old".encode())
        await first.execute(f"alter schema beside rename to {SCHEMA}".encode())
        await models.write(6, events[6:])
        recalled = await first.execute(b"select reason from submission where id = 's1'")
        assert await recalled.fetchone() == ("fixed",)
