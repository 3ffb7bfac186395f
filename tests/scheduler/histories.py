"""Given this history, these agents and this clock: what the scheduler's tests start from."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from scheduler.domain.board import Board, evolve, job_of
from scheduler.domain.rules import Move, Offer, World, due
from shared import events, subjects
from shared.event_log import Recorded
from shared.events import Blob, Fact
from shared.wire import Stamp, seal

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATE = T0 + timedelta(hours=2)
JOB = job_of("s1")
CPU = events.AgentRegistered(
    gpu="CPU", count=1, fingerprint="f", level="none", harness="1", details={}
)
OFFER = Offer("a1", "session-1", is_free=True, registration=CPU)


def received(account: str = "ada", gpu: str = "CPU") -> events.SubmissionReceived:
    return events.SubmissionReceived(
        account=account,
        problem="identity",
        problem_number=1,
        problem_digest="d",
        gpu=gpu,
        mode="ranked",
        source=Blob(digest="x", bytes=1),
        name="kernel.py",
        deadline_at=T0 + timedelta(hours=1),
        via="http",
    )


class History:
    """A log in memory, folded as it grows."""

    def __init__(self) -> None:
        self.board = Board()
        self.seq = 0
        self.facts: list[tuple[str, Fact]] = []

    def say(self, agg: str, fact: Fact) -> "History":
        self.seq += 1
        stamp = Stamp(str(self.seq), T0, "service:test", "", "")
        self.board = evolve(self.board, Recorded(self.seq, seal(fact, agg, stamp)))
        self.facts.append((agg, fact))
        return self

    def settle(self, world: World) -> list[str]:
        """Say all that is due, round after round, until nothing is; the names said."""
        said: list[str] = []
        for _ in range(20):
            moves = list(due(self.board, world))
            if not moves:
                return said
            for move in moves:
                for one in move:
                    self.say(one.agg, one.fact)
                    said.append(type(one.fact).__name__)
        raise AssertionError(f"the scheduler never came to rest: {said[-10:]}")

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
    started = events.RunStarted(
        fingerprint="f", harness="1", level="none", tier="C2", key_commit="k"
    )
    return history.say(history.run_agg(), started)


def completed(verdict: str = "passed") -> events.RunCompleted:
    return events.RunCompleted(
        verdict=verdict, stage="time", reason="", cases=[], took_s=1, key="k", environment={}
    )


def names(moves: Sequence[Move]) -> list[str]:
    return [type(say.fact).__name__ for move in moves for say in move]
