"""However a log is cut into batches, the rows are the same."""

import asyncio
from collections.abc import Sequence
from itertools import cycle
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.domain.fold import CHANGES, IGNORED, STEPS, decode_event, find_required_rows, fold
from ranker.domain.rows import DecodedEvent, Rows
from ranker.postgres import ReadModels
from ranker.service.progress import ProjectionProgress
from shared import events, subjects
from shared.clock import new_id
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE
from shared.postgres import connect, migrate
from shared.wire import EventMetadata, decode, encode_envelope, make_envelope
from tests.ranker.test_moderation import Ruled
from tests.support.chance import seeds
from tests.support.lives import AGENT, BLOB, T0, Life, begin, say
from tests.support.memory import MemoryLog
from tests.support.ranking import ranker_of, running
from tests.support.servers import drop_schema

TABLES = (
    *("submission", "run", "result", "entry", "tie_group", "tie_block", "moderation", "ban"),
    *("record", "podium", "account_merge"),
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
        Life(
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
    """Overlapping lives with some decisions about them in between."""
    waiting = [life.facts() for life in lives(chance)]
    merges = cycle(
        (events.AccountMerged(into="ada", undo_until_at=T0), events.MergeUndone(into="ada"))
    )
    while any(waiting):
        aggregate, fact = chance.choice([item for item in waiting if item]).pop(0)
        await say(ruled.log, aggregate, fact)
        if chance.random() < 0.3:
            aggregate = subjects.moderation(f"s{chance.randrange(8)}")
            await say(ruled.log, aggregate, chance.choice(DECISIONS))
        if chance.random() < 0.2:
            await say(ruled.log, subjects.account("grace"), next(merges))
    await ruled.settle()
    for number in range(8):
        aggregate = subjects.moderation(f"s{number}")
        await say(ruled.log, aggregate, chance.choice(DECISIONS))
    await say(ruled.log, subjects.account("ada"), events.AccountBanned(reason="spam"))
    await ruled.settle()


def cut(chance: Random, log: Sequence[DecodedEvent], most: int) -> list[Sequence[DecodedEvent]]:
    """Cut the events into batches."""
    parts, start = [], 0
    while start < len(log):
        end = start + chance.randint(1, most)
        parts.append(log[start:end])
        start = end
    return parts


async def write(models: ReadModels, parts: Sequence[Sequence[DecodedEvent]]) -> None:
    """Fold and write the batches one after the other."""
    for part in parts:
        await models.write(part[0].event.seq - 1, part)


async def write_ahead(models: ReadModels, parts: Sequence[Sequence[DecodedEvent]]) -> None:
    """Fold each batch while the one before is being written, as a rebuild does."""
    models.prepare(parts[0])
    for place, part in enumerate(parts, 1):
        writing = asyncio.create_task(models.write(part[0].event.seq - 1, part))
        await asyncio.sleep(0)
        for following in parts[place : place + 1]:
            models.prepare(following)
        await writing


async def tables(models: ReadModels) -> dict[str, list[Any]]:
    """Every row as text."""
    rows_by_table = {}
    for table in TABLES:
        cursor = await models.connection.execute(f"table {table}".encode())
        rows_by_table[table] = sorted(str(row) for row in await cursor.fetchall())
    return rows_by_table


@pytest.mark.server
@seeds(4)
async def test_batches_of_any_size_make_the_same_rows(
    postgres_dsn: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, log = Random(seed), MemoryLog()
    await begin(log)
    tables_ = []
    # Entries change with each batch, once the batches touch three submissions, or at the end.
    for number, (most, deferred_max) in enumerate(
        ((1000, 0), (1, 0), (5, 0), (40, 0), (5, 3), (40, 1000))
    ):
        monkeypatch.setattr("ranker.postgres.DEFERRED_SUBMISSIONS_MAX", deferred_max)
        schema = f"cut_{number}"
        migrate(postgres_dsn, "ranker", schema)
        async with (
            await connect(postgres_dsn, schema) as writing,
            await connect(postgres_dsn, schema) as reading,
        ):
            models = ReadModels(writing, defer_entries=deferred_max > 0)
            if not number:
                progress = ProjectionProgress()
                async with running(ranker_of(log, models, progress)):
                    await a_log(chance, Ruled(log, ReadModels(reading), progress))
            else:
                parts = cut(chance, [decode_event(event) for event in log.since(0)], most)
                await (write_ahead if number > 1 else write)(models, parts)
                await models.update_entries()
            tables_.append(await tables(ReadModels(reading)))
        drop_schema(postgres_dsn, schema)
    assert len(tables_[0]["submission"]) == 8
    assert tables_[1:] == tables_[:1] * 5


def decoded_life() -> list[DecodedEvent]:
    """One life, decoded without a log."""
    return decoded_events(Life("s1").facts())


def decoded_events(facts: Sequence[tuple[str, events.Fact]]) -> list[DecodedEvent]:
    """Events of some facts, decoded without a log."""
    decoded = []
    for seq, (aggregate, fact) in enumerate(facts, 1):
        body = encode_envelope(
            make_envelope(fact, aggregate, EventMetadata(new_id(), T0, "service:test", "", ""))
        )
        decoded.append(decode_event(RecordedEvent(seq, decode(body), body)))
    return decoded


@given(st.permutations(range(5)))
def test_no_order_of_events_breaks_a_fold(order: list[int]) -> None:
    life = decoded_life()
    rows = fold(Rows(), [life[place] for place in order])
    assert len(rows.submissions) == 1
    assert len(rows.runs) <= 1


def test_a_batch_needs_nothing_that_it_makes() -> None:
    required = find_required_rows(decoded_life())
    assert (required.submissions, required.jobs, required.runs) == (set(), set(), set())
    assert find_required_rows(decoded_life()[2:]).runs == set()
    assert find_required_rows(decoded_life()[3:]).runs == {"run-s1"}


@pytest.mark.parametrize("times", [{"score_us": 0.0}, {"process_us": [100.0, 0.0]}])
def test_a_result_without_a_logarithm_names_its_submission(times: dict[str, Any]) -> None:
    end = events.SubmissionFinished(
        outcome="passed",
        verdict="passed",
        code="ranked",
        reason="",
        is_eligible=True,
        run="run-s1",
        **{"score_us": 100.0} | times,
    )
    life = decoded_events([*Life("s1").facts(), (subjects.submission("s1"), end)])
    with pytest.raises(ValueError, match="s1: score_us and process_us must be above 0"):
        fold(Rows(), life)


def test_a_run_of_another_agent_is_not_this_ones() -> None:
    life = decoded_life()
    aggregate = subjects.run("thief", "run-s1")
    stolen = [
        decode_event(item.event._replace(envelope=_moved(item, aggregate)))
        for item in life[3:5]
        if item.event.envelope.aggregate == subjects.run(AGENT, "run-s1")
    ]
    rows = fold(Rows(), [*life[:3], *stolen])
    assert rows.submissions["s1"].state == "assigned"
    assert rows.runs["run-s1"].verdict is None


def _moved(decoded: DecodedEvent, aggregate: str) -> Any:
    return msgspec.structs.replace(decoded.event.envelope, aggregate=aggregate)


def test_every_event_class_has_a_rule_or_is_ignored_on_purpose() -> None:
    handled = CHANGES.keys() | STEPS.keys()
    assert handled | IGNORED == set(CATALOGUE.values()), "give the new class a rule, or ignore it"
    assert not handled & IGNORED
