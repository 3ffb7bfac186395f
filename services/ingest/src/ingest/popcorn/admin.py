"""The client's admin commands: intake, stats, submissions, participants, leaderboards, invites."""

from collections.abc import Mapping
from datetime import UTC
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from ingest.http.responses import receipt_headers
from ingest.identity.invites.service import NewInvites
from ingest.popcorn import response_models
from ingest.popcorn.conversions import instant, leaderboard_id
from ingest.popcorn.dependencies import (
    NO_REASON,
    Dependencies,
    PopcornRequest,
    integer_parameter,
    page_parameters,
    parse_bounded,
    parse_number,
    parse_page,
    upload_form,
)
from ingest.popcorn.participant import submission_response
from ingest.popcorn.publication import (
    DirectoryRequest,
    RepositoryRequest,
    RepositoryUpdate,
    create_leaderboard,
)
from ingest.popcorn.read_client import STAFF
from ingest.popcorn.response_models import AcceptedSubmission, Category, DeletedSubmission
from ingest.popcorn.submissions import SubmissionTarget, accepted_response, submit_file
from ingest.problems.commands import Change, LeaderboardChange
from shared import subjects
from shared.api.fields import Visibility
from shared.errors import Refused, unknown_submission
from shared.events import (
    LIMIT_MAX,
    UNLIMITED,
    IntakePaused,
    IntakeResumed,
    QuotaLimitSet,
    SubmissionHeld,
)
from shared.json_types import Instant, JsonInt

HOUR_S = 3600.0
CATEGORIES: Mapping[Category, str] = {"test": "test", "leaderboard": "ranked"}
SUBMISSIONS, SUBMISSIONS_MAX = 100, 1000
RANKED, VOUCHED = "leaderboard", "vouched_for"
INVITES_MAX = 10_000


class ClientBanRequest(PopcornRequest):
    """Why a participant is banned, and until when."""

    reason: str = Field(min_length=1, max_length=500)
    until: Instant | None = None


class RateLimitRequest(PopcornRequest):
    """How many submissions per hour a leaderboard accepts from each participant."""

    mode_category: str
    max_submissions_per_hour: JsonInt = Field(ge=0, le=LIMIT_MAX)


class InvitesRequest(PopcornRequest):
    """How many invites to create, and for which leaderboards."""

    leaderboards: list[str] = Field(default=[], max_length=100)
    leaderboard: str | None = None
    count: JsonInt = Field(default=1, ge=1, le=INVITES_MAX)
    expires_at: Instant | None = None


class VisibilityRequest(PopcornRequest):
    """Who sees a leaderboard."""

    visibility: Visibility


def add_intake_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes to pause submissions, and for statistics."""
    operator = Annotated[str, Depends(deps.auth.operator("admin:operate"))]

    async def switch_intake(actor: str, *, is_open: bool) -> response_models.IntakeSwitch:
        if (await deps.ingest.intake.paused() is None) != is_open:
            command_type = IntakeResumed if is_open else IntakePaused
            await deps.ingest.operators.intake(command_type(reason=NO_REASON), actor)
        return {"status": "ok", "accepts_jobs": is_open}

    @router.post("/admin/start")
    async def start(actor: operator) -> response_models.IntakeSwitch:
        """Accept submissions; a second time changes nothing."""
        return await switch_intake(actor, is_open=True)

    @router.post("/admin/stop")
    async def stop(actor: operator) -> response_models.IntakeSwitch:
        """Stop accepting submissions; accepted ones keep running."""
        return await switch_intake(actor, is_open=False)

    @router.get("/admin/stats")
    async def stats(
        _actor: operator, last_day_only: bool = False, leaderboard_name: str | None = None
    ) -> response_models.AdminStats:
        """Statistics in total and by GPU type."""
        slug = leaderboard_name.lower() if leaderboard_name else None
        stats_ = await deps.read_client.stats(slug, is_last_day=last_day_only)
        return {"status": "ok", "stats": stats_}


def add_submission_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes for anybody's submissions."""
    operator = Annotated[str, Depends(deps.auth.operator("admin:submissions"))]

    @router.get("/admin/submissions/{number}")
    async def submission(number: str, _actor: operator) -> response_models.AdminSubmission:
        """Any submission."""
        submission = await deps.read_client.submission(parse_number(number), STAFF)
        if submission is None:
            raise unknown_submission(parse_number(number), "id")
        return {"status": "ok", "submission": await submission_response(deps, submission)}

    @router.delete("/admin/submissions/{number}")
    async def delete(number: str, actor: operator) -> DeletedSubmission:
        """Take any submission off its leaderboard."""
        parsed_number = parse_number(number)
        await deps.ingest.submissions.withdraw_as_operator(actor, parsed_number, NO_REASON)
        await deps.read_client.wait_until(parsed_number, is_deleted=True)
        return {"status": "ok", "submission_id": parsed_number}

    @router.post(
        "/admin/submission/{leaderboard}/{gpu}/{mode}", status_code=202, openapi_extra=upload_form()
    )
    async def submit(
        target: Annotated[SubmissionTarget, Depends()],
        request: Request,
        response: Response,
        actor: operator,
        *,
        rank: bool = False,
    ) -> AcceptedSubmission:
        """Submit after the deadline; a ranked submission is held unless `rank` is set."""
        submission = await submit_file(deps, request, target, actor)
        if submission.mode == RANKED and not rank and not submission.receipts.replayed:
            # It is ranked once somebody releases it.
            reason = "sent in by an operator, not to be ranked"
            hold = SubmissionHeld(rule=VOUCHED, reason=reason)
            await deps.read_client.wait_until(submission.receipt.number)
            await deps.ingest.moderation.judge(submission.receipt.number, hold, actor)
        response.headers.update(receipt_headers(submission.receipts))
        return await accepted_response(deps, submission)

    _add_bulk_routes(router, deps)


def _add_bulk_routes(router: APIRouter, deps: Dependencies) -> None:
    operator = Annotated[str, Depends(deps.auth.operator("admin:submissions"))]

    @router.get(
        "/admin/leaderboards/{leaderboard}/submissions",
        openapi_extra={"parameters": page_parameters(SUBMISSIONS, SUBMISSIONS_MAX)},
    )
    async def submissions(
        leaderboard: str, request: Request, _actor: operator
    ) -> response_models.SubmissionNumbers:
        """The numbers of a leaderboard's submissions, newest first."""
        limit, offset = parse_page(request, SUBMISSIONS, SUBMISSIONS_MAX)
        lines = await deps.read_client.list_all({"problem": leaderboard.lower()}, limit, offset)
        return {
            "status": "ok",
            "leaderboard": leaderboard.lower(),
            "limit": limit,
            "offset": offset,
            "submission_ids": [line.number for line in lines],
        }

    leaderboard_parameter = integer_parameter("leaderboard_id", 1) | {"required": True}

    @router.delete("/admin/submissions", openapi_extra={"parameters": [leaderboard_parameter]})
    async def delete(
        request: Request, actor: operator, user_name: str = ""
    ) -> response_models.DeletedSubmissions:
        """Take all of a participant's submissions off a leaderboard."""
        id_ = parse_bounded(request, "leaderboard_id", 0, 1)
        problems = await deps.read_client.problems(STAFF)
        slug = next((entry.slug for entry in problems if leaderboard_id(entry.slug) == id_), None)
        if slug is None or not user_name:
            message = "send the leaderboard_id of a leaderboard and the user_name of a participant"
            raise Refused("bad_query", message, "leaderboard_id")
        query: dict[str, object] = {"problem": slug, "participant": user_name}
        lines = await deps.read_client.list_all(query, SUBMISSIONS_MAX, 0)
        for line in lines:
            await deps.ingest.submissions.withdraw_as_operator(actor, line.number, NO_REASON)
        if lines:
            await deps.read_client.wait_until(lines[-1].number, is_deleted=True)
        return {
            "status": "ok",
            "leaderboard_id": id_,
            "user_name": user_name,
            "deleted_submissions": len(lines),
        }


def add_participant_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes to ban a participant, by account or by name."""
    operator = Annotated[str, Depends(deps.auth.operator("admin:participants"))]

    @router.post("/admin/ban/{user_id}")
    async def ban(
        user_id: str, body: ClientBanRequest, actor: operator
    ) -> response_models.BanStatus:
        """Ban a participant."""
        name = await deps.ingest.people.name_of(user_id)
        until = body.until.astimezone(UTC) if body.until else None
        await deps.ingest.moderation.ban(name, body.reason, until, actor)
        return {"status": "ok", "user_id": user_id, "banned": True}

    @router.delete("/admin/ban/{user_id}")
    async def unban(user_id: str, actor: operator) -> response_models.BanStatus:
        """Lift a ban."""
        name = await deps.ingest.people.name_of(user_id)
        await deps.ingest.moderation.unban(name, NO_REASON, actor)
        return {"status": "ok", "user_id": user_id, "banned": False}


def add_rate_limit_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes for the rate limits of a leaderboard."""
    operator = Annotated[str, Depends(deps.auth.operator("admin:participants"))]
    path = "/admin/leaderboards/{leaderboard}/rate-limits"

    async def set_limit(slug: str, category: str, limit: int, actor: str) -> None:
        our_category = CATEGORIES.get(cast("Category", category))
        if our_category is None:
            message = f"a category is {' or '.join(CATEGORIES)}, not {category[:20]!r}"
            raise Refused("bad_query", message, "mode_category")
        await deps.ingest.intake.published(slug)
        command = QuotaLimitSet(
            bucket=f"{slug}.*.{our_category}", limit=limit, window_s=HOUR_S, reason=NO_REASON
        )
        await deps.ingest.quotas.limit(None, command, actor)

    @router.put(path)
    async def put(
        leaderboard: str, body: RateLimitRequest, actor: operator
    ) -> response_models.RateLimitSet:
        """Limit how often each participant may submit to a leaderboard."""
        limit = body.max_submissions_per_hour
        await set_limit(leaderboard.lower(), body.mode_category, limit, actor)
        return {
            "status": "ok",
            "leaderboard": leaderboard.lower(),
            "mode_category": cast("Category", body.mode_category),
            "max_submissions_per_hour": limit,
        }

    @router.get(path)
    async def get(leaderboard: str, _actor: operator) -> response_models.RateLimitList:
        """The rate limits of a leaderboard."""
        slug = leaderboard.lower()
        everybody = (await deps.ingest.quotas.load(subjects.EVERYBODY, deps.clock())).own
        rate_limits: list[response_models.RateLimitItem] = [
            {"mode_category": public, "max_submissions_per_hour": limit.limit}
            for public, our_category in CATEGORIES.items()
            if (limit := everybody.limits.get(f"{slug}.*.{our_category}"))
            and limit.limit != UNLIMITED
        ]
        return {"status": "ok", "leaderboard": slug, "rate_limits": rate_limits}

    @router.delete(path + "/{category}")
    async def delete(
        leaderboard: str, category: str, actor: operator
    ) -> response_models.RateLimitRemoved:
        """Lift a rate limit."""
        await set_limit(leaderboard.lower(), category.lower(), UNLIMITED, actor)
        return {"status": "ok", "leaderboard": leaderboard.lower(), "mode_category": category}


def add_leaderboard_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes that publish and change leaderboards."""
    operator = Annotated[str, Depends(deps.auth.operator("admin:problems"))]

    @router.post("/admin/leaderboards")
    async def create(body: DirectoryRequest, actor: operator) -> response_models.LeaderboardResult:
        """Publish a folder as a development leaderboard, open for a year."""
        slug = await create_leaderboard(deps, body, actor)
        await deps.wait_until_read()
        return {"status": "ok", "leaderboard": slug}

    @router.post("/admin/update-problems")
    async def update(
        body: RepositoryRequest, actor: operator
    ) -> response_models.RepositoryUpdateResult:
        """Publish the problems of a listed repository, or report what that would do."""
        result = await RepositoryUpdate(deps, body, actor).run()
        await deps.wait_until_read()
        return result

    @router.delete("/admin/leaderboards/{leaderboard}")
    async def archive(
        leaderboard: str, actor: operator, force: bool = False
    ) -> response_models.ArchivedLeaderboard:
        """Archive a leaderboard: it accepts no more submissions and stays readable."""
        slug = leaderboard.lower()
        await deps.ingest.intake.published(slug)
        has_any = await deps.read_client.list_all({"problem": slug}, 1, 0)
        if has_any and not force:
            message = f"{slug} has submissions: send force=true to archive it anyway"
            raise Refused("has_submissions", message, "force")
        await deps.ingest.boards.archive(slug, NO_REASON, actor)
        await deps.wait_until_read()
        return {"status": "ok", "leaderboard": slug, "force": force}

    @router.post("/admin/leaderboards/{leaderboard}/visibility")
    async def visibility(
        leaderboard: str, body: VisibilityRequest, actor: operator
    ) -> response_models.LeaderboardVisibility:
        """Close a leaderboard, or make it public."""
        slug = leaderboard.lower()
        change = LeaderboardChange(slug, Change(NO_REASON, body.visibility))
        await deps.ingest.boards.change(change, actor)
        await deps.wait_until_read()
        return {"status": "ok", "leaderboard": slug, "visibility": body.visibility}


def add_invite_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes for invites."""
    operator = Annotated[str, Depends(deps.auth.operator("admin:problems"))]

    @router.post("/admin/invites")
    async def issue(body: InvitesRequest, actor: operator) -> response_models.CreatedInvites:
        """Create invite codes; each lets one participant in."""
        names = [*body.leaderboards, *([body.leaderboard] if body.leaderboard else [])]
        slugs = list(dict.fromkeys(name.lower() for name in names))
        if not slugs:
            raise Refused("bad_query", "name at least one leaderboard", "leaderboards")
        until = body.expires_at.astimezone(UTC) if body.expires_at else None
        new_invites = NewInvites(slugs, body.count, until, NO_REASON)
        codes = await deps.ingest.invites.issue(new_invites, actor)
        return {"status": "ok", "leaderboards": slugs, "codes": codes}

    @router.get("/admin/leaderboards/{leaderboard}/invites")
    async def listed(leaderboard: str, _actor: operator) -> response_models.InviteList:
        """The invites to a leaderboard, and who claimed them."""
        slug = leaderboard.lower()
        invites: list[response_models.InviteItem] = [
            {
                "code": invite.code,
                "user_id": invite.participant_id,
                "user_name": invite.participant,
                "claimed_at": instant(invite.claimed_at),
                "created_at": instant(invite.created_at),
            }
            for invite in await deps.ingest.invites.list_invites(slug)
        ]
        return {"status": "ok", "leaderboard": slug, "invites": invites}

    @router.delete("/admin/invites/{code}")
    async def revoke(code: str, actor: operator) -> response_models.RevokedInviteCode:
        """Revoke an invite."""
        was_claimed = await deps.ingest.invites.revoke(code, NO_REASON, actor)
        return {"status": "ok", "code": code, "was_claimed": was_claimed}
