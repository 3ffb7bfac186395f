"""What the HTTP API answers about queues, quotas, records and decisions, as far as it is read."""

from datetime import datetime
from typing import Any

import msgspec


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of one quota; without `reset_at` nothing of it is used."""

    bucket: str
    limit: int
    used: int
    remaining: int
    window_s: float
    reset_at: datetime | None = None


class Balances(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit that holds for a participant."""

    items: list[Balance]


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting submission: its place, when it may begin, or why it cannot."""

    position: int
    submission: str | None = None
    number: int | None = None
    eta_s: float | None = None
    eta_p90_s: float | None = None
    why: str | None = None


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of one GPU type, and who works on it."""

    gpu: str
    depth: int = 0
    paused: str | None = None
    agents_online: int = 0
    agents_free: int | None = None
    agents_busy: int | None = None
    run_s_p50: float | None = None
    run_s_p90: float | None = None
    forecast: list[Expected] = []


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """How many submissions of a GPU type are in a state."""

    gpu: str
    state: str
    submissions: int
    oldest_at: datetime | None = None


class Parked(msgspec.Struct, frozen=True, kw_only=True):
    """The event before which the read models stand."""

    seq: int
    error: str = ""


class Queues(msgspec.Struct, frozen=True, kw_only=True):
    """What is not over yet."""

    items: list[Waiting]
    pools: list[Pool] = []
    parked: Parked | None = None


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """Whether submissions are taken in: why not, if not."""

    paused: str | None = None


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One ranked submission in a participant's history."""

    number: int
    name: str = ""
    received_at: datetime | None = None
    outcome: str | None = None
    verdict: str | None = None
    code: str | None = None
    score_us: float | None = None
    run_us: float | None = None
    pooled_over: list[int] = []
    low_us: float | None = None
    high_us: float | None = None
    grade: str = ""
    is_eligible: bool = False
    counts: bool = False
    was_best: bool = False


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A participant's ranked submissions on one leaderboard, newest first."""

    participant: str
    problem: str
    gpu: str
    problem_version: int
    items: list[Past]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A time that was the fastest of its leaderboard when it came."""

    seq: int
    number: int
    score_us: float
    at: datetime
    participant: str | None = None
    previous_us: float | None = None
    is_standing: bool = True


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one leaderboard, newest first."""

    items: list[Record]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a consumer gave up."""

    consumer: str
    seq: int
    reason: str
    stream: str = ""
    at: datetime | None = None
    deliveries: int = 0
    place: Any = None


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """Every event that was given up and that nobody handed out again."""

    items: list[DeadLetter]


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about a submission, or waits to be."""

    number: int
    problem: str = ""
    gpu: str = ""
    participant: str | None = None
    code: str | None = None
    is_held_by_rule: bool = False
    is_held: bool = False
    is_disqualified: bool = False
    rule: str | None = None
    reason: str | None = None
    actor: str | None = None
    decided_at: datetime | None = None
    appeal: str | None = None
    appeal_reason: str | None = None


class Rulings(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions, newest first."""

    items: list[Ruling]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """A submission's result under one version of its problem."""

    verdict: str | None = None
    is_eligible: bool | None = None
    code: str | None = None
    score_us: float | None = None
    rank: int | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One submission of a rejudge, before and after."""

    number: int
    gpu: str
    old: Side
    new: Side
    changed: bool = False
    account: str = ""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A participant whose rank a rejudge changes."""

    gpu: str
    account: str
    old_rank: int | None = None
    new_rank: int | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a rejudge would change, or changed."""

    items: list[Change]
    moves: list[Move] = []
    changed_count: int = 0


class Rejudge(msgspec.Struct, frozen=True, kw_only=True):
    """Submissions that run again under another version of their problem."""

    id: str
    problem: str
    from_number: int
    to_number: int
    state: str
    count: int
    judged: int = 0
    select: str = ""
    reason: str = ""
    actor: str = ""
    changed_count: int | None = None
    requested_at: datetime | None = None
    end_reason: str | None = None
    end_actor: str | None = None
    preview: Preview | None = None


class Rejudges(msgspec.Struct, frozen=True, kw_only=True):
    """Rejudges, newest first."""

    items: list[Rejudge]


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A rejudge that was just requested."""

    id: str
    count: int
    from_version: int
    to_version: int


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The event that a request made; none if all was so already."""

    event: str | None = None
    seq: int | None = None
