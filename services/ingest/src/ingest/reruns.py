"""What operators run again: one submission, many under another version (rejudges), duels of two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends
from msgspec import structs
from pydantic import AfterValidator, Field

from ingest.decisions import OPERATORS, DecisionResult, Decisions, http_append
from ingest.histories import SubmissionHistory, load_submission
from ingest.http.bodies import ReasonRequest, RequestModel, decision_response
from ingest.http.fields import IdInPath, NumberInPath, Text, Token
from ingest.identity.http.authenticator import Authenticator
from ingest.moderation.rules import moderation
from ingest.ports import Ports
from ingest.problems import rules as problems
from ingest.problems.service import load_problem
from ingest.submissions.rules import submissions
from shared import events, subjects
from shared.api.moderation import RequestedRejudge
from shared.api.queues import DecisionResponse
from shared.clock import new_id
from shared.errors import Refused
from shared.event_log import Conflict, Decider
from shared.http import DocumentedRoute
from shared.json_types import JsonInt
from shared.subjects import derive_id

REJUDGED_MAX = 400
# The command in the log, and what the id of a repeated submission is derived with.
RETRY = "retry"

Version = Annotated[int, Field(ge=1)]
RejudgeEnd = events.RejudgeApplied | events.RejudgeDiscarded
# What two submissions of one leaderboard have in common.
COMMON_FIELDS = {"problem": "problem", "problem_number": "problem version", "gpu": "GPU type"}


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


rejudges = Decider[RejudgeEnd, Rejudge, events.Fact](Rejudge(), decide_end, evolve_rejudge)


class RejudgeRequest(RequestModel):
    """The submissions to run again, from and to which version of their problem."""

    problem: Annotated[Text, AfterValidator(str.lower)]
    select: Literal["best", "all"]
    reason: Text
    gpu: Token | None = None
    from_version: Version | None = None
    to_version: Version | None = None


def select_versions(selection: RejudgeRequest, digests: Mapping[int, str]) -> tuple[int, int]:
    """Return the versions to rejudge from and to; by default the last two.

    Raises `Refused` for a version that does not exist, and if both are the same.
    """
    to = selection.to_version if selection.to_version is not None else max(digests)
    before = [number for number in digests if number < to]
    from_version = (
        selection.from_version if selection.from_version is not None else max(before, default=to)
    )
    for field, number in (("to_version", to), ("from_version", from_version)):
        if number not in digests:
            known = ", ".join(map(str, digests))
            message = f"{selection.problem} has no version {number}: the versions are {known}"
            raise Refused("bad_rejudge", message, field)
    if from_version == to:
        message = f"both versions are {to}: a rejudge needs two versions, publish another one first"
        raise Refused("bad_rejudge", message, "from_version")
    return from_version, to


def request_rejudge(
    selection: RejudgeRequest, digests: Mapping[int, str], items: Sequence[events.RejudgeItem]
) -> events.RejudgeRequested:
    """Return the rejudge event. Raises `Refused` for no items, or for too many."""
    from_version, to = select_versions(selection, digests)
    if not items:
        message = (
            f"no submission of version {from_version} is selected: there is nothing to rejudge"
        )
        raise Refused("bad_rejudge", message, "select")
    if len(items) > REJUDGED_MAX:
        message = f"more than {REJUDGED_MAX} submissions are selected: name a gpu, or select best"
        raise Refused("bad_rejudge", message, "select")
    return events.RejudgeRequested(
        problem=selection.problem,
        from_number=from_version,
        to_number=to,
        to_digest=digests[to],
        select=selection.select,
        reason=selection.reason,
        items=list(items),
    )


def reruns_router(ports: Ports, decisions: Decisions, auth: Authenticator) -> APIRouter:
    """The routes, each for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    _add_retries(router, ports, decisions, auth)
    _add_rejudges(router, ports, decisions, auth)
    _add_duels(router, ports, decisions, auth)
    return router


def _add_rejudges(
    router: APIRouter, ports: Ports, decisions: Decisions, auth: Authenticator
) -> None:
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:problems"))]

    @router.post("/rejudges", status_code=201)
    async def request(body: RejudgeRequest, actor: Operator) -> RequestedRejudge:
        """Run submissions again under another version; nothing counts until it is applied."""
        problem = await load_problem(body.problem, decisions.load_state)
        published = problems.newest_version(body.problem, problem)
        # GPU types that were closed still have entries.
        gpus = {gpu.lower(): gpu for gpu in (*problem.gpus_ever, *published.gpus)}
        if body.gpu is not None and body.gpu.lower() not in gpus:
            message = f"GPU type {body.gpu!r} is not one of {', '.join(gpus.values())}"
            raise Refused("unknown_gpu", message, "gpu")
        from_version, _ = select_versions(body, problem.digests)
        gpu = gpus[body.gpu.lower()] if body.gpu else None
        items = await ports.lookups.rejudge_items(body.problem, body.select, from_version, gpu)
        fact = request_rejudge(body, problem.digests, items)
        rejudge = new_id()
        await decisions.record(subjects.rejudge(rejudge), fact, actor)
        return RequestedRejudge(
            id=rejudge,
            count=len(fact.items),
            from_version=fact.from_number,
            to_version=fact.to_number,
        )

    @router.post("/rejudges/{id}/{act}")
    async def end(
        id: IdInPath,  # noqa: A002  (the contract's own word)
        act: Literal["apply", "discard"],
        body: ReasonRequest,
        actor: Operator,
    ) -> DecisionResponse:
        """Apply or discard the results of a rejudge."""
        command = (events.RejudgeApplied if act == "apply" else events.RejudgeDiscarded)(
            reason=body.reason
        )
        return decision_response(
            await decisions.make(subjects.rejudge(id), rejudges, command, actor)
        )


def repeat_submission(
    number: int, submission: SubmissionHistory, at: datetime
) -> events.SubmissionReceived:
    """Return the event that submits a file again for its owner, without taking quota.

    It has as much time as before. Raises `Refused` for a baseline, and for a submission that ended,
    unless the platform failed.
    """
    received = submission.received
    if received.baseline:
        message = f"submission {number} is a baseline: run the baselines of {received.problem}"
        raise Refused("wrong_state", f"{message} again", "number")
    for fact in submission.facts:
        match fact:
            case events.SubmissionFinished():
                outcome = fact.outcome
            case _:
                continue
        if outcome != "infra_failed":
            message = f"submission {number} ended as {outcome}: retry only one that is open"
            raise Refused("wrong_state", f"{message}, or that ended as infra_failed", "number")
    received_at = submission.history[0].envelope.at
    return structs.replace(
        received,
        deadline_at=at + (received.deadline_at - received_at),
        via=events.VIA_OPERATOR,
        request_hash="",
        bucket="",
        cost=0,
    )


async def retry_submission(
    ports: Ports, decisions: Decisions, number: int, reason: str, operator: str
) -> DecisionResult:
    """Submit a file again for its owner, once; an open submission is cancelled.

    The sequence of the result is the new number. Raises `Refused` and `Failed`.
    """
    submission = await load_submission(ports, number)
    received = repeat_submission(number, submission, decisions.clock())
    problem = await load_problem(received.problem, decisions.load_state)
    if problem.is_archived:
        message = f"{received.problem} is archived: it accepts no submissions"
        raise Refused("wrong_state", message, "number")
    if (await decisions.load_state(subjects.moderation(submission.id), moderation)).is_withdrawn:
        message = f"submission {number} was withdrawn by its owner: it is never ranked"
        raise Refused("wrong_state", message, "number")
    received = structs.replace(received, class_=problem.queue_class(decisions.clock()))
    retry = derive_id(submission.id, RETRY)
    if repeated := await ports.log.history(subjects.submission(retry)):
        message = f"submission {number} was retried already, as submission {repeated[0].seq}"
        raise Refused("wrong_state", message, "number")
    appends = [http_append(subjects.submission(retry), received, 0, retry)]
    state = submissions.fold(submission.facts)
    if not (state.is_over or state.is_cancelled):
        cancel = events.SubmissionCancelRequested(reason=reason)
        version = submission.history[-1].seq
        agg = subjects.submission(submission.id)
        appends.append(http_append(agg, cancel, version, submission.id))
    acted = events.OperatorActed(command=RETRY, target=str(number), reason=reason)
    appends.append(http_append(subjects.audit(OPERATORS), acted, None, retry))
    try:
        last = await decisions.append(operator, *appends)
    except Conflict as conflict:
        message = f"submission {number} has just changed: look at it and try again"
        raise Refused("wrong_state", message, "number") from conflict
    return DecisionResult(last - len(appends) + 1, [received])


def _add_retries(
    router: APIRouter, ports: Ports, decisions: Decisions, auth: Authenticator
) -> None:
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:submissions"))]

    @router.post("/submissions/{number}/retry", status_code=201)
    async def retry(number: NumberInPath, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Submit a file again for its owner, if the platform failed or its submission is stuck.

        It takes no quota. An open submission is cancelled. `seq` is the number of the new one.
        """
        result = await retry_submission(ports, decisions, number, body.reason, actor)
        return decision_response(result)


class DuelRequest(RequestModel):
    """The numbers of two submissions of one leaderboard, to be timed in alternation."""

    first: Annotated[JsonInt, Field(ge=1)]
    second: Annotated[JsonInt, Field(ge=1)]
    reason: Text
    gpu: Token | None = None


def request_duel(
    request: DuelRequest, first: SubmissionHistory, second: SubmissionHistory
) -> events.DuelRequested:
    """Return the duel of two submissions.

    Raises `Refused` unless both passed on the same problem version and GPU type.
    """
    (received, first_side), (other, second_side) = (
        _contender(request.first, first, "first"),
        _contender(request.second, second, "second"),
    )
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


def _contender(
    number: int, submission: SubmissionHistory, field: str
) -> tuple[events.SubmissionReceived, events.DuelSide]:
    """Return a submission and its side. Raises `Refused` unless it passed."""
    ends = [fact for fact in submission.facts if isinstance(fact, events.SubmissionFinished)]
    if not (ends and ends[-1].outcome == "passed"):
        message = f"submission {number} has not passed"
        raise Refused("bad_duel", f"{message}: choose another", field)
    received = next(
        fact for fact in submission.facts if isinstance(fact, events.SubmissionReceived)
    )
    side = events.DuelSide(
        submission=submission.id,
        number=number,
        account=received.account,
        source=received.source,
        name=received.name,
        normal_digest=received.normal_digest,
    )
    return received, side


def _add_duels(router: APIRouter, ports: Ports, decisions: Decisions, auth: Authenticator) -> None:
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:operate"))]

    @router.post("/duels", status_code=201)
    async def request(body: DuelRequest, actor: Operator) -> DecisionResponse:
        """Time two submissions in alternation; the winner ranks first where they are tied."""
        first = await load_submission(ports, body.first)
        second = await load_submission(ports, body.second)
        duel = request_duel(body, first, second)
        return decision_response(await decisions.record(subjects.duel(new_id()), duel, actor))
