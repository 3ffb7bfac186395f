"""Webhooks: added, listed, tested and removed by their owners; ranker delivers the events."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Query
from msgspec import structs
from pydantic import Field

from ingest.decisions import DecisionResult, Decisions
from ingest.http.attempts import AttemptLimiter
from ingest.http.bodies import RequestModel
from ingest.http.fields import IdInPath, Slugs
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.ports import NewWebhook, WebhookStore
from shared import subjects
from shared.addresses import URL_LENGTH_MAX, parse_target
from shared.api import accounts as api
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.event_log import Decider
from shared.events import Fact, WebhookAdded, WebhookKind, WebhookRemoved
from shared.http import DocumentedRoute

WEBHOOKS_MAX = 20
TESTS = "30/hour"
SECRET = "wbhook_"  # noqa: S105  (what secrets begin with)
SECRET_BYTES = 32

LIMIT, LIMIT_MAX = 50, 200
NUMBER_MAX = 2**63 - 1

Secret = Annotated[str, Field(pattern=r"^[!-~]{16,200}$")]


@dataclass(frozen=True)
class Webhook:
    """The state of a webhook."""

    added: WebhookAdded | None = None
    is_removed: bool = False


@dataclass(frozen=True)
class Remove:
    """Remove a webhook."""

    account: str
    reason: str


def decide_webhook(command: WebhookAdded | Remove, state: Webhook) -> Sequence[Fact]:
    """Return the event, or nothing if it changes nothing. Raises `Refused` for another owner."""
    if isinstance(command, WebhookAdded):
        assert state.added is None, "webhook ids are unique"
        return (command,)
    if state.added is None or state.added.account != command.account:
        raise unknown_webhook()
    return () if state.is_removed else (WebhookRemoved(reason=command.reason),)


def evolve_webhook(state: Webhook, fact: Fact) -> Webhook:
    """Return the webhook after one more event."""
    match fact:
        case WebhookAdded():
            return replace(state, added=fact)
        case WebhookRemoved():
            return replace(state, is_removed=True)
    return state


webhooks = Decider[WebhookAdded | Remove, Webhook, Fact](Webhook(), decide_webhook, evolve_webhook)


def unknown_webhook() -> Refused:
    """Return the refusal for a webhook that the caller does not have."""
    return Refused("unknown_webhook", "you have no such webhook", "id")


@dataclass(frozen=True)
class Webhooks:
    """The commands about webhooks. Methods may raise `Refused` and `Failed`.

    With `is_local` a webhook may point to this machine.
    """

    decisions: Decisions
    feed: AccessFeed
    rows: WebhookStore
    is_local: bool = False
    tests: AttemptLimiter = field(
        default_factory=lambda: AttemptLimiter(TESTS, "tests of this webhook")
    )

    async def add(self, caller: Caller, webhook: NewWebhook) -> tuple[api.Webhook, str]:
        """Add a webhook and return it with its secret, which cannot be shown again."""
        parse_target(webhook.url, is_local=self.is_local)
        self._check_problems(caller, webhook.problems)
        secret = webhook.secret or SECRET + secrets.token_urlsafe(SECRET_BYTES)
        id_, webhook = new_id(), webhook._replace(secret=secret)
        if not await self.rows.add(caller.id, id_, webhook, WEBHOOKS_MAX):
            message = f"you have {WEBHOOKS_MAX} webhooks, which is the limit: remove one"
            raise Refused("too_many_webhooks", message)
        added = WebhookAdded(
            account=caller.id, problems=list(webhook.problems), kinds=list(webhook.kinds)
        )
        try:
            result = await self.decisions.make(subjects.webhook(id_), webhooks, added, caller.actor)
            assert result.seq is not None, "an added webhook is an event"
            await self.rows.keep(id_, result.seq)
        except (Refused, Failed):
            # It is not, or perhaps not, in the log, so it gets no events.
            await self.rows.forget(id_)
            raise
        return await self.get_webhook(caller, id_), secret

    async def list_webhooks(self, caller: Caller) -> Sequence[api.Webhook]:
        """Return the caller's webhooks; a limited token sees those of its problems."""
        rows = [] if caller.account is None else await self.rows.listed(caller.account)
        if not caller.problems:
            return rows
        return [row for row in rows if row.problems and caller.problems.issuperset(row.problems)]

    async def get_webhook(self, caller: Caller, id_: str) -> api.Webhook:
        """Return one of the caller's webhooks.

        Raises `Refused` (`unknown_webhook`) and `Failed`.
        """
        for row in await self.list_webhooks(caller):
            if row.id == id_:
                return row
        raise unknown_webhook()

    async def remove(self, caller: Caller, id_: str) -> DecisionResult:
        """Remove a webhook and everything stored about it. Raises `Refused` and `Failed`."""
        await self.get_webhook(caller, id_)
        command = Remove(caller.id, "removed by its owner")
        result = await self.decisions.make(subjects.webhook(id_), webhooks, command, caller.actor)
        await self.rows.forget(id_)
        return result

    async def test(self, caller: Caller, id_: str) -> str:
        """Send a test event and return its id. Raises `Refused` and `Failed`."""
        await self.get_webhook(caller, id_)
        self.tests.take(id_)
        event = new_id()
        await self.rows.test(id_, event)
        return event

    def _check_problems(self, caller: Caller, problems: Sequence[str]) -> None:
        if caller.problems and not problems:
            message = (
                f"your token is limited to {', '.join(sorted(caller.problems))}: name problems"
            )
            raise Refused("scope_missing", message, "problems")
        access = self.feed.rights()
        for slug in problems:
            access.check_sees(caller, slug)


class WebhookRequest(RequestModel):
    """A webhook: its URL, events, problems and secret."""

    url: Annotated[str, Field(max_length=URL_LENGTH_MAX)]
    events: Annotated[list[WebhookKind], Field(min_length=1)]
    problems: Slugs = Field(default_factory=list)
    secret: Secret | None = None

    def to_new_webhook(self) -> NewWebhook:
        """Return the webhook to add."""
        problems = dict.fromkeys(slug.lower() for slug in self.problems)
        return NewWebhook(self.url, list(dict.fromkeys(self.events)), list(problems), self.secret)


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
    async def one(id: IdInPath, caller: Holder) -> api.Webhook:  # noqa: A002  (the contract's own word)
        """One webhook; if it is off, its notice says why."""
        return await service.get_webhook(caller, id)

    @router.delete("/{id}")
    async def remove(id: IdInPath, caller: Holder) -> api.RemovedWebhook:  # noqa: A002  (as above)
        """Remove a webhook and its deliveries."""
        result = await service.remove(caller, id)
        return api.RemovedWebhook(id=id, state="removed", event=result.event, seq=result.seq)

    @router.post("/{id}/test", status_code=202)
    async def test(id: IdInPath, caller: Holder) -> api.WebhookTest:  # noqa: A002  (as above)
        """Send a test event once; a webhook that is off and accepts it is on again."""
        return api.WebhookTest(id=id, event_id=await service.test(caller, id))

    @router.get("/{id}/deliveries")
    async def deliveries(
        id: IdInPath,  # noqa: A002  (as above)
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
