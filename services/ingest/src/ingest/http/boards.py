"""Leaderboards as authors and operators run them: who sees them, until when, and invites."""

from datetime import UTC
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field

from ingest.domain import problems as rules
from ingest.domain.callers import Caller
from ingest.http import shapes
from ingest.http.bodies import Body, Slug, SlugInPath, Text, Why, shown
from ingest.http.who import Gate, whence
from ingest.service import Ingest
from ingest.service.invites import CODE_LENGTH_MAX, INVITES_MAX, Invited, Wanted
from shared.answers import Documented
from shared.errors import Refused
from shared.instants import Instant
from shared.whole import Whole

LEADERBOARDS_MAX = 100

Code = Annotated[str, Field(min_length=1, max_length=CODE_LENGTH_MAX)]
CodeInPath = Annotated[str, Path(min_length=1, max_length=CODE_LENGTH_MAX)]


class Change(Body):
    """Who sees a leaderboard, and until when it takes submissions in; a null deadline is none.

    What is not said stays as it is.
    """

    visibility: Literal["public", "closed"] | None = None
    deadline_at: Instant | None = None
    reason: Text

    def command(self) -> rules.Change:
        """The change that is wanted. Errors: Refused if it is none."""
        is_dated = "deadline_at" in self.model_fields_set
        if self.visibility is None and not is_dated:
            what = "say what changes: visibility, deadline_at, or both"
            raise Refused("invalid_request", what, "visibility")
        ends_at = self.deadline_at.astimezone(UTC) if self.deadline_at else None
        has_deadline = ends_at is not None if is_dated else None
        return rules.Change(self.reason, self.visibility, has_deadline, ends_at)


class InviteWish(Body):
    """Invites: to which leaderboards, how many, and until when they are good."""

    leaderboards: Annotated[list[Slug], Field(min_length=1, max_length=LEADERBOARDS_MAX)]
    count: Annotated[Whole, Field(ge=1, le=INVITES_MAX)] = 1
    expires_at: Instant | None = None
    reason: Text


class Join(Body):
    """The code of an invite."""

    code: Code


def boards(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes; authors run their own leaderboards, operators all of them."""
    router = APIRouter(prefix="/v1", route_class=Documented)
    _leaderboards(router, ingest, gate)
    _invites(router, ingest, gate)
    _join(router, ingest, gate)
    return router


def _leaderboards(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    manager = gate.manager()

    @router.put("/admin/leaderboards/{slug}")
    async def change(
        slug: SlugInPath, body: Change, caller: Annotated[Caller, Depends(manager)]
    ) -> shapes.Made:
        """Close a leaderboard or open it to everybody, or move its deadline."""
        command = body.command()
        if not caller.may("admin:problems"):
            command = await ingest.boards.by_author(slug.lower(), command)
        return shown(await ingest.boards.change(slug.lower(), command, caller.actor))

    @router.post("/admin/leaderboards/{slug}/archive")
    async def archive(
        slug: SlugInPath, body: Why, caller: Annotated[Caller, Depends(manager)]
    ) -> shapes.Made:
        """Let a leaderboard take nothing in any more; it stays to be read."""
        return shown(await ingest.boards.archive(slug.lower(), body.reason, caller.actor))


def _invites(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    runs = gate.runs()

    @router.post("/admin/invites", status_code=201)
    async def issue(body: InviteWish, caller: Annotated[Caller, Depends(runs)]) -> shapes.Codes:
        """Make codes, each of which makes one participant a member of closed leaderboards."""
        slugs = list(dict.fromkeys(slug.lower() for slug in body.leaderboards))
        for slug in slugs:
            gate.check_manages(caller, slug)
        ends_at = body.expires_at.astimezone(UTC) if body.expires_at else None
        wanted = Wanted(slugs, body.count, ends_at, body.reason)
        codes = await ingest.invites.issue(wanted, caller.actor)
        return {"leaderboards": slugs, "codes": codes}

    @router.get("/admin/leaderboards/{slug}/invites", dependencies=[Depends(gate.manager())])
    async def listed(slug: SlugInPath) -> shapes.Invites:
        """The invites to a leaderboard that are not revoked, and who used each."""
        return {"items": [_shown(one) for one in await ingest.invites.listed(slug.lower())]}

    @router.delete("/admin/invites/{code}")
    async def revoke(
        code: CodeInPath, body: Why, caller: Annotated[Caller, Depends(runs)]
    ) -> shapes.Uninvited:
        """Let a code make nobody a member; who was one by it is one no longer."""
        for slug in ingest.invites.by_code(code).problems:
            gate.check_manages(caller, slug)
        was_claimed = await ingest.invites.revoke(code, body.reason, caller.actor)
        return {"code": code, "was_claimed": was_claimed}


def _join(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    @router.post("/user/join")
    async def join(
        body: Join, request: Request, caller: Annotated[Caller, Depends(gate.participant("join"))]
    ) -> shapes.Joined:
        """Become a member of closed leaderboards by an invite; again is as well."""
        slugs = await ingest.invites.join(caller.id, body.code, whence(request))
        return {"status": "ok", "leaderboards": list(slugs)}


def _shown(invited: Invited) -> shapes.Invite:
    claimed_at, ends_at = invited.claimed_at, invited.expires_at
    return {
        "code": invited.code,
        "participant_id": invited.account,
        "name": invited.name,
        "claimed_at": claimed_at.isoformat() if claimed_at else None,
        "created_at": invited.issued_at.isoformat(),
        "expires_at": ends_at.isoformat() if ends_at else None,
    }
