"""One's own submissions: listed, polled, deleted; and closed leaderboards joined."""

from fastapi import APIRouter, Request
from pydantic import Field

from ingest.domain.callers import Caller
from ingest.http.who import whence
from ingest.popcorn import asked, shapes
from ingest.popcorn.asked import TAG, Asked
from ingest.popcorn.parts import Parts, bounded, number_of, patient
from ingest.popcorn.results import runs
from ingest.popcorn.seen import Listed, Shown
from ingest.popcorn.standing import job, runner_queue, standing
from ingest.popcorn.words import instant, leaderboard_id, seconds
from shared.answers import Documented
from shared.blobs import Missing

LIMIT_MAX = 100
LIMIT = 50
OFFSET_MAX = 10_000
CODE_LENGTH_MAX = 200


class Join(Asked):
    """The code of an invite; whatever else is there is ignored."""

    code: str = Field(min_length=1, max_length=CODE_LENGTH_MAX)


def own(parts: Parts) -> APIRouter:
    """The routes of participants about what is theirs."""
    router = APIRouter(prefix="/user", tags=[TAG], route_class=Documented)
    _reads(router, parts)
    _writes(router, parts)
    return router


def _reads(router: APIRouter, parts: Parts) -> None:
    reads = patient(parts.gate.participant("read:own"))
    part = asked.page(LIMIT, LIMIT_MAX, OFFSET_MAX)["parameters"]

    @router.get("/submissions", openapi_extra={"parameters": [asked.board(), *part]})
    async def submissions(request: Request) -> list[shapes.OwnListed]:
        """The newest submissions first."""
        caller = await reads(request)
        limit = bounded(request, "limit", LIMIT, (1, LIMIT_MAX))
        offset = bounded(request, "offset", 0, (0, OFFSET_MAX))
        slug = request.query_params.get("leaderboard", "").lower() or None
        found = await parts.asking.mine(caller, slug, limit, offset)
        return [_listed(one) for one in found]

    @router.get("/submissions/{number}")
    async def submission(number: str, request: Request) -> shapes.Polled:
        """One submission as it is now: what the client asks every five seconds."""
        caller = await reads(request)
        seen = await parts.asking.owned(number_of(number), caller)
        return shown(seen, await code_of(parts, seen))


def _writes(router: APIRouter, parts: Parts) -> None:
    deletes, joins = parts.gate.participant("delete:own"), parts.gate.participant("join")

    @router.delete("/submissions/{number}")
    async def delete(number: str, request: Request) -> shapes.Deleted:
        """Take a submission off its leaderboard, after it was cancelled if it goes on."""
        caller: Caller = await deletes(request)
        seen = await parts.asking.owned(number_of(number), caller)
        await parts.ingest.participants.withdraw(seen.number, caller, "deleted by its owner")
        await parts.asking.forgotten(seen.number)
        return {"status": "ok", "submission_id": seen.number}

    @router.post("/join")
    async def join(request: Request, body: Join) -> shapes.Member:
        """Become a member of closed leaderboards by an invite."""
        caller: Caller = await joins(request)
        boards = await parts.ingest.invites.join(caller.id, body.code, whence(request))
        return {"status": "ok", "leaderboards": list(boards)}


def _listed(one: Listed) -> shapes.OwnListed:
    score = seconds(one.score_us) if one.is_eligible and one.mode == "ranked" else None
    return {
        "id": one.number,
        "leaderboard_name": one.problem,
        "file_name": one.name or "submission",
        "submission_time": instant(one.received_at),
        "done": one.state == "finished",
        "runs": [{"gpu_type": one.gpu, "score": score}],
    }


def shown(seen: Shown, code: str) -> shapes.Polled:
    """A submission as the client reads it (spec 5.4), all of one moment."""
    return {
        "id": seen.number,
        "leaderboard_id": leaderboard_id(seen.problem),
        "leaderboard_name": seen.problem,
        "file_name": seen.name or "submission",
        "user_id": seen.account,
        "submission_time": instant(seen.received_at),
        "done": standing(seen).is_done,
        "code": code,
        "runs": runs(seen),
        "job": job(seen, is_long=True),
        "runner_queue": runner_queue(seen.wait),
        "ranking": seen.ranking,
        "queue": seen.queue,
        "problem_version": seen.problem_number,
    }


async def code_of(parts: Parts, seen: Shown) -> str:
    """The source of a submission; "" if it is not kept any more. Errors: Failed."""
    if not seen.source_digest:
        return ""
    try:
        return (await parts.blobs.get(seen.source_digest)).decode("utf-8", "replace")
    except Missing:
        return ""
