"""The rows that most events change, as values: loaded whole, folded, put back whole."""

from datetime import datetime

import msgspec

from shared.event_log import Recorded

NOTE_LENGTH_MAX = 2000
# Attempts are few, so a life longer than this is no life; what comes after is in the log alone.
LINES_MAX = 500
FINISHED = "finished"
GIVEN_UP = "given_up"

Raw = msgspec.Raw
# Its sequence, type, instant and note, and who said it.
Line = tuple[int, str, datetime, str, str]


class Submission(msgspec.Struct, kw_only=True, gc=False):
    """One submission: what was asked for, where it is, how it ended, and a line an event.

    `baseline` names the problem's baseline that it is; `cases_passed` are of the checked, shown.
    """

    id: str
    number: int
    version: int
    account: str
    problem: str
    problem_number: int
    gpu: str
    mode: str
    name: str
    source: str
    source_bytes: int
    source_media: str
    received_at: datetime
    deadline_at: datetime
    state: str
    state_at: datetime
    lease_until_at: datetime | None = None
    job: str | None = None
    run: str | None = None
    agent: str | None = None
    attempt: int = 0
    outcome: str | None = None
    verdict: str | None = None
    code: str | None = None
    reason: str | None = None
    is_eligible: bool = False
    is_held: bool = False
    finished_at: datetime | None = None
    timeline: list[Line] = msgspec.field(default_factory=list)
    baseline: str = ""
    cases_passed: int = 0

    def move(self, state: str, at: datetime) -> None:
        """Be in another state from now on."""
        self.state, self.state_at = state, at

    @property
    def is_over(self) -> bool:
        """Whether nothing of its job matters any more."""
        return self.state == FINISHED

    def note(self, event: Recorded, text: str) -> None:
        """Keep what happened, in short."""
        if len(self.timeline) < LINES_MAX:
            said, note = event.envelope, text[:NOTE_LENGTH_MAX]
            self.timeline.append((event.seq, said.type, said.at, note, said.actor))


class Item(msgspec.Struct, kw_only=True, gc=False):
    """A submission's place in a rejudge: its job there, and what came of it as a draft."""

    rejudge: str
    submission: str
    to_number: int
    account: str
    gpu: str
    state: str
    state_at: datetime
    lease_until_at: datetime | None = None
    job: str | None = None
    run: str | None = None
    agent: str | None = None
    attempt: int = 0
    reason: str = ""
    result: Raw = Raw(b"null")

    def move(self, state: str, at: datetime) -> None:
        """Be in another state from now on."""
        self.state, self.state_at = state, at

    @property
    def is_over(self) -> bool:
        """Whether nothing of its job matters any more."""
        return self.state in ("judged", GIVEN_UP)

    def note(self, event: Recorded, text: str) -> None:
        """Drafts are told to nobody."""


Work = Submission | Item


class Run(msgspec.Struct, kw_only=True, gc=False):
    """One attempt of one agent at a job; `token` fences it, `ended_seq` has its verdict."""

    id: str
    submission: str
    job: str
    agent: str
    attempt: int
    token: int
    assigned_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    ended_seq: int | None = None
    level: str | None = None
    tier: str | None = None
    missing: list[str] = []
    fingerprint: str | None = None
    stage: str | None = None
    verdict: str | None = None
    reason: str | None = None
    took_s: float | None = None
    cases: Raw = Raw(b"[]")
    environment: Raw = Raw(b"{}")
    log_head: str = ""
    log_tail: str = ""
    files: Raw = Raw(b"[]")
    usage: Raw = Raw(b"{}")
    sigma_run: float = 0.0
    tie_us: float = 0.0
    key_commit: str | None = None
    key: str | None = None


class Result(msgspec.Struct, kw_only=True, gc=False):
    """The score of a submission under one problem version: its own, or a rejudge's.

    `seq` is the event that made it count: the submission's end, or the rejudge's application.
    """

    submission: str
    problem_number: int
    problem: str
    gpu: str
    account: str
    number: int
    source: str
    seq: int
    rejudge: str
    run: str | None
    verdict: str | None
    is_eligible: bool
    code: str
    reason: str
    score_us: float | None
    low_us: float | None
    high_us: float | None
    process_us: list[float]
    error: float | None
    freedom: int
    sigma_run: float
    delta: float
    grade: str
    is_provisional: bool
    received_at: datetime
    at: datetime
