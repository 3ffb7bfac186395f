"""Operators' routes for participants: accounts, roles, tokens and identities."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from ingest.domain import accounts as rules
from ingest.http import shapes
from ingest.http.accounts import TokenWish, identity_shown, issued_shown, token_shown
from ingest.http.bodies import (
    Body,
    IdInPath,
    NameInPath,
    NameOrAccount,
    NumberInPath,
    Text,
    Why,
    shown,
)
from ingest.http.who import Gate
from ingest.service import Ingest
from ingest.service.bans import Appeal
from shared.answers import Documented

SUBJECT_LENGTH_MAX = 200
NAMES_MAX = 1000
KNOWN: dict[int | str, dict[str, Any]] = {200: {"description": "They had an account."}}

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Role = Literal["creator", "moderator", "admin"]
After = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
Limit = Annotated[int, Query(ge=1, le=NAMES_MAX)]


class Newcomer(Body):
    """A participant who has no account yet, and why they get one."""

    name: Name
    reason: Text


class Rename(Body):
    """What a participant is to be called, and why."""

    name: Name
    reason: Text


class TokenFor(TokenWish):
    """A token for a participant, and why an operator makes it."""

    participant: NameOrAccount
    reason: Text


class RoleWish(Body):
    """A role, and why a participant gets it."""

    role: Role
    reason: Text


class Elsewhere(Body):
    """Who a participant is for another provider, and how that is known."""

    provider: Literal["discord", "github", "web"]
    subject: Annotated[Text, Field(max_length=SUBJECT_LENGTH_MAX)]
    reason: Text


def people(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes, each for operators alone; what makes somebody mightier is for admins."""
    router = APIRouter(prefix="/v1/admin", route_class=Documented)
    _participants(router, ingest, gate)
    _names(router, ingest, gate)
    _roles(router, ingest, gate)
    _tokens(router, ingest, gate)
    _identities(router, ingest, gate)
    return router


def _participants(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    operator = gate.operator("admin:participants")

    @router.post(
        "/participants", status_code=201, responses={200: {"description": "They are known."}}
    )
    async def open_account(
        body: Newcomer, response: Response, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Opened:
        """Open an account; one who is known keeps theirs."""
        account, made = await ingest.people.open(body.name, "operator", actor)
        if made.fact is None:
            response.status_code = 200
        return {"participant_id": account, "name": body.name, **shown(made)}

    @router.get("/participants/{name}", dependencies=[Depends(operator)])
    async def participant(name: NameInPath) -> shapes.Participant:
        """What is known of a participant: roles, ban, identities, tokens without their texts."""
        account = await ingest.people.find(name)
        access = ingest.feed.now()
        ban = access.bans.get(account)
        linked = await ingest.people.identities(account)
        return {
            "participant_id": account,
            "name": name,
            "roles": sorted({"participant"} | access.roles.get(account, set())),
            "leaderboards": sorted(access.boards_of(account)),
            "ban": rules.until(ban) + ": " + ban.reason if ban else None,
            "ban_appeal": appeal_shown(await ingest.bans.appeal_of(account)),
            "identities": [identity_shown(one) for one in linked],
            "tokens": [token_shown(one) for one in await ingest.tokens.listed(account)],
        }


def _names(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    operator = gate.operator("admin:participants")

    @router.get("/participants", dependencies=[Depends(operator)])
    async def names(after: After = "", limit: Limit = 1000) -> shapes.Names:
        """What participants are called, in the order of their ids."""
        found = await ingest.people.names(after, limit + 1)
        page = found[:limit]
        return {
            "items": [{"participant_id": account, "name": name} for account, name in page],
            "next_after": page[-1][0] if len(found) > limit else None,
        }

    @router.put("/participants/{name}/name")
    async def rename(
        name: NameInPath, body: Rename, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Opened:
        """Call a participant otherwise. The old name stays theirs, and nobody else gets it."""
        account = await ingest.people.rename(name, body.name, actor)
        made = await ingest.operators.acted("rename", account, body.reason, actor)
        return {"participant_id": account, "name": body.name, **shown(made)}


def appeal_shown(appeal: Appeal | None) -> shapes.BanAppeal | None:
    """What somebody says against their ban."""
    if appeal is None:
        return None
    answer = appeal.answer
    return {
        "text": appeal.text,
        "filed_at": appeal.filed_at.isoformat(),
        "is_accepted": answer.is_accepted if answer else None,
        "reason": answer.reason if answer else None,
    }


def _roles(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    admin = gate.operator("admin")

    @router.post("/participants/{name}/roles")
    async def grant(
        name: NameInPath, body: RoleWish, actor: Annotated[str, Depends(admin)]
    ) -> shapes.Made:
        """Let a participant do what a role allows."""
        return shown(await ingest.people.role(name, rules.Grant(body.role, body.reason), actor))

    @router.delete("/participants/{name}/roles/{role}")
    async def take(
        name: NameInPath, role: Role, body: Why, actor: Annotated[str, Depends(admin)]
    ) -> shapes.Made:
        """Let a participant no longer do what a role allows."""
        return shown(await ingest.people.role(name, rules.TakeRole(role, body.reason), actor))


def _tokens(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    admin, operator = gate.operator("admin"), gate.operator("admin:participants")

    @router.post("/tokens", status_code=201)
    async def issue(body: TokenFor, actor: Annotated[str, Depends(admin)]) -> shapes.Issued:
        """Make a token for a participant, within what their roles allow; it is shown once."""
        account = await ingest.people.find(body.participant)
        new = body.new()._replace(reason=body.reason)
        return issued_shown(await ingest.tokens.issue(account, new, actor), body)

    @router.delete("/tokens/{id}")
    async def revoke(
        id: NumberInPath,  # noqa: A002  (the contract's own word)
        body: Why,
        actor: Annotated[str, Depends(operator)],
    ) -> shapes.Revoked:
        """Let anybody's token act for nobody any more, everywhere within a second."""
        made = await ingest.tokens.revoke_any(id, body.reason, actor)
        return {"id": id, "state": "revoked", **shown(made)}


def _identities(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    admin = gate.operator("admin")

    @router.post("/participants/{name}/identities")
    async def link(
        name: NameInPath, body: Elsewhere, actor: Annotated[str, Depends(admin)]
    ) -> shapes.Made:
        """Let who is known elsewhere be this participant; they log in as this one from now on."""
        account = await ingest.people.find(name)
        return shown(await ingest.people.link(account, body.provider, body.subject, actor))

    @router.delete("/participants/{name}/identities/{identity}")
    async def unlink(
        name: NameInPath, identity: IdInPath, body: Why, actor: Annotated[str, Depends(admin)]
    ) -> shapes.Made:
        """Let an identity be this participant's no longer."""
        account = await ingest.people.find(name)
        return shown(await ingest.people.unlink(account, identity, body.reason, actor))
