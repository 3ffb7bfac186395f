"""Whatever an agent offers or says, the scheduler can say what follows of it."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from scheduler.domain.fold import evolve
from scheduler.domain.rules import decide
from scheduler.service import Heartbeat, Presence
from shared import events, subjects
from shared.event_log import RecordedEvent
from shared.events import Blob
from shared.wire import EventMetadata, decode_fact, encode_envelope, make_envelope
from tests.scheduler.histories import (
    CPU,
    LATE,
    T0,
    History,
    completed,
    given_running,
    offering,
    received,
    world,
)
from tests.scheduler.histories import started as begun
from tests.support.memory import MemoryBus
from tests.support.waits import eventually
from tests.support.writers import written

LONG = "x" * 254_000
STAMP = EventMetadata("i" * 36, T0, "service:scheduler", "c" * 36, "c" * 36)


def settle(history: History) -> list[str]:
    """All that follows, each fact as it would be stored and read again."""
    appended: list[str] = []
    for _ in range(20):
        moves = list(decide(history.state, world(offering("a1"), now=history.at)))
        if not moves:
            return appended
        for move in moves:
            for item in move:
                envelope = make_envelope(item.fact, item.aggregate, STAMP)
                encode_envelope(envelope)
                assert decode_fact(envelope) == item.fact
                appended.append(envelope.type)
            history.append_decision(move)
    raise AssertionError("it never came to rest")


@pytest.mark.parametrize(
    ("code", "reason"), [("problem_fault", LONG), ("noisy", LONG), (LONG, "why")]
)
def test_a_failure_with_a_very_long_reason_is_told_in_short(code: str, reason: str) -> None:
    history = given_running()
    history.say(history.run_agg(), events.RunFailed(stage="", code=code, reason=reason))
    assert len(history.state.runs[history.run_agg().split(".")[2]].code) <= 64
    assert settle(history)


@pytest.mark.parametrize("usual_us", [1e-300, 1e300])
def test_a_canary_of_absurd_times_has_a_ratio_that_can_be_read(usual_us: float) -> None:
    history = History()
    history.say(
        subjects.pool("CPU"),
        events.CanaryChosen(
            submission="c",
            account="ada",
            problem="p",
            problem_number=1,
            problem_digest="d",
            source=Blob(digest="x", bytes=1),
            name="k.py",
            every_s=10,
            ratio_max=2,
        ),
    )
    for time_us in (usual_us, usual_us, usual_us, 1e300 if usual_us < 1 else 1e-300):
        settle(history)
        history.say(history.run_agg(), begun()).say(history.run_agg(), completed(time_us=time_us))
        history.at += timedelta(seconds=11)
    settle(history)
    assert len(history.of_type("CanaryJudged")) == 4


@pytest.mark.parametrize(
    "said",
    [
        {"details": {"why": LONG}},
        {"count": 2**40},
        {"memory_mib": -(2**63)},
        {"gpu": "a name > with.dots"},
    ],
)
async def test_an_offer_that_could_not_be_recorded_is_none(said: dict[str, object]) -> None:
    bus, presence = MemoryBus(), Presence(1.0)
    watching = asyncio.create_task(presence.watch(bus))
    offer = msgspec.json.encode(Heartbeat("s", True, msgspec.structs.replace(CPU, **said)))
    await bus.beat("a1", offer, 10)
    await bus.beat("good", msgspec.json.encode(Heartbeat("s", True, CPU)), 10)
    await eventually(presence.offers)
    assert presence.offers().keys() == {"good"}
    assert not watching.done()
    watching.cancel()


def test_whoever_measures_on_a_clock_gone_wrong_costs_a_participant_no_more_than_its_time() -> None:
    history = given_running()
    aggregate = history.run_agg()
    stamp = EventMetadata("z", T0.replace(year=9999), "agent:a1", "", "")
    # What was used is kept while somebody else waits.
    history.say(subjects.submission("bobs"), received("bob"))
    history.seq += 1
    evolve(history.state, RecordedEvent(history.seq, make_envelope(completed(), aggregate, stamp)))
    assert 0 < history.state.pools["CPU"].used_s["ada"] <= 3600


@pytest.mark.parametrize("data", [b'{"verdict":"\xff"}', b"[" * 100_000, b"null", b'"x'])
def test_a_verdict_that_nobody_can_decode_stops_nobody(data: bytes) -> None:
    history = given_running()
    aggregate = history.run_agg()
    where, actor = written(aggregate, completed())
    envelope = make_envelope(completed(), where, STAMP._replace(actor=actor))
    history.seq += 1
    broken = msgspec.structs.replace(envelope, data=msgspec.Raw(data))
    evolve(history.state, RecordedEvent(history.seq, broken))
    history.versions[aggregate] = history.seq
    appended = history.settle(world(offering("a1"), now=LATE))
    assert appended[:2] == ["JobExpired", "JobGivenUp"]
