"""The client's admin commands: intake, stats, submissions, bans, limits; each an event by name."""

from collections.abc import Mapping
from datetime import UTC
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from ingest.domain import moderation, platform, quotas
from ingest.popcorn import admin_shapes as shapes
from ingest.popcorn import asked
from ingest.popcorn.asked import TAG, Asked
from ingest.popcorn.asking import STAFF, unknown_submission
from ingest.popcorn.own import code_of, shown
from ingest.popcorn.parts import NO_REASON, Parts, bounded, number_of
from ingest.popcorn.shapes import Accepted, Category, Deleted
from ingest.popcorn.submitting import Wish, accepted, limits, take_in
from ingest.popcorn.words import leaderboard_id
from shared.answers import Documented
from shared.errors import Refused
from shared.instants import Instant
from shared.whole import Whole

HOUR_S = 3600.0
CATEGORIES: Mapping[Category, str] = {"test": "test", "leaderboard": "ranked"}
SUBMISSIONS_MAX = 1000
RANKED, VOUCHED = "leaderboard", "vouched_for"


class Ban(Asked):
    """Why a participant is kept out, and until when."""

    reason: str = Field(min_length=1, max_length=500)
    until: Instant | None = None


class RateLimit(Asked):
    """How often in an hour a participant may submit to a leaderboard."""

    mode_category: str
    max_submissions_per_hour: Whole = Field(ge=0, le=quotas.LIMIT_MAX)


def admin(parts: Parts) -> APIRouter:
    """The routes, each for operators alone."""
    router = APIRouter(prefix="/admin", tags=[TAG], route_class=Documented)
    _intake(router, parts)
    _submissions(router, parts)
    _many(router, parts)
    _people(router, parts)
    _limits(router, parts)
    return router


def _intake(router: APIRouter, parts: Parts) -> None:
    operates = parts.gate.operator("admin:operate")

    async def switched(request: Request, *, is_open: bool) -> shapes.Switched:
        actor = await operates(request)
        kind = platform.ResumeIntake if is_open else platform.PauseIntake
        paused = await parts.ingest.intake.paused()
        if (paused is None) != is_open:
            await parts.ingest.operators.intake(kind(NO_REASON), actor)
        return {"status": "ok", "accepts_jobs": is_open}

    @router.post("/start")
    async def start(request: Request) -> shapes.Switched:
        """Take submissions in; a second time changes nothing."""
        return await switched(request, is_open=True)

    @router.post("/stop")
    async def stop(request: Request) -> shapes.Switched:
        """Take no submission in; those that are in go on."""
        return await switched(request, is_open=False)

    @router.get("/stats")
    async def stats(
        request: Request, last_day_only: bool = False, leaderboard_name: str | None = None
    ) -> shapes.StatsTold:
        """How much there was to do, in all and by GPU type."""
        await operates(request)
        slug = leaderboard_name.lower() if leaderboard_name else None
        found = await parts.asking.stats(slug, is_last_day=last_day_only)
        return {"status": "ok", "stats": found}


def _submissions(router: APIRouter, parts: Parts) -> None:
    judges = parts.gate.operator("admin:submissions")

    @router.get("/submissions/{number}")
    async def submission(number: str, request: Request) -> shapes.Anybodys:
        """Anybody's submission."""
        await judges(request)
        seen = await parts.asking.submission(number_of(number), STAFF)
        if seen is None:
            raise unknown_submission(number_of(number))
        return {"status": "ok", "submission": shown(seen, await code_of(parts, seen))}

    @router.delete("/submissions/{number}")
    async def delete(number: str, request: Request) -> Deleted:
        """Take anybody's submission off its leaderboard."""
        actor = await judges(request)
        found = number_of(number)
        await parts.ingest.participants.withdraw_for(actor, found, NO_REASON)
        await parts.asking.forgotten(found)
        return {"status": "ok", "submission_id": found}

    @router.post(
        "/submission/{leaderboard}/{gpu}/{mode}", status_code=202, openapi_extra=asked.file()
    )
    async def submit(
        wish: Annotated[Wish, Depends()],
        request: Request,
        response: Response,
        *,
        rank: bool = False,
    ) -> Accepted:
        """Submit for a participant whatever the deadline; it is held unless it is to be ranked."""
        actor = await judges(request)
        taken = await take_in(parts, request, wish, actor)
        if taken.mode == RANKED and not rank and not taken.receipt.is_replay:
            await _hold(parts, taken.receipt.number, actor)
        response.headers.update(limits(taken.receipt))
        return await accepted(parts, taken)


async def _hold(parts: Parts, number: int, actor: str) -> None:
    """Mark what an operator vouched for: it stands on no leaderboard until somebody releases it."""
    command = moderation.Hold(VOUCHED, "sent in by an operator, not to be ranked")
    await parts.asking.arrived(number)
    await parts.ingest.moderators.judge(number, command, actor)


def _many(router: APIRouter, parts: Parts) -> None:
    judges = parts.gate.operator("admin:submissions")

    @router.get(
        "/leaderboards/{leaderboard}/submissions", openapi_extra=asked.page(100, SUBMISSIONS_MAX)
    )
    async def submissions(leaderboard: str, request: Request) -> shapes.NumbersListed:
        """The numbers of a leaderboard's submissions, newest first."""
        await judges(request)
        limit = bounded(request, "limit", 100, (1, SUBMISSIONS_MAX))
        offset = bounded(request, "offset", 0, (0, None))
        found = await parts.asking.listed({"problem": leaderboard.lower()}, limit, offset)
        return {
            "status": "ok",
            "leaderboard": leaderboard.lower(),
            "limit": limit,
            "offset": offset,
            "submission_ids": [one.number for one in found],
        }

    @router.delete("/submissions", openapi_extra=asked.numbered())
    async def delete(request: Request, user_name: str = "") -> shapes.DeletedMany:
        """Take all of a participant's submissions off a leaderboard."""
        actor = await judges(request)
        wanted = bounded(request, "leaderboard_id", 0, (1, None))
        problems = await parts.asking.problems(STAFF)
        slug = next((one.slug for one in problems if leaderboard_id(one.slug) == wanted), None)
        if slug is None or not user_name:
            what = "leaderboard_id names a leaderboard, user_name whose submissions are deleted"
            raise Refused("bad_query", what, "leaderboard_id")
        query: dict[str, object] = {"problem": slug, "participant": user_name}
        found = await parts.asking.listed(query, SUBMISSIONS_MAX, 0)
        for one in found:
            await parts.ingest.participants.withdraw_for(actor, one.number, NO_REASON)
        for one in found[-1:]:
            await parts.asking.forgotten(one.number)
        return {
            "status": "ok",
            "leaderboard_id": wanted,
            "user_name": user_name,
            "deleted_submissions": len(found),
        }


def _people(router: APIRouter, parts: Parts) -> None:
    treats = parts.gate.operator("admin:participants")

    @router.post("/ban/{user_id}")
    async def ban(user_id: str, body: Ban, request: Request) -> shapes.Banned:
        """Keep a participant out."""
        actor = await treats(request)
        name = await _name(parts, user_id)
        until = body.until.astimezone(UTC) if body.until else None
        await parts.ingest.moderators.ban(name, body.reason, until, actor)
        return {"status": "ok", "user_id": user_id, "banned": True}

    @router.delete("/ban/{user_id}")
    async def unban(user_id: str, request: Request) -> shapes.Banned:
        """Let a participant in again."""
        actor = await treats(request)
        name = await _name(parts, user_id)
        await parts.ingest.moderators.unban(name, NO_REASON, actor)
        return {"status": "ok", "user_id": user_id, "banned": False}


async def _name(parts: Parts, user_id: str) -> str:
    """A participant's name by account or name, as the client may say either."""
    return await parts.ingest.people.name_of(user_id)


def _limits(router: APIRouter, parts: Parts) -> None:
    limiting = parts.gate.operator("admin:participants")
    path = "/leaderboards/{leaderboard}/rate-limits"

    async def limited(slug: str, category: str, limit: int, actor: str) -> None:
        ours = CATEGORIES.get(cast("Category", category))
        if ours is None:
            what = f"a category is {' or '.join(CATEGORIES)}, not {category[:20]!r}"
            raise Refused("bad_query", what, "mode_category")
        await parts.ingest.intake.published(slug)
        command = quotas.SetLimit(f"{slug}.*.{ours}", limit, HOUR_S, NO_REASON)
        await parts.ingest.moderators.limit(None, command, actor)

    @router.put(path)
    async def put(leaderboard: str, body: RateLimit, request: Request) -> shapes.Limited:
        """Limit how often everybody may submit to a leaderboard."""
        actor = await limiting(request)
        limit = body.max_submissions_per_hour
        await limited(leaderboard.lower(), body.mode_category, limit, actor)
        return {
            "status": "ok",
            "leaderboard": leaderboard.lower(),
            "mode_category": cast("Category", body.mode_category),
            "max_submissions_per_hour": limit,
        }

    @router.get(path)
    async def get(leaderboard: str, request: Request) -> shapes.RateLimitsTold:
        """The limits of a leaderboard."""
        await limiting(request)
        slug = leaderboard.lower()
        everybody = (await parts.ingest.intake.quotas(quotas.EVERYBODY, parts.clock())).everybody
        found: list[shapes.RateLimitTold] = [
            {"mode_category": public, "max_submissions_per_hour": limit.limit}
            for public, ours in CATEGORIES.items()
            if (limit := everybody.limits.get(f"{slug}.*.{ours}"))
            and limit.limit != quotas.UNLIMITED
        ]
        return {"status": "ok", "leaderboard": slug, "rate_limits": found}

    @router.delete(path + "/{category}")
    async def delete(leaderboard: str, category: str, request: Request) -> shapes.Unlimited:
        """Lift a limit."""
        actor = await limiting(request)
        await limited(leaderboard.lower(), category.lower(), quotas.UNLIMITED, actor)
        return {"status": "ok", "leaderboard": leaderboard.lower(), "mode_category": category}
