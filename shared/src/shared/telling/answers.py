"""What is answered of a submission, as far as it is told; unknown fields are left alone."""

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from shared.errors import Failed

Answer = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One wrong element of a public case, as text."""

    index: str
    got: str
    expected: str


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """What a time amounts to; `share` is of what the GPU type's data sheet allows.

    Units: 10^9 bytes, and 10^9 operations, a second.
    """

    bandwidth_gb_s: float | None = None
    gflops: float | None = None
    dtype: str = ""
    share: float | None = None
    bound: str | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """How one case ended; times are of one call, in microseconds."""

    name: str
    stage: str
    verdict: str
    message: str = ""
    is_hidden: bool = False
    time_us: float | None = None
    interval_us: tuple[float, float] | None = None
    samples: int = 0
    process_us: list[float] = []
    null_us: list[float] = []
    grade: str = ""
    statistics: dict[str, float] = {}
    wrong: int = 0
    mismatches: list[Mismatch] = []
    roofline: Roofline | None = None
    vs_baseline: dict[str, float] = {}


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """What a waiting submission waits for: its place, when it may begin, or why it cannot."""

    state: str
    position: int | None = None
    ahead: int | None = None
    eta_s: float | None = None
    eta_p90_s: float | None = None
    why: str | None = None
    agents_online: int = 0
    agents_busy: int = 0
    reason: str | None = None


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """How a stage of a run ended."""

    stage: str
    verdict: str
    took_s: float


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The case that is being run: `done` of `total` cases of the stage are over.

    `stages` are those that ended before.
    """

    stage: str
    case: str
    done: int
    total: int
    stages: list[Stage] = []


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One event in a submission's history."""

    seq: int
    type: str
    at: datetime
    note: str = ""
    actor: str = ""


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Where a finished submission stands, or why it is not ranked.

    Units: `delta_to_best` and `delta_to_next`, to the first and to the place before, seconds.
    """

    status: str
    eligible: bool | None = None
    code: str | None = None
    reason: str | None = None
    rank: int | None = None
    is_tied: bool = False
    tied_with: int | None = None
    best_number: int | None = None
    delta_to_best: float | None = None
    delta_to_next: float | None = None
    own_best_us: float | None = None
    score_us: float | None = None
    run_us: float | None = None
    pooled_over: list[int] = []
    problem_version: int = 0
    interval_us: tuple[float, float] | None = None


class Moderation(msgspec.Struct, frozen=True, kw_only=True):
    """What people decided about a submission, and what came of its appeal."""

    rule: str | None = None
    reason: str | None = None
    appeal: str | None = None
    appeal_reason: str | None = None


class File(msgspec.Struct, frozen=True, kw_only=True):
    """What can be downloaded of a run."""

    name: str
    media: str = ""
    bytes: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution, on an agent or here: how it ended and what it measured."""

    verdict: str | None = None
    stage: str | None = None
    reason: str | None = None
    took_s: float | None = None
    level: str | None = None
    tier: str | None = None
    missing: list[str] = []
    cases: list[Case] = []
    files: list[File] = []
    environment: dict[str, str] = {}
    log_head: str = ""
    log_tail: str = ""


class Submission(Run, frozen=True, kw_only=True):
    """One submission whole, with its newest run."""

    number: int
    problem: str
    problem_number: int
    gpu: str
    mode: str
    name: str
    state: str
    version: int
    is_over: bool
    participant: str | None = None
    agent: str | None = None
    fingerprint: str | None = None
    outcome: str | None = None
    code: str | None = None
    is_eligible: bool = False
    grade: str = ""
    is_provisional: bool = False
    score_us: float | None = None
    received_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    state_since: datetime | None = None
    state_deadline_at: datetime | None = None
    state_owner: str | None = None
    queue: Queue | None = None
    note: str | None = None
    tag: str | None = None
    progress: Progress | None = None
    ranking: Ranking | None = None
    moderation: Moderation | None = None
    timeline: list[Moment] = []


def read(answer: Answer, kind: type[T]) -> T:
    """An answer as the type it should have. Errors: Failed if it has another shape."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise Failed(f"the platform's answer is no {kind.__name__}: {error}") from error
