"""Decisions by people: moderation, and rejudges with what they would change."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from msgspec import convert

from ranker.http.access import CurrentReader, ReadSources, require_staff
from ranker.http.responses import Limit
from ranker.service.podium_jobs import make_rejudge_item
from shared.api import moderation as models
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed, Refused
from shared.response_types import DocumentedRoute

REJUDGE_ITEMS_MAX = 400
SELECTS = {"best": "best_items", "all": "all_items"}

Selected = Annotated[str, Query(pattern="^(best|all)$")]


def rejudges_router(sources: ReadSources) -> APIRouter:
    """The routes of moderation and rejudges, and the items of a rejudge that ingest asks for."""
    router, reads = APIRouter(route_class=DocumentedRoute), sources.reads

    @router.get("/v1/moderation")
    async def moderation(
        reader: CurrentReader,
        open: bool = False,  # noqa: A002  (the parameter's public name)
        limit: Limit = 100,
    ) -> models.Moderation:
        """Decisions about the reader's own submissions; for staff, about all.

        With `open` only those that wait for a decision.
        """
        items = await sources.view(reader).rows("moderation", open=open, limit=limit)
        decisions = convert(items, list[models.Decision])
        return models.Moderation(items=decisions, as_of=sources.progress.seq)

    @router.get("/internal/rejudge-items")
    async def items(
        problem: str, from_version: int, gpu: str | None = None, select: Selected = "best"
    ) -> dict[str, Any]:
        """What a rejudge would run again; one item over the limit means too many."""
        rows = await reads.rows(
            SELECTS[select],
            problem=problem,
            number=from_version,
            gpu=gpu,
            limit=REJUDGE_ITEMS_MAX + 1,
        )
        rejudge_items = [msgspec.to_builtins(make_rejudge_item(row, row["gpu"])) for row in rows]
        return {"items": rejudge_items, "as_of": sources.progress.seq}

    _add_rejudge_routes(router, sources)
    return router


def _add_rejudge_routes(router: APIRouter, sources: ReadSources) -> None:
    reads = sources.reads

    @router.get("/v1/rejudges")
    async def list_rejudges(reader: CurrentReader, limit: Limit = 50) -> models.Rejudges:
        """Rejudges, newest first; empty for everybody but staff."""
        rows = await reads.rows("rejudges", id=None, limit=limit) if reader.is_staff else []
        items = convert(rows, list[models.Rejudge])
        return models.Rejudges(items=items, as_of=sources.progress.seq)

    @router.get("/v1/rejudges/{id}")
    async def read_rejudge(
        reader: CurrentReader,
        id: str,  # noqa: A002  (the path's public name)
    ) -> models.FullRejudge:
        """A rejudge, with its preview once there is one."""
        rows = await reads.rows("rejudges", id=id, limit=1) if reader.is_staff else []
        if not rows:
            raise Refused("unknown_rejudge", f"there is no rejudge {id!r}", "id")
        preview = await _read_preview(sources.blobs, rows[0]["diff"])
        rejudge = rows[0] | {"preview": preview, "as_of": sources.progress.seq}
        return convert(rejudge, models.FullRejudge)

    @router.get("/v1/admin/rejudges")
    async def list_rejudges_for_operators(
        reader: CurrentReader, limit: Limit = 50
    ) -> models.Rejudges:
        """Rejudges for operators; refused for others."""
        require_staff(reader)
        return await list_rejudges(reader, limit)

    @router.get("/v1/admin/rejudges/{id}")
    async def read_rejudge_for_operators(
        reader: CurrentReader,
        id: str,  # noqa: A002  (the path's public name)
    ) -> models.FullRejudge:
        """A rejudge for operators; refused for others."""
        require_staff(reader)
        return await read_rejudge(reader, id)


async def _read_preview(blobs: BlobStore, digest: str | None) -> models.Preview | None:
    if digest is None:
        return None
    try:
        return msgspec.json.decode(await blobs.get(digest), type=models.Preview)
    except BlobNotFound as missing:
        raise Failed(f"the preview is missing: {missing}") from missing
