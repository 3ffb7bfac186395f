"""The tables of webhooks and their outbox, in the schema `accounts`, beside the read models."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from ranker.webhooks.subscriptions import Payload, Webhook
from shared.postgres import CheckpointConflict, borrow_connection, load_statements

NAME = "ranker-webhooks"
DAYS_MAX = 30
DELIVERIES_MAX = 1000
FILE = "hooks.sql"
TEST = "test"
# Requests in flight at once for the webhooks of one account.
OF_ACCOUNT_MAX = 4

Row = dict[str, Any]


class WatchPosition(NamedTuple):
    """How far the log was read, and when the clock was last checked for deadlines."""

    seq: int
    looked_at: datetime


class Delivery(NamedTuple):
    """A claimed delivery: what to send, where, and the number of the try."""

    delivery: int
    webhook: str
    account: str
    url: str
    secret: str
    event: str
    kind: str
    problem: str
    data: str
    at: datetime
    tries: int
    is_off: bool


class DeliveryOutcome(NamedTuple):
    """The outcome of one try; without an error it succeeded."""

    status: int | None
    error: str | None
    took_ms: int


@dataclass(frozen=True)
class WebhookStore:
    """The tables of webhooks; unqualified names are the read models of the pool's schema."""

    pool: AsyncConnectionPool
    _due: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_until_due(self) -> None:
        """Wait until this process has stored a delivery, or another try that it scheduled is due.

        Ingest stores deliveries, too, and so did an earlier process.
        """
        await self._due.wait()
        self._due.clear()

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """Run one statement and return its rows. Raises Failed."""
        return await self._run_all((statement, values))

    async def place(self, seq: int, at: datetime) -> WatchPosition:
        """The position to continue from; the first time, the given one. Raises Failed."""
        rows = await self.rows("place", name=NAME, seq=seq, at=at)
        return WatchPosition(**rows[0])

    async def store_deliveries(
        self, after: int, to: WatchPosition, deliveries: Sequence[tuple[Webhook, Payload]]
    ) -> None:
        """Store deliveries and move the position in one transaction. Raises Fenced or Failed."""
        move = {"name": NAME, "after": after, "last": to.seq, "at": to.looked_at}
        lists = {
            "webhooks": [webhook.id for webhook, _ in deliveries],
            "events": [payload.event for _, payload in deliveries],
            "kinds": [payload.kind for _, payload in deliveries],
            "problems": [payload.problem for _, payload in deliveries],
            "datas": [msgspec.json.encode(payload.data).decode() for _, payload in deliveries],
            "ats": [payload.at for _, payload in deliveries],
        }
        async with self._transaction() as connection:
            if not await _execute(connection, "move", move):
                raise CheckpointConflict(NAME, after)
            if deliveries:
                await _execute(connection, "tell", lists)
        if deliveries:
            self._due.set()

    async def claim(
        self, busy: list[str], full: list[str], seq: int, limit: int, lease_s: float
    ) -> list[Delivery]:
        """Claim due deliveries of webhooks that were added up to `seq`. Raises Failed.

        `busy` are webhooks with a request in flight, `full` accounts with the maximum of them.
        """
        bounds = {"of_account": OF_ACCOUNT_MAX, "limit": limit, "lease_s": lease_s}
        rows = await self.rows("claim", busy=busy, full=full, seq=seq, **bounds)
        return [Delivery(**row) for row in rows]

    async def record_success(self, claimed: Delivery, outcome: DeliveryOutcome) -> None:
        """Record a success; a delivered test switches its webhook on. Raises Failed."""
        steps = [("ended", _end_values(claimed, "delivered", outcome))]
        if claimed.kind == TEST:
            steps.insert(0, ("switch_on", {"webhook": claimed.webhook}))
        await self._run_all(*steps)

    async def schedule_retry(
        self, claimed: Delivery, outcome: DeliveryOutcome, wait_s: float
    ) -> None:
        """Schedule another try. Raises Failed."""
        values = _end_values(claimed, "pending", outcome) | {"wait_s": wait_s}
        await self._run_all(("later", values))
        asyncio.get_running_loop().call_later(wait_s, self._due.set)

    async def record_failure(
        self, claimed: Delivery, outcome: DeliveryOutcome, notice: str | None
    ) -> None:
        """Give up; with a notice, also switch off the webhook. Raises Failed."""
        steps = [("ended", _end_values(claimed, "failed", outcome))]
        if notice is not None:
            webhook_key: Row = {"webhook": claimed.webhook}
            steps += [("switch_off", webhook_key | {"notice": notice}), ("drop_all", webhook_key)]
        await self._run_all(*steps)

    async def record_drop(self, claimed: Delivery, reason: str) -> None:
        """Record that a delivery is not sent after all. Raises Failed."""
        outcome = DeliveryOutcome(None, reason, 0)
        await self._run_all(("ended", _end_values(claimed, "dropped", outcome)))

    async def delete_old(self) -> None:
        """Keep 30 days of a webhook's history, at most its newest thousand. Raises Failed."""
        await self._run_all(("forget_old", {"days": DAYS_MAX, "most": DELIVERIES_MAX}))

    async def count_pending(self) -> int:
        """The number of pending deliveries. Raises Failed."""
        return int((await self.rows("pending"))[0]["pending"])

    async def _run_all(self, *steps: tuple[str, Row]) -> list[Row]:
        """Run statements in one transaction; return the rows of the last."""
        rows: list[Row] = []
        async with self._transaction() as connection:
            for name, values in steps:
                rows = await _execute(connection, name, values)
        return rows

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        borrowed = borrow_connection(self.pool, "the webhooks cannot be reached")
        async with borrowed as connection, connection.transaction():
            yield connection


async def _execute(connection: AsyncConnection[Any], name: str, values: Row) -> list[Row]:
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(load_statements("ranker.webhooks", FILE)[name].encode(), values)
    return await cursor.fetchall() if cursor.description else []


def _end_values(claimed: Delivery, state: str, outcome: DeliveryOutcome) -> Row:
    delivery_values = {"delivery": claimed.delivery, "tries": claimed.tries, "state": state}
    return delivery_values | outcome._asdict()
