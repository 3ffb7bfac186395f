"""Adds, lists, tests and removes webhooks; ranker delivers the events."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from ingest.decisions import DecisionResult, Decisions
from ingest.http.attempts import AttemptLimiter
from ingest.http.requests import RequestModel, Slugs
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller
from ingest.ports import NewWebhook, WebhookStore
from ingest.webhooks.rules import WEBHOOK_DECIDER, Remove, unknown_webhook
from shared import subjects
from shared.addresses import URL_LENGTH_MAX, parse_target
from shared.api import webhooks as api
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import WebhookAdded, WebhookKind

WEBHOOKS_MAX = 20
TESTS = "30/hour"
SECRET = "wbhook_"  # noqa: S105  (what secrets begin with)
SECRET_BYTES = 32
Secret = Annotated[str, Field(pattern=r"^[!-~]{16,200}$")]
# How many deliveries a page has, and the number of the last one there could be.
LIMIT, LIMIT_MAX = 50, 200
NUMBER_MAX = 2**63 - 1


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
            result = await self.decisions.make(
                subjects.webhook(id_), WEBHOOK_DECIDER, added, caller.actor
            )
            assert result.seq is not None, "an added webhook is an event"
            await self.rows.keep(id_, result.seq)
        except (Refused, Failed):
            # It is not, or perhaps not, in the log, so it gets no events.
            await self.rows.forget(id_)
            raise
        return await self.get_webhook(caller, id_), secret

    async def list_webhooks(self, caller: Caller) -> Sequence[api.Webhook]:
        """Return the caller's webhooks; a limited token sees those of its problems."""
        parts = self.feed.rights().parts_of(caller.account) if caller.account else []
        rows = [row for part in parts for row in await self.rows.listed(part)]
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
        command = Remove(self.feed.rights().parts_of(caller.id), "removed by its owner")
        result = await self.decisions.make(
            subjects.webhook(id_), WEBHOOK_DECIDER, command, caller.actor
        )
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
