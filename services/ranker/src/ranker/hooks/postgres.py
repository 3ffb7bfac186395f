"""Where webhooks lead and what is to be told them, in the schema accounts; read models beside."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from ranker.hooks.standing import Hook, Telling
from shared.postgres import Fenced, borrow_connection, statements

NAME = "ranker-webhooks"
DAYS_MAX = 30
DELIVERIES_MAX = 1000
FILE = "hooks.sql"
TEST = "test"
# So many of one account's hooks may be waited for at once.
OF_ACCOUNT_MAX = 4

Row = dict[str, Any]


class Place(NamedTuple):
    """How far the log was looked through, and at what time the clock."""

    seq: int
    looked_at: datetime


class Letter(NamedTuple):
    """A delivery in hand: what is sent, where to, and for which time."""

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


class Outcome(NamedTuple):
    """What came of one try; no error is success."""

    status: int | None
    error: str | None
    took_ms: int


class Busy(NamedTuple):
    """Which hooks have one in hand, and which accounts have enough."""

    hooks: Sequence[str]
    accounts: Sequence[str]


@dataclass(frozen=True)
class HookRows:
    """The tables of webhooks; unqualified names are the read models of the pool's schema."""

    pool: AsyncConnectionPool

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """The rows of one statement. Errors: Failed."""
        return await self._all((statement, values))

    async def place(self, seq: int, at: datetime) -> Place:
        """Where to read on; from here on, the first time. Errors: Failed."""
        found = await self.rows("place", name=NAME, seq=seq, at=at)
        return Place(**found[0])

    async def tell(self, after: int, to: Place, told: Sequence[tuple[Hook, Telling]]) -> None:
        """Keep what is to be told, and move the place with it. Errors: Fenced; Failed."""
        move = {"name": NAME, "after": after, "last": to.seq, "at": to.looked_at}
        lists = {
            "webhooks": [hook.id for hook, _ in told],
            "events": [one.event for _, one in told],
            "kinds": [one.kind for _, one in told],
            "problems": [one.problem for _, one in told],
            "datas": [msgspec.json.encode(one.data).decode() for _, one in told],
            "ats": [one.at for _, one in told],
        }
        async with self._transaction() as connection:
            if not await _said(connection, "move", move):
                raise Fenced(NAME, after)
            if told:
                await _said(connection, "tell", lists)

    async def claim(self, busy: Busy, seq: int, limit: int, lease_s: float) -> list[Letter]:
        """Begin deliveries that are due, of hooks that were added up to `seq`. Errors: Failed."""
        rows = await self.rows(
            "claim",
            busy=list(busy.hooks),
            full=list(busy.accounts),
            seq=seq,
            of_account=OF_ACCOUNT_MAX,
            limit=limit,
            lease_s=lease_s,
        )
        return [Letter(**row) for row in rows]

    async def delivered(self, letter: Letter, outcome: Outcome) -> None:
        """It is told; a test that was taken switches its hook on. Errors: Failed."""
        steps = [("ended", _ending(letter, "delivered", outcome))]
        if letter.kind == TEST:
            steps.insert(0, ("switch_on", {"webhook": letter.webhook}))
        await self._all(*steps)

    async def later(self, letter: Letter, outcome: Outcome, wait_s: float) -> None:
        """It is tried again after a while. Errors: Failed."""
        await self._all(("later", _ending(letter, "pending", outcome) | {"wait_s": wait_s}))

    async def failed(self, letter: Letter, outcome: Outcome, notice: str | None) -> None:
        """It is given up; with a notice, its hook is switched off. Errors: Failed."""
        steps = [("ended", _ending(letter, "failed", outcome))]
        if notice is not None:
            hook: Row = {"webhook": letter.webhook}
            steps += [("switch_off", hook | {"notice": notice}), ("drop_all", hook)]
        await self._all(*steps)

    async def dropped(self, letter: Letter, why: str) -> None:
        """It is not told after all. Errors: Failed."""
        await self._all(("ended", _ending(letter, "dropped", Outcome(None, why, 0))))

    async def forget_old(self) -> None:
        """Keep 30 days of a hook's history, and the newest thousand of it. Errors: Failed."""
        await self._all(("forget_old", {"days": DAYS_MAX, "most": DELIVERIES_MAX}))

    async def pending(self) -> int:
        """How many deliveries wait. Errors: Failed."""
        return int((await self.rows("pending"))[0]["pending"])

    async def _all(self, *steps: tuple[str, Row]) -> list[Row]:
        """Statements in one transaction; the rows of the last."""
        rows: list[Row] = []
        async with self._transaction() as connection:
            for name, values in steps:
                rows = await _said(connection, name, values)
        return rows

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        what = "the webhooks cannot be reached"
        async with (
            borrow_connection(self.pool, what) as connection,
            connection.transaction(),
        ):
            yield connection


async def _said(connection: AsyncConnection[Any], name: str, values: Row) -> list[Row]:
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(statements("ranker.hooks", FILE)[name].encode(), values)
    return await cursor.fetchall() if cursor.description else []


def _ending(letter: Letter, state: str, outcome: Outcome) -> Row:
    own = {"delivery": letter.delivery, "tries": letter.tries, "state": state}
    return own | outcome._asdict()
