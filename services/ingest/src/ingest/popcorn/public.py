"""What anybody may ask: leaderboards and their GPU types, queues, rankings, counts."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Request

from ingest.popcorn import asked, shapes
from ingest.popcorn.asked import TAG
from ingest.popcorn.parts import Parts, board, bounded
from ingest.popcorn.seen import Entry, Problem, Wait
from ingest.popcorn.standing import queue_told
from ingest.popcorn.words import DESCRIPTION_LENGTH_MAX, GPU, instant, leaderboard_id, seconds
from shared.answers import Documented
from shared.blobs import Blobs, Missing
from shared.errors import Failed, Refused

STATES = ("active", "ended", "all")
DESCRIPTIONS_MAX = 1000
RANKING_MAX = 100


class About(NamedTuple):
    """The first characters of a problem's description, and the language that it is written in."""

    description: str
    lang: Literal["py", "cu"]


@dataclass(frozen=True)
class Descriptions:
    """What problems say of themselves, by their manifest; what was read last is kept."""

    blobs: Blobs
    _kept: OrderedDict[str, About] = field(default_factory=OrderedDict)

    async def of(self, manifest: str) -> About:
        """What a manifest says; nothing if it is gone. Errors: Failed."""
        if manifest in self._kept:
            self._kept.move_to_end(manifest)
            return self._kept[manifest]
        try:
            said = json.loads(await self.blobs.get(manifest))
        except (Missing, ValueError):
            said = {}
        about = _about(said if isinstance(said, dict) else {})
        self._kept[manifest] = about
        if len(self._kept) > DESCRIPTIONS_MAX:
            self._kept.popitem(last=False)
        return about


def _about(said: Mapping[str, object]) -> About:
    given = said.get("description")
    text = given.strip() if isinstance(given, str) else ""
    if len(text) > DESCRIPTION_LENGTH_MAX:
        text = f"{text[: DESCRIPTION_LENGTH_MAX - 3]}..."
    return About(text, "cu" if said.get("lang") == "cu" else "py")


def public(parts: Parts) -> APIRouter:
    """The routes; closed leaderboards are there for their members alone."""
    router = APIRouter(tags=[TAG], route_class=Documented)
    _boards(router, parts)
    _rankings(router, parts)
    _alive(router, parts)
    return router


def _alive(router: APIRouter, parts: Parts) -> None:
    @router.get("/healthz")
    async def alive() -> shapes.Alive:
        """Whether this process lives, whatever lies behind it."""
        return {"status": "ok"}

    @router.get("/readyz")
    async def ready() -> shapes.Alive:
        """Whether it may take traffic."""
        if ill := await parts.is_well():
            raise Failed(ill)
        return {"status": "ok"}


def _boards(router: APIRouter, parts: Parts) -> None:
    descriptions = Descriptions(parts.blobs)

    @router.get("/leaderboards")
    async def leaderboards(request: Request, state: str = "active") -> list[shapes.BoardListed]:
        """The leaderboards, each of them whole: one bad element and the client takes none."""
        if state not in STATES:
            raise Refused("bad_query", f"state is one of {', '.join(STATES)}", "state")
        caller = await parts.gate.caller(request)
        at = parts.clock()
        found = []
        for problem in await parts.asking.problems(caller.reader):
            now = _state(problem, at)
            if state in ("all", now):
                about = await descriptions.of(problem.manifest)
                found.append(_listed(problem, about, now))
        return found

    @router.get("/gpus/{leaderboard}")
    async def gpus(leaderboard: str, request: Request) -> list[str]:
        """The GPU types of a leaderboard, in the order to show them in."""
        return (await board(parts, await parts.gate.caller(request), leaderboard)).gpus

    @router.get("/runner_queue/{gpu}")
    async def queue_of(gpu: str) -> shapes.RunnerQueue:
        """The queue of a GPU type."""
        queue = await parts.asking.queue(gpu) if GPU.match(gpu) else None
        if queue is None:
            raise Refused("not_found", f"there is no GPU type {gpu!r} here", "gpu")
        return queue_told(msgspec.convert(queue, Wait))


def _state(problem: Problem, at: datetime) -> Literal["active", "ended"]:
    is_over = problem.deadline_at is not None and problem.deadline_at <= at
    return "ended" if is_over or problem.archived_at is not None else "active"


def _listed(
    problem: Problem, about: About, state: Literal["active", "ended"]
) -> shapes.BoardListed:
    return {
        "id": leaderboard_id(problem.slug),
        "name": problem.slug,
        "title": problem.title,
        "description": about.description,
        "task": {"lang": about.lang},
        "deadline": instant(problem.deadline_at),
        "gpu_types": problem.gpus,
        "visibility": problem.visibility,
        "problem_version": problem.number,
        "state": state,
    }


def _rankings(router: APIRouter, parts: Parts) -> None:
    @router.get(
        "/submissions/{leaderboard}/{gpu}", openapi_extra=asked.page(RANKING_MAX, RANKING_MAX)
    )
    async def ranking(leaderboard: str, gpu: str, request: Request) -> list[shapes.Place]:
        """The best of a leaderboard, best first."""
        limit = bounded(request, "limit", RANKING_MAX, (1, RANKING_MAX))
        offset = bounded(request, "offset", 0, (0, None))
        most = offset + limit
        where, entries = await _entries(parts, request, (leaderboard, gpu), most)
        return [_row(one, where) for one in entries[offset : offset + limit]]

    @router.get("/submission_count/{leaderboard}/{gpu}")
    async def count(
        leaderboard: str, gpu: str, request: Request, user_id: str | None = None
    ) -> shapes.Count:
        """How many entries a leaderboard has, or one participant on it."""
        _, entries = await _entries(parts, request, (leaderboard, gpu))
        return {"count": sum(user_id in (None, one.account) for one in entries)}


async def _entries(
    parts: Parts, request: Request, asked: tuple[str, str], most: int | None = None
) -> tuple[tuple[str, str], list[Entry]]:
    """The leaderboard and GPU type that somebody means, and its rows, or so many of them."""
    caller = await parts.gate.caller(request)
    found = await board(parts, caller, asked[0])
    gpu = next((one for one in found.gpus if one.lower() == asked[1].lower()), None)
    if gpu is None:
        what = f"GPU type {asked[1]!r} is not on this leaderboard: {', '.join(found.gpus)}"
        raise Refused("unknown_gpu", what, "gpu")
    rows = await parts.asking.leaderboard(found.slug, gpu, caller.reader, most)
    return (found.slug, gpu), rows


def _row(entry: Entry, where: tuple[str, str]) -> shapes.Place:
    slug, gpu = where
    return {
        "submission_id": entry.number,
        "rank": entry.rank,
        "submission_name": f"submission-{entry.number}",
        "submission_time": instant(entry.received_at),
        "submission_score": seconds(entry.score_us),
        "leaderboard_name": slug,
        "user_id": entry.account,
        "user_name": entry.participant or entry.account,
        "gpu_type": gpu,
    }
