"""Routes of invites."""

from datetime import UTC
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field

from ingest.http.addresses import client_address
from ingest.http.requests import ReasonRequest, RequestModel, Slug, Text
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.identity.invites.service import INVITES_MAX, Invites, NewInvites
from shared.api import leaderboards as api
from shared.http import DocumentedRoute
from shared.json_types import Instant, JsonInt

CODE_LENGTH_MAX = 128
LEADERBOARDS_MAX = 100
Code = Annotated[str, Field(min_length=1, max_length=CODE_LENGTH_MAX)]
CodeInPath = Annotated[str, Path(min_length=1, max_length=CODE_LENGTH_MAX)]


class InviteRequest(RequestModel):
    """Invites to create: the leaderboards, how many, and until when they are valid."""

    leaderboards: Annotated[list[Slug], Field(min_length=1, max_length=LEADERBOARDS_MAX)]
    count: Annotated[JsonInt, Field(ge=1, le=INVITES_MAX)] = 1
    expires_at: Instant | None = None
    reason: Text


class JoinRequest(RequestModel):
    """The code of an invite."""

    code: Code


def invites_router(invites: Invites, auth: Authenticator) -> APIRouter:
    """The routes; authors and operators create invites, participants join with them."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    Author: TypeAlias = Annotated[Caller, Depends(auth.author_or_operator())]

    @router.post("/admin/invites", status_code=201)
    async def issue(body: InviteRequest, caller: Author) -> api.InviteCodes:
        """Create invite codes; each lets one participant join closed leaderboards."""
        slugs = list(dict.fromkeys(slug.lower() for slug in body.leaderboards))
        for slug in slugs:
            auth.check_manages(caller, slug)
        ends_at = body.expires_at.astimezone(UTC) if body.expires_at else None
        new_invites = NewInvites(slugs, body.count, ends_at, body.reason)
        codes = await invites.issue(new_invites, caller.actor)
        return api.InviteCodes(leaderboards=slugs, codes=codes)

    @router.get(
        "/admin/leaderboards/{slug}/invites", dependencies=[Depends(auth.leaderboard_manager())]
    )
    async def listed(slug: Slug) -> api.Invites:
        """The invites to a leaderboard that are not revoked, and who used them."""
        return api.Invites(items=await invites.list_invites(slug.lower()))

    @router.delete("/admin/invites/{code}")
    async def revoke(code: CodeInPath, body: ReasonRequest, caller: Author) -> api.RevokedInvite:
        """Revoke an invite; a participant who joined with it is no longer a member."""
        for slug in invites.by_code(code).problems:
            auth.check_manages(caller, slug)
        was_claimed = await invites.revoke(code, body.reason, caller.actor)
        return api.RevokedInvite(code=code, was_claimed=was_claimed)

    @router.post("/user/join")
    async def join(
        body: JoinRequest,
        request: Request,
        caller: Annotated[Caller, Depends(auth.participant("join"))],
    ) -> api.LeaderboardMembership:
        """Join closed leaderboards with an invite; repeating changes nothing."""
        # Everybody on Discord comes from the address of the bot, so they are counted by account.
        where = caller.id if caller.kind == "discord" else client_address(request)
        slugs = await invites.join(caller.id, body.code, where)
        return api.LeaderboardMembership(status="ok", leaderboards=list(slugs))

    return router
