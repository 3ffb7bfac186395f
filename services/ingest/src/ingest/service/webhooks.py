"""Webhooks: added, listed, tried and removed by whose they are; ranker tells them of events."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from ingest.domain import webhooks
from ingest.domain.callers import Caller
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed
from ingest.service.tries import Tries
from shared import subjects
from shared.addresses import target
from shared.clock import new_id
from shared.errors import Failed, Refused

WEBHOOKS_MAX = 20
TESTS = "30/hour"
SECRET = "wbhook_"  # noqa: S105  (what secrets begin with)
SECRET_BYTES = 32


class Wish(NamedTuple):
    """A webhook that is wanted; its secret is a fresh one unless it is given."""

    url: str
    kinds: Sequence[str]
    problems: Sequence[str] = ()
    secret: str | None = None


class Row(NamedTuple):
    """A webhook as its owner sees it; `notice` says why it is off, None while it is on."""

    id: str
    url: str
    kinds: Sequence[str]
    problems: Sequence[str]
    created_at: datetime
    off_at: datetime | None = None
    notice: str | None = None


class Delivery(NamedTuple):
    """What became of one event for one webhook."""

    number: int
    event: str
    kind: str
    state: str
    tries: int
    created_at: datetime
    tried_at: datetime | None
    next_at: datetime | None
    took_ms: int | None
    status: int | None
    error: str | None


class WebhookRows(Protocol):
    """Where webhooks lead, with what they are signed, and what they were told. All raise Failed."""

    async def add(self, account: str, id_: str, wish: Wish, most: int) -> bool:
        """Keep one that is not in the log yet; False if the account has so many."""
        ...

    async def keep(self, id_: str, seq: int) -> None:
        """It is in the log, so it is told of what comes after."""
        ...

    async def forget(self, id_: str) -> None:
        """Keep nothing of one, its deliveries neither; harmless to repeat."""
        ...

    async def listed(self, account: str) -> Sequence[Row]:
        """Those of an account that are in the log, oldest first."""
        ...

    async def test(self, id_: str, event: str) -> None:
        """Have it told that this is a test, once."""
        ...

    async def deliveries(self, id_: str, before: int, limit: int) -> Sequence[Delivery]:
        """What it was told, newest first, from before a number."""
        ...


@dataclass(frozen=True)
class Webhooks:
    """The commands about webhooks, each for whose it is; `is_local` ones may be on this machine."""

    decisions: Decisions
    feed: AccessFeed
    rows: WebhookRows
    is_local: bool = False
    tests: Tries = field(default_factory=lambda: Tries(TESTS, "tests of this webhook"))

    async def add(self, caller: Caller, wish: Wish) -> tuple[Row, str]:
        """Tell an address from now on; with its secret, which nobody can show again.

        Errors: Refused; Failed.
        """
        target(wish.url, is_local=self.is_local)
        self._check_problems(caller, wish.problems)
        secret = wish.secret or SECRET + secrets.token_urlsafe(SECRET_BYTES)
        id_ = new_id()
        kept = wish._replace(secret=secret)
        if not await self.rows.add(caller.id, id_, kept, WEBHOOKS_MAX):
            what = f"you have {WEBHOOKS_MAX} webhooks, which is the most: remove one"
            raise Refused("too_many_webhooks", what)
        command = webhooks.Add(caller.id, wish.problems, wish.kinds)
        async with self._undone(id_):
            made = await self._decide(id_, command, caller.actor)
            assert made.seq is not None, "an added webhook is an event"
            await self.rows.keep(id_, made.seq)
        return await self.one(caller, id_), secret

    async def listed(self, caller: Caller) -> Sequence[Row]:
        """One's own; to a token that is limited to problems, of these alone. Errors: Failed."""
        rows = [] if caller.account is None else await self.rows.listed(caller.account)
        if not caller.problems:
            return rows
        return [row for row in rows if row.problems and caller.problems.issuperset(row.problems)]

    async def one(self, caller: Caller, id_: str) -> Row:
        """One of one's own. Errors: Refused `unknown_webhook`; Failed."""
        for row in await self.listed(caller):
            if row.id == id_:
                return row
        raise webhooks.unknown()

    async def remove(self, caller: Caller, id_: str) -> Made:
        """Tell it nothing any more, and keep nothing of it. Errors: Refused; Failed."""
        await self.one(caller, id_)
        made = await self._decide(
            id_, webhooks.Remove(caller.id, "removed by its owner"), caller.actor
        )
        await self.rows.forget(id_)
        return made

    async def test(self, caller: Caller, id_: str) -> str:
        """Have it told that this is a test; the id under which. Errors: Refused; Failed."""
        await self.one(caller, id_)
        self.tests.take(id_)
        event = new_id()
        await self.rows.test(id_, event)
        return event

    async def deliveries(
        self, caller: Caller, id_: str, before: int, limit: int
    ) -> Sequence[Delivery]:
        """What it was told, newest first. Errors: Refused; Failed."""
        await self.one(caller, id_)
        return await self.rows.deliveries(id_, before, limit)

    def _check_problems(self, caller: Caller, problems: Sequence[str]) -> None:
        if caller.problems and not problems:
            what = f"your token is for {', '.join(sorted(caller.problems))} alone: name problems"
            raise Refused("scope_missing", what, "problems")
        access = self.feed.now()
        for slug in problems:
            access.check_sees(caller, slug)

    @asynccontextmanager
    async def _undone(self, id_: str) -> AsyncIterator[None]:
        """Keep nothing of what did not come into the log, or perhaps did: it is told nothing."""
        try:
            yield
        except (Refused, Failed):
            await self.rows.forget(id_)
            raise

    async def _decide(self, id_: str, command: webhooks.Add | webhooks.Remove, actor: str) -> Made:
        by = By(actor, id_)
        return await self.decisions.make(subjects.webhook(id_), webhooks.webhooks, command, by)
