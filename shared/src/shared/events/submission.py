"""Facts of problems and of submissions."""

from datetime import datetime
from typing import ClassVar

import msgspec

from shared.events.fact import Fact
from shared.events.values import Baseline, Blob, Milestone, Requires, Roof


class ProblemPublished(Fact, frozen=True, kw_only=True):
    """A problem has a new immutable version; `digest` is that of its manifest.

    `consent` is the one of its files whose text a participant accepts before they submit, "" for
    none. `source_visible` and `publish` say who reads the sources that are sent to this version,
    and when. `report` is what its check found; `unchecked` says why there is none. `baselines` are
    run by the platform, and of no participant's concern. `roofs` are of the timed cases, where
    the author said what they have to do at the least.
    """

    aggregate: ClassVar[str] = "problem"
    publisher: ClassVar[str] = "ingest"

    number: int
    digest: str
    title: str
    manifest: Blob
    files: dict[str, Blob]
    gpus: list[str]
    cases_count: dict[str, int]
    ranking_by: str
    budgets_s: dict[str, float]
    source_bytes_max: int
    languages: list[str] = []
    requires: Requires = Requires()
    consent: str = ""
    source_visible: str = "after_close"
    publish: str = "after_close"
    report: Blob | None = None
    unchecked: str = ""
    baselines: list[Baseline] = []
    milestones: list[Milestone] = []
    roofs: list[Roof] = []


class SubmissionReceived(Fact, frozen=True, kw_only=True):
    """A participant's source was accepted; it now must end in one terminal event.

    `bucket` is the quota it took of, "" for none; `class_` is its place among others in the queue.
    One with a `baseline` is the platform's own, by that name, and never ranked. A profile of one
    timed case alone names the `case`, from 1 on; 0 is all of them.

    With `is_queued` its job waits from now on. Version 1 has no such job: JobQueued begins it, so
    who knows no other version must not read this one.
    """

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "ingest"
    version: ClassVar[int] = 2

    account: str
    problem: str
    problem_number: int
    problem_digest: str
    gpu: str
    mode: str
    source: Blob
    name: str
    deadline_at: datetime
    via: str
    request_hash: str = ""
    class_: str = msgspec.field(default="practice", name="class")
    requires: Requires = Requires()
    bucket: str = ""
    cost: int = 0
    baseline: str = ""
    case: int = 0
    is_queued: bool = True


class SubmissionRejected(Fact, frozen=True, kw_only=True):
    """An accepted submission was turned down before any run; the participant's matter."""

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    code: str
    reason: str


class SubmissionFinished(Fact, frozen=True, kw_only=True):
    """The one end of a submission, with its eligibility decided once and for all.

    `process_us` is the score of each fresh process; `error` is the standard error of ln(score_us)
    with `freedom` degrees of freedom, never under `sigma_run` for one process; two scores closer
    than `delta`, a fraction, are tied.
    """

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "ranker, scheduler"
    is_terminal: ClassVar[bool] = True

    outcome: str
    is_eligible: bool
    code: str
    reason: str
    job: str | None = None
    run: str | None = None
    verdict: str | None = None
    score_us: float | None = None
    interval_us: tuple[float, float] | None = None
    process_us: list[float] = []
    error: float | None = None
    freedom: int = 0
    sigma_run: float = 0.0
    delta: float | None = None
    grade: str = ""
    is_provisional: bool = False
    is_held: bool = False


class SubmissionCancelRequested(Fact, frozen=True, kw_only=True):
    """Somebody, the actor, wants the submission to end without a verdict."""

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "ingest"

    reason: str
