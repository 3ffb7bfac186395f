"""Public routes of the client: leaderboards, GPU types, queues, rankings and counts."""

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from fastapi import APIRouter, Request

from ingest.popcorn import response_models
from ingest.popcorn.conversions import (
    DESCRIPTION_LENGTH_MAX,
    GPU,
    instant,
    leaderboard_id,
    queue_response,
    seconds,
)
from ingest.popcorn.dependencies import Dependencies, leaderboard_gpus, page_parameters, parse_page
from shared.api.leaderboards import Entry
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed, Refused

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
            fields = json.loads(await self.blobs.get(manifest))
        except (BlobNotFound, ValueError):
            fields = {}
        if not isinstance(fields, dict):
            fields = {}
        description = fields.get("description")
        text = description.strip() if isinstance(description, str) else ""
        if len(text) > DESCRIPTION_LENGTH_MAX:
            text = f"{text[: DESCRIPTION_LENGTH_MAX - 3]}..."
        about = About(text, "cu" if fields.get("lang") == "cu" else "py")
        self._cache[manifest] = about
        if len(self._cache) > DESCRIPTIONS_MAX:
            self._cache.popitem(last=False)
        return about


def add_leaderboard_routes(router: APIRouter, deps: Dependencies) -> None:
    """The leaderboards and their rankings; closed ones exist for their members only."""
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
        items: list[response_models.LeaderboardItem] = []
        for problem in await deps.read_client.problems(caller.reader):
            is_over = problem.deadline_at is not None and problem.deadline_at <= at
            has_ended = is_over or problem.archived_at is not None
            if state != "all" and has_ended != (state == "ended"):
                continue
            about = await descriptions.get(problem.manifest)
            items.append(
                {
                    "id": leaderboard_id(problem.slug),
                    "name": problem.slug,
                    "title": problem.title,
                    "description": about.description,
                    "task": {"lang": about.lang},
                    "deadline": instant(problem.deadline_at),
                    "gpu_types": problem.gpus,
                    "visibility": problem.visibility,
                    "problem_version": problem.problem_version,
                    "state": "ended" if has_ended else "active",
                }
            )
        return items

    @router.get("/gpus/{leaderboard}")
    async def gpus(leaderboard: str, request: Request) -> list[str]:
        """The GPU types of a leaderboard, in display order."""
        caller = await deps.auth.caller(request)
        return await leaderboard_gpus(deps, caller, leaderboard.lower())

    _add_ranking_routes(router, deps)


def _add_ranking_routes(router: APIRouter, deps: Dependencies) -> None:
    @router.get("/runner_queue/{gpu}")
    async def queue_of(gpu: str) -> response_models.RunnerQueue:
        """The queue of a GPU type."""
        queue = await deps.read_client.queue(gpu) if GPU.match(gpu) else None
        if queue is None:
            raise Refused("not_found", f"there is no GPU type {gpu!r}", "gpu")
        return queue_response(queue)

    async def load_entries(
        request: Request, leaderboard: str, gpu: str, count_max: int | None = None
    ) -> tuple[str, list[Entry]]:
        """Return the GPU type with this name in any case, and the entries of the leaderboard."""
        caller, slug = await deps.auth.caller(request), leaderboard.lower()
        gpus = await leaderboard_gpus(deps, caller, slug)
        gpu_type = next((name for name in gpus if name.lower() == gpu.lower()), None)
        if gpu_type is None:
            message = f"GPU type {gpu!r} is not on this leaderboard: {', '.join(gpus)}"
            raise Refused("unknown_gpu", message, "gpu")
        entries = await deps.read_client.leaderboard(slug, gpu_type, caller.reader, count_max)
        return gpu_type, entries

    @router.get(
        "/submissions/{leaderboard}/{gpu}",
        openapi_extra={"parameters": page_parameters(RANKING_MAX, RANKING_MAX)},
    )
    async def ranking(
        leaderboard: str, gpu: str, request: Request
    ) -> list[response_models.RankingRow]:
        """The ranking of a leaderboard, best first."""
        limit, offset = parse_page(request, RANKING_MAX, RANKING_MAX)
        gpu_type, entries = await load_entries(request, leaderboard, gpu, offset + limit)
        return [
            {
                "submission_id": entry.number,
                "rank": entry.rank,
                "submission_name": f"submission-{entry.number}",
                "submission_time": instant(entry.received_at),
                "submission_score": seconds(entry.score_us),
                "leaderboard_name": leaderboard.lower(),
                "user_id": entry.participant_id,
                "user_name": entry.participant or entry.participant_id,
                "gpu_type": gpu_type,
            }
            for entry in entries[offset : offset + limit]
        ]

    @router.get("/submission_count/{leaderboard}/{gpu}")
    async def count(
        leaderboard: str, gpu: str, request: Request, user_id: str | None = None
    ) -> response_models.Count:
        """The number of entries on a leaderboard, in total or of one participant."""
        _, entries = await load_entries(request, leaderboard, gpu)
        return {"count": sum(user_id in (None, entry.participant_id) for entry in entries)}


def add_health_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes that tell whether this process works."""

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
