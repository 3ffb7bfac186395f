"""What participants ask about themselves: who they are, their tokens and identities."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.domain.callers import Caller, check_unlimited
from ingest.http import shapes
from ingest.http.bodies import Body, IdInPath, NumberInPath, Slug, Text, shown
from ingest.http.who import Gate
from ingest.service import Ingest
from ingest.service.people import People
from ingest.service.ports import Identity
from ingest.service.tokens import Issued, Listed, NewToken
from shared.answers import Documented
from shared.clock import now
from shared.errors import Refused

DAYS_MAX = 365
DAYS_USUAL = 90
SCOPES_MAX = 20
PROBLEMS_MAX = 100
NAME_LENGTH_MAX = 100

Scopes = Annotated[list[Text], Field(min_length=1, max_length=SCOPES_MAX)]
Slugs = Annotated[list[Slug], Field(max_length=PROBLEMS_MAX)]
Days = Annotated[int, Field(ge=1, le=DAYS_MAX)]
TokenName = Annotated[Text, Field(max_length=NAME_LENGTH_MAX)]


class TokenWish(Body):
    """A token: what it is called, what it may, for how long, and for which problems alone."""

    name: TokenName
    scopes: Scopes
    expires_in_days: Days = DAYS_USUAL
    problems: Slugs = Field(default_factory=list)

    def new(self) -> NewToken:
        """The token that is wanted."""
        ends = now() + timedelta(days=self.expires_in_days)
        return NewToken("api", self.name, self.scopes, ends, self.problems)


def accounts(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes, each for the participant themselves."""
    router = APIRouter(prefix="/v1", route_class=Documented)
    _me(router, ingest, gate)
    _identities(router, ingest.people, gate)
    _tokens(router, ingest, gate)
    return router


def _me(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    @router.get("/me")
    async def me(caller: Annotated[Caller, Depends(gate.participant())]) -> shapes.Me:
        """Who one is here: account, name, roles, what this token may, and where else one is known.

        On a machine where names are believed, one who has done nothing yet has no account.
        """
        account = caller.account
        linked = await ingest.people.identities(account) if account else []
        held = ingest.feed.now().tokens_of(account) if account else []
        return {
            "participant_id": account,
            "name": caller.name,
            "roles": sorted({"participant"} | caller.roles),
            "scopes": sorted(caller.scopes),
            "problems": sorted(caller.problems),
            "leaderboards": sorted(caller.boards),
            "token": next((one.number for one in held if one.id == caller.token), None),
            "identities": [identity_shown(one) for one in linked],
            "ban": caller.ban,
        }


def _identities(router: APIRouter, people: People, gate: Gate) -> None:
    holder = gate.participant("account")

    @router.delete("/me/identities/{identity}")
    async def unlink(identity: IdInPath, caller: Annotated[Caller, Depends(holder)]) -> shapes.Made:
        """Be known there no longer; one is linked by logging in there."""
        check_unlimited(caller)
        return shown(await people.unlink(caller.id, identity, "unlinked", caller.actor))


def _tokens(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    tokens, holder = ingest.tokens, gate.participant("account")

    @router.post("/tokens", status_code=201)
    async def issue(body: TokenWish, caller: Annotated[Caller, Depends(holder)]) -> shapes.Issued:
        """Make a token for oneself, which may no more than one does here; it is shown once."""
        return issued_shown(await tokens.mint(caller, body.new()), body)

    @router.get("/tokens")
    async def listed(caller: Annotated[Caller, Depends(gate.keeper())]) -> shapes.Tokens:
        """One's tokens that are not revoked, oldest first, without their texts."""
        check_unlimited(caller)
        return {"items": [token_shown(one) for one in await tokens.listed(caller.id)]}

    @router.delete("/tokens/{id}")
    async def revoke(
        id: NumberInPath,  # noqa: A002  (the contract's own word)
        caller: Annotated[Caller, Depends(gate.participant())],
    ) -> shapes.Revoked:
        """Let a token act for nobody any more, everywhere within a second; any may end itself."""
        held = ingest.feed.now().tokens_of(caller.id)
        is_own = any((one.number, one.id) == (id, caller.token) for one in held)
        if not (is_own or caller.keeps_tokens):
            raise Refused("scope_missing", "this needs the scope account, or the token itself")
        if not is_own:
            check_unlimited(caller)
        made = await tokens.revoke(caller.id, id, "revoked by its owner", caller.actor)
        return {"id": id, "state": "revoked", **shown(made)}


def issued_shown(issued: Issued, wish: TokenWish) -> shapes.Issued:
    """A token as it is answered once, with its text."""
    return {
        "id": issued.number,
        "token": issued.secret,
        "prefix": issued.prefix,
        "name": wish.name,
        "scopes": list(dict.fromkeys(wish.scopes)),
        "problems": list(dict.fromkeys(wish.problems)),
        "expires_at": issued.expires_at.isoformat() if issued.expires_at else None,
    }


def token_shown(listed: Listed) -> shapes.Token:
    """A token as it is listed, without its text."""
    token, row = listed
    return {
        "id": token.number,
        "name": row.name,
        "prefix": row.prefix,
        "kind": token.kind,
        "scopes": list(token.scopes),
        "problems": list(token.problems),
        "created_at": token.issued_at.isoformat(),
        "last_used_at": row.last_used_at.isoformat() if row.last_used_at else None,
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
    }


def identity_shown(identity: Identity) -> shapes.Identity:
    """Where a participant is known too."""
    return {
        "id": identity.id,
        "provider": identity.provider,
        "subject": identity.subject,
        "linked_at": identity.linked_at.isoformat() if identity.linked_at else None,
    }
