"""Routes for participants about their own account: tokens and identities."""

from datetime import timedelta
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.access.callers import Caller, check_unlimited
from ingest.accounts.service import Accounts
from ingest.accounts.tokens import IssuedToken, NewToken, TokenDetails, Tokens
from ingest.http.auth import Authenticator
from ingest.http.request_models import (
    IdInPath,
    NumberInPath,
    RequestModel,
    Slug,
    Text,
    decision_response,
)
from ingest.ports import Identity
from shared.api import accounts as api
from shared.api.platform import DecisionResponse
from shared.clock import now
from shared.errors import Refused
from shared.response_types import DocumentedRoute

DAYS_MAX = 365
DAYS_USUAL = 90
SCOPES_MAX = 20
PROBLEMS_MAX = 100
NAME_LENGTH_MAX = 100

Scopes = Annotated[list[Text], Field(min_length=1, max_length=SCOPES_MAX)]
Slugs = Annotated[list[Slug], Field(max_length=PROBLEMS_MAX)]
Days = Annotated[int, Field(ge=1, le=DAYS_MAX)]
TokenName = Annotated[Text, Field(max_length=NAME_LENGTH_MAX)]


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
        identities = await people.register.identities(account) if account else []
        own_tokens = tokens.feed.now().tokens_of(account) if account else []
        return api.CurrentAccount(
            participant_id=account,
            name=caller.name,
            roles=sorted({"participant"} | caller.roles),
            scopes=sorted(caller.scopes),
            problems=sorted(caller.problems),
            leaderboards=sorted(caller.boards),
            token=next((token.number for token in own_tokens if token.id == caller.token), None),
            identities=[identity_response(identity) for identity in identities],
            ban=caller.ban,
        )

    @router.delete("/me/identities/{identity}")
    async def unlink(identity: IdInPath, caller: Holder) -> DecisionResponse:
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
        id: NumberInPath,  # noqa: A002  (the contract's own word)
        caller: Annotated[Caller, Depends(auth.participant())],
    ) -> api.RevokedToken:
        """Revoke a token, everywhere within a second; every token may revoke itself."""
        own_tokens = tokens.feed.now().tokens_of(caller.id)
        is_own = any((token.number, token.id) == (id, caller.token) for token in own_tokens)
        if not (is_own or caller.keeps_tokens):
            message = "this needs the scope account, or the token that is revoked"
            raise Refused("scope_missing", message)
        if not is_own:
            check_unlimited(caller)
        result = await tokens.revoke(caller.id, id, "revoked by its owner", caller.actor)
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
