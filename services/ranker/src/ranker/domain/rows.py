"""The rows of the read models: loaded, folded in memory for a batch, cached, and stored again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from shared.event_log import RecordedEvent
from shared.events import CaseResult, Fact, Roof

NOTE_LENGTH_MAX = 2000
# Attempts are few, so no honest timeline is longer; later events are only in the log.
LINES_MAX = 500
FINISHED = "finished"
GIVEN_UP = "given_up"

Raw = msgspec.Raw
# Sequence, type, instant, note and actor.
Line = tuple[int, str, datetime, str, str]


def encode_weighted(items: Sequence[CaseResult] | Sequence[Roof]) -> bytes:
    """Encode items as JSON, without a weight of 1: a release that knew none wrote the same rows.

    >>> encode_weighted([Roof(case="a"), Roof(case="b", weight=1.5)]).count(b"weight")
    1
    """
    # The weight is the last field, and a text has no quotation mark that is not escaped.
    return msgspec.json.encode(items).replace(b',"weight":1.0}', b"}")


class Step(NamedTuple):
    """One named statement of sql/project.sql and its values."""

    statement: str
    values: dict[str, Any]


class LeaderboardKey(NamedTuple):
    """A leaderboard: one problem version on one GPU type."""

    problem: str
    gpu: str
    problem_number: int


class _Job(msgspec.Struct, kw_only=True, gc=False):
    """The job of a submission or of a rejudge's item: its state, and the run that has its lease."""

    state: str
    state_at: datetime
    lease_until_at: datetime | None = None
    job: str | None = None
    run: str | None = None
    agent: str | None = None
    attempt: int = 0

    def move(self, state: str, at: datetime) -> None:
        """Change the state."""
        self.state, self.state_at = state, at


class Submission(_Job, kw_only=True, gc=False):
    """A submission: the request, its state, its end, and one timeline entry per event.

    `baseline` names the problem's baseline that it runs; `cases_passed` counts visible checked
    cases. `toolchains` are what an agent needs to build and run it. `parent` is the number of the
    submission that it is declared to come from, 0 for none. `contest` and `contestant` are "" for
    none.
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
    toolchains: list[str]
    source: str
    pooling_source: str
    source_bytes: int
    source_media: str
    received_at: datetime
    deadline_at: datetime
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
    parent: int = 0
    contest: str = ""
    contestant: str = ""
    is_practice: bool = False

    @property
    def is_over(self) -> bool:
        """Whether its job no longer matters."""
        return self.state == FINISHED

    def note(self, event: RecordedEvent, text: str) -> None:
        """Add an event to the timeline."""
        if len(self.timeline) < LINES_MAX:
            envelope, note = event.envelope, text[:NOTE_LENGTH_MAX]
            self.timeline.append((event.seq, envelope.type, envelope.at, note, envelope.actor))


class Item(_Job, kw_only=True, gc=False):
    """A submission in a rejudge: its job there, and the result as a draft.

    `is_retime` if it is timed again under the same version, because its run was noisy.
    """

    rejudge: str
    submission: str
    to_number: int
    is_retime: bool = False
    account: str
    gpu: str
    reason: str = ""
    result: Raw = Raw(b"null")

    @property
    def is_over(self) -> bool:
        """Whether its job no longer matters."""
        return self.state in ("judged", GIVEN_UP)

    def note(self, event: RecordedEvent, text: str) -> None:
        """Do nothing: drafts have no timeline."""


Work = Submission | Item


class Run(msgspec.Struct, kw_only=True, gc=False):
    """One attempt at a job; `token` is its fencing token, `ended_seq` its verdict's event."""

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
    composition: Raw | None = None
    stopped: str = ""
    metrics: Raw = Raw(b"{}")
    over_limit: str = ""


class Result(msgspec.Struct, kw_only=True, gc=False):
    """The score of a submission under one problem version: its own or a rejudge's.

    `seq` is the event that made it count: the submission's end, or the rejudge's application.
    `source` is its submission's `pooling_source`, which equal sources have in common. `placed_us`
    decides the place of a result that is not pooled with others.
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
    placed_us: float | None
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
    yardstick_us: float | None = None


RANKED = "ranked"
# Submissions in this state are due for a decision; items in these for a draft or a preview.
RANKING = "ranking"
DRAFT_DUE_STATES = (RANKING, "given_up", "judged")


class DecodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event, its decoded fact, and the id at the end of its aggregate's name."""

    event: RecordedEvent
    fact: Fact
    id: str


@dataclass(slots=True)
class RequiredRows:
    """The ids of rows that a batch changes but does not create itself."""

    submissions: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    rejudges: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Rows:
    """The rows at hand; `touched` are submissions whose places may have changed.

    `changed` are the runs to write, `banned` the accounts whose ban began or ended, `merged` those
    that were merged or separated, `dueled` the duels that were judged.
    """

    submissions: dict[str, Submission] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    items: dict[tuple[str, str], Item] = field(default_factory=dict)
    jobs: dict[str, Work] = field(default_factory=dict)
    results: dict[tuple[str, int], Result] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    banned: set[str] = field(default_factory=set)
    merged: set[str] = field(default_factory=set)
    dueled: set[str] = field(default_factory=set)

    @property
    def is_end_due(self) -> bool:
        """Whether a submission waits for its decision."""
        return any(submission.state == RANKING for submission in self.submissions.values())

    @property
    def is_draft_due(self) -> bool:
        """Whether a rejudge waits for a draft or its preview."""
        return any(item.state in DRAFT_DUE_STATES for item in self.items.values())

    @property
    def met(self) -> frozenset[LeaderboardKey]:
        """The leaderboards where a milestone may be reached without an entry.

        That is by a baseline with a verdict, or by a run that passed some of its cases.
        """
        return frozenset(
            LeaderboardKey(submission.problem, submission.gpu, submission.problem_number)
            for submission in self.submissions.values()
            if submission.is_over
            and submission.mode == RANKED
            and (submission.baseline or submission.cases_passed)
        )

    def add(self, submissions: Iterable[Submission], items: Iterable[Item]) -> None:
        """Add rows that were loaded."""
        for submission in submissions:
            self.submissions[submission.id] = submission
            if submission.job is not None:
                self.jobs[submission.job] = submission
        for item in items:
            self.items[item.rejudge, item.submission] = item
            if item.job is not None:
                self.jobs[item.job] = item


SUBMISSIONS_MAX = 2000
# Longer rows are not cached but read again.
CACHED_LINES_MAX = 32
RUN_BYTES_MAX = 16 * 1024


@dataclass(slots=True)
class RowCache:
    """The rows folded last, up to the event `seq`; the oldest are dropped first."""

    seq: int = 0
    submissions: dict[str, Submission] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    jobs: dict[str, Submission] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop everything: a fold failed, or another instance wrote."""
        for known in (self.submissions, self.runs, self.jobs):
            known.clear()

    def drop(self, submission: str) -> None:
        """Drop a submission that a separate statement changed."""
        known = self.submissions.pop(submission, None)
        if known is not None and known.job is not None:
            self.jobs.pop(known.job, None)

    def recall(self, required: RequiredRows) -> Rows:
        """The cached rows of those required; they are removed from `required`."""
        rows = Rows()
        for id_ in required.submissions & self.submissions.keys():
            required.submissions.discard(id_)
            rows.add([self.submissions[id_]], ())
        for job in required.jobs & self.jobs.keys():
            if self.jobs[job].job == job:
                required.jobs.discard(job)
                rows.add([self.jobs[job]], ())
        for id_ in required.runs & self.runs.keys():
            run = self.runs[id_]
            submission = self.submissions.get(run.submission)
            # A run for a job other than its submission's belongs to a rejudge.
            if submission is not None and submission.job == run.job:
                required.runs.discard(id_)
                rows.runs[id_] = run
                rows.add([submission], ())
        return rows

    def keep(self, rows: Rows, seq: int) -> None:
        """Store the rows of a batch up to `seq`."""
        self.seq = seq
        for submission in rows.submissions.values():
            is_short = len(submission.timeline) <= CACHED_LINES_MAX
            _put(self.submissions, submission.id, submission if is_short else None)
            if submission.job is not None:
                _put(self.jobs, submission.job, submission if is_short else None)
        for run in rows.runs.values():
            raw = (run.cases, run.environment, run.files, run.usage, run.composition or b"")
            size = sum(map(len, map(bytes, raw))) + len(run.log_head) + len(run.log_tail)
            _put(self.runs, run.id, run if size <= RUN_BYTES_MAX else None)
        for known in (self.submissions, self.runs, self.jobs):
            for id_ in list(known)[: max(0, len(known) - SUBMISSIONS_MAX)]:
                del known[id_]


def _put(rows: dict[str, Any], id_: str, row: Submission | Run | None) -> None:
    """Make a row the newest cached one, or remove it."""
    rows.pop(id_, None)
    if row is not None:
        rows[id_] = row
