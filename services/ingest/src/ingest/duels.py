"""Duels: two submissions of one leaderboard, timed in alternation."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.decisions import Decisions
from ingest.http.auth import Authenticator
from ingest.http.request_models import RequestModel, Text, Token, decision_response
from ingest.ports import Ports
from ingest.submissions.routes import SubmissionHistory, load_submission
from shared import subjects
from shared.api.platform import DecisionResponse
from shared.clock import new_id
from shared.errors import Refused
from shared.events import DuelRequested, DuelSide, SubmissionFinished, SubmissionReceived
from shared.json_types import JsonInt
from shared.response_types import DocumentedRoute

# What two submissions of one leaderboard have in common.
COMMON_FIELDS = {"problem": "problem", "problem_number": "problem version", "gpu": "GPU type"}


class DuelRequest(RequestModel):
    """The numbers of two submissions of one leaderboard, to be timed in alternation."""

    first: Annotated[JsonInt, Field(ge=1)]
    second: Annotated[JsonInt, Field(ge=1)]
    reason: Text
    gpu: Token | None = None


def request_duel(
    request: DuelRequest, first: SubmissionHistory, second: SubmissionHistory
) -> DuelRequested:
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
    return DuelRequested(
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
) -> tuple[SubmissionReceived, DuelSide]:
    """Return a submission and its side. Raises `Refused` unless it passed."""
    ends = [fact for fact in submission.facts if isinstance(fact, SubmissionFinished)]
    if not (ends and ends[-1].outcome == "passed"):
        message = f"submission {number} has not passed"
        raise Refused("bad_duel", f"{message}: choose another", field)
    received = next(fact for fact in submission.facts if isinstance(fact, SubmissionReceived))
    side = DuelSide(
        submission=submission.id,
        number=number,
        account=received.account,
        source=received.source,
        name=received.name,
    )
    return received, side


def duels_router(ports: Ports, decisions: Decisions, auth: Authenticator) -> APIRouter:
    """The route, for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:operate"))]

    @router.post("/duels", status_code=201)
    async def request(body: DuelRequest, actor: Operator) -> DecisionResponse:
        """Time two submissions in alternation; the winner ranks first where they are tied."""
        first = await load_submission(ports, body.first)
        second = await load_submission(ports, body.second)
        duel = request_duel(body, first, second)
        return decision_response(await decisions.record(subjects.duel(new_id()), duel, actor))

    return router
