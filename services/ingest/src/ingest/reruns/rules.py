"""Rules of retries, rejudges and duels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal

from msgspec import structs
from pydantic import AfterValidator, Field

from ingest.http.requests import Id, RequestModel, Text
from ingest.problems.rules import Problem
from ingest.submission_history import SubmissionHistory
from shared import events
from shared.errors import Refused
from shared.event_log import Decider
from shared.json_types import JsonInt

REJUDGED_MAX = 400
RejudgeEnd = events.RejudgeApplied | events.RejudgeDiscarded
# What two submissions of one leaderboard have in common.
COMMON_FIELDS = {"problem": "problem", "problem_number": "problem version", "gpu": "GPU type"}


Version = Annotated[int, Field(ge=1)]


class RejudgeRequest(RequestModel):
    """The submissions to run again, from and to which version of their problem."""

    problem: Annotated[Text, AfterValidator(str.lower)]
    select: Literal["best", "all"]
    reason: Text
    gpu: Id | None = None
    from_version: Version | None = None
    to_version: Version | None = None


class DuelRequest(RequestModel):
    """The numbers of two submissions of one leaderboard, to be timed in alternation."""

    first: Annotated[JsonInt, Field(ge=1)]
    second: Annotated[JsonInt, Field(ge=1)]
    reason: Text
    gpu: Id | None = None


@dataclass(frozen=True)
class Rejudge:
    """The state of a rejudge; `end` is how it ended, "" before."""

    is_known: bool = False
    is_previewed: bool = False
    end: str = ""


def decide_end(command: RejudgeEnd, state: Rejudge) -> Sequence[events.Fact]:
    """Return the end of a rejudge. Raises `Refused` without a preview and after the end."""
    if not state.is_known:
        raise Refused("unknown_rejudge", "there is no such rejudge", "id")
    if state.end:
        raise Refused("wrong_state", f"this rejudge was already {state.end}")
    if isinstance(command, events.RejudgeApplied) and not state.is_previewed:
        raise Refused("wrong_state", "this rejudge has no preview yet: wait for all its runs")
    return (command,)


def evolve_rejudge(state: Rejudge, fact: events.Fact) -> Rejudge:
    """Return the rejudge after one more event."""
    match fact:
        case events.RejudgeRequested():
            return replace(state, is_known=True)
        case events.RejudgePreviewed():
            return replace(state, is_previewed=True)
        case events.RejudgeApplied():
            return replace(state, end="applied")
        case events.RejudgeDiscarded():
            return replace(state, end="discarded")
    return state


REJUDGE_DECIDER = Decider[RejudgeEnd, Rejudge, events.Fact](Rejudge(), decide_end, evolve_rejudge)


def select_versions(request: RejudgeRequest, digests: Mapping[int, str]) -> tuple[int, int]:
    """Return the versions to rejudge from and to; by default the last two.

    Raises `Refused` for a version that does not exist, and if both are the same.
    """
    to = request.to_version if request.to_version is not None else max(digests)
    before = [number for number in digests if number < to]
    from_version = (
        request.from_version if request.from_version is not None else max(before, default=to)
    )
    for field, number in (("to_version", to), ("from_version", from_version)):
        if number not in digests:
            known = ", ".join(map(str, digests))
            message = f"{request.problem} has no version {number}: the versions are {known}"
            raise Refused("bad_rejudge", message, field)
    if from_version == to:
        message = f"both versions are {to}: a rejudge needs two versions, publish another one first"
        raise Refused("bad_rejudge", message, "from_version")
    return from_version, to


def request_rejudge(
    request: RejudgeRequest, digests: Mapping[int, str], items: Sequence[events.RejudgeItem]
) -> events.RejudgeRequested:
    """Return the rejudge event. Raises `Refused` for no items, or for too many."""
    from_version, to = select_versions(request, digests)
    if not items:
        message = (
            f"no submission of version {from_version} is selected: there is nothing to rejudge"
        )
        raise Refused("bad_rejudge", message, "select")
    if len(items) > REJUDGED_MAX:
        message = f"more than {REJUDGED_MAX} submissions are selected: name a gpu, or select best"
        raise Refused("bad_rejudge", message, "select")
    return events.RejudgeRequested(
        problem=request.problem,
        from_number=from_version,
        to_number=to,
        to_digest=digests[to],
        select=request.select,
        reason=request.reason,
        items=list(items),
    )


def repeat_submission(
    number: int,
    submission: SubmissionHistory,
    problem: Problem,
    *,
    is_withdrawn: bool,
    at: datetime,
) -> events.SubmissionReceived:
    """Return the event that submits a file again for its owner, without taking quota.

    It has as much time as before, also after the deadline, and counts from when it was first sent,
    so that a failure of the platform at the end of a contest costs no entry. Raises
    `Refused` for a baseline, an archived problem, a withdrawn submission, and one that ended,
    unless the platform failed.
    """
    received = submission.received
    if received.baseline:
        message = f"submission {number} is a baseline: run the baselines of {received.problem}"
        raise Refused("wrong_state", f"{message} again", "number")
    if submission.outcome not in ("", "infra_failed"):
        message = f"submission {number} ended as {submission.outcome}: retry only one that is open"
        raise Refused("wrong_state", f"{message}, or that ended as infra_failed", "number")
    if problem.is_archived:
        message = f"{received.problem} is archived: it accepts no submissions"
        raise Refused("wrong_state", message, "number")
    if is_withdrawn:
        message = f"submission {number} was withdrawn by its owner: it is never ranked"
        raise Refused("wrong_state", message, "number")
    received_at = submission.history[0].envelope.at
    return structs.replace(
        received,
        deadline_at=at + (received.deadline_at - received_at),
        sent_at=received.sent_at or received_at,
        via=events.VIA_OPERATOR,
        request_hash="",
        bucket="",
        cost=0,
    )


def request_duel(
    request: DuelRequest, first: SubmissionHistory, second: SubmissionHistory
) -> events.DuelRequested:
    """Return the duel of two submissions.

    Raises `Refused` unless both passed on the same problem version and GPU type.
    """
    first_side = _duel_side(request.first, first, "first")
    second_side = _duel_side(request.second, second, "second")
    received, other = first.received, second.received
    for name, label in COMMON_FIELDS.items():
        if getattr(received, name) != getattr(other, name):
            mismatch = (
                f"{request.first} is of {label} {getattr(received, name)}, "
                f"{request.second} of {getattr(other, name)}"
            )
            raise Refused("bad_duel", f"{mismatch}: choose two of one leaderboard", "second")
    if request.gpu is not None and request.gpu.lower() != received.gpu.lower():
        mismatch = f"both submissions ran on {received.gpu}, not on {request.gpu}"
        raise Refused("bad_duel", f"{mismatch}: leave gpu out, or choose others", "gpu")
    if received.source.digest == other.source.digest:
        mismatch = f"{request.first} and {request.second} are the same source"
        raise Refused("bad_duel", f"{mismatch}: choose another", "second")
    return events.DuelRequested(
        problem=received.problem,
        problem_number=received.problem_number,
        problem_digest=received.problem_digest,
        gpu=received.gpu,
        first=first_side,
        second=second_side,
        reason=request.reason,
    )


def _duel_side(number: int, submission: SubmissionHistory, field: str) -> events.DuelSide:
    """Return one side of a duel. Raises `Refused` unless the submission passed."""
    if submission.outcome != "passed":
        message = f"submission {number} has not passed"
        raise Refused("bad_duel", f"{message}: choose another", field)
    received = submission.received
    return events.DuelSide(
        submission=submission.id,
        number=number,
        account=received.account,
        source=received.source,
        name=received.name,
        normal_digest=received.normal_digest,
    )
