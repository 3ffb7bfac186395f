"""What auditors and operators read: seals with their key, and every act of an operator."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query

from ranker.http.access import CurrentReader, ReadSources, require_staff
from ranker.http.responses import NUMBER_MAX, Limit
from shared.api import moderation as models
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, AuditSealed
from shared.response_types import DocumentedRoute

SEALS_MAX = 1000
OPERATOR = "operator:"
# Fields of acts that are long, or not meant for readers.
OMITTED_FIELDS = ("reason", "items", "first", "second", "token_hash", "code_hash", "sign_key")

Before = Annotated[int, Query(ge=1, le=NUMBER_MAX)]


def audit_router(sources: ReadSources) -> APIRouter:
    """The routes of seals, which are public, and of operators' acts, which only staff may read."""
    router, key = APIRouter(route_class=DocumentedRoute), sources.seal_key

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

    return router


def _is_act(event: RecordedEvent) -> bool:
    envelope = event.envelope
    kind = CATALOGUE.get(envelope.type)
    is_act = kind is not None and kind.is_operator_act
    return is_act or envelope.actor.startswith(OPERATOR)


def _make_act(event: RecordedEvent) -> models.OperatorAct:
    envelope = event.envelope
    data = msgspec.json.decode(envelope.data)
    fields = data if isinstance(data, dict) else {}
    return models.OperatorAct(
        seq=event.seq,
        at=envelope.at,
        actor=envelope.actor,
        type=envelope.type,
        about=envelope.agg,
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
