"""Public routes of the client: leaderboards, GPU types, queues, rankings and counts."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from fastapi import APIRouter, Request

from ingest.popcorn import dependencies, response_models
from ingest.popcorn.conversions import DESCRIPTION_LENGTH_MAX, GPU, instant, leaderboard_id, seconds
from ingest.popcorn.dependencies import TAG, Dependencies, find_leaderboard, parse_bounded
from ingest.popcorn.job_status import queue_response
from shared.api.leaderboards import Entry
from shared.api.problems import Problem
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed, Refused
from shared.response_types import DocumentedRoute

STATES = ("active", "ended", "all")
DESCRIPTIONS_MAX = 1000
RANKING_MAX = 100


class About(NamedTuple):
    """The beginning of a problem's description, and its language."""

    description: str
    lang: Literal["py", "cu"]


@dataclass(frozen=True)
class Descriptions:
    """Descriptions of problems by manifest, cached."""

    blobs: BlobStore
    _cache: OrderedDict[str, About] = field(default_factory=OrderedDict)

    async def get(self, manifest: str) -> About:
        """Return the description in a manifest, empty if it is gone. Raises `Failed`."""
        if manifest in self._cache:
            self._cache.move_to_end(manifest)
            return self._cache[manifest]
        try:
            manifest_fields = json.loads(await self.blobs.get(manifest))
        except (BlobNotFound, ValueError):
            manifest_fields = {}
        about = _parse_about(manifest_fields if isinstance(manifest_fields, dict) else {})
        self._cache[manifest] = about
        if len(self._cache) > DESCRIPTIONS_MAX:
            self._cache.popitem(last=False)
        return about


def _parse_about(manifest: Mapping[str, object]) -> About:
    description = manifest.get("description")
    text = description.strip() if isinstance(description, str) else ""
    if len(text) > DESCRIPTION_LENGTH_MAX:
        text = f"{text[: DESCRIPTION_LENGTH_MAX - 3]}..."
    return About(text, "cu" if manifest.get("lang") == "cu" else "py")


def public_router(deps: Dependencies) -> APIRouter:
    """The routes; closed leaderboards exist for their members only."""
    router = APIRouter(tags=[TAG], route_class=DocumentedRoute)
    _leaderboard_routes(router, deps)
    _ranking_routes(router, deps)
    _health_routes(router, deps)
    return router


def _health_routes(router: APIRouter, deps: Dependencies) -> None:
    @router.get("/healthz")
    async def alive() -> response_models.Liveness:
        """Whether this process is alive, whatever its dependencies."""
        return {"status": "ok"}

    @router.get("/readyz")
    async def ready() -> response_models.Liveness:
        """Whether it can take traffic."""
        if problem := await deps.is_well():
            raise Failed(problem)
        return {"status": "ok"}


def _leaderboard_routes(router: APIRouter, deps: Dependencies) -> None:
    descriptions = Descriptions(deps.blobs)

    @router.get("/leaderboards")
    async def leaderboards(
        request: Request, state: str = "active"
    ) -> list[response_models.LeaderboardItem]:
        """The leaderboards; one invalid element would make the client drop all."""
        if state not in STATES:
            raise Refused("bad_query", f"state must be one of {', '.join(STATES)}", "state")
        caller = await deps.auth.caller(request)
        at = deps.clock()
        items = []
        for problem in await deps.read_client.problems(caller.reader):
            state_now = _state(problem, at)
            if state in ("all", state_now):
                about = await descriptions.get(problem.manifest)
                items.append(_leaderboard_item(problem, about, state_now))
        return items

    @router.get("/gpus/{leaderboard}")
    async def gpus(leaderboard: str, request: Request) -> list[str]:
        """The GPU types of a leaderboard, in display order."""
        return (await find_leaderboard(deps, await deps.auth.caller(request), leaderboard)).gpus

    @router.get("/runner_queue/{gpu}")
    async def queue_of(gpu: str) -> response_models.RunnerQueue:
        """The queue of a GPU type."""
        queue = await deps.read_client.queue(gpu) if GPU.match(gpu) else None
        if queue is None:
            raise Refused("not_found", f"there is no GPU type {gpu!r}", "gpu")
        return queue_response(queue)


def _state(problem: Problem, at: datetime) -> Literal["active", "ended"]:
    is_over = problem.deadline_at is not None and problem.deadline_at <= at
    return "ended" if is_over or problem.archived_at is not None else "active"


def _leaderboard_item(
    problem: Problem, about: About, state: Literal["active", "ended"]
) -> response_models.LeaderboardItem:
    return {
        "id": leaderboard_id(problem.slug),
        "name": problem.slug,
        "title": problem.title,
        "description": about.description,
        "task": {"lang": about.lang},
        "deadline": instant(problem.deadline_at),
        "gpu_types": problem.gpus,
        "visibility": problem.visibility,
        "problem_version": problem.problem_version,
        "state": state,
    }


def _ranking_routes(router: APIRouter, deps: Dependencies) -> None:
    @router.get(
        "/submissions/{leaderboard}/{gpu}",
        openapi_extra={"parameters": dependencies.page_parameters(RANKING_MAX, RANKING_MAX)},
    )
    async def ranking(
        leaderboard: str, gpu: str, request: Request
    ) -> list[response_models.RankingRow]:
        """The ranking of a leaderboard, best first."""
        limit = parse_bounded(request, "limit", RANKING_MAX, (1, RANKING_MAX))
        offset = parse_bounded(request, "offset", 0, (0, None))
        count_max = offset + limit
        leaderboard_and_gpu, entries = await _load_entries(
            deps, request, (leaderboard, gpu), count_max
        )
        return [
            _ranking_row(entry, leaderboard_and_gpu) for entry in entries[offset : offset + limit]
        ]

    @router.get("/submission_count/{leaderboard}/{gpu}")
    async def count(
        leaderboard: str, gpu: str, request: Request, user_id: str | None = None
    ) -> response_models.Count:
        """The number of entries on a leaderboard, in total or of one participant."""
        _, entries = await _load_entries(deps, request, (leaderboard, gpu))
        return {"count": sum(user_id in (None, entry.participant_id) for entry in entries)}


async def _load_entries(
    deps: Dependencies, request: Request, names: tuple[str, str], count_max: int | None = None
) -> tuple[tuple[str, str], list[Entry]]:
    """Return the leaderboard and GPU type with these names, and its entries."""
    caller = await deps.auth.caller(request)
    leaderboard_ = await find_leaderboard(deps, caller, names[0])
    gpu = next(
        (gpu_type for gpu_type in leaderboard_.gpus if gpu_type.lower() == names[1].lower()), None
    )
    if gpu is None:
        message = (
            f"GPU type {names[1]!r} is not on this leaderboard: {', '.join(leaderboard_.gpus)}"
        )
        raise Refused("unknown_gpu", message, "gpu")
    rows = await deps.read_client.leaderboard(leaderboard_.slug, gpu, caller.reader, count_max)
    return (leaderboard_.slug, gpu), rows


def _ranking_row(entry: Entry, leaderboard_and_gpu: tuple[str, str]) -> response_models.RankingRow:
    slug, gpu = leaderboard_and_gpu
    return {
        "submission_id": entry.number,
        "rank": entry.rank,
        "submission_name": f"submission-{entry.number}",
        "submission_time": instant(entry.received_at),
        "submission_score": seconds(entry.score_us),
        "leaderboard_name": slug,
        "user_id": entry.participant_id,
        "user_name": entry.participant or entry.participant_id,
        "gpu_type": gpu,
    }
