"""Routes of participants about their own account, and of operators about all accounts."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from ingest.http.requests import (
    Id,
    Name,
    NameOrAccount,
    Number,
    ReasonRequest,
    RequestModel,
    Role,
    Slugs,
    Text,
)
from ingest.http.responses import decision_response
from ingest.identity.accounts.service import Accounts, IssuedToken, NewToken, TokenDetails, Tokens
from ingest.identity.bans import format_ban_end
from ingest.identity.caller import Caller, check_unlimited
from ingest.identity.http.authenticator import Authenticator
from ingest.ports import Identity
from shared.api import accounts as api
from shared.api.queues import DecisionResponse
from shared.clock import now
from shared.http import DocumentedRoute

DAYS_MAX = 365
DAYS_USUAL = 90
SCOPES_MAX = 20
TOKEN_NAME_LENGTH_MAX = 100
SUBJECT_LENGTH_MAX = 200
NAMES_MAX = 1000
KNOWN: dict[int | str, dict[str, Any]] = {
    200: {"description": "The participant already has an account."}
}

Scopes = Annotated[list[Text], Field(min_length=1, max_length=SCOPES_MAX)]
Days = Annotated[int, Field(ge=1, le=DAYS_MAX)]
TokenName = Annotated[Text, Field(max_length=TOKEN_NAME_LENGTH_MAX)]
After = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
# Returns the appeal against an account's last ban, or None.
LoadBanAppeal = Callable[[str], Awaitable[api.BanAppeal | None]]
Limit = Annotated[int, Query(ge=1, le=NAMES_MAX)]


class TokenRequest(RequestModel):
    """A token to create: its name, scopes, lifetime and problems."""

    name: TokenName
    scopes: Scopes
    expires_in_days: Days = DAYS_USUAL
    problems: Slugs = Field(default_factory=list)

    def to_new_token(self) -> NewToken:
        """Return the token to issue."""
        ends = now() + timedelta(days=self.expires_in_days)
        return NewToken("api", self.name, self.scopes, ends, self.problems)


def accounts_router(people: Accounts, tokens: Tokens, auth: Authenticator) -> APIRouter:
    """The routes, each for the participants themselves."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    Participant: TypeAlias = Annotated[Caller, Depends(auth.participant())]
    Holder: TypeAlias = Annotated[Caller, Depends(auth.participant("account"))]

    @router.get("/me")
    async def me(caller: Participant) -> api.CurrentAccount:
        """The current account: name, roles, the scopes of this token, and linked identities.

        On a machine where names are believed, a participant who has done nothing yet has no
        account.
        """
        account = caller.account
        identities = await people.list_identities(account) if account else []
        access = tokens.feed.rights()
        own_tokens = access.tokens_of(account) if account else []
        return api.CurrentAccount(
            participant_id=account,
            name=caller.name,
            roles=sorted({"participant"} | caller.roles),
            scopes=sorted(caller.scopes),
            problems=sorted(caller.problems),
            leaderboards=access.closed_boards(caller.boards),
            token=next((token.number for token in own_tokens if token.id == caller.token), None),
            identities=[identity_response(identity) for identity in identities],
            ban=caller.ban,
        )

    @router.delete("/me/identities/{identity}")
    async def unlink(identity: Id, caller: Holder) -> DecisionResponse:
        """Unlink an identity; log in with its provider to link it again."""
        check_unlimited(caller)
        return decision_response(await people.unlink(caller.id, identity, "unlinked", caller.actor))

    _tokens(router, tokens, auth)
    return router


def _tokens(router: APIRouter, tokens: Tokens, auth: Authenticator) -> None:
    @router.post("/tokens", status_code=201)
    async def issue(
        body: TokenRequest, caller: Annotated[Caller, Depends(auth.participant("account"))]
    ) -> api.IssuedToken:
        """Create a token with at most the scopes of the current one; its text is shown once."""
        return issued_token_response(await tokens.issue_own(caller, body.to_new_token()), body)

    @router.get("/tokens")
    async def listed(caller: Annotated[Caller, Depends(auth.token_manager())]) -> api.Tokens:
        """The tokens that are not revoked, oldest first, without their texts."""
        check_unlimited(caller)
        details = await tokens.list_tokens(caller.id)
        return api.Tokens(items=[token_response(token) for token in details])

    @router.delete("/tokens/{id}")
    async def revoke(
        id: Number,  # noqa: A002  (the contract's own word)
        caller: Annotated[Caller, Depends(auth.participant())],
    ) -> api.RevokedToken:
        """Revoke a token, everywhere within a second; every token may revoke itself."""
        result = await tokens.revoke_own(caller, id)
        return api.RevokedToken(id=id, state="revoked", event=result.event, seq=result.seq)


def issued_token_response(issued: IssuedToken, request: TokenRequest) -> api.IssuedToken:
    """Return the response for a new token, with its text."""
    return api.IssuedToken(
        id=issued.number,
        token=issued.secret,
        prefix=issued.prefix,
        name=request.name,
        scopes=list(dict.fromkeys(request.scopes)),
        problems=list(dict.fromkeys(request.problems)),
        expires_at=issued.expires_at,
    )


def token_response(details: TokenDetails) -> api.Token:
    """Return the response for a token in a list, without its text."""
    token, row = details
    return api.Token(
        id=token.number,
        name=row.name,
        prefix=row.prefix,
        kind=token.kind,
        scopes=list(token.scopes),
        problems=list(token.problems),
        created_at=token.issued_at,
        last_used_at=row.last_used_at,
        expires_at=token.expires_at,
    )


def identity_response(identity: Identity) -> api.Identity:
    """Return the response for an identity."""
    fields = identity._asdict()
    del fields["account"]
    return api.Identity(**fields)


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
    load_ban_appeal: LoadBanAppeal,
    auth: Authenticator,
) -> APIRouter:
    """The routes, each for operators only; those that give more rights are for admins."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    _participants(router, people, tokens, load_ban_appeal, auth)

    @router.put("/participants/{name}/name")
    async def rename(
        name: NameOrAccount,
        body: RenameRequest,
        actor: Annotated[str, Depends(auth.operator("admin:participants"))],
    ) -> api.OpenedAccount:
        """Rename a participant. They keep the old name, too, and nobody else can get it."""
        account, result = await people.rename(name, body.name, body.reason, actor)
        return api.OpenedAccount(
            participant_id=account, name=body.name, event=result.event, seq=result.seq
        )

    _rights(router, people, tokens, auth)
    return router


def _participants(
    router: APIRouter,
    people: Accounts,
    tokens: Tokens,
    load_ban_appeal: LoadBanAppeal,
    auth: Authenticator,
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
    async def participant(name: NameOrAccount) -> api.Participant:
        """A participant: roles, ban, identities, and tokens without their texts."""
        account = await people.find(name)
        access = people.feed.rights()
        ban = access.bans.get(account)
        identities = await people.list_identities(account)
        return api.Participant(
            participant_id=account,
            name=name,
            roles=sorted({"participant"} | access.roles.get(account, set())),
            leaderboards=access.closed_boards(access.boards_of(account)),
            ban=f"{format_ban_end(ban)}: {ban.reason}" if ban else None,
            ban_appeal=await load_ban_appeal(account),
            identities=[identity_response(identity) for identity in identities],
            tokens=[token_response(details) for details in await tokens.list_tokens(account)],
        )

    @router.get("/participants", dependencies=[Depends(operator)])
    async def names(after: After = "", limit: Limit = 1000) -> api.ParticipantNames:
        """The names of participants, ordered by id."""
        accounts = await people.store.names(after, limit + 1)
        page = accounts[:limit]
        return api.ParticipantNames(
            items=[
                api.ParticipantName(participant_id=account, name=name) for account, name in page
            ],
            next_after=page[-1][0] if len(accounts) > limit else None,
        )


def _rights(router: APIRouter, people: Accounts, tokens: Tokens, auth: Authenticator) -> None:
    Admin: TypeAlias = Annotated[str, Depends(auth.operator("admin"))]

    @router.post("/participants/{name}/roles")
    async def grant(name: NameOrAccount, body: RoleRequest, actor: Admin) -> DecisionResponse:
        """Give a participant a role."""
        return decision_response(await people.grant_role(name, body.role, body.reason, actor))

    @router.delete("/participants/{name}/roles/{role}")
    async def take(
        name: NameOrAccount, role: Role, body: ReasonRequest, actor: Admin
    ) -> DecisionResponse:
        """Take a role from a participant."""
        return decision_response(await people.revoke_role(name, role, body.reason, actor))

    @router.post("/tokens", status_code=201)
    async def issue(body: ParticipantTokenRequest, actor: Admin) -> api.IssuedToken:
        """Create a token for a participant, within their roles; its text is shown once."""
        account = await people.find(body.participant)
        new = body.to_new_token()._replace(reason=body.reason)
        return issued_token_response(await tokens.issue(account, new, actor), body)

    @router.delete("/tokens/{id}")
    async def revoke(
        id: Number,  # noqa: A002  (the contract's own word)
        body: ReasonRequest,
        actor: Annotated[str, Depends(auth.operator("admin:participants"))],
    ) -> api.RevokedToken:
        """Revoke any token, everywhere within a second."""
        result = await tokens.revoke_any(id, body.reason, actor)
        return api.RevokedToken(id=id, state="revoked", event=result.event, seq=result.seq)

    @router.post("/participants/{name}/identities")
    async def link(name: NameOrAccount, body: IdentityRequest, actor: Admin) -> DecisionResponse:
        """Link an identity to a participant, who can log in with it from now on."""
        account = await people.find(name)
        return decision_response(await people.link(account, body.provider, body.subject, actor))

    @router.delete("/participants/{name}/identities/{identity}")
    async def unlink(
        name: NameOrAccount, identity: Id, body: ReasonRequest, actor: Admin
    ) -> DecisionResponse:
        """Unlink an identity from a participant."""
        account = await people.find(name)
        return decision_response(await people.unlink(account, identity, body.reason, actor))
