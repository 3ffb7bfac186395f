"""The collector removes what is old and unnamed, and never what an event names or is to name."""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.gc import Collection, collect
from shared.blobs import COLLECTED_S, TOUCH_S, Kept
from shared.errors import Failed
from shared.event_log import New
from shared.events import Blob, SubmissionReceived
from shared.memory import MemoryBlobs, MemoryLog
from shared.testing import example
from shared.wire import Stamp, seal

T0 = datetime(2026, 1, 1, tzinfo=UTC)
OLD = timedelta(seconds=COLLECTED_S + 1)


def naming(blob: Blob, number: int) -> New:
    """An event that names a blob."""
    known = example(SubmissionReceived)
    fact = type(known)(
        **{**{f: getattr(known, f) for f in known.__struct_fields__}, "source": blob}
    )
    stamp = Stamp(f"e{number}", T0, "service:test", "s1", "e0")
    return New(seal(fact, f"submission.s{number}", stamp), 0)


@dataclass
class Time:
    """A clock that stands until it is told to move."""

    at: datetime = T0

    def __call__(self) -> datetime:
        return self.at


async def test_old_blobs_without_a_name_are_removed() -> None:
    time, log = Time(), MemoryLog()
    blobs = MemoryBlobs(time)
    named, unnamed = await blobs.put(b"named"), await blobs.put(b"unnamed")
    await log.append(naming(named, 1))
    time.at += OLD
    young = await blobs.put(b"young")
    found = await collect(log, blobs, time.at, is_trial=True)
    assert found == Collection(True, 1, 3, 2, 1, len(b"unnamed"))
    assert len([one async for one in blobs.kept()]) == 3
    assert (await collect(log, blobs, time.at, is_trial=False)).removed == 1
    left = {one.digest async for one in blobs.kept()}
    assert left == {named.digest, young.digest}
    assert unnamed.digest not in left


async def test_an_empty_log_is_no_reason_to_remove_everything() -> None:
    time, blobs = Time(), MemoryBlobs()
    await blobs.put(b"unnamed")
    time.at = datetime.now(UTC) + OLD
    with pytest.raises(Failed, match="the log is empty"):
        await collect(MemoryLog(), blobs, time.at, is_trial=False)
    assert len([one async for one in blobs.kept()]) == 1


class Pause:
    """Where another one of several may go on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


@dataclass
class Stepwise:
    """A store and a log, each word of which others may interrupt before it is done."""

    time: Time = field(default_factory=Time)
    log: MemoryLog = field(default_factory=MemoryLog)

    def __post_init__(self) -> None:
        self.blobs = MemoryBlobs(self.time)
        self.named: set[str] = set()
        self.count = 0

    async def kept(self) -> Any:
        """All that is kept, with a pause before each."""
        async for one in self.blobs.kept():
            await Pause()
            yield one

    async def remove(self, kept: Kept) -> bool:
        """Remove after a pause."""
        await Pause()
        return await self.blobs.remove(kept)

    async def submit(self, data: bytes) -> None:
        """What ingest does: a blob, then the event that names it, within a day."""
        before = self.time.at
        blob = await self.blobs.put(data)
        await Pause()
        await Pause()
        if self.time.at - before < timedelta(seconds=TOUCH_S):
            self.count += 1
            await self.log.append(naming(blob, self.count))
            self.named.add(blob.digest)

    async def collect(self) -> None:
        """One collection, as of the moment when it begins."""
        moment = self.time.at
        await Pause()
        await collect(self.log, self, moment, is_trial=False)


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
    for what, number in steps:
        if what == "wait":
            world.time.at += timedelta(hours=number)
        elif what == "go on":
            _go_on(running, number)
        else:
            running.append(_steps(begin[what](number)))
    while running:
        _go_on(running, 0)
    left = set(world.blobs._kept)
    assert world.named <= left, f"lost: {world.named - left}"


def _steps(work: Awaitable[None]) -> Generator[Any, None, None]:
    yield from work.__await__()


def _go_on(running: list[Generator[Any, None, None]], which: int) -> None:
    if which < len(running):
        try:
            next(running[which])
        except StopIteration:
            del running[which]
