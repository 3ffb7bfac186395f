"""Routes of contests."""

from datetime import UTC
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends, Request
from pydantic import Field

from ingest.contests.commands import ReviewWinner
from ingest.contests.service import ContestCommands, ContestUpload, Registration
from ingest.http.requests import NameOrAccount, RequestModel, Slug, Text
from ingest.http.responses import decision_response
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from shared.api import contests as api
from shared.api.fields import PRINTABLE
from shared.api.queues import DecisionResponse
from shared.contests.definition import ReviewItem
from shared.http import DocumentedRoute
from shared.json_types import Instant, JsonInt
from shared.problems.contest_yml import TERMS_CHARS_MAX
from shared.problems.document import YAML_BYTES_MAX

FILES_MAX = 4
PEOPLE_MAX = 10_000
CODE_LENGTH_MAX = 128
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]
Code = Annotated[str, Field(min_length=1, max_length=CODE_LENGTH_MAX)]
# The first character is no space either.
_FIRST = PRINTABLE.replace("[^", r"[^\s", 1)
TeamName = Annotated[str, Field(pattern=f"^{_FIRST}{PRINTABLE}{{0,39}}$", max_length=40)]
Division = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Declaration = Annotated[
    dict[
        Annotated[str, Field(max_length=40)],
        Annotated[str, Field(max_length=500, pattern=f"^{PRINTABLE}*$")],
    ],
    Field(max_length=16),
]


class ContestRequest(RequestModel):
    """A `contest.yml`, and the files beside it that it names, as text.

    With `update` it replaces the definition of a contest; without, the contest is new. With
    `dry_run` it is only checked, against the problems and participants of the platform.
    """

    contest_yml: Annotated[str, Field(min_length=1, max_length=YAML_BYTES_MAX)]
    files: Annotated[
        dict[FileName, Annotated[str, Field(max_length=TERMS_CHARS_MAX)]],
        Field(max_length=FILES_MAX),
    ]
    update: bool = False
    dry_run: bool = False
    reason: Text


class DeclarationRequest(RequestModel):
    """A division, and what it demands, such as the `model`."""

    division: Division
    declaration: Declaration = Field(default_factory=dict)


class RegistrationRequest(DeclarationRequest):
    """A registration: the digest of the terms that are accepted, and the code of an invite."""

    terms_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    code: Annotated[str, Field(max_length=CODE_LENGTH_MAX)] = ""


class TeamRequest(RequestModel):
    """The name of a new team, which everybody can read, also later."""

    name: TeamName


class TeamCodeRequest(RequestModel):
    """The code of a team."""

    code: Code


class LeaveRequest(RequestModel):
    """Whom a captain removes; by default one leaves oneself."""

    participant: NameOrAccount | None = None


class CaptainRequest(RequestModel):
    """The next captain."""

    participant: NameOrAccount


class ContestInviteRequest(RequestModel):
    """How many people may register with a code, and until when."""

    people_max: Annotated[JsonInt, Field(ge=1, le=PEOPLE_MAX)] = 1
    expires_at: Instant | None = None


class ContestJudgementRequest(RequestModel):
    """A team by id or name, or a participant by name; and the reason, which they can read."""

    contestant: Annotated[str, Field(min_length=1, max_length=64)]
    reason: Text


class FinalistsRequest(RequestModel):
    """Who is admitted to the finals: by default the first of each division by the qualifier."""

    contestants: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=1000)
    ] = Field(default_factory=list)
    reason: Annotated[str, Field(max_length=500, pattern=f"^{PRINTABLE}*$")] = ""


class ReviewRequest(RequestModel):
    """A decision on an item of the check list of a winner."""

    contestant: Annotated[str, Field(min_length=1, max_length=64)]
    item: ReviewItem
    is_passed: bool
    note: Annotated[str, Field(max_length=500, pattern=f"^{PRINTABLE}*$")] = ""


def contests_router(contests: ContestCommands, auth: Authenticator) -> APIRouter:
    """The routes: all may read, participants register, organisers and operators run contests."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    _definitions(router, contests, auth)
    _registration(router, contests, auth)
    _teams(router, contests, auth)
    _organisers(router, contests, auth)
    _results(router, contests, auth)
    return router


def _definitions(router: APIRouter, contests: ContestCommands, auth: Authenticator) -> None:
    Author: TypeAlias = Annotated[Caller, Depends(auth.participant_or_operator())]

    @router.post("/contests", status_code=201)
    async def publish(body: ContestRequest, caller: Author) -> api.PublishedContest:
        """Publish or update a contest from its file. Its problems get its deadlines.

        For a new one, the caller is the author of all its problems, or an operator; an update is
        for organisers and operators.
        """
        files = {name: text.encode() for name, text in body.files.items()}
        upload = ContestUpload(
            contest_yml=body.contest_yml.encode(),
            files=files,
            is_update=body.update,
            is_dry_run=body.dry_run,
            reason=body.reason,
        )
        return await contests.publish(caller, upload)

    @router.get("/contests")
    async def listed() -> api.Contests:
        """All contests, those that started last first."""
        return api.Contests(items=await contests.listed())

    @router.get("/contests/{slug}")
    async def details(slug: Slug, request: Request) -> api.ContestDetails:
        """A contest: its definition, its phase now, and the part that the caller takes in it."""
        return await contests.details(await auth.caller(request), slug)

    @router.get("/contests/{slug}/contestants")
    async def contestants(slug: Slug, request: Request) -> api.Contestants:
        """The contestants. Organisers and moderators see declarations and reasons, too."""
        return api.Contestants(items=await contests.contestants(await auth.caller(request), slug))


def _registration(router: APIRouter, contests: ContestCommands, auth: Authenticator) -> None:
    Participant: TypeAlias = Annotated[Caller, Depends(auth.participant("submit"))]

    @router.post("/contests/{slug}/registration", status_code=201)
    async def register(
        slug: Slug, body: RegistrationRequest, caller: Participant
    ) -> DecisionResponse:
        """Take part: accept the terms with this digest, and choose a division."""
        registration = Registration(
            division=body.division,
            terms_digest=body.terms_digest,
            declaration=body.declaration,
            code=body.code,
        )
        return decision_response(await contests.register(caller, slug, registration))

    @router.delete("/contests/{slug}/registration")
    async def withdraw(slug: Slug, caller: Participant) -> DecisionResponse:
        """Take part no longer; one leaves one's team, too."""
        return decision_response(await contests.withdraw(caller, slug))

    @router.put("/contests/{slug}/declaration")
    async def declare(
        slug: Slug, body: DeclarationRequest, caller: Participant
    ) -> DecisionResponse:
        """Change the division, until the registration closes, or what it demands; for a team,
        its captain does.
        """
        result = await contests.declare(caller, slug, body.division, body.declaration)
        return decision_response(result)


def _teams(router: APIRouter, contests: ContestCommands, auth: Authenticator) -> None:
    Participant: TypeAlias = Annotated[Caller, Depends(auth.participant("submit"))]

    @router.post("/contests/{slug}/team", status_code=201)
    async def create(slug: Slug, body: TeamRequest, caller: Participant) -> api.ContestCode:
        """Form a team; others join it with the code, which is shown once."""
        return await contests.create_team(caller, slug, body.name)

    @router.post("/contests/{slug}/team/join")
    async def join(slug: Slug, body: TeamCodeRequest, caller: Participant) -> DecisionResponse:
        """Join the team with a code."""
        return decision_response(await contests.join_team(caller, slug, body.code))

    @router.post("/contests/{slug}/team/leave")
    async def leave(slug: Slug, body: LeaveRequest, caller: Participant) -> DecisionResponse:
        """Leave one's team; its captain may remove others."""
        return decision_response(await contests.leave_team(caller, slug, body.participant))

    @router.post("/contests/{slug}/team/code")
    async def change_code(slug: Slug, caller: Participant) -> api.ContestCode:
        """Replace the code of one's team; the old one is void. For its captain."""
        return await contests.change_team_code(caller, slug)

    @router.put("/contests/{slug}/team/captain")
    async def change_captain(
        slug: Slug, body: CaptainRequest, caller: Participant
    ) -> DecisionResponse:
        """Make another member the captain. For the captain."""
        return decision_response(await contests.change_captain(caller, slug, body.participant))


def _organisers(router: APIRouter, contests: ContestCommands, auth: Authenticator) -> None:
    Organiser: TypeAlias = Annotated[Caller, Depends(auth.participant_or_operator())]

    @router.post("/contests/{slug}/invites", status_code=201)
    async def invite(slug: Slug, body: ContestInviteRequest, caller: Organiser) -> api.ContestCode:
        """Create a code with which people register for a contest that is by invitation."""
        ends_at = body.expires_at.astimezone(UTC) if body.expires_at else None
        return await contests.invite(caller, slug, body.people_max, ends_at)

    @router.post("/contests/{slug}/contestants/{act}")
    async def moderate(
        slug: Slug,
        act: Literal["question", "accept", "disqualify", "restore"],
        body: ContestJudgementRequest,
        caller: Organiser,
    ) -> DecisionResponse:
        """Question or accept a declaration, or disqualify or restore a person or a team.

        For organisers and moderators.
        """
        result = await contests.moderate(caller, slug, act, body.contestant, body.reason)
        return decision_response(result)


def _results(router: APIRouter, contests: ContestCommands, auth: Authenticator) -> None:
    Organiser: TypeAlias = Annotated[Caller, Depends(auth.participant_or_operator())]

    @router.post("/contests/{slug}/finalists")
    async def admit(slug: Slug, body: FinalistsRequest, caller: Organiser) -> DecisionResponse:
        """Admit contestants to the finals, once the qualifier is over. For organisers."""
        result = await contests.admit_finalists(caller, slug, body.contestants, body.reason)
        return decision_response(result)

    @router.post("/contests/{slug}/results")
    async def propose(slug: Slug, caller: Organiser) -> DecisionResponse:
        """Announce the provisional results, once all rounds are over. For organisers."""
        return decision_response(await contests.propose_results(caller, slug))

    @router.post("/contests/{slug}/reviews")
    async def review(slug: Slug, body: ReviewRequest, caller: Organiser) -> DecisionResponse:
        """Decide an item of a winner's check list. For organisers and moderators."""
        command = ReviewWinner(body.contestant, body.item, body.is_passed, body.note)
        return decision_response(await contests.review(caller, slug, command))

    @router.post("/contests/{slug}/results/confirm")
    async def confirm(slug: Slug, caller: Organiser) -> DecisionResponse:
        """Make the provisional results final: all checks passed, and appeals are over.

        For organisers.
        """
        return decision_response(await contests.confirm_results(caller, slug))
