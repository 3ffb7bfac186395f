"""Tells everybody what the log says from now on: ranked results, podiums, problems; each once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from discord_edge.domain import letters, news
from discord_edge.domain.letters import Owner
from discord_edge.domain.news import ACTIVE, HIDDEN, Entry, Facts, Ranking, Rejudge
from discord_edge.domain.report import public_times
from discord_edge.service.asof import AsOf
from discord_edge.service.boards import Boards
from discord_edge.service.following import persist
from discord_edge.service.letters import Letters
from discord_edge.service.once import Saying, mark, once
from discord_edge.service.public import Ledger, Moved, Told, Town
from shared import subjects
from shared.errors import Failed, Refused
from shared.event_log import Recorded
from shared.events import (
    AppealDecided,
    BanAppealDecided,
    Fact,
    LeaderboardArchived,
    LeaderboardChanged,
    PodiumChanged,
    ProblemPublished,
    RecordSet,
    RejudgeApplied,
    SubmissionDisqualified,
    SubmissionFinished,
    SubmissionHeld,
    SubmissionRejected,
    SubmissionReleased,
    SubmissionRestored,
)
from shared.telling.answers import Submission
from shared.wire import UnknownEvent

CONSUMER, TARGET = "discord-edge-news", "discord"
AGGS = ("submission.>", "moderation.>", "ranking.>", "rejudge.>", "problem.>", "account.>")
ENTRIES_MAX = 100
# At most one message on a podium in that time; what comes together is told together.
PODIUM_EVERY_S, PODIUM_QUIET_S = 600.0, 3.0
TICK_S = 1.0
LINE = "ranked_line"

_log = logging.getLogger(__name__)
OF_SUBMISSIONS = (
    *(SubmissionFinished, SubmissionRejected, SubmissionHeld, SubmissionReleased),
    *(SubmissionDisqualified, SubmissionRestored, AppealDecided),
)


@dataclass(frozen=True)
class Announcing:
    """Turns events into what everybody reads; of closed leaderboards it tells nothing.

    What it tells is asked for as nobody in particular: what nobody may see, it cannot tell.
    """

    asof: AsOf
    boards: Boards
    town: Town
    ledger: Ledger
    saying: Saying
    letters: Letters
    has_podiums: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

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
            case PodiumChanged(is_by_run=False):
                pass  # It is seen on the leaderboard; nobody did anything that is news.
            case RecordSet() | PodiumChanged() if self.has_podiums:
                before = fact.before if isinstance(fact, PodiumChanged) else None
                is_record = isinstance(fact, RecordSet)
                slug = agg.split(".")[1]
                await self.ledger.moved(Moved(slug, identity, recorded.seq, is_record, before))
            case ProblemPublished() | LeaderboardChanged() | LeaderboardArchived():
                await self._problem(identity, recorded.seq)
            case RejudgeApplied(reason=reason):
                async with self.turn:
                    await self._rejudged(identity, recorded.seq, reason)
            case BanAppealDecided():
                await self.letters.answered(recorded, identity, fact)
            case _ if isinstance(fact, OF_SUBMISSIONS):
                await self._submission(identity, recorded)

    async def tend(self) -> None:
        """Tell of podiums, and of what closed or soon closes by the clock, for ever."""
        while True:
            await asyncio.sleep(TICK_S)
            try:
                for moved in await self.ledger.due(PODIUM_EVERY_S, PODIUM_QUIET_S):
                    await self._podium(moved)
                for slug in await self._over():
                    await self._problem(slug, 0)
                await self.letters.tend()
            except (Failed, Refused) as trouble:
                _log.warning("what changed is told later: %s", trouble)

    async def _submission(self, identity: str, recorded: Recorded) -> None:
        """Tell its owner what is for them, and everybody what is for everybody."""
        owner = await self.asof.asked(Owner, "edge", "submissions", identity)
        if owner is None:
            return
        await self.letters.of(recorded, owner)
        fact = recorded.fact
        is_back = isinstance(fact, SubmissionReleased | SubmissionRestored) or (
            # An accepted appeal lifts what it is against, and no other event says so.
            isinstance(fact, AppealDecided) and fact.is_accepted
        )
        is_valid = isinstance(fact, SubmissionFinished) and fact.is_eligible and not fact.is_held
        if owner.is_ranked and (is_back or is_valid):
            score_us = fact.score_us if isinstance(fact, SubmissionFinished) else None
            await self._result(owner, recorded.seq, score_us)

    async def _result(self, owner: Owner, seq: int, score_us: float | None) -> None:
        """Tell of a ranked result: that it counts, and whom it is ahead of now."""
        path = ("leaderboards", owner.problem, owner.gpu)
        board = await self.asof.seen(seq, Ranking, *path, limit=ENTRIES_MAX)
        entries = board.items if board is not None else []
        own = [one for one in entries if one.account == owner.participant_id]
        if board is None or not own:
            return
        [entry] = own[:1]
        is_told = owner.preferences.get(LINE) != letters.OFF
        if entry.number == owner.number:
            if is_told:
                await self._line(entry, board)
            await self.letters.overtaken(entry, board)
        elif is_told and score_us is not None:
            text = news.slower(entry, board, owner.number, score_us)
            await self._say(f"line:{owner.number}", await self.town.lines(), text)

    async def _line(self, entry: Entry, board: Ranking) -> None:
        lines, text = await self.town.lines(), news.line(entry, board)
        message = await self._say(f"line:{entry.submission}", lines, text)
        try:
            called = news.thread_name(entry, board)
            thread = await self._once(
                f"thread:{entry.submission}", lambda: self.town.begin(message, called)
            )
            said = news.detail(entry) + await self._times(entry)
            await self._say(f"detail:{entry.submission}", thread, said)
        except Refused as refused:
            _log.warning("the line on #%d has no thread: %s", entry.number, refused.reason)

    async def _times(self, entry: Entry) -> str:
        """The timed cases of an entry, as far as everybody is told them. Errors: Failed."""
        found = await self.asof.asked(Submission, "submissions", str(entry.number))
        table = public_times(found) if found is not None else ""
        return f"\n{table}" if table else ""

    async def _once(self, name: str, make: Callable[[], Awaitable[str]]) -> str:
        return await once(self.ledger, name, make)

    async def _say(self, name: str, room: str, text: str) -> str:
        """The id of what everybody reads in a room under a name. Errors: Refused; Failed."""

        async def send(text: str) -> str:
            return await self.town.tell(room, text, mark(name))

        return await self._once(name, lambda: self.saying.say(name, room, text, send))

    async def _podium(self, moved: Moved) -> None:
        path = ("leaderboards", moved.problem, moved.gpu)
        board = await self.asof.seen(moved.seq, Ranking, *path, limit=ENTRIES_MAX)
        facts = await self.asof.asked(Facts, "problems", moved.problem)
        if board and board.items and facts and not facts.is_calm:
            text = news.podium(board, moved.before, is_record=moved.is_record)
            name = f"podium:{moved.problem}:{moved.gpu}:{moved.seq}"
            try:
                if text:
                    await self.ledger.telling(moved)
                    await self._say(name, await self.town.lines(), text)
            except Refused as refused:
                # As a line that is refused: what is said for ever in vain keeps the rest waiting.
                _log.warning("%s is not told: %s", name, refused.reason)
        await self.ledger.told(moved)

    async def _problem(self, slug: str, seq: int) -> None:
        """Let a problem's post say how it is, and say what changed."""
        # The clock and an event may come to the same at once.
        async with self.turn:
            await self._compared(slug, seq)

    async def _compared(self, slug: str, seq: int) -> None:
        told = await self.ledger.board(slug)
        facts = await self.asof.seen(seq, Facts, "problems", slug)
        if facts is None and told is not None:
            facts = msgspec.structs.replace(told.facts, state=HIDDEN, statement="")
        if facts is None or (told is None and facts.state != ACTIVE):
            return
        if told is None:
            await self._open(facts, is_first=True)
            return
        facts = msgspec.structs.replace(facts, rejudge=told.facts.rejudge)
        said = news.changes(told.facts, facts)
        if said:
            # The same may change to and fro: an event, or a deadline, makes it one of a kind.
            name = f"change:{slug}:{seq}:{mark(f'{said}{facts}')}"
            await self._change(told.thread, facts, said, name)

    async def _rejudged(self, identity: str, seq: int, reason: str) -> None:
        """Say in a problem's post that results were made anew."""
        rejudge = await self.asof.asked(Rejudge, "edge", "rejudges", identity)
        told = None if rejudge is None else await self.ledger.board(rejudge.problem)
        if rejudge is None or told is None:
            return
        facts = await self.asof.seen(seq, Facts, "problems", rejudge.problem)
        if facts is None:
            return
        said = news.rejudged(rejudge, reason)
        facts = msgspec.structs.replace(facts, rejudge=said)
        whole = "\n".join(one for one in (news.changes(told.facts, facts), said) if one)
        await self._change(told.thread, facts, whole, f"rejudge:{identity}")

    async def _open(self, facts: Facts, *, is_first: bool) -> None:
        thread = await self.town.open(facts.slug, news.post(facts), is_first=is_first)
        await self.ledger.set_board(facts.slug, Told(thread, facts))

    async def _change(self, thread: str, facts: Facts, said: str, name: str) -> None:
        try:
            # A post that nobody wrote in for long is closed; a message opens it.
            await self._say(name, thread, said)
            await self.town.change(thread, news.post(facts))
        except Refused as refused:
            _log.warning("the post of %s is made anew: %s", facts.slug, refused.reason)
            await self._open(facts, is_first=False)
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
