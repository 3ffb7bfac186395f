"""Histories, agents and clocks: the starting points of the scheduler's tests."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from scheduler.domain.fold import evolve
from scheduler.domain.queue import Policy
from scheduler.domain.rules import DEFAULT_POLICY, decide
from scheduler.domain.state import Decision, Offer, SchedulerState, World, split_decision
from shared import events, subjects
from shared.event_log import RecordedEvent
from shared.events import Blob, Fact
from shared.subjects import job_id_of
from shared.wire import EventMetadata, make_envelope
from tests.support.writers import written

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATE = T0 + timedelta(hours=2)
JOB = job_id_of("s1")
CPU = events.AgentRegistered(
    gpu="CPU",
    count=1,
    fingerprint="f",
    level="none",
    harness="1",
    details={},
    modes=["test", "benchmark", "ranked"],
)
ENROLLED = events.AgentEnrolled(sign_key="k", owner="test")
OFFER = Offer("a1", "session-1", is_free=True, registration=CPU)


RECEIVED = events.SubmissionReceived(
    account="ada",
    problem="identity",
    problem_number=1,
    problem_digest="d",
    gpu="CPU",
    mode="ranked",
    source=Blob(digest="x", bytes=1),
    name="kernel.py",
    deadline_at=T0 + timedelta(hours=1),
    via="http",
)


def received(account: str = "ada", **other: Any) -> events.SubmissionReceived:
    return msgspec.structs.replace(RECEIVED, account=account, **other)


def offering(agent: str = "a1", *, is_free: bool = True, **fields: Any) -> Offer:
    registration = msgspec.structs.replace(CPU, **fields)
    return Offer(agent, f"session of {agent}", is_free, registration)


def started() -> events.RunStarted:
    return events.RunStarted(fingerprint="f", harness="1", level="none", tier="C2", key_commit="k")


def failed(code: str = "platform", *, has_passed_self_test: bool = False) -> events.RunFailed:
    return events.RunFailed(
        stage="",
        code=code,
        reason="it did not work",
        has_passed_self_test=has_passed_self_test,
    )


class History:
    """A log in memory that checks expected versions, folded as it grows."""

    def __init__(self, at: datetime = T0) -> None:
        self.state = SchedulerState()
        self.at = at
        self.seq = 0
        self.facts: list[tuple[str, Fact]] = []
        self.events: list[RecordedEvent] = []
        self.versions: dict[str, int] = {}

    def say(self, aggregate: str, fact: Fact, corr: str = "") -> "History":
        self.seq += 1
        aggregate, actor = written(aggregate, fact)
        stamp = EventMetadata(str(self.seq), self.at, actor, corr, "")
        event = RecordedEvent(self.seq, make_envelope(fact, aggregate, stamp))
        self.state = evolve(self.state, event)
        self.events.append(event)
        self.facts.append((subjects.history_of(aggregate), fact))
        self.versions[subjects.history_of(aggregate)] = self.seq
        return self

    def append_decision(self, decision: Decision) -> list[str]:
        """Append a decision in batches, each completely or not at all; return the names of the
        facts.
        """
        return [name for batch in self.append_stepwise(decision) for name in batch]

    def append_stepwise(self, decision: Decision) -> Iterator[list[str]]:
        """Yield after each batch, for tests that stop in between."""
        for batch in split_decision(decision):
            if any(s.expected not in (None, self.versions.get(s.aggregate, 0)) for s in batch):
                return
            for append in batch:
                self.say(append.aggregate, append.fact)
            yield [type(append.fact).__name__ for append in batch]

    def settle(self, world: World, policy: Policy = DEFAULT_POLICY) -> list[str]:
        """Append everything that is due, round after round, until nothing is; return the names."""
        self.enrol(*world.offers)
        names: list[str] = []
        self.at = world.now
        for _ in range(50):
            decisions = list(decide(self.state, world, policy))
            if not decisions:
                return names
            for decision in decisions:
                names += self.append_decision(decision)
        raise AssertionError(f"the scheduler never came to rest: {names[-10:]}")

    def enrol(self, *agents: str) -> "History":
        """Enrol the agents that were neither enrolled nor revoked yet."""
        for name in agents:
            known = self.state.agents.get(name)
            if known is None or not (known.is_enrolled or known.revoked):
                self.say(subjects.agent(name), ENROLLED)
        return self

    def of_type(self, name: str) -> list[tuple[str, Fact]]:
        """Return the facts of one type, in order."""
        return [(aggregate, fact) for aggregate, fact in self.facts if type(fact).__name__ == name]

    def run_agg(self) -> str:
        return next(
            aggregate
            for aggregate, fact in reversed(self.facts)
            if isinstance(fact, events.JobAssigned)
        )


def world(*offers: Offer, now: datetime = T0, is_settled: bool = True) -> World:
    return World(now, {offer.agent: offer for offer in offers}, is_settled)


def given_received(count: int = 1) -> History:
    history = History()
    for number in range(1, count + 1):
        history.say(subjects.submission(f"s{number}"), received())
    return history


def given_running() -> History:
    history = given_received()
    history.settle(world(OFFER))
    return history.say(history.run_agg(), started())


def completed(verdict: str = "passed", time_us: float | None = None) -> events.RunCompleted:
    timed = [events.CaseResult(name="c", stage="time", verdict="passed", time_us=time_us)]
    return events.RunCompleted(
        verdict=verdict,
        stage="time",
        reason="",
        cases=timed if time_us else [],
        took_s=1,
        key="k",
        environment={},
    )


def ranked_end(**other: Any) -> events.SubmissionFinished:
    """How ranker ends a submission."""
    end = events.SubmissionFinished(
        outcome="passed", is_eligible=True, code="ranked", reason="", verdict="passed"
    )
    return msgspec.structs.replace(end, **other)


def names(decisions: Sequence[Decision]) -> list[str]:
    return [type(append.fact).__name__ for decision in decisions for append in decision]
