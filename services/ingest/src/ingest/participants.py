"""Operators' routes for participants: accounts, roles, tokens and identities."""

from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from ingest.accounts import rules
from ingest.accounts.routes import (
    TokenRequest,
    identity_response,
    issued_token_response,
    token_response,
)
from ingest.accounts.service import Accounts
from ingest.accounts.tokens import Tokens
from ingest.http.auth import Authenticator
from ingest.http.request_models import (
    IdInPath,
    Name,
    NameInPath,
    NameOrAccount,
    NumberInPath,
    ReasonRequest,
    RequestModel,
    Text,
    decision_response,
)
from ingest.moderation.routes import Moderation
from ingest.platform import Operators
from shared.api import accounts as api
from shared.api.platform import DecisionResponse
from shared.events import RoleGranted, RoleRevoked
from shared.response_types import DocumentedRoute

SUBJECT_LENGTH_MAX = 200
NAMES_MAX = 1000
KNOWN: dict[int | str, dict[str, Any]] = {
    200: {"description": "The participant already has an account."}
}

Role = Literal["creator", "moderator", "admin"]
After = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
Limit = Annotated[int, Query(ge=1, le=NAMES_MAX)]


class AccountRequest(RequestModel):
    """A participant who gets an account, and why."""

    name: Name
    reason: Text


class RenameRequest(AccountRequest):
    """The new name of a participant, and why."""


class ParticipantTokenRequest(TokenRequest):
    """A token for a participant, and why an operator creates it."""

    participant: NameOrAccount
    reason: Text


class RoleRequest(RequestModel):
    """A role, and why a participant gets it."""

    role: Role
    reason: Text


class IdentityRequest(RequestModel):
    """An identity of a participant at another provider, and how it was verified."""

    provider: Literal["discord", "github", "web"]
    subject: Annotated[Text, Field(max_length=SUBJECT_LENGTH_MAX)]
    reason: Text


def participants_router(
    people: Accounts,
    tokens: Tokens,
    moderation: Moderation,
    operators: Operators,
    auth: Authenticator,
) -> APIRouter:
    """The routes, each for operators only; those that give more rights are for admins."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    _participants(router, people, tokens, moderation, auth)
    _rename(router, people, operators, auth)
    _rights(router, people, tokens, auth)
    return router


def _participants(
    router: APIRouter, people: Accounts, tokens: Tokens, moderation: Moderation, auth: Authenticator
) -> None:
    operator = auth.operator("admin:participants")

    @router.post("/participants", status_code=201, responses=KNOWN)
    async def open_account(
        body: AccountRequest, response: Response, actor: Annotated[str, Depends(operator)]
    ) -> api.OpenedAccount:
        """Open an account; a participant who has one keeps it."""
        account, result = await people.open(body.name, "operator", actor)
        if not result.facts:
            response.status_code = 200
        return api.OpenedAccount(
            participant_id=account, name=body.name, event=result.event, seq=result.seq
        )

    @router.get("/participants/{name}", dependencies=[Depends(operator)])
    async def participant(name: NameInPath) -> api.Participant:
        """A participant: roles, ban, identities, and tokens without their texts."""
        account = await people.find(name)
        access = people.feed.now()
        ban = access.bans.get(account)
        identities = await people.register.identities(account)
        return api.Participant(
            participant_id=account,
            name=name,
            roles=sorted({"participant"} | access.roles.get(account, set())),
            leaderboards=sorted(access.boards_of(account)),
            ban=f"{rules.format_ban_end(ban)}: {ban.reason}" if ban else None,
            ban_appeal=await moderation.load_ban_appeal(account),
            identities=[identity_response(identity) for identity in identities],
            tokens=[token_response(details) for details in await tokens.list_tokens(account)],
        )

    @router.get("/participants", dependencies=[Depends(operator)])
    async def names(after: After = "", limit: Limit = 1000) -> api.ParticipantNames:
        """The names of participants, ordered by id."""
        accounts = await people.register.names(after, limit + 1)
        page = accounts[:limit]
        return api.ParticipantNames(
            items=[
                api.ParticipantName(participant_id=account, name=name) for account, name in page
            ],
            next_after=page[-1][0] if len(accounts) > limit else None,
        )


def _rename(router: APIRouter, people: Accounts, operators: Operators, auth: Authenticator) -> None:
    @router.put("/participants/{name}/name")
    async def rename(
        name: NameInPath,
        body: RenameRequest,
        actor: Annotated[str, Depends(auth.operator("admin:participants"))],
    ) -> api.OpenedAccount:
        """Rename a participant. They keep the old name, too, and nobody else can get it."""
        account = await people.rename(name, body.name, actor)
        result = await operators.record_action("rename", account, body.reason, actor)
        return api.OpenedAccount(
            participant_id=account, name=body.name, event=result.event, seq=result.seq
        )


def _rights(router: APIRouter, people: Accounts, tokens: Tokens, auth: Authenticator) -> None:
    Admin: TypeAlias = Annotated[str, Depends(auth.operator("admin"))]

    @router.post("/participants/{name}/roles")
    async def grant(name: NameInPath, body: RoleRequest, actor: Admin) -> DecisionResponse:
        """Give a participant a role."""
        event = RoleGranted(role=body.role, reason=body.reason)
        return decision_response(await people.decide(await people.find(name), event, actor))

    @router.delete("/participants/{name}/roles/{role}")
    async def take(
        name: NameInPath, role: Role, body: ReasonRequest, actor: Admin
    ) -> DecisionResponse:
        """Take a role from a participant."""
        event = RoleRevoked(role=role, reason=body.reason)
        return decision_response(await people.decide(await people.find(name), event, actor))

    @router.post("/tokens", status_code=201)
    async def issue(body: ParticipantTokenRequest, actor: Admin) -> api.IssuedToken:
        """Create a token for a participant, within their roles; its text is shown once."""
        account = await people.find(body.participant)
        new = body.to_new_token()._replace(reason=body.reason)
        return issued_token_response(await tokens.issue(account, new, actor), body)

    @router.delete("/tokens/{id}")
    async def revoke(
        id: NumberInPath,  # noqa: A002  (the contract's own word)
        body: ReasonRequest,
        actor: Annotated[str, Depends(auth.operator("admin:participants"))],
    ) -> api.RevokedToken:
        """Revoke any token, everywhere within a second."""
        result = await tokens.revoke_any(id, body.reason, actor)
        return api.RevokedToken(id=id, state="revoked", event=result.event, seq=result.seq)

    @router.post("/participants/{name}/identities")
    async def link(name: NameInPath, body: IdentityRequest, actor: Admin) -> DecisionResponse:
        """Link an identity to a participant, who can log in with it from now on."""
        account = await people.find(name)
        return decision_response(await people.link(account, body.provider, body.subject, actor))

    @router.delete("/participants/{name}/identities/{identity}")
    async def unlink(
        name: NameInPath, identity: IdInPath, body: ReasonRequest, actor: Admin
    ) -> DecisionResponse:
        """Unlink an identity from a participant."""
        account = await people.find(name)
        return decision_response(await people.unlink(account, identity, body.reason, actor))
