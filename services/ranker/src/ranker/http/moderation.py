"""Decisions by people, rejudges with what they would change, operators' acts, and seals."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from msgspec import convert

from ranker.http.access import CurrentReader, ReadSources, require_staff
from ranker.http.responses import NUMBER_MAX, Limit
from ranker.service.podium_jobs import make_rejudge_item
from shared.api import moderation as models
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, AuditSealed
from shared.health import Range
from shared.http import DocumentedRoute

REJUDGE_ITEMS_MAX = 400
SELECTS = {"best": "best_items", "all": "all_items"}
SEALS_MAX = 1000
OPERATOR, SERVICE = "operator:", "service:"
# Fields of acts that are long, or not meant for readers.
OMITTED_FIELDS = ("reason", "items", "first", "second", "token_hash", "code_hash", "sign_key")

Selected = Annotated[str, Query(pattern="^(best|all)$")]
Before = Annotated[int, Query(ge=1, le=NUMBER_MAX)]


def moderation_router(sources: ReadSources) -> APIRouter:
    """The routes of moderation, rejudges, acts and seals; ingest asks for a rejudge's items."""
    router, reads = APIRouter(route_class=DocumentedRoute), sources.reads

    @router.get("/v1/moderation")
    async def moderation(
        reader: CurrentReader,
        open: bool = False,  # noqa: A002  (the parameter's public name)
        authored: bool = False,
        limit: Limit = 100,
    ) -> models.Moderation:
        """Decisions about the reader's own submissions; for staff, about all.

        Authors also get those about ranked submissions to their problems, without texts of appeals.
        With `authored` only these, and with `open` only those that wait for a decision.
        """
        view = sources.view(reader)
        rows = await view.rows("moderation", open=open, authored=authored, limit=limit)
        items = [
            row
            | {"appeal_text": await _read_appeal(sources.blobs, row) if view.owns(row) else None}
            for row in rows
        ]
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
    _add_audit_routes(router, sources)
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
        if reader.is_staff and not rows:
            # Whoever started it a moment ago may be ahead of the read models.
            await sources.wait_until_folded(await sources.log_end())
            rows = await reads.rows("rejudges", id=id, limit=1)
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


def _add_audit_routes(router: APIRouter, sources: ReadSources) -> None:
    key = sources.seal_key

    @router.get("/v1/audit/key")
    async def public_key() -> models.SealKey:
        """The public key for checking the signatures of seals."""
        if key is None:
            raise Refused("not_found", "nothing is sealed here: there is no key")
        return models.SealKey(algorithm="ed25519", key=key)

    @router.get("/v1/audit/seals")
    async def newest(limit: Annotated[int, Query(ge=1, le=SEALS_MAX)] = 100) -> models.Seals:
        """The newest seals first: save them, so that the log cannot be rewritten unnoticed."""
        seals = await sources.require_archive().read_seals(limit)
        return models.Seals(items=[_make_seal(event) for event in seals], key=key)

    @router.get("/v1/audit/scrub")
    async def scrub() -> models.LogScrub:
        """How far the log was compared with its archive, and what differed."""
        state = sources.scrub()
        return models.LogScrub(
            began_at=state.began_at,
            seq=state.seq,
            ended_at=state.ended_at,
            ended_seq=state.ended_seq,
            damaged_events=state.damaged_events,
            damaged=_make_ranges(state.damaged),
            archive_damaged=_make_ranges(state.archive_damaged),
        )

    @router.get("/v1/admin/audit")
    async def audit(
        reader: CurrentReader, before: Before = NUMBER_MAX, limit: Limit = 100
    ) -> models.OperatorActs:
        """List operators' acts, newest first; pass `next_before` as `before` for the next page.

        A page covers a bounded stretch of the log, so it may have few acts or none.
        """
        require_staff(reader)
        archive = sources.require_archive()
        covered_from, events = await archive.read_acts(min(before, sources.progress.seq + 1))
        items = [_make_act(event) for event in events if _is_act(event)]
        page = items[:limit]
        next_before = page[-1].seq if len(items) > limit else covered_from
        return models.OperatorActs(items=page, next_before=next_before if next_before > 1 else None)


def _make_ranges(ranges: Sequence[Range]) -> list[models.EventRange]:
    return [models.EventRange(first=first, last=last) for first, last in ranges]


async def _read_appeal(blobs: BlobStore, row: dict[str, Any]) -> str | None:
    """Read the text of an appeal, of which the row has the digest; "" if it is gone."""
    if row["appeal_text"] is None:
        return None
    try:
        return (await blobs.get(row["appeal_text"])).decode("utf-8", "replace")
    except BlobNotFound:
        return ""


async def _read_preview(blobs: BlobStore, digest: str | None) -> models.Preview | None:
    if digest is None:
        return None
    try:
        return msgspec.json.decode(await blobs.get(digest), type=models.Preview)
    except BlobNotFound as missing:
        raise Failed(f"the preview is missing: {missing}") from missing


def _is_act(event: RecordedEvent) -> bool:
    envelope = event.envelope
    kind = CATALOGUE.get(envelope.type)
    is_act = kind is not None and kind.is_operator_act
    is_by_service = envelope.actor.startswith(SERVICE)
    return (is_act and not is_by_service) or envelope.actor.startswith(OPERATOR)


def _make_act(event: RecordedEvent) -> models.OperatorAct:
    envelope = event.envelope
    data = msgspec.json.decode(envelope.data)
    fields = data if isinstance(data, dict) else {}
    return models.OperatorAct(
        seq=event.seq,
        at=envelope.at,
        actor=envelope.actor,
        type=envelope.type,
        about=envelope.aggregate,
        reason=fields.get("reason"),
        data={name: value for name, value in fields.items() if name not in OMITTED_FIELDS},
    )


def _make_seal(event: RecordedEvent) -> models.Seal:
    fact = event.fact
    assert isinstance(fact, AuditSealed), "the seal subject has only AuditSealed events"
    return models.Seal(
        seq=event.seq,
        at=event.envelope.at,
        sealed_seq=fact.seq,
        chain=fact.chain,
        sig=event.envelope.sig,
        data=bytes(event.envelope.data).decode(),
    )
