"""What the read side says, as far as the client is told of it: the only reader of its shapes."""

from datetime import datetime
from typing import Any

import msgspec

from shared.answers import Visibility

WAITING = ("received", "queued")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """How one case of a run ended; times in microseconds."""

    name: str
    stage: str
    verdict: str
    message: str = ""
    is_hidden: bool = False
    time_us: float | None = None
    samples: int = 0
    statistics: dict[str, float] = {}


class File(msgspec.Struct, frozen=True, kw_only=True):
    """What a run left to be downloaded."""

    name: str
    media: str = ""
    bytes: int = 0
    digest: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the life of a submission."""

    type: str
    note: str = ""
    actor: str = ""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """What a submission waits for, or would; `eta_s` is known of one that waits."""

    gpu: str = ""
    state: str = "queued"
    position: int | None = None
    ahead: int | None = None
    eta_s: float | None = None
    agents_online: int = 0
    agents_busy: int = 0
    reason: str | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A submission in a list."""

    number: int
    problem: str
    gpu: str
    mode: str
    received_at: datetime
    state: str
    account: str = ""
    participant: str | None = None
    problem_number: int = 1
    name: str | None = None
    outcome: str | None = None
    verdict: str | None = None
    code: str | None = None
    is_eligible: bool = False
    is_withdrawn: bool = False
    score_us: float | None = None


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A submission as one read tells it, all of one moment."""

    number: int
    id: str
    account: str
    problem: str
    problem_number: int
    gpu: str
    mode: str
    state: str
    received_at: datetime
    name: str | None = None
    source_digest: str | None = None
    participant: str | None = None
    deadline_at: datetime | None = None
    state_deadline_at: datetime | None = None
    attempt: int = 0
    agent: str | None = None
    outcome: str | None = None
    verdict: str | None = None
    code: str | None = None
    reason: str | None = None
    is_eligible: bool = False
    is_held: bool = False
    is_over: bool = False
    score_us: float | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stage: str | None = None
    took_s: float | None = None
    cases: list[Case] = []
    files: list[File] = []
    environment: dict[str, str] = {}
    log_head: str = ""
    log_tail: str = ""
    version: int = -1
    timeline: list[Line] = []
    progress: dict[str, Any] | None = None
    queue: dict[str, Any] | None = None
    moderation: dict[str, Any] | None = None
    ranking: dict[str, Any] | None = None

    @property
    def wait(self) -> Wait | None:
        """What it waits for; None once somebody works on it."""
        if self.is_over or self.state not in WAITING or self.queue is None:
            return None
        return msgspec.convert(self.queue, Wait)

    @property
    def is_withdrawn(self) -> bool:
        """Whether it was deleted, which no history forgets."""
        return bool((self.moderation or {}).get("is_withdrawn"))

    def ranked(self, key: str) -> str:
        """What the decision on its rank says under a key; "" if it says nothing."""
        return str((self.ranking or {}).get(key) or "")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of a problem."""

    slug: str
    number: int
    title: str
    gpus: list[str]
    manifest: str
    published_at: datetime
    visibility: Visibility = "public"
    deadline_at: datetime | None = None
    archived_at: datetime | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a leaderboard."""

    number: int
    account: str
    rank: int
    score_us: float
    received_at: datetime
    participant: str | None = None
