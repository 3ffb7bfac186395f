"""The client's admin commands for leaderboards: made, updated, closed, archived; and invites."""

from datetime import UTC
from typing import Literal, cast

from fastapi import APIRouter, Request
from pydantic import Field

from ingest.domain.problems import Change
from ingest.popcorn import admin_shapes as shapes
from ingest.popcorn.asked import TAG, Asked
from ingest.popcorn.parts import NO_REASON, Parts
from ingest.popcorn.publishing import Sources, create, update
from ingest.popcorn.words import instant
from ingest.service.boards import BoardWish
from ingest.service.invites import Invited, Wanted
from shared.answers import Documented
from shared.errors import Refused
from shared.instants import Instant
from shared.whole import Whole

INVITES_MAX = 10_000
Visibility = Literal["public", "closed"]


class Directory(Asked):
    """The folder of a problem under a configured root."""

    directory: str = Field(min_length=1, max_length=200)
    visibility: Visibility | None = None


class Repository(Asked):
    """Which problems of a repository are published; dry, it is only said what would come of it."""

    repository: str = Field(min_length=1, max_length=200)
    branch: str = Field(default="main", min_length=1, max_length=100)
    force: bool = False
    problem_set: str | None = Field(default=None, max_length=100)
    visibility: Visibility | None = None
    dry_run: bool = False


class InvitesWanted(Asked):
    """How many invites there are to be, and to what."""

    leaderboards: list[str] = Field(default=[], max_length=100)
    leaderboard: str | None = None
    count: Whole = Field(default=1, ge=1, le=INVITES_MAX)
    expires_at: Instant | None = None


class Visible(Asked):
    """Who sees a leaderboard."""

    visibility: Visibility


def admin_boards(parts: Parts, sources: Sources) -> APIRouter:
    """The routes, each for operators alone."""
    router = APIRouter(prefix="/admin", tags=[TAG], route_class=Documented)
    _boards(router, parts, sources)
    _visibility(router, parts)
    _invites(router, parts)
    return router


def _boards(router: APIRouter, parts: Parts, sources: Sources) -> None:
    runs = parts.gate.operator("admin:problems")

    @router.post("/leaderboards")
    async def made(body: Directory, request: Request) -> shapes.BoardMade:
        """Publish a folder as a leaderboard to develop on, open for a year."""
        actor = await runs(request)
        slug = await create(parts, sources, body.directory, body.visibility, actor)
        return {"status": "ok", "leaderboard": slug}

    @router.post("/update-problems")
    async def updated(body: Repository, request: Request) -> shapes.Updated:
        """Publish what a repository on the operator's list holds, or say what that would do."""
        actor = await runs(request)
        told = await update(parts, sources, body, actor)
        return cast("shapes.Updated", {"status": "ok", **told})

    @router.delete("/leaderboards/{leaderboard}")
    async def archived(
        leaderboard: str, request: Request, force: bool = False
    ) -> shapes.BoardArchived:
        """Archive a leaderboard: it takes nothing in any more, and stays to be read."""
        actor = await runs(request)
        slug = leaderboard.lower()
        await parts.ingest.intake.published(slug)
        has_any = await parts.asking.listed({"problem": slug}, 1, 0)
        if has_any and not force:
            what = f"{slug} has submissions: say force=true to archive it all the same"
            raise Refused("has_submissions", what, "force")
        await parts.ingest.boards.archive(slug, NO_REASON, actor)
        return {"status": "ok", "leaderboard": slug, "force": force}


def _visibility(router: APIRouter, parts: Parts) -> None:
    runs = parts.gate.operator("admin:problems")

    @router.post("/leaderboards/{leaderboard}/visibility")
    async def visibility(leaderboard: str, body: Visible, request: Request) -> shapes.Seen:
        """Close a leaderboard, or open it to everybody."""
        actor = await runs(request)
        slug = leaderboard.lower()
        wish = BoardWish(slug, Change(NO_REASON, body.visibility))
        await parts.ingest.boards.change(wish, actor)
        return {"status": "ok", "leaderboard": slug, "visibility": body.visibility}


def _invites(router: APIRouter, parts: Parts) -> None:
    runs = parts.gate.operator("admin:problems")

    @router.post("/invites")
    async def issue(body: InvitesWanted, request: Request) -> shapes.CodesMade:
        """Make codes; each lets one participant in."""
        actor = await runs(request)
        named = [*body.leaderboards, *([body.leaderboard] if body.leaderboard else [])]
        slugs = list(dict.fromkeys(one.lower() for one in named))
        if not slugs:
            raise Refused("bad_query", "name at least one leaderboard", "leaderboards")
        until = body.expires_at.astimezone(UTC) if body.expires_at else None
        wanted = Wanted(slugs, body.count, until, NO_REASON)
        codes = await parts.ingest.invites.issue(wanted, actor)
        return {"status": "ok", "leaderboards": slugs, "codes": codes}

    @router.get("/leaderboards/{leaderboard}/invites")
    async def listed(leaderboard: str, request: Request) -> shapes.InvitesListed:
        """The invites to a leaderboard, and who claimed each."""
        await runs(request)
        slug = leaderboard.lower()
        found = await parts.ingest.invites.listed(slug)
        return {"status": "ok", "leaderboard": slug, "invites": [_invite(one) for one in found]}

    @router.delete("/invites/{code}")
    async def revoke(code: str, request: Request) -> shapes.CodeRevoked:
        """Let a code make nobody a member."""
        actor = await runs(request)
        was_claimed = await parts.ingest.invites.revoke(code, NO_REASON, actor)
        return {"status": "ok", "code": code, "was_claimed": was_claimed}


def _invite(one: Invited) -> shapes.InviteListed:
    return {
        "code": one.code,
        "user_id": one.account,
        "user_name": one.name,
        "claimed_at": instant(one.claimed_at),
        "created_at": instant(one.issued_at),
    }
