"""Webhooks over a real log and real tables with short waits, and a ranker that folds meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool

from ranker.metrics import TRY_OUTCOMES
from ranker.postgres import SCHEMA, Reader, ReadModels
from ranker.service.progress import ProjectionProgress
from ranker.webhooks.postgres import WebhookStore
from ranker.webhooks.sender import WebhookClient, WebhookSender
from ranker.webhooks.watcher import WebhookWatcher
from shared import events, subjects
from shared.lifecycle import run_until_first
from shared.nats.event_log import NatsLog
from shared.postgres import connect, create_pool
from tests.support.lives import Life, live, say
from tests.support.ranking import ranker_of, running
from tests.support.waits import eventually

SECRET = "a-secret-of-sixteen-or-more"
WAITS_S = (0.02,) * 7
ALL = events.WEBHOOK_KINDS


class CountingMetrics:
    """Webhook metrics that count."""

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(TRY_OUTCOMES, 0)
        self.off = 0

    def tried(self, outcome: str) -> None:
        """Count a try."""
        self.outcomes[outcome] += 1

    def switched_off(self) -> None:
        """Count a webhook that was switched off."""
        self.off += 1

    def pending(self, deliveries: int) -> None:
        """Ignored."""


@dataclass
class WebhookPlatform:
    """A log, the tables, and the webhooks in both."""

    log: NatsLog
    dsn: str
    tables: AsyncConnectionPool
    within_s: float = 2.0

    async def add(
        self, hook: str, account: str, url: str, *kinds: str, problems: Sequence[str] = ()
    ) -> None:
        """Add a webhook as ingest does."""
        values = {"hook": hook, "account": account, "url": url, "secret": SECRET}
        await self.ask(
            "insert into accounts.participant (account, name) values (%(account)s, %(account)s)"
            " on conflict do nothing",
            **values,
        )
        await self.ask(
            "insert into accounts.webhook (webhook, account, url, secret, kinds, problems)"
            " values (%(hook)s, %(account)s, %(url)s, %(secret)s, '{}', '{}')",
            **values,
        )
        fact = events.WebhookAdded(
            account=account, problems=list(problems), kinds=list(kinds or ALL)
        )
        seq = await say(self.log, subjects.webhook(hook), fact)
        await self.ask(
            "update accounts.webhook set seq = %(seq)s where webhook = %(hook)s", seq=seq, hook=hook
        )

    async def ask(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        async with self.tables.connection() as connection:
            cursor = await connection.execute(sql.encode(), values)
            return await cursor.fetchall() if cursor.description else []

    async def deliveries(self, hook: str) -> list[tuple[Any, ...]]:
        """Kind, state, tries, status and error of a webhook's deliveries, oldest first."""
        return await self.ask(
            "select kind, state, tries, status, error from accounts.webhook_delivery"
            " where webhook = %(hook)s order by delivery",
            hook=hook,
        )

    async def states(self, hook: str) -> list[str]:
        """The state of each delivery of a webhook."""
        return [row[1] for row in await self.deliveries(hook)]

    async def notice(self, hook: str) -> str | None:
        """Why a webhook is switched off."""
        rows = await self.ask(
            "select notice from accounts.webhook where webhook = %(hook)s", hook=hook
        )
        return rows[0][0] if rows else None

    async def test(self, hook: str, event: str) -> None:
        """Request a test delivery as ingest does."""
        await self.ask(
            "insert into accounts.webhook_delivery (webhook, event, kind, problem, data, at)"
            " values (%(hook)s, %(event)s, 'test', '', '{}', now())",
            hook=hook,
            event=event,
        )

    @asynccontextmanager
    async def telling(
        self, lease_s: float = 60.0, *, is_local: bool = True
    ) -> AsyncIterator[CountingMetrics]:
        """Run a ranker and its webhooks until the end of the block."""
        progress, metrics = ProjectionProgress(), CountingMetrics()
        async with (
            await connect(self.dsn, SCHEMA) as writing,
            running(ranker_of(self.log, ReadModels(writing), progress)),
            create_pool(self.dsn, 1, 3, SCHEMA) as connections,
        ):
            store = WebhookStore(connections)
            watcher = WebhookWatcher(self.log, store, Reader(connections), progress)
            await watcher.load_subscriptions()
            client = WebhookClient(is_local=is_local, within_s=self.within_s)
            subscriptions = watcher.subscriptions
            sender = WebhookSender(store, subscriptions, client.send, metrics, WAITS_S, lease_s)
            task = asyncio.create_task(run_until_first(watcher.run(), sender.run()))
            try:
                await eventually(self.has_place)
                yield metrics
                assert not task.done(), task.result()
            finally:
                # Also after a failure: the pool waits for its users.
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def has_place(self) -> bool:
        """Whether the watcher has stored a position."""
        return bool(await self.ask("select seq from accounts.webhook_place"))

    async def is_past(self, seq: int) -> bool:
        """Whether the watcher has read the log up to an event."""
        rows = await self.ask("select seq from accounts.webhook_place")
        return int(rows[0][0]) >= seq

    async def finish(self, *lives: Life) -> None:
        """Append whole submissions."""
        await live(self.log, *lives)
