"""Routes of webhooks, each for their owner."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Query
from msgspec import structs

from ingest.http.requests import Id
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.webhooks.service import LIMIT, LIMIT_MAX, NUMBER_MAX, WebhookRequest, Webhooks
from shared.api import webhooks as api
from shared.http import DocumentedRoute


def webhooks_router(service: Webhooks, auth: Authenticator) -> APIRouter:
    """The routes, each for the owner of the webhooks."""
    router = APIRouter(prefix="/v1/webhooks", route_class=DocumentedRoute)
    Holder: TypeAlias = Annotated[Caller, Depends(auth.participant("webhooks"))]

    @router.post("", status_code=201)
    async def add(body: WebhookRequest, caller: Holder) -> api.CreatedWebhook:
        """Add a webhook; its secret is shown once."""
        row, secret = await service.add(caller, body.to_new_webhook())
        return api.CreatedWebhook(**structs.asdict(row), secret=secret)

    @router.get("")
    async def listed(caller: Holder) -> api.Webhooks:
        """One's webhooks, oldest first, without their secrets."""
        return api.Webhooks(items=list(await service.list_webhooks(caller)))

    @router.get("/{id}")
    async def one(id: Id, caller: Holder) -> api.Webhook:  # noqa: A002  (the contract's own word)
        """One webhook; if it is off, its notice says why."""
        return await service.get_webhook(caller, id)

    @router.delete("/{id}")
    async def remove(id: Id, caller: Holder) -> api.RemovedWebhook:  # noqa: A002  (as above)
        """Remove a webhook and its deliveries."""
        result = await service.remove(caller, id)
        return api.RemovedWebhook(id=id, state="removed", event=result.event, seq=result.seq)

    @router.post("/{id}/test", status_code=202)
    async def test(id: Id, caller: Holder) -> api.WebhookTest:  # noqa: A002  (as above)
        """Send a test event once; a webhook that is off and accepts it is on again."""
        return api.WebhookTest(id=id, event_id=await service.test(caller, id))

    @router.get("/{id}/deliveries")
    async def deliveries(
        id: Id,  # noqa: A002  (as above)
        caller: Holder,
        cursor: Annotated[int, Query(ge=1, le=NUMBER_MAX)] = NUMBER_MAX,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT,
    ) -> api.Deliveries:
        """The deliveries of a webhook with their responses, newest first."""
        await service.get_webhook(caller, id)
        rows = await service.rows.deliveries(id, cursor, limit + 1)
        page = rows[:limit]
        after = str(page[-1].number) if len(rows) > limit else None
        return api.Deliveries(items=list(page), next_cursor=after)

    return router
