"""Leaderboards as authors and operators run them: their settings, and invites to closed ones."""

from datetime import UTC
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field

from ingest.domain import board_quotas
from ingest.domain import problems as rules
from ingest.domain.callers import Caller
from ingest.domain.quotas import SetLimit
from ingest.http import board_shapes, shapes
from ingest.http.bodies import Body, Slug, SlugInPath, Text, Why, shown
from ingest.http.who import Gate, whence
from ingest.service import Ingest
from ingest.service.boards import BoardWish, Settings
from ingest.service.invites import CODE_LENGTH_MAX, INVITES_MAX, Invited, Wanted
from shared.answers import Documented
from shared.errors import Refused
from shared.instants import Instant
from shared.problems.task_yml import GpuName
from shared.whole import Whole

LEADERBOARDS_MAX = 100
GPUS_MAX, QUOTAS_MAX = 32, 32

Quota = Annotated[str, Field(min_length=1, max_length=100)]
Code = Annotated[str, Field(min_length=1, max_length=CODE_LENGTH_MAX)]
CodeInPath = Annotated[str, Path(min_length=1, max_length=CODE_LENGTH_MAX)]


class Change(Body):
    """What is to be otherwise of a leaderboard; what is not said stays as it is.

    A null deadline is none. `quotas` are said as `ranked=10/day` or `H100.test=60/hour`, `none`
    lifts one. GPU types that are not named any more take nothing in; entries on them stay to be
    read, and need `force`. So does a deadline that is over.
    """

    visibility: Literal["public", "closed"] | None = None
    deadline_at: Instant | None = None
    gpus: Annotated[list[GpuName], Field(min_length=1, max_length=GPUS_MAX)] | None = None
    quotas: list[Quota] = Field(default=[], max_length=QUOTAS_MAX)
    force: bool = False
    reason: Text

    def command(self) -> rules.Change:
        """The change that is wanted. Errors: Refused if it is none."""
        is_dated = "deadline_at" in self.model_fields_set
        if not (self.visibility or is_dated or self.gpus or self.quotas):
            what = "say what changes: visibility, deadline_at, gpus, quotas, or several of them"
            raise Refused("invalid_request", what, "visibility")
        ends_at = self.deadline_at.astimezone(UTC) if self.deadline_at else None
        has_deadline = ends_at is not None if is_dated else None
        gpus = None if self.gpus is None else tuple(self.gpus)
        return rules.Change(
            self.reason,
            self.visibility,
            has_deadline,
            ends_at,
            gpus=gpus,
            is_forced=self.force,
        )

    def limits(self, slug: str) -> list[SetLimit]:
        """The quotas that are wanted. Errors: Refused."""
        return [board_quotas.quota(slug, one, self.reason) for one in self.quotas]


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

    @router.get("/leaderboards/{slug}")
    async def settings(slug: SlugInPath, request: Request) -> board_shapes.Settings:
        """What a leaderboard is set to: who sees it, what it takes in, until when, what it shows.

        A number of a quota counts for everybody who has none of their own.
        """
        caller = await gate.caller(request)
        return _set(await ingest.boards.settings(caller, slug.lower()))

    @router.put("/admin/leaderboards/{slug}")
    async def change(
        slug: SlugInPath, body: Change, caller: Annotated[Caller, Depends(manager)]
    ) -> shapes.Made:
        """Change who sees a leaderboard, its deadline, its GPU types, what it gives everybody."""
        slug = slug.lower()
        is_operator = caller.may("admin:problems")
        wish = BoardWish(slug, body.command(), body.limits(slug), is_operator=is_operator)
        return shown(await ingest.boards.change(wish, caller.actor))

    @router.post("/admin/leaderboards/{slug}/archive")
    async def archive(
        slug: SlugInPath, body: Why, caller: Annotated[Caller, Depends(manager)]
    ) -> shapes.Made:
        """Let a leaderboard take nothing in any more; it stays to be read."""
        return shown(await ingest.boards.archive(slug.lower(), body.reason, caller.actor))


def _invites(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    runs = gate.runs()

    @router.post("/admin/invites", status_code=201)
    async def issue(
        body: InviteWish, caller: Annotated[Caller, Depends(runs)]
    ) -> board_shapes.Codes:
        """Make codes, each of which makes one participant a member of closed leaderboards."""
        slugs = list(dict.fromkeys(slug.lower() for slug in body.leaderboards))
        for slug in slugs:
            gate.check_manages(caller, slug)
        ends_at = body.expires_at.astimezone(UTC) if body.expires_at else None
        wanted = Wanted(slugs, body.count, ends_at, body.reason)
        codes = await ingest.invites.issue(wanted, caller.actor)
        return {"leaderboards": slugs, "codes": codes}

    @router.get("/admin/leaderboards/{slug}/invites", dependencies=[Depends(gate.manager())])
    async def listed(slug: SlugInPath) -> board_shapes.Invites:
        """The invites to a leaderboard that are not revoked, and who used each."""
        return {"items": [_shown(one) for one in await ingest.invites.listed(slug.lower())]}

    @router.delete("/admin/invites/{code}")
    async def revoke(
        code: CodeInPath, body: Why, caller: Annotated[Caller, Depends(runs)]
    ) -> board_shapes.Uninvited:
        """Let a code make nobody a member; who was one by it is one no longer."""
        for slug in ingest.invites.by_code(code).problems:
            gate.check_manages(caller, slug)
        was_claimed = await ingest.invites.revoke(code, body.reason, caller.actor)
        return {"code": code, "was_claimed": was_claimed}


def _join(router: APIRouter, ingest: Ingest, gate: Gate) -> None:
    @router.post("/user/join")
    async def join(
        body: Join, request: Request, caller: Annotated[Caller, Depends(gate.participant("join"))]
    ) -> board_shapes.Joined:
        """Become a member of closed leaderboards by an invite; again is as well."""
        # Who comes by the bot all come from its address, so they are counted by who they are.
        where = caller.id if caller.kind == "discord" else whence(request)
        slugs = await ingest.invites.join(caller.id, body.code, where)
        return {"status": "ok", "leaderboards": list(slugs)}


def _set(found: Settings) -> board_shapes.Settings:
    state, published = found.state, found.published
    deadline_at = state.deadline_at
    closed = sorted(state.gpus_ever.difference(state.open_gpus))
    return {
        "slug": found.slug,
        "title": published.title,
        "number": published.number,
        "visibility": "public" if state.visibility == rules.PUBLIC else "closed",
        "deadline_at": deadline_at.isoformat() if deadline_at else None,
        "is_archived": state.is_archived,
        "gpus": list(state.open_gpus),
        "gpus_closed": closed,
        "ranking_by": published.ranking_by,
        "quotas": found.quotas,
        "source_visible": published.source_visible,
        "publish": published.publish,
        "licence": found.licence,
        "consent": published.consent,
    }


def _shown(invited: Invited) -> board_shapes.Invite:
    claimed_at, ends_at = invited.claimed_at, invited.expires_at
    return {
        "code": invited.code,
        "participant_id": invited.account,
        "name": invited.name,
        "claimed_at": claimed_at.isoformat() if claimed_at else None,
        "created_at": invited.issued_at.isoformat(),
        "expires_at": ends_at.isoformat() if ends_at else None,
    }
