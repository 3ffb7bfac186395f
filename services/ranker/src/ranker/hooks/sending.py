"""Sends what is due, many at once, one of each webhook; what fails comes again, ever later."""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ranker.hooks.metrics import DELIVERED, DROPPED, FAILED, RETRIED
from ranker.hooks.postgres import OF_ACCOUNT_MAX, TEST, Busy, HookRows, Letter, Outcome
from ranker.hooks.standing import Standing
from shared.clock import now

log = logging.getLogger(__name__)

# Between the eight tries of an event, a day in all.
WAITS_S = (60.0, 300.0, 900.0, 3_600.0, 10_800.0, 25_200.0, 45_540.0)
AT_ONCE_MAX = 100
# A try of 10 s whose end nobody wrote down is lost.
LEASE_S = 30.0
LOOK_S = 0.25
TIDY_S = 60.0
FORGET_EVERY = 60
FIRST = asyncio.FIRST_COMPLETED


class Watched(Protocol):
    """What is counted."""

    def tried(self, outcome: str) -> None:
        """A try is over."""
        ...

    def switched_off(self) -> None:
        """A webhook took nothing for too long."""
        ...

    def pending(self, deliveries: int) -> None:
        """So many wait."""
        ...


@dataclass
class Sending:
    """Hands letters to `post`, which may take its time; one that hangs holds up no other."""

    rows: HookRows
    standing: Standing
    post: Callable[[Letter], Awaitable[Outcome]]
    metrics: Watched
    waits_s: Sequence[float] = WAITS_S
    lease_s: float = LEASE_S
    clock: Callable[[], datetime] = now
    _tasks: dict["asyncio.Task[None]", Letter] = field(default_factory=dict)

    async def run(self) -> None:
        """Send for ever. Errors: Failed; what was in hand is then tried again later."""
        tidying = asyncio.create_task(self._tidy())
        try:
            while True:
                await self._begin()
                await asyncio.wait({*self._tasks, tidying}, timeout=LOOK_S, return_when=FIRST)
                for task in [one for one in self._tasks if one.done()]:
                    del self._tasks[task]
                    task.result()
                if tidying.done():
                    tidying.result()
        finally:
            tasks = [tidying, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self) -> None:
        """Take in hand what is due, as far as there is room."""
        room = AT_ONCE_MAX - len(self._tasks)
        if room <= 0:
            return
        accounts = Counter(letter.account for letter in self._tasks.values())
        full = [one for one, count in accounts.items() if count >= OF_ACCOUNT_MAX]
        busy = Busy([letter.webhook for letter in self._tasks.values()], full)
        for letter in await self.rows.claim(busy, self.standing.seq, room, self.lease_s):
            self._tasks[asyncio.create_task(self._deliver(letter))] = letter

    async def _deliver(self, letter: Letter) -> None:
        if why := self._hindrance(letter):
            await self.rows.dropped(letter, why)
            self.metrics.tried(DROPPED)
            return
        outcome = await self.post(letter)
        if outcome.error is None:
            await self.rows.delivered(letter, outcome)
            self.metrics.tried(DELIVERED)
        else:
            await self._failed(letter, outcome)

    def _hindrance(self, letter: Letter) -> str | None:
        """Why a letter is not sent after all: much may have happened since it was written."""
        at = self.clock()
        if letter.webhook not in self.standing.hooks:
            return "the webhook was removed"
        if self.standing.is_banned(letter.account, at):
            return "its owner is banned"
        if not self.standing.may_know(letter.account, letter.problem, at):
            return "its owner does not see the leaderboard any more"
        if letter.is_off and letter.kind != TEST:
            return "the webhook was switched off"
        return None

    async def _failed(self, letter: Letter, outcome: Outcome) -> None:
        if letter.kind == TEST:
            await self.rows.failed(letter, outcome, None)
            self.metrics.tried(FAILED)
        elif letter.tries <= len(self.waits_s):
            await self.rows.later(letter, outcome, self.waits_s[letter.tries - 1])
            self.metrics.tried(RETRIED)
        else:
            await self.rows.failed(letter, outcome, _notice(letter, outcome))
            self.metrics.tried(FAILED)
            self.metrics.switched_off()
            log.info("webhook %s is switched off", letter.webhook)

    async def _tidy(self) -> None:
        """Once a minute count what waits, and once an hour forget what is old."""
        for minute in itertools.count():
            if minute % FORGET_EVERY == 0:
                await self.rows.forget_old()
            self.metrics.pending(await self.rows.pending())
            await asyncio.sleep(TIDY_S)


def _notice(letter: Letter, outcome: Outcome) -> str:
    tried = f"{letter.kind} {letter.event} was tried {letter.tries} times, at last: {outcome.error}"
    return f"{tried}; a test that is taken switches the webhook on again"
