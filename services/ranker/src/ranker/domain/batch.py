"""A batch of events on its way into the read models: what it says, needs and holds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ranker.domain.projection import Step
from ranker.domain.rows import Item, Result, Run, Submission, Work
from shared import events
from shared.event_log import Recorded
from shared.events import Fact
from shared.ids import submission_job
from shared.subjects import last_token
from shared.wire import UNREADABLE, is_of_agent

NUL = b"\\u0000"
RANKED = "ranked"
# In this state a verdict is due; in these a draft or a preview.
RANKING = "ranking"
DUE = (RANKING, "given_up", "judged")


class Told(msgspec.Struct, frozen=True, gc=False):
    """An event, what it says, and the id at the end of its aggregate's name."""

    event: Recorded
    fact: Fact
    id: str


@dataclass(slots=True)
class Needs:
    """Which rows a batch touches that it does not make itself, by their ids."""

    submissions: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    rejudges: set[str] = field(default_factory=set)
    applied: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Rows:
    """The rows at hand; `touched` are the submissions whose places may have changed.

    `changed` are the runs to be written, `banned` the accounts whose ban began or ended.
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

    @property
    def is_end_due(self) -> bool:
        """Whether a submission waits for its end."""
        return any(one.state == RANKING for one in self.submissions.values())

    @property
    def is_draft_due(self) -> bool:
        """Whether a rejudge waits for a draft, or for its preview."""
        return any(one.state in DUE for one in self.items.values())

    @property
    def met(self) -> set[tuple[str, str, int]]:
        """The leaderboards on which a milestone may be met by what holds no place there.

        That is a baseline with a verdict, and a run that passed some of its cases.
        """
        return {
            (one.problem, one.gpu, one.problem_number)
            for one in self.submissions.values()
            if one.is_over and one.mode == RANKED and (one.baseline or one.cases_passed)
        }

    def add(self, submissions: Iterable[Submission], items: Iterable[Item]) -> None:
        """Know rows that were loaded."""
        for submission in submissions:
            self.submissions[submission.id] = submission
            if submission.job is not None:
                self.jobs[submission.job] = submission
        for item in items:
            self.items[item.rejudge, item.submission] = item
            if item.job is not None:
                self.jobs[item.job] = item


def tell(event: Recorded) -> Told:
    """An event decoded, without NUL characters. Errors: UnknownEvent; msgspec's, for bad data.

    Noise says nothing, but has its place, so that the checkpoint moves on behind it.
    """
    try:
        fact = event.fact
    except msgspec.MsgspecError:
        if not is_of_agent(event.envelope):
            raise
        envelope = msgspec.structs.replace(event.envelope, type=UNREADABLE)
        return Told(event._replace(envelope=envelope), Fact(), last_token(envelope.agg))
    if NUL in event.body:
        fact = msgspec.convert(_text(msgspec.to_builtins(fact)), type(fact))
    return Told(event, fact, last_token(event.envelope.agg))


def _text(value: Any) -> Any:
    """The same value without NUL characters, which Postgres cannot keep."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {_text(key): _text(one) for key, one in value.items()}
    return [_text(one) for one in value] if isinstance(value, list | tuple) else value


def needs(batch: Iterable[Told]) -> Needs:
    """What has to be loaded before a batch can be folded."""
    wanted, made = Needs(), Needs()
    for told in batch:
        gather = _GATHER.get(told.fact.aggregate)
        if gather is not None:
            gather(wanted, made, told)
    wanted.submissions -= made.submissions
    wanted.jobs -= made.jobs
    wanted.runs -= made.runs
    return wanted


def _of_submission(wanted: Needs, made: Needs, told: Told) -> None:
    if isinstance(told.fact, events.SubmissionReceived):
        made.submissions.add(told.id)
        if told.fact.is_queued:
            made.jobs.add(submission_job(told.id))
    else:
        wanted.submissions.add(told.id)


def _of_job(wanted: Needs, made: Needs, told: Told) -> None:
    if isinstance(told.fact, events.JobQueued):
        made.jobs.add(told.id)
        wanted.submissions.add(told.fact.submission)
        if told.fact.rejudge:
            wanted.rejudges.add(told.fact.rejudge)
    else:
        wanted.jobs.add(told.id)


def _of_run(wanted: Needs, made: Needs, told: Told) -> None:
    if isinstance(told.fact, events.JobAssigned):
        made.runs.add(told.id)
        wanted.jobs.add(told.fact.job)
    else:
        wanted.runs.add(told.id)


def _of_moderation(wanted: Needs, _made: Needs, told: Told) -> None:
    wanted.submissions.add(told.id)


def _of_rejudge(wanted: Needs, _made: Needs, told: Told) -> None:
    wanted.rejudges.add(told.id)
    if isinstance(told.fact, events.RejudgeRequested):
        wanted.submissions.update(item.submission for item in told.fact.items)
    if isinstance(told.fact, events.RejudgeApplied):
        wanted.applied.add(told.id)


_GATHER: dict[str, Callable[[Needs, Needs, Told], None]] = {
    "submission": _of_submission,
    "job": _of_job,
    "run": _of_run,
    "report": _of_run,
    "moderation": _of_moderation,
    "rejudge": _of_rejudge,
}
