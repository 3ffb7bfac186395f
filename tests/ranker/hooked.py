"""Webhooks over a real log and real tables, in haste, and a ranker that folds meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool

from ranker.__main__ import SCHEMA
from ranker.hooks.metrics import OUTCOMES
from ranker.hooks.postgres import HookRows
from ranker.hooks.posting import Post
from ranker.hooks.sending import Sending
from ranker.hooks.watching import Watching
from ranker.postgres import Reader, ReadModels
from ranker.service import News
from shared import events, subjects
from shared.lifecycle import until_first
from shared.nats.event_log import NatsLog
from shared.postgres import connect, pool
from shared.testing import eventually
from tests.support.lives import Life, live, say
from tests.support.ranking import ranker_of, running

SECRET = "a-secret-of-sixteen-or-more"
WAITS_S = (0.02,) * 7
ALL = events.WEBHOOK_KINDS


class Counted:
    """The metrics of hooks, for tests."""

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.off = 0

    def tried(self, outcome: str) -> None:
        """A try is over."""
        self.outcomes[outcome] += 1

    def switched_off(self) -> None:
        """A webhook took nothing for too long."""
        self.off += 1

    def pending(self, deliveries: int) -> None:
        """Nobody looks."""


@dataclass
class Hooked:
    """A log, the tables, and the hooks that are in both."""

    log: NatsLog
    dsn: str
    tables: AsyncConnectionPool
    within_s: float = 2.0

    async def add(
        self, hook: str, account: str, url: str, *kinds: str, problems: Sequence[str] = ()
    ) -> None:
        """A webhook, as ingest adds one."""
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
        """The rows of a statement of a test's own."""
        async with self.tables.connection() as connection:
            cursor = await connection.execute(sql.encode(), values)
            return await cursor.fetchall() if cursor.description else []

    async def deliveries(self, hook: str) -> list[tuple[Any, ...]]:
        """Kind, state, tries, status and error of all that a hook was told, oldest first."""
        return await self.ask(
            "select kind, state, tries, status, error from accounts.webhook_delivery"
            " where webhook = %(hook)s order by delivery",
            hook=hook,
        )

    async def states(self, hook: str) -> list[str]:
        """How each delivery of a hook stands."""
        return [row[1] for row in await self.deliveries(hook)]

    async def notice(self, hook: str) -> str | None:
        """Why a hook is off."""
        found = await self.ask(
            "select notice from accounts.webhook where webhook = %(hook)s", hook=hook
        )
        return found[0][0] if found else None

    async def test(self, hook: str, event: str) -> None:
        """A test, as ingest asks for one."""
        await self.ask(
            "insert into accounts.webhook_delivery (webhook, event, kind, problem, data, at)"
            " values (%(hook)s, %(event)s, 'test', '', '{}', now())",
            hook=hook,
            event=event,
        )

    @asynccontextmanager
    async def telling(
        self, lease_s: float = 60.0, *, is_local: bool = True
    ) -> AsyncIterator[Counted]:
        """A ranker that folds, and its webhooks, until the end of the block."""
        news, metrics = News(), Counted()
        async with (
            await connect(self.dsn, SCHEMA) as writing,
            running(ranker_of(self.log, ReadModels(writing), news)),
            pool(self.dsn, 1, 3, SCHEMA) as connections,
        ):
            rows = HookRows(connections)
            watching = Watching(self.log, rows, Reader(connections), news)
            await watching.know()
            post = Post(is_local=is_local, within_s=self.within_s)
            sending = Sending(rows, watching.standing, post.send, metrics, WAITS_S, lease_s)
            task = asyncio.create_task(until_first(watching.run(), sending.run()))
            try:
                await eventually(self.has_place)
                yield metrics
                assert not task.done(), task.result()
            finally:
                # Also after a failure: the pool waits for whoever uses it.
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def has_place(self) -> bool:
        """Whether somebody looks through the log."""
        return bool(await self.ask("select seq from accounts.webhook_place"))

    async def is_past(self, seq: int) -> bool:
        """Whether the log was looked through up to an event."""
        found = await self.ask("select seq from accounts.webhook_place")
        return int(found[0][0]) >= seq

    async def finish(self, *lives: Life) -> None:
        """Let submissions be taken in, run and measured."""
        await live(self.log, *lives)
