"""Announces what happens on the platform: ranked results, podiums and problems, once each."""

import asyncio
import logging

import msgspec

from discord_edge.background import repeat_with_backoff, retry_until_done
from discord_edge.contests.announcer import FACTS as CONTEST_FACTS
from discord_edge.contests.announcer import ContestAnnouncer
from discord_edge.contests.postgres import PostgresContests
from discord_edge.notifications import texts
from discord_edge.notifications.channels import DiscordPublicChannels
from discord_edge.notifications.messenger import DirectMessenger
from discord_edge.submissions.report import public_times
from discord_edge.wording import message_nonce
from shared import events, subjects
from shared.api.accounts import SubmissionOwner
from shared.api.leaderboards import Entry, Leaderboard
from shared.api.moderation import RejudgeSummary
from shared.api.problems import FullProblem
from shared.api.submissions import FullSubmission
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.wire import UnknownEvent

TARGET = "discord"
ENTRIES_MAX = 100
# A podium is announced at most once per interval; changes that come together share a message.
PODIUM_EVERY_S, PODIUM_QUIET_S = 600.0, 3.0
TICK_S = 1.0
RANKED = "ranked"
PROBLEM_FACTS = (events.ProblemPublished, events.LeaderboardChanged, events.LeaderboardArchived)
SUBMISSION_FACTS = (
    *(events.SubmissionFinished, events.SubmissionHeld),
    *(events.SubmissionReleased, events.SubmissionDisqualified, events.SubmissionRestored),
    events.AppealDecided,
)
# The events that `Announcer` acts on.
TYPES = frozenset(
    fact.__name__
    for fact in (
        *(events.PodiumChanged, events.RecordSet, events.RejudgeApplied, events.BanAppealDecided),
        *PROBLEM_FACTS,
        *CONTEST_FACTS,
        *SUBMISSION_FACTS,
    )
)

_log = logging.getLogger(__name__)


class Announcer:
    """Turns events into public messages; closed leaderboards are never mentioned.

    It reads the platform as the anonymous public, so it cannot reveal what is not public.
    """

    def __init__(
        self,
        messenger: DirectMessenger,
        channels: DiscordPublicChannels,
        *,
        has_podiums: bool = False,
        contests_channel: str = "",
    ) -> None:
        self._messenger, self._channels, self._has_podiums = messenger, channels, has_podiums
        self._contests_channel = contests_channel
        self._api, self._leaderboards = messenger.api, messenger.leaderboards
        self._sender, self._ledger = messenger.sender, messenger.sender.ledger
        # The clock and an event may lead to the same change at once.
        self._lock = asyncio.Lock()
        tables = PostgresContests(self._ledger.pool)
        self._contests = ContestAnnouncer(self._api, tables, self._send_about_contest)

    async def greet(self, lobby: str) -> None:
        """Show in the lobby once what to do first; a deleted greeting is sent again.

        Without a lobby it is shown in the bot's general channel. Raises `Failed`.
        """
        room = lobby or await self._channels.general_channel()
        name = f"greeting:{room}"
        message = await self._ledger.made(name)

        async def send(text: str) -> str:
            # Discord remembers the nonce of a deleted message for minutes.
            return await self._channels.send(room, text, message_nonce(f"{name}:{message}"))

        try:
            if message is None or not await self._channels.update_message(
                room, message, texts.GREETING
            ):
                message_id = await self._sender.send_once(name, room, texts.GREETING, send)
                await self._ledger.keep(name, message_id)
        except Refused as refused:
            _log.warning("the channel %s has no greeting: %s", room, refused.reason)

    async def act(self, recorded: RecordedEvent, _nonce: str) -> None:
        """Announce one event, however long Discord is away. Raises `Refused`."""
        try:
            fact = recorded.fact
        except UnknownEvent as unknown:
            raise Refused("unknown_event", str(unknown)) from unknown
        await retry_until_done(lambda: self._announce(recorded, fact))

    async def _announce(self, recorded: RecordedEvent, fact: events.Fact) -> None:
        aggregate = recorded.envelope.aggregate
        identity = subjects.last_token(aggregate)
        match fact:
            case events.PodiumChanged(is_by_run=False):
                pass  # The leaderboard shows it, but no participant's run caused it.
            case events.RecordSet() | events.PodiumChanged() if self._has_podiums:
                before = fact.before if isinstance(fact, events.PodiumChanged) else None
                is_record = isinstance(fact, events.RecordSet)
                slug = aggregate.split(".")[1]
                update = texts.PodiumUpdate(slug, identity, recorded.seq, is_record, before)
                await self._ledger.add_podium_update(update)
            case _ if isinstance(fact, PROBLEM_FACTS):
                async with self._lock:
                    await self._announce_problem(identity, recorded.seq)
            case events.RejudgeApplied(reason=reason):
                async with self._lock:
                    await self._announce_rejudge(identity, recorded.seq, reason)
            case events.BanAppealDecided():
                await self._messenger.answer_ban_appeal(recorded, identity, fact)
            case _ if isinstance(fact, CONTEST_FACTS):
                await self._contests.announce(identity, recorded)
            case _ if isinstance(fact, SUBMISSION_FACTS):
                await self._announce_submission(identity, recorded)

    async def run_periodic(self) -> None:
        """Announce podiums, passed or near deadlines and phases of contests, for ever."""
        await repeat_with_backoff(self._announce_due, TICK_S, "the announcements")

    async def _announce_due(self) -> None:
        for update in await self._ledger.due_podium_updates(PODIUM_EVERY_S, PODIUM_QUIET_S):
            await self._announce_podium(update)
        for slug in await self._expired_problems():
            async with self._lock:
                await self._announce_problem(slug, 0)
        await self._messenger.notify_deadlines()
        await self._contests.announce_phases()

    async def _send_about_contest(self, name: str, text: str) -> None:
        channel = self._contests_channel or await self._channels.general_channel()
        await self._send(name, channel, text)

    async def _announce_submission(self, identity: str, recorded: RecordedEvent) -> None:
        owner = await self._api.read(SubmissionOwner, "edge", "submissions", identity)
        if owner is None:
            return
        await self._messenger.notify_owner(recorded, owner)
        fact = recorded.fact
        is_back = isinstance(fact, events.SubmissionReleased | events.SubmissionRestored) or (
            # An accepted appeal reverses the decision, and no other event says so.
            isinstance(fact, events.AppealDecided) and fact.is_accepted
        )
        score_us, is_valid = None, False
        if isinstance(fact, events.SubmissionFinished):
            score_us, is_valid = fact.score_us, fact.is_eligible and not fact.is_held
        if owner.mode == RANKED and not owner.baseline and (is_back or is_valid):
            await self._announce_result(owner, recorded.seq, score_us)

    async def _announce_result(
        self, owner: SubmissionOwner, sequence: int, score_us: float | None
    ) -> None:
        path = ("leaderboards", owner.problem, owner.gpu)
        board = await self._api.read_as_of(sequence, Leaderboard, *path, limit=ENTRIES_MAX)
        entries = board.items if board is not None else []
        own_entries = [entry for entry in entries if entry.participant_id == owner.participant_id]
        if board is None or not own_entries:
            return
        entry = own_entries[0]
        is_announced = owner.preferences.ranked_line != texts.OFF
        if entry.number == owner.number:
            if is_announced:
                await self._send_result(entry, board)
            await self._messenger.notify_overtaken(entry, board)
        elif is_announced and score_us is not None:
            text = texts.slower_result_line(entry, board, owner.number, score_us)
            await self._send(f"line:{owner.number}", await self._channels.results_channel(), text)

    async def _send_result(self, entry: Entry, board: Leaderboard) -> None:
        channel = await self._channels.results_channel()
        text = texts.result_line(entry, board)
        message = await self._send(f"line:{entry.submission}", channel, text)
        try:
            title = texts.thread_name(entry, board)
            thread = await self._sender.create_once(
                f"thread:{entry.submission}", lambda: self._channels.start_thread(message, title)
            )
            details = texts.result_details(entry)
            submission = await self._api.read(FullSubmission, "submissions", entry.number)
            if submission and (table := public_times(submission)):
                details += f"\n{table}"
            await self._send(f"detail:{entry.submission}", thread, details)
        except Refused as refused:
            _log.warning("the result of #%d has no thread: %s", entry.number, refused.reason)

    async def _send(self, name: str, room: str, text: str) -> str:
        """Send a message under a name once, and return its id. Raises `Refused` and `Failed`."""

        async def send(text: str) -> str:
            return await self._channels.send(room, text, message_nonce(name))

        return await self._sender.create_once(
            name, lambda: self._sender.send_once(name, room, text, send)
        )

    async def _announce_podium(self, update: texts.PodiumUpdate) -> None:
        path = ("leaderboards", update.problem, update.gpu)
        board = await self._api.read_as_of(update.seq, Leaderboard, *path, limit=ENTRIES_MAX)
        problem = await self._api.read(FullProblem, "problems", update.problem)
        if board and board.items and problem and not texts.summarize_problem(problem).is_calm:
            text = texts.podium_text(board, update.before, is_record=update.is_record)
            name = f"podium:{update.problem}:{update.gpu}:{update.seq}"
            try:
                if text:
                    await self._ledger.begin_podium(update)
                    await self._send(name, await self._channels.results_channel(), text)
            except Refused as refused:
                # As for a refused result: retrying for ever would delay everything else.
                _log.warning("%s is not announced: %s", name, refused.reason)
        await self._ledger.finish_podium(update)

    async def _announce_problem(self, slug: str, sequence: int) -> None:
        post = await self._ledger.problem_post(slug)
        problem = await self._api.read_as_of(sequence, FullProblem, "problems", slug)
        if post is None:
            if problem is not None and problem.state == texts.ACTIVE:
                await self._open_post(texts.summarize_problem(problem), is_first=True)
            return
        if problem is None:
            summary = msgspec.structs.replace(post.facts, state=texts.HIDDEN, statement="")
        else:
            summary = texts.summarize_problem(problem, post.facts.rejudge)
        text = texts.changes_text(post.facts, summary)
        if text:
            # The same change may happen repeatedly: its event or deadline makes it unique.
            name = f"change:{slug}:{sequence}:{message_nonce(f'{text}{summary}')}"
            await self._update_post(post.thread, summary, text, name)

    async def _announce_rejudge(self, identity: str, sequence: int, reason: str) -> None:
        rejudge = await self._api.read(RejudgeSummary, "edge", "rejudges", identity)
        post = None if rejudge is None else await self._ledger.problem_post(rejudge.problem)
        if rejudge is None or post is None or rejudge.from_version == rejudge.to_version:
            return  # A noisy run was timed again, which only its own page tells.
        problem = await self._api.read_as_of(sequence, FullProblem, "problems", rejudge.problem)
        if problem is None:
            return
        line = texts.rejudge_text(rejudge, reason)
        summary = texts.summarize_problem(problem, line)
        changes = texts.changes_text(post.facts, summary)
        text = "\n".join(part for part in (changes, line) if part)
        await self._update_post(post.thread, summary, text, f"rejudge:{identity}")

    async def _open_post(self, summary: texts.ProblemSummary, *, is_first: bool) -> None:
        text = texts.post_text(summary)
        thread = await self._channels.open_post(summary.slug, text, is_first=is_first)
        await self._ledger.save_problem_post(summary.slug, texts.ProblemPost(thread, summary))

    async def _update_post(
        self, thread: str, summary: texts.ProblemSummary, text: str, name: str
    ) -> None:
        try:
            # Discord archives inactive posts; a message reopens them, so it comes first.
            await self._send(name, thread, text)
            await self._channels.edit_post(thread, texts.post_text(summary))
        except Refused as refused:
            _log.warning("the post of %s is created again: %s", summary.slug, refused.reason)
            await self._open_post(summary, is_first=False)
            return
        await self._ledger.save_problem_post(summary.slug, texts.ProblemPost(thread, summary))

    async def _expired_problems(self) -> list[str]:
        """Return the problems whose posts say that they are open, but that have closed."""
        known = self._leaderboards.known
        summaries = await self._ledger.problem_summaries()
        return [
            slug
            for slug, summary in summaries.items()
            if summary.state == texts.ACTIVE and slug in known and known[slug].state != texts.ACTIVE
        ]
