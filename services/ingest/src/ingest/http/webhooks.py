"""What participants have told to addresses of their own, and what became of each event."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from ingest.domain.callers import Caller
from ingest.http import hook_shapes as shapes
from ingest.http.accounts import Slugs
from ingest.http.bodies import Body, IdInPath, shown
from ingest.http.who import Gate
from ingest.service.webhooks import Delivery, Row, Webhooks, Wish
from shared.addresses import URL_LENGTH_MAX
from shared.answers import Documented

LIMIT, LIMIT_MAX = 50, 200
NUMBER_MAX = 2**63 - 1

Kind = Literal[
    "submission.ended",
    "submission.ranked",
    "submission.held",
    "entry.overtaken",
    "problem.opened",
    "problem.deadline_moved",
    "problem.closed",
    "problem.version_published",
    "rejudge.applied",
]
Secret = Annotated[str, Field(pattern=r"^[!-~]{16,200}$")]


class WebhookWish(Body):
    """A webhook: where, of what, of which problems alone, and with which secret."""

    url: Annotated[str, Field(max_length=URL_LENGTH_MAX)]
    events: Annotated[list[Kind], Field(min_length=1)]
    problems: Slugs = Field(default_factory=list)
    secret: Secret | None = None

    def wish(self) -> Wish:
        """The webhook that is wanted."""
        problems = dict.fromkeys(slug.lower() for slug in self.problems)
        return Wish(self.url, list(dict.fromkeys(self.events)), list(problems), self.secret)


def webhooks(hooks: Webhooks, gate: Gate) -> APIRouter:
    """The routes, each for the participant whose webhooks they are."""
    router = APIRouter(prefix="/v1/webhooks", route_class=Documented)
    _hooks(router, hooks, gate)
    _deliveries(router, hooks, gate)
    return router


def _hooks(router: APIRouter, hooks: Webhooks, gate: Gate) -> None:
    holder = gate.participant("webhooks")

    @router.post("", status_code=201)
    async def add(
        body: WebhookWish, caller: Annotated[Caller, Depends(holder)]
    ) -> shapes.WebhookMade:
        """Tell an address of what happens from now on; its secret is shown once."""
        row, secret = await hooks.add(caller, body.wish())
        return {**hook_shown(row), "secret": secret}

    @router.get("")
    async def listed(caller: Annotated[Caller, Depends(holder)]) -> shapes.Webhooks:
        """One's webhooks, oldest first, without their secrets."""
        return {"items": [hook_shown(row) for row in await hooks.listed(caller)]}

    @router.get("/{id}")
    async def one(
        id: IdInPath,  # noqa: A002  (the contract's own word)
        caller: Annotated[Caller, Depends(holder)],
    ) -> shapes.Webhook:
        """One of one's webhooks; one that is off has a notice that says why."""
        return hook_shown(await hooks.one(caller, id))

    @router.delete("/{id}")
    async def remove(
        id: IdInPath,  # noqa: A002  (the contract's own word)
        caller: Annotated[Caller, Depends(holder)],
    ) -> shapes.Removed:
        """Tell it nothing any more, and forget what it was told."""
        return {"id": id, "state": "removed", **shown(await hooks.remove(caller, id))}


def _deliveries(router: APIRouter, hooks: Webhooks, gate: Gate) -> None:
    holder = gate.participant("webhooks")

    @router.post("/{id}/test", status_code=202)
    async def test(
        id: IdInPath,  # noqa: A002  (the contract's own word)
        caller: Annotated[Caller, Depends(holder)],
    ) -> shapes.Tested:
        """Have it told of a test, once; one that is off and takes it is on again."""
        return {"id": id, "event_id": await hooks.test(caller, id)}

    @router.get("/{id}/deliveries")
    async def deliveries(
        id: IdInPath,  # noqa: A002  (the contract's own word)
        caller: Annotated[Caller, Depends(holder)],
        cursor: Annotated[int, Query(ge=1, le=NUMBER_MAX)] = NUMBER_MAX,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT,
    ) -> shapes.Deliveries:
        """What it was told and what it answered, newest first."""
        found = await hooks.deliveries(caller, id, cursor, limit + 1)
        page = found[:limit]
        after = str(page[-1].number) if len(found) > limit else None
        return {"items": [delivery_shown(one) for one in page], "next_cursor": after}


def hook_shown(row: Row) -> shapes.Webhook:
    """A webhook without its secret."""
    return {
        "id": row.id,
        "url": row.url,
        "events": list(row.kinds),
        "problems": list(row.problems),
        "state": "on" if row.off_at is None else "off",
        "notice": row.notice,
        "off_at": _instant(row.off_at),
        "created_at": row.created_at.isoformat(),
    }


def delivery_shown(one: Delivery) -> shapes.Delivery:
    """What became of one event."""
    return {
        "number": one.number,
        "event_id": one.event,
        "type": one.kind,
        "state": one.state,
        "tries": one.tries,
        "status": one.status,
        "error": one.error,
        "took_ms": one.took_ms,
        "created_at": one.created_at.isoformat(),
        "tried_at": _instant(one.tried_at),
        "next_at": _instant(one.next_at),
    }


def _instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
