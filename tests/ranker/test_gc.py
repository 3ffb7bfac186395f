"""Garbage collection removes old unreferenced blobs, and never a blob that an event refers to."""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.blobs import Collection, collect_blobs
from shared.blobs import BLOB_REFRESH_AFTER_S, BLOB_RETENTION_S, StoredBlob
from shared.errors import Failed
from shared.event_log import NewEvent
from shared.events import Blob, SubmissionReceived
from shared.wire import EventMetadata, make_envelope
from tests.support.examples import example_event
from tests.support.memory import MemoryBlobStore, MemoryLog

T0 = datetime(2026, 1, 1, tzinfo=UTC)
OLD = timedelta(seconds=BLOB_RETENTION_S + 1)


def naming(blob: Blob, number: int) -> NewEvent:
    """An event that refers to a blob."""
    known = example_event(SubmissionReceived)
    fact = type(known)(
        **{**{f: getattr(known, f) for f in known.__struct_fields__}, "source": blob}
    )
    stamp = EventMetadata(f"e{number}", T0, "service:test", "s1", "e0")
    return NewEvent(make_envelope(fact, f"submission.s{number}", stamp), 0)


@dataclass
class Time:
    """A clock that the test moves."""

    at: datetime = T0

    def __call__(self) -> datetime:
        return self.at


async def test_old_blobs_without_a_name_are_removed() -> None:
    time, log = Time(), MemoryLog()
    blobs = MemoryBlobStore(time)
    named, unnamed = await blobs.put(b"named"), await blobs.put(b"unnamed")
    await log.append(naming(named, 1))
    time.at += OLD
    young = await blobs.put(b"young")
    collection = await collect_blobs(log, blobs, time.at, is_trial=True)
    assert collection == Collection(True, 1, 3, 2, 1, len(b"unnamed"))
    assert len([blob async for blob in blobs.kept()]) == 3
    assert (await collect_blobs(log, blobs, time.at, is_trial=False)).removed == 1
    left = {blob.digest async for blob in blobs.kept()}
    assert left == {named.digest, young.digest}
    assert unnamed.digest not in left


async def test_an_empty_log_is_no_reason_to_remove_everything() -> None:
    time, blobs = Time(), MemoryBlobStore()
    await blobs.put(b"unnamed")
    time.at = datetime.now(UTC) + OLD
    with pytest.raises(Failed, match="the log is empty"):
        await collect_blobs(MemoryLog(), blobs, time.at, is_trial=False)
    assert len([blob async for blob in blobs.kept()]) == 1


class Pause:
    """Where another of several tasks may continue."""

    def __await__(self) -> Generator[None, None, None]:
        yield


@dataclass
class Stepwise:
    """A store and a log where other tasks may interrupt each call."""

    time: Time = field(default_factory=Time)
    log: MemoryLog = field(default_factory=MemoryLog)

    def __post_init__(self) -> None:
        self.blobs = MemoryBlobStore(self.time)
        self.named: set[str] = set()
        self.count = 0

    async def kept(self) -> Any:
        """List the blobs, with a pause before each."""
        async for blob in self.blobs.kept():
            await Pause()
            yield blob

    async def remove(self, kept: StoredBlob) -> bool:
        """Remove after a pause."""
        await Pause()
        return await self.blobs.remove(kept)

    async def submit(self, data: bytes) -> None:
        """Store a blob and append the event that refers to it, within a day, as ingest does."""
        before = self.time.at
        blob = await self.blobs.put(data)
        await Pause()
        await Pause()
        if self.time.at - before < timedelta(seconds=BLOB_REFRESH_AFTER_S):
            self.count += 1
            await self.log.append(naming(blob, self.count))
            self.named.add(blob.digest)

    async def collect(self) -> None:
        """Collect once, as of the moment when it begins."""
        moment = self.time.at
        await Pause()
        await collect_blobs(self.log, self, moment, is_trial=False)


async def _first(world: Stepwise) -> None:
    await world.log.append(naming(Blob(digest="0" * 64, bytes=0), 0))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 2)),
        st.tuples(st.just("collect"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 60)),
        st.tuples(st.just("go on"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_comes_between_no_named_blob_is_lost(steps: list[tuple[str, int]]) -> None:
    world, running = Stepwise(), list[Generator[Any, None, None]]()
    list(_steps(_first(world)))
    begin: dict[str, Callable[[int], Awaitable[None]]] = {
        "submit": lambda number: world.submit(bytes([number])),
        "collect": lambda _: world.collect(),
    }
    for action, number in steps:
        if action == "wait":
            world.time.at += timedelta(hours=number)
        elif action == "go on":
            _go_on(running, number)
        else:
            running.append(_steps(begin[action](number)))
    while running:
        _go_on(running, 0)
    left = set(world.blobs._kept)
    assert world.named <= left, f"lost: {world.named - left}"


def _steps(work: Awaitable[None]) -> Generator[Any, None, None]:
    yield from work.__await__()


def _go_on(running: list[Generator[Any, None, None]], index: int) -> None:
    if index < len(running):
        try:
            next(running[index])
        except StopIteration:
            del running[index]
