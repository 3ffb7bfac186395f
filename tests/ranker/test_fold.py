"""However a log is cut into batches, the same rows come of it."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.domain.batch import Rows, Told, needs, tell
from ranker.domain.fold import fold
from ranker.postgres import ReadModels
from shared import events, subjects
from shared.clock import new_id
from shared.event_log import Recorded
from shared.memory import MemoryLog
from shared.postgres import connect, drop_schema, migrate
from shared.wire import Stamp, decode, pack, seal
from tests.ranker.test_moderation import Ruled
from tests.support.lives import AGENT, BLOB, T0, Life, ShortLife, begin, say
from tests.support.ranking import ranker_of, running

TABLES = (
    *("submission", "run", "result", "entry", "tie_group", "tie_block", "moderation", "ban"),
    *("record", "podium"),
)
DECISIONS = (
    events.SubmissionHeld(rule="r", reason="look"),
    events.SubmissionReleased(reason="fine"),
    events.SubmissionDisqualified(rule="r", reason="cheat"),
    events.SubmissionRestored(reason="sorry"),
    events.SubmissionWithdrawn(reason="mine"),
    events.AppealFiled(text=BLOB),
    events.AppealDecided(is_accepted=True, reason="right"),
)


def lives(chance: Random) -> list[Life]:
    return [
        chance.choice([Life, ShortLife])(
            f"s{number}",
            account=chance.choice(["ada", "grace", "linus"]),
            time_us=chance.uniform(90, 110),
            source=chance.choice(["", "x", "y"]),
            process_us=tuple(chance.uniform(90, 110) for _ in range(3)),
            verdict=chance.choice(["passed", "passed", "wrong_answer"]),
        )
        for number in range(8)
    ]


async def a_log(chance: Random, ruled: Ruled) -> None:
    """Lives that overlap, with decisions about some of them in between."""
    waiting = [life.facts() for life in lives(chance)]
    while any(waiting):
        agg, fact = chance.choice([one for one in waiting if one]).pop(0)
        await say(ruled.log, agg, fact)
        if chance.random() < 0.3:
            agg = subjects.moderation(f"s{chance.randrange(8)}")
            await say(ruled.log, agg, chance.choice(DECISIONS))
    await ruled.settle()
    for number in range(8):
        agg = subjects.moderation(f"s{number}")
        await say(ruled.log, agg, chance.choice(DECISIONS))
    await say(ruled.log, subjects.account("ada"), events.AccountBanned(reason="spam"))
    await ruled.settle()


def cut(chance: Random, log: Sequence[Told], most: int) -> list[Sequence[Told]]:
    """The same events, in batches."""
    parts, start = [], 0
    while start < len(log):
        end = start + chance.randint(1, most)
        parts.append(log[start:end])
        start = end
    return parts


async def write(models: ReadModels, parts: Sequence[Sequence[Told]]) -> None:
    """Fold and write one part after the other."""
    for part in parts:
        await models.write(part[0].event.seq - 1, part)


async def write_ahead(models: ReadModels, parts: Sequence[Sequence[Told]]) -> None:
    """Fold each part while the one before it is being written, as a rebuild does."""
    models.prepare(parts[0])
    for place, part in enumerate(parts, 1):
        writing = asyncio.create_task(models.write(part[0].event.seq - 1, part))
        await asyncio.sleep(0)
        for following in parts[place : place + 1]:
            models.prepare(following)
        await writing


async def tables(models: ReadModels) -> dict[str, list[Any]]:
    """Every row, as text."""
    found = {}
    for table in TABLES:
        cursor = await models.connection.execute(f"table {table}".encode())
        found[table] = sorted(str(row) for row in await cursor.fetchall())
    return found


@pytest.mark.server
@pytest.mark.parametrize("seed", range(4))
async def test_batches_of_any_size_make_the_same_rows(postgres_dsn: str, seed: int) -> None:
    chance, log = Random(seed), MemoryLog()
    await begin(log)
    kept = []
    for number, most in enumerate((1000, 1, 5, 40)):
        schema = f"cut_{number}"
        migrate(postgres_dsn, "ranker", schema)
        async with (
            await connect(postgres_dsn, schema) as writing,
            await connect(postgres_dsn, schema) as reading,
        ):
            models = ReadModels(writing)
            if not number:
                async with running(ranker_of(log, models)):
                    await a_log(chance, Ruled(log, ReadModels(reading)))
            else:
                parts = cut(chance, [tell(one) for one in log.since(0)], most)
                await (write_ahead if number > 1 else write)(models, parts)
            kept.append(await tables(ReadModels(reading)))
        drop_schema(postgres_dsn, schema)
    assert len(kept[0]["submission"]) == 8
    assert kept[1:] == kept[:1] * 3


def told() -> list[Told]:
    """One life, told without any log."""
    life = Life("s1")
    made = []
    for seq, (agg, fact) in enumerate(life.facts(), 1):
        body = pack(seal(fact, agg, Stamp(new_id(), T0, "service:test", "", "")))
        made.append(tell(Recorded(seq, decode(body), body)))
    return made


@given(st.permutations(range(8)))
def test_no_order_of_events_breaks_a_fold(order: list[int]) -> None:
    life = told()
    rows = fold(Rows(), [life[place] for place in order])
    assert len(rows.submissions) == 1
    assert len(rows.runs) <= 1


def test_a_batch_needs_nothing_that_it_makes() -> None:
    wanted = needs(told())
    assert (wanted.submissions, wanted.jobs, wanted.runs) == (set(), set(), set())
    assert needs(told()[3:]).runs == set()
    assert needs(told()[4:]).runs == {"run-s1"}


def test_a_run_of_another_agent_is_not_this_ones() -> None:
    life = told()
    agg = subjects.run("thief", "run-s1")
    stolen = [
        tell(one.event._replace(envelope=_moved(one, agg)))
        for one in life[4:7]
        if one.event.envelope.agg == subjects.run(AGENT, "run-s1")
    ]
    rows = fold(Rows(), [*life[:4], *stolen])
    assert rows.submissions["s1"].state == "assigned"
    assert rows.runs["run-s1"].verdict is None


def _moved(one: Told, agg: str) -> Any:
    return msgspec.structs.replace(one.event.envelope, agg=agg)
