"""What the runs of a plan must find, told from their sources alone."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, fsum, isclose, log
from typing import NamedTuple

from bench.noop_agent import time_us, verdict_of

from harness.vocabulary import PASSED
from shared import events
from shared.subjects import last_token
from tests.system.chaos.crowd import source_of
from tests.system.chaos.plan import FREEZE_S, Plan
from tests.system.chaos.reading import Kept
from tests.system.chaos.town import NOOPS, WRONG_SHARE

REAL_GPU = "CPU"
REAL_VERDICTS = {"honest": PASSED, "wrong": "wrong_answer"}
# How many runs are in the hands of a process, and end with it.
RUNS_AT_ONCE = {name: count for name, (_, count) in NOOPS.items()} | {"gpu-agent": 1}


class Entry(NamedTuple):
    """A row that a leaderboard must have."""

    account: str
    number: int
    score_us: float


@dataclass(frozen=True)
class Oracle:
    """What is right, by the digest of a source; `kernels` are the sources of the plan."""

    kernels: dict[str, str]

    @classmethod
    def of(cls, plan: Plan) -> "Oracle":
        """The oracle of a plan's sources."""
        return cls(
            {hashlib.sha256(source_of(wish)).hexdigest(): wish.kernel for wish in plan.wishes}
        )

    def verdict(self, gpu: str, digest: str) -> str:
        """The verdict that a source deserves."""
        if gpu == REAL_GPU:
            return REAL_VERDICTS[self.kernels[digest]]
        return verdict_of(digest, WRONG_SHARE)

    def score_us(self, digest: str) -> float:
        """The score of a source on a no-op agent: the geometric mean over its processes."""
        logs = [log(time) for time in time_us(digest)]
        return exp(fsum(logs) / len(logs))


def wrong_verdicts(kept: Sequence[Kept], oracle: Oracle) -> Iterator[str]:
    """Submissions whose verdict or score is not that of their source."""
    for end, received in _ends(kept):
        name, digest = f"submission {received.seq}", _received(received).source.digest
        gpu, mode = _received(received).gpu, _received(received).mode
        if end.verdict is None:
            continue
        deserved = oracle.verdict(gpu, digest)
        if end.verdict != deserved:
            yield f"{name} on {gpu} ended {end.verdict}, its source is {deserved}"
        elif deserved == PASSED and mode == "ranked" and gpu != REAL_GPU:
            score_us = oracle.score_us(digest)
            if not end.is_eligible or not isclose(end.score_us or 0.0, score_us, rel_tol=1e-9):
                said = f"is_eligible {end.is_eligible}, score {end.score_us}"
                yield f"{name} passed with {said}, its source takes {score_us}"


def too_many_failures(kept: Sequence[Kept], plan: Plan) -> Iterator[str]:
    """More failures of the platform than the strikes can have caused, if there are so many."""
    codes = Counter(end.code for end, _ in _ends(kept) if end.outcome == "infra_failed")
    possible = sum(
        RUNS_AT_ONCE.get(strike.whom, 0)
        for strike in plan.strikes
        if strike.what == "kill" or strike.for_s > FREEZE_S[1]
    )
    # While the bus stands still for long, each agent may seem to be silent.
    possible += sum(
        sum(RUNS_AT_ONCE.values())
        for strike in plan.strikes
        if strike.whom == "nats-server" and (strike.what != "kill" and strike.for_s > FREEZE_S[1])
    )
    if codes.total() > possible:
        yield f"{dict(codes)} are more than the {possible} runs that the strikes can have ended"


def expected_entries(kept: Sequence[Kept], gpu: str) -> list[Entry]:
    """The leaderboard of a no-op GPU type, best first."""
    best: dict[str, Entry] = {}
    for end, received in _ends(kept):
        fact = _received(received)
        if fact.gpu != gpu or not end.is_eligible or end.score_us is None:
            continue
        entry = Entry(fact.account, received.seq, end.score_us)
        other = best.get(fact.account)
        if other is None or (entry.score_us, entry.number) < (other.score_us, other.number):
            best[fact.account] = entry
    return sorted(best.values(), key=lambda entry: (entry.score_us, entry.number))


def _ends(kept: Sequence[Kept]) -> Iterator[tuple[events.SubmissionFinished, Kept]]:
    received: dict[str, Kept] = {}
    for event in kept:
        fact = event.recorded.fact
        if isinstance(fact, events.SubmissionReceived):
            received[last_token(event.aggregate)] = event
        elif isinstance(fact, events.SubmissionFinished):
            yield fact, received[last_token(event.aggregate)]


def _received(event: Kept) -> events.SubmissionReceived:
    fact = event.recorded.fact
    assert isinstance(fact, events.SubmissionReceived)
    return fact
