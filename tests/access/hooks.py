"""A webhook of each caller, and what ranker would send to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from psycopg_pool import AsyncConnectionPool

from ranker.postgres import SCHEMA, Reader
from ranker.webhooks.postgres import WebhookStore
from ranker.webhooks.watcher import WebhookWatcher
from shared import events, subjects
from shared.postgres import create_pool
from tests.access.embargoed_contest import EmbargoedContest
from tests.support.waits import eventually

URL = "https://hooks.example/in"
ENDED = "submission.ended"


class Delivery(NamedTuple):
    """A message to the webhook of a caller: its kind, its body, and the time of its event."""

    name: str
    kind: str
    data: str
    at: datetime


@dataclass
class Hooks:
    """The deliveries of all callers; none is sent."""

    pool: AsyncConnectionPool
    taken: int = 0

    async def take(self) -> list[Delivery]:
        """Return the deliveries that are new."""
        statement = (
            b"select delivery, webhook, kind, data, at from accounts.webhook_delivery"
            b" where delivery > %(after)s order by delivery"
        )
        async with self.pool.connection() as connection:
            rows = await (await connection.execute(statement, {"after": self.taken})).fetchall()
        self.taken = max([self.taken, *(row[0] for row in rows)])
        return [Delivery(*row[1:]) for row in rows]

    async def take_until_ended(self, name: str, number: int) -> list[Delivery]:
        """Return the new deliveries, once there is that of the end of a caller's submission."""
        taken: list[Delivery] = []

        async def has_ended() -> bool:
            taken.extend(await self.take())
            return any(
                it.name == name and it.kind == ENDED and f'"number":{number}' in it.data
                for it in taken
            )

        await eventually(has_ended)
        return taken


async def _add(contest: EmbargoedContest, pool: AsyncConnectionPool, name: str) -> None:
    """Add a webhook for everything, named as its owner, as ingest does."""
    account = contest.account(name)
    fact = events.WebhookAdded(account=account, problems=[], kinds=list(events.WEBHOOK_KINDS))
    await contest.say(subjects.webhook(name), fact)
    values = {"name": name, "account": account, "url": URL}
    statement = (
        b"insert into accounts.webhook (webhook, account, url, secret, kinds, problems)"
        b" values (%(name)s, %(account)s, %(url)s, 'a-secret-of-sixteen', '{}', '{}')"
    )
    async with pool.connection() as connection:
        await connection.execute(statement, values)


@asynccontextmanager
async def open_hooks(contest: EmbargoedContest) -> AsyncIterator[Hooks]:
    """Give every account a webhook, and let ranker find what to send."""
    async with create_pool(contest.dsn, 1, 3, SCHEMA) as pool:
        for name, person in contest.ways.people.items():
            if person.account:
                await _add(contest, pool, name)
        await contest.settle()
        progress = contest.ways.reads.progress
        watcher = WebhookWatcher(contest.log, WebhookStore(pool), Reader(pool), progress)
        await watcher.load_subscriptions()
        watching = asyncio.create_task(watcher.run())
        try:
            yield Hooks(pool)
            assert not watching.done(), watching.result()
        finally:
            # Also after a failure: the pool waits for its users.
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
