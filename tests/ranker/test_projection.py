"""The read models on a real Postgres: each event once, and a rebuild equals the live tables."""

import asyncio
from dataclasses import replace
from random import Random

import psycopg
import pytest

from ranker.domain.fold import decode_event
from ranker.postgres import SCHEMA, Reader, ReadModels, ReadsBetweenWrites, open_read_models
from shared import events, subjects
from shared.clock import now
from shared.errors import Failed
from shared.postgres import CheckpointConflict, connect, create_pool
from tests.ranker.replays import replayed
from tests.support.chance import seeds
from tests.support.lives import AGENT, Life, begin, evaluation_facts, live, say
from tests.support.memory import MemoryLog
from tests.support.ranking import is_folded, ranker_of, ranking, read_outcomes, read_standings
from tests.support.waits import eventually

pytestmark = pytest.mark.server


async def ended(log: MemoryLog, models: ReadModels) -> list[events.SubmissionFinished]:
    """All ends, once every submission has one and the read models have folded the log."""

    received = sum(isinstance(e.fact, events.SubmissionReceived) for e in log.since(0))

    async def is_over() -> bool:
        outcomes = await read_outcomes(models)
        over = [outcome for outcome in outcomes if outcome["state"] == "finished"]
        return len(over) == received and await is_folded(log, models)

    await eventually(is_over)
    return [
        event.fact for event in log.since(0) if isinstance(event.fact, events.SubmissionFinished)
    ]


async def test_a_passed_run_stands_on_the_leaderboard(postgres_dsn: str) -> None:
    log = MemoryLog()
    await begin(log)
    async with ranking(log, postgres_dsn) as models:
        await live(log, Life("s1", time_us=123.0))
        (end,) = await ended(log, models)
        (entry,) = await read_standings(models)
    assert end.is_eligible
    assert end.score_us == pytest.approx(123.0)
    assert (entry["submission"], entry["place"], entry["score_us"]) == ("s1", 1, 123.0)


async def test_an_entry_is_the_best_run_and_the_earlier_of_equals(postgres_dsn: str) -> None:
    log = MemoryLog()
    await begin(log)
    lives = [
        Life("slow", time_us=300),
        Life("best", time_us=100),
        Life("same", time_us=100),
        Life("other", account="grace", time_us=100),
        Life("wrong", account="linus", verdict="wrong_answer"),
        Life("test", account="linus", mode="test"),
    ]
    async with ranking(log, postgres_dsn) as models:
        await live(log, *lives)
        await ended(log, models)
        entries = await read_standings(models)
    assert [(entry["submission"], entry["place"]) for entry in entries] == [
        ("best", 1),
        ("other", 2),
    ]


async def test_a_run_that_no_lease_names_counts_for_nothing(postgres_dsn: str) -> None:
    log = MemoryLog()
    await begin(log)
    life = Life("s1")
    async with ranking(log, postgres_dsn) as models:
        for aggregate, fact in life.facts()[:4]:
            await say(log, aggregate, fact)
        await say(log, subjects.run(AGENT, "forged"), life.completed())
        await say(log, subjects.run("thief", life.run), replace_time(life))
        await eventually(lambda: is_folded(log, models))
        entries, outcomes = await read_standings(models), await read_outcomes(models)
    assert entries == []
    assert [outcome["state"] for outcome in outcomes] == ["running"]


def replace_time(life: Life) -> events.RunCompleted:
    return replace(life, time_us=0.001).completed()


async def test_two_rankers_end_a_submission_once(postgres_dsn: str) -> None:
    log = MemoryLog()
    await begin(log)
    async with (
        await connect(postgres_dsn, SCHEMA) as first,
        await connect(postgres_dsn, SCHEMA) as second,
    ):
        first_ranker, second_ranker = (
            ranker_of(log, ReadModels(connection)) for connection in (first, second)
        )
        await live(log, Life("s1"))
        await first_ranker.decisions.models.write(
            0, [decode_event(event) for event in log.since(0)]
        )
        await asyncio.gather(first_ranker.decisions.ends(), second_ranker.decisions.ends())
        await first_ranker.decisions.ends()
    ends = [event for event in log.since(0) if event.envelope.type == "SubmissionFinished"]
    assert len(ends) == 1


async def test_a_second_projector_is_fenced_and_writes_nothing(postgres_dsn: str) -> None:
    log = MemoryLog()
    await begin(log)
    batch = [decode_event(event) for event in log.since(0)]
    async with await connect(postgres_dsn, SCHEMA) as connection:
        models = ReadModels(connection)
        await models.write(0, batch)
        with pytest.raises(CheckpointConflict):
            await models.write(0, batch)
        assert await models.checkpoint() == len(batch)


END_SESSION = "select pg_terminate_backend(%s)"
# As after a crash that lost the last commit; the session outlives it behind a connection pool.
LOSE_COMMIT = "update checkpoint set seq = seq - 1 where name = 'ranker' and %s > 0"


@pytest.mark.parametrize(
    ("loss", "error"), [(END_SESSION, Failed), (LOSE_COMMIT, CheckpointConflict)]
)
async def test_a_ranker_that_waits_for_events_notices_what_postgres_lost(
    postgres_dsn: str, loss: str, error: type[Exception]
) -> None:
    log = MemoryLog()
    await begin(log)

    async def run() -> None:
        async with open_read_models(postgres_dsn, SCHEMA) as models:
            sessions.append(models.connection.info.backend_pid)
            await ranker_of(log, models).run()

    sessions: list[int] = []
    async with await connect(postgres_dsn, SCHEMA) as reading:
        task = asyncio.create_task(run())
        await live(log, Life("s1"))
        await ended(log, ReadModels(reading))
        await reading.execute(loss.encode(), sessions)
        with pytest.raises(error):
            await asyncio.wait_for(task, 30)


async def test_what_reads_between_writes_says_that_postgres_is_lost(postgres_dsn: str) -> None:
    """Several loops of ranker do: their failures at once count as one only if all are Failed."""
    async with await connect(postgres_dsn, SCHEMA) as connection:
        reads = ReadsBetweenWrites(ReadModels(connection))
        assert await reads.rows("contests", contest=None) == []
        with pytest.raises(psycopg.errors.AdminShutdown):
            await connection.execute(END_SESSION.encode(), [connection.info.backend_pid])
        with pytest.raises(Failed):
            await reads.rows("contests", contest=None)


@seeds(6)
async def test_any_interleaving_rebuilds_to_what_grew(postgres_dsn: str, seed: int) -> None:
    chance = Random(seed)
    log = MemoryLog()
    await begin(log)
    lives = [
        Life(
            f"s{number}",
            account=chance.choice(["ada", "grace", "linus"]),
            time_us=chance.choice([100.0, 200.0, 300.0]),
            mode=chance.choice(["ranked", "ranked", "test"]),
            source=chance.choice(["", "", "x", "y"]),
            process_us=chance.choice([(), (90.0, 110.0, 100.0)]),
            verdict=chance.choice(["passed", "passed", "wrong_answer"]),
        )
        for number in range(8)
    ]
    async with ranking(log, postgres_dsn) as models:
        waiting = [life.facts() for life in lives]
        waiting += [evaluation_facts(id_) for id_ in ("e1", "e2", "e3")]
        while any(waiting):
            aggregate, fact = chance.choice([item for item in waiting if item]).pop(0)
            await say(log, aggregate, fact)
            await asyncio.sleep(0)
        await ended(log, models)
        result = await replayed(postgres_dsn, log)
    assert (result.differences, result.rows["submission"]) == ([], 8)
    assert (result.rows["evaluation"], result.rows["verdict"]) == (3, 2)


async def test_a_changed_leaderboard_is_found_out(postgres_dsn: str) -> None:
    log = MemoryLog()
    await begin(log)
    async with ranking(log, postgres_dsn) as models:
        await live(log, Life("s1"), Life("s2", account="grace", time_us=50.0))
        await ended(log, models)
        await models.connection.execute(b"update entry set score_us = 1 where submission = 's1'")
        result = await replayed(postgres_dsn, log)
    assert [difference["kind"] for difference in result.differences] == ["entry", "entry"]


async def test_a_submission_is_read_whole(postgres_dsn: str) -> None:
    log = MemoryLog()
    await begin(log)
    async with (
        ranking(log, postgres_dsn) as models,
        create_pool(postgres_dsn, 1, 2, SCHEMA) as connections,
    ):
        await live(log, Life("s1"))
        await ended(log, models)
        reader = Reader(connections)
        (row,) = await reader.rows("submission", number=3, at=now())
    assert (row["outcome"], row["tier"], row["cases"][0]["samples"]) == ("passed", "C2", 10)


async def test_a_submission_waits_from_its_first_event_on(postgres_dsn: str) -> None:
    log = MemoryLog()
    await begin(log)
    life = Life("s1")
    async with (
        ranking(log, postgres_dsn) as models,
        create_pool(postgres_dsn, 1, 2, SCHEMA) as connections,
    ):
        reader = Reader(connections)
        received, *others = life.facts()
        await say(log, *received, life.id)
        await eventually(lambda: is_folded(log, models))
        (row,) = await reader.rows("submission", number=3, at=now())
        assert (row["state"], row["outcome"]) == ("queued", None)
        for aggregate, fact in others:
            await say(log, aggregate, fact, life.id)
        await ended(log, models)
        (row,) = await reader.rows("submission", number=3, at=now())
    assert (row["outcome"], row["tier"], row["cases"][0]["samples"]) == ("passed", "C2", 10)
    notes = {type_: note for _, type_, _, note, _ in row["timeline"]}
    assert list(notes) == [
        "SubmissionReceived",
        "JobLeased",
        "RunStarted",
        "RunCompleted",
        "SubmissionFinished",
    ]
    assert notes["RunCompleted"] == "passed in 1.00 s: check passed in 0.10 s"
