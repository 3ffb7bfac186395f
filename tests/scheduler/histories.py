"""Given this history, these agents and this clock: what the scheduler's tests start from."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from scheduler.domain.board import Board
from scheduler.domain.fair import Policy
from scheduler.domain.fold import evolve
from scheduler.domain.moves import Move, Offer, World, steps
from scheduler.domain.rules import USUAL, due
from shared import events, subjects
from shared.event_log import Recorded
from shared.events import Blob, Fact
from shared.ids import submission_job
from shared.wire import Stamp, seal
from tests.support.writers import written

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATE = T0 + timedelta(hours=2)
JOB = submission_job("s1")
CPU = events.AgentRegistered(
    gpu="CPU", count=1, fingerprint="f", level="none", harness="1", details={}
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


def offering(agent: str = "a1", *, is_free: bool = True, **said: Any) -> Offer:
    registration = msgspec.structs.replace(CPU, **said)
    return Offer(agent, f"session of {agent}", is_free, registration)


def started() -> events.RunStarted:
    return events.RunStarted(fingerprint="f", harness="1", level="none", tier="C2", key_commit="k")


def failed(code: str = "noisy", *, has_passed_self_test: bool = False) -> events.RunFailed:
    return events.RunFailed(
        stage="",
        code=code,
        reason="it did not work",
        has_passed_self_test=has_passed_self_test,
    )


class History:
    """A log in memory that keeps what a version expects, folded as it grows."""

    def __init__(self, at: datetime = T0) -> None:
        self.board = Board()
        self.at = at
        self.seq = 0
        self.facts: list[tuple[str, Fact]] = []
        self.events: list[Recorded] = []
        self.versions: dict[str, int] = {}

    def say(self, agg: str, fact: Fact, corr: str = "") -> "History":
        self.seq += 1
        agg, actor = written(agg, fact)
        stamp = Stamp(str(self.seq), self.at, actor, corr, "")
        event = Recorded(self.seq, seal(fact, agg, stamp))
        self.board = evolve(self.board, event)
        self.events.append(event)
        self.facts.append((subjects.history_of(agg), fact))
        self.versions[subjects.history_of(agg)] = self.seq
        return self

    def move(self, move: Move) -> list[str]:
        """Say a move step by step, each whole or, with all after it, not at all; the names said."""
        return [name for step in self.stepwise(move) for name in step]

    def stepwise(self, move: Move) -> Iterator[list[str]]:
        """The same, for who stops in between."""
        for step in steps(move):
            if any(s.expected not in (None, self.versions.get(s.agg, 0)) for s in step):
                return
            for one in step:
                self.say(one.agg, one.fact)
            yield [type(one.fact).__name__ for one in step]

    def settle(self, world: World, policy: Policy = USUAL) -> list[str]:
        """Say all that is due, round after round, until nothing is; the names said."""
        self.enrol(*world.offers)
        said: list[str] = []
        self.at = world.now
        for _ in range(50):
            moves = list(due(self.board, world, policy))
            if not moves:
                return said
            for move in moves:
                said += self.move(move)
        raise AssertionError(f"the scheduler never came to rest: {said[-10:]}")

    def enrol(self, *agents: str) -> "History":
        """Let somebody answer for the agents that were neither enrolled nor revoked yet."""
        for name in agents:
            known = self.board.agents.get(name)
            if known is None or not (known.is_enrolled or known.revoked):
                self.say(subjects.agent(name), ENROLLED)
        return self

    def of_type(self, name: str) -> list[tuple[str, Fact]]:
        """What was said of one kind, in order."""
        return [(agg, fact) for agg, fact in self.facts if type(fact).__name__ == name]

    def run_agg(self) -> str:
        return next(
            agg for agg, fact in reversed(self.facts) if isinstance(fact, events.JobAssigned)
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


def names(moves: Sequence[Move]) -> list[str]:
    return [type(say.fact).__name__ for move in moves for say in move]
