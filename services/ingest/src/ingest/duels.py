"""Duels: two submissions of one leaderboard, timed in alternation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.decisions import DecisionResult, Decisions, http_append
from ingest.http.auth import Authenticator
from ingest.http.request_models import RequestModel, Text, Token, decision_response
from ingest.ports import Ports
from ingest.submissions.service import load_submission
from shared import subjects
from shared.api.platform import DecisionResponse
from shared.clock import new_id
from shared.errors import Refused
from shared.events import (
    DuelRequested,
    DuelSide,
    Fact,
    SubmissionFinished,
    SubmissionReceived,
)
from shared.json_types import JsonInt
from shared.response_types import DocumentedRoute

# What two submissions of one leaderboard have in common.
COMMON_FIELDS = {"problem": "problem", "problem_number": "problem version", "gpu": "GPU type"}


class Contender(NamedTuple):
    """A submission with its number and its history."""

    number: int
    id: str
    facts: Sequence[Fact]

    @property
    def received(self) -> SubmissionReceived:
        """Return the event that received it."""
        return next(fact for fact in self.facts if isinstance(fact, SubmissionReceived))


def request_duel(
    first: Contender, second: Contender, gpu: str | None, reason: str
) -> DuelRequested:
    """Return the duel of two submissions.

    Raises `Refused` unless both passed on the same problem version and GPU type.
    """
    first_received, second_received = first.received, second.received
    _check_passed(first, "first")
    _check_passed(second, "second")
    for name, label in COMMON_FIELDS.items():
        first_value, second_value = getattr(first_received, name), getattr(second_received, name)
        if first_value != second_value:
            mismatch = (
                f"{first.number} is of {label} {first_value}, {second.number} of {second_value}"
            )
            raise Refused("bad_duel", f"{mismatch}: choose two of one leaderboard", "second")
    if gpu is not None and gpu.lower() != first_received.gpu.lower():
        mismatch = f"both submissions ran on {first_received.gpu}, not on {gpu}"
        raise Refused("bad_duel", f"{mismatch}: leave gpu out, or choose others", "gpu")
    if first_received.source.digest == second_received.source.digest:
        mismatch = f"{first.number} and {second.number} are the same source"
        raise Refused("bad_duel", f"{mismatch}: choose another", "second")
    return DuelRequested(
        problem=first_received.problem,
        problem_number=first_received.problem_number,
        problem_digest=first_received.problem_digest,
        gpu=first_received.gpu,
        first=_side(first),
        second=_side(second),
        reason=reason,
    )


def _check_passed(contender: Contender, field: str) -> None:
    ends = [fact for fact in contender.facts if isinstance(fact, SubmissionFinished)]
    if not (ends and ends[-1].outcome == "passed"):
        message = f"submission {contender.number} has not passed"
        raise Refused("bad_duel", f"{message}: choose another", field)


def _side(contender: Contender) -> DuelSide:
    received = contender.received
    return DuelSide(
        submission=contender.id,
        number=contender.number,
        account=received.account,
        source=received.source,
        name=received.name,
    )


@dataclass(frozen=True)
class Duels:
    """Requests duels."""

    ports: Ports
    decisions: Decisions

    async def request(
        self, numbers: tuple[int, int], gpu: str | None, reason: str, operator: str
    ) -> DecisionResult:
        """Request a duel of two submissions; it uses no quota. Raises `Refused` and `Failed`."""
        first, second = [await self._contender(number) for number in numbers]
        fact = request_duel(first, second, gpu, reason)
        duel = new_id()
        append = http_append(subjects.duel(duel), fact, 0, duel)
        return DecisionResult(await self.decisions.append(operator, append), [fact])

    async def _contender(self, number: int) -> Contender:
        submission = await load_submission(self.ports, number)
        return Contender(number, submission.id, submission.facts)


class DuelRequest(RequestModel):
    """The numbers of two submissions of one leaderboard, to be timed in alternation."""

    first: Annotated[JsonInt, Field(ge=1)]
    second: Annotated[JsonInt, Field(ge=1)]
    reason: Text
    gpu: Token | None = None


def duels_router(duels: Duels, auth: Authenticator) -> APIRouter:
    """The route, for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    operator = auth.operator("admin:operate")

    @router.post("/duels", status_code=201)
    async def request(
        body: DuelRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Time two submissions in alternation; the winner ranks first where they are tied."""
        numbers = body.first, body.second
        return decision_response(await duels.request(numbers, body.gpu, body.reason, actor))

    return router
