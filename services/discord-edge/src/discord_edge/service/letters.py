"""Tells participants what concerns them alone, by letter or in a thread of theirs; each once."""

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from discord_edge.domain import letters
from discord_edge.domain.letters import THREAD, Owner, Person
from discord_edge.domain.news import ACTIVE, Entry, Ranking
from discord_edge.domain.report import headline
from discord_edge.domain.wording import escaped, refusal
from discord_edge.service.asof import AsOf
from discord_edge.service.boards import Boards
from discord_edge.service.following import persist
from discord_edge.service.once import Saying, mark, once
from discord_edge.service.ports import Sent, User
from discord_edge.service.public import Ledger, Mail, Slip
from shared.clock import now
from shared.errors import Refused
from shared.event_log import Recorded
from shared.events import BanAppealDecided, SubmissionFinished, SubmissionRejected
from shared.telling.answers import Submission

OVERTAKEN, FINISHED, NEAR = "overtaken", "run_finished", "deadline_near"
NEAR_HOURS = 24
NEAR_EVERY_S = 10.0
# What is forgotten is in the ledger all the same.
NEAR_HELD_MAX = 10_000

_log = logging.getLogger(__name__)


class People(msgspec.Struct, frozen=True):
    """Those who want to be told of something."""

    items: list[Person]


class Past(msgspec.Struct, frozen=True):
    """A ranked submission of before; times are in microseconds."""

    number: int
    counts: bool
    score_us: float | None = None


class History(msgspec.Struct, frozen=True):
    """What somebody sent to a leaderboard."""

    items: list[Past]


@dataclass
class Letters:
    """What participants asked to be told, and what was decided of what they sent."""

    asof: AsOf
    boards: Boards
    mail: Mail
    ledger: Ledger
    saying: Saying
    near_told: set[str] = field(default_factory=set)
    _looked_at: float = field(default=-NEAR_EVERY_S)

    async def of(self, recorded: Recorded, owner: Owner) -> None:
        """Tell the owner of a submission of one event. Errors: Failed."""
        fact, event = recorded.fact, recorded.envelope.id
        if owner.discord is None or owner.baseline:
            return
        if (said := letters.decided(fact, owner)) is not None:
            text, may_appeal = said
            slip = Slip(text)
            if may_appeal:
                slip = Slip(f"{text}\n{letters.how_to_appeal(owner.number)}", owner.number)
            await self._send(owner, slip, f"letter:{event}", await self.ledger.room(owner.number))
        is_over = isinstance(fact, SubmissionFinished | SubmissionRejected)
        if is_over and owner.wants(FINISHED):
            await self._finished(recorded, owner)

    async def answered(self, recorded: Recorded, account: str, fact: BanAppealDecided) -> None:
        """Tell who is banned what became of their appeal. Errors: Failed."""
        person = await self.asof.asked(Person, "edge", "participants", account)
        if person is not None and person.discord is not None:
            name = f"letter:{recorded.envelope.id}"
            await self._send(person, Slip(letters.answered(fact)), name, None)

    async def refused(self, sent: Sent, refused: Refused) -> None:
        """Tell who sent a file that it came to nothing, when they wait for it no longer."""
        slip = Slip(f"**{escaped(sent.wish.name)}**: {refusal(refused, sent.key, time.time())}")
        name = f"refused:{sent.key}"
        whom = Person(participant_id="", discord=str(sent.user.id))
        await persist(lambda: self._send(whom, slip, name, None))

    async def _finished(self, recorded: Recorded, owner: Owner) -> None:
        assert owner.discord is not None, "who wants to be told is on Discord"
        await self.asof.caught_up(recorded.seq)
        user = User(int(owner.discord))
        found = await self.asof.asked_for(user, Submission, "submissions", owner.number)
        if found is None:
            _log.warning("the end of #%d is not told: it is not shown to its owner", owner.number)
            return
        text = letters.finished(owner, headline(found))
        thread = await self._thread(owner, FINISHED, owner.number)
        await self._send(owner, Slip(text), f"finished:{recorded.envelope.id}", thread)

    async def overtaken(self, entry: Entry, board: Ranking) -> None:
        """Tell those whom an entry is ahead of since it came. Errors: Failed."""
        wishing = await self._wishing(OVERTAKEN)
        candidates = [one for one in board.items if one.rank > entry.rank]
        if entry.participant is None or not any(one.account in wishing for one in candidates):
            return
        path = ("participants", entry.participant, "history")
        asked = {"problem": board.problem, "gpu": board.gpu}
        found = await self.asof.asked(History, *path, **asked)
        if found is None:
            return
        older = [one for one in found.items if one.number < entry.number and one.counts]
        scores = [one.score_us for one in older if one.score_us is not None]
        for passed in letters.behind(entry, board, min(scores, default=None)):
            if passed.account in wishing and passed.account != entry.account:
                person = wishing[passed.account]
                slip = Slip(letters.overtaken(passed, entry, board))
                name = f"overtaken:{entry.submission}:{passed.account}"
                thread = await self._thread(person, OVERTAKEN, passed.number)
                await self._send(person, slip, name, thread)

    async def tend(self) -> None:
        """Tell of deadlines that are less than a day away, each once. Errors: Failed."""
        if time.monotonic() - self._looked_at < NEAR_EVERY_S:
            return
        at = now()
        for slug, board in self.boards.known.items():
            if board.state == ACTIVE and board.deadline_at is not None:
                deadline_at = datetime.fromisoformat(board.deadline_at)
                if at < deadline_at <= at + timedelta(hours=NEAR_HOURS):
                    await self._near(slug, deadline_at)
        self._looked_at = time.monotonic()

    async def _near(self, slug: str, deadline_at: datetime) -> None:
        for account, person in (await self._wishing(NEAR)).items():
            name = f"near:{slug}:{deadline_at.isoformat()}:{account}"
            if name not in self.near_told:
                thread = await self._thread(person, NEAR, slug)
                await self._send(person, Slip(letters.near(slug, deadline_at)), name, thread)
                if len(self.near_told) >= NEAR_HELD_MAX:
                    self.near_told.clear()
                self.near_told.add(name)

    async def _thread(self, person: Person, notice: str, about: int | str) -> str | None:
        """Where they are told by their choice; None is by letter. Errors: Failed."""
        if person.preferences.get(notice) != THREAD:
            return None
        if isinstance(about, int):
            return await self.ledger.room(about)
        return await self.ledger.newest_room(person.discord or "", about)

    async def _send(self, person: Person, slip: Slip, name: str, thread: str | None) -> None:
        """Tell somebody once, in a thread of theirs or by letter. Errors: Failed."""
        assert person.discord is not None, "who is told is on Discord"
        await once(self.ledger, name, lambda: self._told(person.discord or "", slip, name, thread))

    async def _told(self, whom: str, slip: Slip, name: str, thread: str | None) -> str:
        if thread is not None:
            # A thread calls nobody by itself, a letter does.
            called = slip._replace(text=f"<@{whom}> {slip.text}")
            try:
                return await self.write(thread, whom, called, name)
            except Refused as refused:
                _log.info("%s goes by letter: %s", name, refused.reason)
        try:
            return await self.write(await self.mail.room(whom), whom, slip, name)
        except Refused as refused:
            # Who takes no letters is told by nobody; the platform's pages say it all the same.
            _log.warning("%s is told to nobody: %s", name, refused.reason)
            return ""

    async def write(self, room: str, whom: str, slip: Slip, name: str) -> str:
        """The id of what somebody is told in a room under a name. Errors: Refused; Failed."""

        async def send(text: str) -> str:
            return await self.mail.write(room, whom, slip._replace(text=text), mark(name))

        return await self.saying.say(name, room, slip.text, send)

    async def _wishing(self, notice: str) -> dict[str, Person]:
        """Who wants to be told of something, by account. Errors: Failed."""
        found = await self.asof.asked(People, "edge", "participants", wish=notice)
        people = [] if found is None else found.items
        return {one.participant_id: one for one in people if one.wants(notice)}
