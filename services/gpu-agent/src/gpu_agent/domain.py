"""What an agent says of a run, from what its harness told."""

from dataclasses import dataclass

import msgspec

from shared.events import (
    Blob,
    CaseResult,
    Fact,
    JobAssigned,
    RunCompleted,
    RunFailed,
    RunStageFinished,
    RunStarted,
)
from shared.wire import encode

LOG_LENGTH_MAX = 8 * 1024
MESSAGE_LENGTH_MAX = 2000
# An event has at most 256 KiB, its envelope included; texts are cut until it fits.
FACT_BYTES_MAX = 240 * 1024
PARTS = (1, 4, 16, 64, 256)


@dataclass(frozen=True)
class Began:
    """The harness is up, bound to the key behind `key_commit`."""

    harness: str
    level: str
    tier: str
    key_commit: str


@dataclass(frozen=True)
class StageOver:
    """A stage of the run ended."""

    stage: str
    verdict: str
    took_s: float
    cases: int


@dataclass(frozen=True)
class Step:
    """A case is about to be run; told, not kept."""

    stage: str
    case: str
    done: int
    total: int


News = Began | StageOver | Step


@dataclass(frozen=True)
class Outcome:
    """The end of a run as the harness tells it; `failure_code` is set when it has no verdict."""

    verdict: str
    stage: str
    reason: str
    took_s: float
    key: str
    cases: list[CaseResult]
    log_head: str
    log_tail: str
    failure_code: str = ""


def is_mine(order: JobAssigned, session: str) -> bool:
    """Whether the order is for this process; one for an earlier process of this agent is void."""
    return order.session == session


def fact_of(news: Began | StageOver, fingerprint: str) -> Fact:
    """The event that keeps a piece of news."""
    if isinstance(news, Began):
        return RunStarted(
            fingerprint=fingerprint,
            harness=news.harness,
            level=news.level,
            tier=news.tier,
            key_commit=news.key_commit,
        )
    return RunStageFinished(
        stage=news.stage, verdict=news.verdict, took_s=news.took_s, cases=news.cases
    )


def ended(
    outcome: Outcome, environment: dict[str, str], log: Blob | None, samples: Blob | None
) -> Fact:
    """RunCompleted with a verdict, RunFailed without."""
    if outcome.failure_code:
        return RunFailed(
            stage=outcome.stage,
            code=outcome.failure_code,
            reason=_bounded(outcome.reason, MESSAGE_LENGTH_MAX),
        )
    for part in PARTS:
        fact = _completed(outcome, environment, (log, samples), part)
        if len(encode(fact)) <= FACT_BYTES_MAX:
            return fact
    raise AssertionError("a verdict without its texts is still too large for an event")


def _completed(
    outcome: Outcome,
    environment: dict[str, str],
    blobs: tuple[Blob | None, Blob | None],
    part: int,
) -> RunCompleted:
    """The verdict with every text cut to a part of its bound: an event has a size, too."""
    cases = [
        msgspec.structs.replace(case, message=_bounded(case.message, MESSAGE_LENGTH_MAX // part))
        for case in outcome.cases
    ]
    return RunCompleted(
        verdict=outcome.verdict,
        stage=outcome.stage,
        reason=_bounded(outcome.reason, MESSAGE_LENGTH_MAX // part),
        cases=cases,
        took_s=outcome.took_s,
        key=outcome.key,
        environment=environment,
        log_head=_bounded(outcome.log_head, LOG_LENGTH_MAX // part),
        log_tail=_bounded(outcome.log_tail, LOG_LENGTH_MAX // part),
        log=blobs[0],
        samples=blobs[1],
    )


def _bounded(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"
