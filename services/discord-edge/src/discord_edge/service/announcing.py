"""Tells everybody what the log says from now on: ranked results, podiums, problems; each once."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from discord_edge.domain import news
from discord_edge.domain.news import ACTIVE, HIDDEN, Entry, Facts, Ranking
from discord_edge.service.boards import Boards
from discord_edge.service.following import persist
from discord_edge.service.ports import Api
from discord_edge.service.public import Ledger, Moved, Told, Town
from shared import subjects
from shared.errors import Failed, Refused
from shared.event_log import Recorded
from shared.events import (
    Fact,
    LeaderboardArchived,
    LeaderboardChanged,
    PodiumChanged,
    ProblemPublished,
    RecordSet,
    SubmissionFinished,
    SubmissionReceived,
)
from shared.telling.answers import Answer, read
from shared.wire import UnknownEvent

CONSUMER, TARGET = "discord-edge-news", "discord"
AGGS = ("submission.>", "ranking.>", "problem.>")
ENTRIES_MAX = 100
# At most one message on a podium in that time; what comes together is told together.
PODIUM_EVERY_S, PODIUM_QUIET_S = 600.0, 3.0
TICK_S = 1.0
BEHIND_S_MAX, STEP_S = 10.0, 0.2

T = TypeVar("T", bound=msgspec.Struct)
_log = logging.getLogger(__name__)


def mark(name: str) -> str:
    """The nonce of what is said under a name."""
    return hashlib.sha256(name.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Announcing:
    """Turns events into what everybody reads; of closed leaderboards it tells nothing.

    What it tells is asked for as nobody in particular: what nobody may see, it cannot tell.
    """

    api: Api
    boards: Boards
    town: Town
    ledger: Ledger
    has_podiums: bool = False

    async def act(self, recorded: Recorded, _nonce: str) -> None:
        """Tell of one event, however long Discord is away. Errors: Refused."""
        try:
            fact = recorded.fact
        except UnknownEvent as unknown:
            raise Refused("unknown_event", str(unknown)) from unknown
        await persist(lambda: self._told(recorded, fact))

    async def _told(self, recorded: Recorded, fact: Fact) -> None:
        agg = recorded.envelope.agg
        identity = subjects.last_token(agg)
        match fact:
            case SubmissionReceived(mode="ranked", baseline=""):
                await self.ledger.expect(identity, fact.problem, fact.gpu)
            case SubmissionFinished(is_eligible=True):
                await self._result(identity, recorded.seq)
            case RecordSet() | PodiumChanged() if self.has_podiums:
                is_record = isinstance(fact, RecordSet)
                slug = agg.split(".")[1]
                await self.ledger.moved(Moved(slug, identity, recorded.seq, is_record))
            case ProblemPublished() | LeaderboardChanged() | LeaderboardArchived():
                await self._problem(identity, recorded.seq)

    async def tend(self) -> None:
        """Tell of podiums, and of what closed by the clock, for ever."""
        while True:
            await asyncio.sleep(TICK_S)
            try:
                for moved in await self.ledger.due(PODIUM_EVERY_S, PODIUM_QUIET_S):
                    await self._podium(moved)
                for slug in await self._over():
                    await self._problem(slug, 0)
            except (Failed, Refused) as trouble:
                _log.warning("what changed is told later: %s", trouble)

    async def _result(self, submission: str, seq: int) -> None:
        place = await self.ledger.expected(submission)
        if place is None:
            return
        board = await self._seen(seq, Ranking, "leaderboards", *place)
        if board is None:
            return
        for entry in board.items:
            if entry.submission == submission:
                await self._line(entry, board)

    async def _line(self, entry: Entry, board: Ranking) -> None:
        name, text = f"line:{entry.submission}", news.line(entry, board)
        sign = f"· #{entry.number}"
        message = await self._once(name, lambda: self.town.say(text, mark(name), sign))
        try:
            called = news.thread_name(entry, board)
            thread = await self._once(
                f"thread:{entry.submission}", lambda: self.town.begin(message, called)
            )
            inner, said = f"detail:{entry.submission}", news.detail(entry)
            await self._once(inner, lambda: self.town.tell(thread, said, mark(inner)))
        except Refused as refused:
            _log.warning("the line on #%d has no thread: %s", entry.number, refused.reason)

    async def _once(self, name: str, make: Callable[[], Awaitable[str]]) -> str:
        held = await self.ledger.made(name)
        if held is None:
            held = await make()
            await self.ledger.keep(name, held)
        return held

    async def _podium(self, moved: Moved) -> None:
        board = await self._seen(moved.seq, Ranking, "leaderboards", moved.problem, moved.gpu)
        if board and board.items:
            text = news.podium(board, is_record=moved.is_record)
            name = f"podium:{moved.problem}:{moved.gpu}:{moved.seq}"
            await self._once(name, lambda: self.town.say(text, mark(name), ""))
        await self.ledger.told(moved)

    async def _problem(self, slug: str, seq: int) -> None:
        """Let a problem's post say how it is, and say what changed."""
        told = await self.ledger.board(slug)
        facts = await self._seen(seq, Facts, "problems", slug)
        if facts is None and told is not None:
            facts = msgspec.structs.replace(told.facts, state=HIDDEN, statement="")
        if facts is None or (told is None and facts.state != ACTIVE):
            return
        if told is None:
            await self._open(facts)
            return
        said = news.changes(told.facts, facts)
        if said:
            # The same may change to and fro: an event, or a deadline, makes it one of a kind.
            name = f"change:{slug}:{seq}:{mark(f'{said}{facts}')}"
            await self._change(told.thread, facts, said, name)

    async def _open(self, facts: Facts) -> None:
        thread = await self.town.open(facts.slug, news.post(facts))
        await self.ledger.set_board(facts.slug, Told(thread, facts))

    async def _change(self, thread: str, facts: Facts, said: str, name: str) -> None:
        try:
            # A post that nobody wrote in for long is closed; a message opens it.
            await self._once(name, lambda: self.town.tell(thread, said, mark(name)))
            await self.town.change(thread, news.post(facts))
        except Refused as refused:
            _log.warning("the post of %s is made anew: %s", facts.slug, refused.reason)
            await self._open(facts)
            return
        await self.ledger.set_board(facts.slug, Told(thread, facts))

    async def _over(self) -> list[str]:
        """Problems whose posts say that they are open, which they are no longer."""
        known = self.boards.known
        posts = await self.ledger.boards()
        return [
            slug
            for slug, facts in posts.items()
            if facts.state == ACTIVE and slug in known and known[slug].state != ACTIVE
        ]

    async def _seen(self, seq: int, kind: type[T], *path: str) -> T | None:
        """What everybody may see, as of an event or later; None of what nobody may.

        Errors: Failed.
        """
        await self._caught_up(seq)
        try:
            answer = await self.api.get(None, *path, **_limit(path))
        except Refused as refused:
            if refused.retry_after_s is not None:
                raise Failed(f"asked too often: {refused.reason}") from refused
            return None
        return read(answer, kind)

    async def _caught_up(self, seq: int) -> None:
        """Wait until what is read has the event in it. Errors: Failed."""
        until = time.monotonic() + BEHIND_S_MAX
        while int((await self._newest())["as_of"]) < seq:
            if time.monotonic() > until:
                raise Failed(f"what is read is not as far as event {seq}")
            await asyncio.sleep(STEP_S)

    async def _newest(self) -> Answer:
        try:
            return await self.api.get(None, "problems", limit=1)
        except Refused as refused:
            raise Failed(f"problems cannot be listed: {refused.reason}") from refused


def _limit(path: tuple[str, ...]) -> dict[str, int]:
    return {"limit": ENTRIES_MAX} if path[0] == "leaderboards" else {}
