"""An event that cannot be folded stops the projection visibly until an operator skips it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import msgspec
import pytest

from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA, Reader, ReadModels
from ranker.service.decisions import Metrics, Unfoldable
from ranker.service.progress import Live, ProjectionProgress
from ranker.service.projection import project
from shared import events, subjects
from shared.clock import new_id
from shared.event_log import NewEvent
from shared.postgres import connect, create_pool
from shared.wire import Envelope, EventMetadata, make_envelope
from tests.ranker.replays import replayed
from tests.support.lives import T0, Life, begin, live, publish, say
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.ranking import is_folded, ranker_of, read_outcomes, running
from tests.support.reading import STAFF
from tests.support.waits import eventually

pytestmark = pytest.mark.server


@dataclass
class Poisoned:
    """A ranker whose log has a bad event."""

    log: MemoryLog
    models: ReadModels
    progress: ProjectionProgress
    task: asyncio.Task[None]
    http: httpx.AsyncClient
    writer: ReadModels

    async def put(self, envelope: Envelope) -> int:
        """Append it; the projection stops there."""
        seq = await self.log.append(NewEvent(envelope, None))
        await eventually(lambda: self.progress.parked is not None)
        assert self.progress.parked is not None
        assert self.progress.parked.seq == seq
        return seq

    async def skip(self, seq: int, projection: str = "ranker") -> None:
        """Let the projection continue without it."""
        skipped = events.EventSkipped(projection=projection, seq=seq, reason="looked at it")
        await say(self.log, subjects.audit("platform"), skipped)

    async def parked(self) -> list[tuple[int, str]]:
        """The rows about the stop."""
        cursor = await self.models.connection.execute(b"select seq, error from parked")
        return [(seq, error) for seq, error in await cursor.fetchall()]


@pytest.fixture
async def poisoned(postgres_dsn: str) -> AsyncIterator[Poisoned]:
    log, progress = MemoryLog(), ProjectionProgress()
    await begin(log)
    async with (
        await connect(postgres_dsn, SCHEMA) as writing,
        await connect(postgres_dsn, SCHEMA) as reading,
        create_pool(postgres_dsn, 1, 2, SCHEMA) as connections,
        running(ranker_of(log, writer := ReadModels(writing), progress)) as task,
    ):
        app = create_app(
            ReadSources(Reader(connections), progress, Live(), log.last, MemoryBlobStore())
        )
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://ranker", headers=STAFF
        ) as http:
            yield Poisoned(log, ReadModels(reading), progress, task, http, writer)


def fresh(fact: events.Fact, aggregate: str) -> Envelope:
    return make_envelope(fact, aggregate, EventMetadata(new_id(), T0, "service:test", "", ""))


def unknown() -> Envelope:
    """An event of an unknown type."""
    return msgspec.structs.replace(fresh(Life("x").completed(), "run.a.b"), type="Later")


def undecodable() -> Envelope:
    """An event whose data does not fit its type."""
    finished = fresh(Life("x").completed(), subjects.submission("s9"))
    return msgspec.structs.replace(finished, type="SubmissionFinished", data=msgspec.Raw(b"{}"))


def unwritable() -> Envelope:
    """An event that decodes but fits no table: its version is not a 32-bit number."""
    published = events.AgentRegistered(
        gpu="CPU", count=2**40, fingerprint="", level="", harness="", details={}, modes=[]
    )
    return fresh(published, subjects.agent("a9"))


@pytest.mark.parametrize("make", [unknown, undecodable, unwritable])
async def test_the_projection_stands_and_goes_on_when_it_may(
    poisoned: Poisoned, make: object
) -> None:
    await live(poisoned.log, Life("before"))
    seq = await poisoned.put(make())  # type: ignore[operator]
    await live(poisoned.log, Life("after", "grace"))
    assert [seq_ for seq_, _ in await poisoned.parked()] == [seq]
    assert await poisoned.models.checkpoint() == seq - 1
    assert not poisoned.task.done()
    await poisoned.skip(seq, projection="another")
    await poisoned.skip(seq)
    await eventually(lambda: is_folded(poisoned.log, poisoned.models))
    assert await poisoned.parked() == []
    assert poisoned.progress.parked is None
    outcomes = await read_outcomes(poisoned.models)
    assert [outcome["id"] for outcome in outcomes] == ["before", "after"]


async def test_reads_go_on_and_say_where_the_projection_stands(poisoned: Poisoned) -> None:
    await live(poisoned.log, Life("before"))
    seq = await poisoned.put(unknown())
    await live(poisoned.log, Life("after"))
    answer = (await poisoned.http.get("/v1/leaderboards/identity/CPU")).json()
    assert answer["as_of"] == seq - 1
    assert answer["parked"]["seq"] == seq
    assert "Later" in answer["parked"]["error"]


async def test_a_rebuild_passes_over_what_was_skipped(
    poisoned: Poisoned, postgres_dsn: str
) -> None:
    await live(poisoned.log, Life("before"))
    await poisoned.skip(await poisoned.put(undecodable()))
    await live(poisoned.log, Life("after", "grace"))
    await eventually(lambda: is_folded(poisoned.log, poisoned.models))
    result = await replayed(postgres_dsn, poisoned.log)
    assert (result.differences, result.rows["submission"]) == ([], 2)


async def test_tables_that_are_switched_in_let_the_projection_look_again(
    poisoned: Poisoned, postgres_dsn: str
) -> None:
    await say(poisoned.log, *Life("s1").facts()[0])

    async def is_told() -> bool:
        return poisoned.progress.seq == await poisoned.log.last()

    # The rows are seen before the writer remembers them: what it is to forget, it must know.
    await eventually(is_told)
    await poisoned.models.connection.execute(b"update submission set timeline = '[[1]]'")
    poisoned.writer.cache.forget()
    await say(poisoned.log, *Life("s1").facts()[1])
    await eventually(lambda: poisoned.progress.parked is not None)
    assert (await replayed(postgres_dsn, poisoned.log, SCHEMA, switch=True)).is_switched
    switched = events.ProjectionSwitched(
        name="ranker", from_schema="", to_schema=SCHEMA, seq=1, is_equal=False
    )
    await say(poisoned.log, subjects.audit("projection"), switched)
    await eventually(lambda: is_folded(poisoned.log, poisoned.models))
    (row,) = await read_outcomes(poisoned.models)
    assert (poisoned.progress.parked, row["state"]) == (None, "assigned")


async def test_a_rebuild_waits_for_nobody(postgres_dsn: str) -> None:
    log = MemoryLog()
    await publish(log)
    await log.append(NewEvent(unknown(), None))
    async with await connect(postgres_dsn, SCHEMA) as connection:
        with pytest.raises(Unfoldable):
            async for _ in project(
                log, ReadModels(connection), ProjectionProgress(), Metrics(), until=2
            ):
                pass
