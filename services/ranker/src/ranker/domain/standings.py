"""Folds every leaderboard at any moment from events in memory, without SQL."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from ranker.domain.confirmation import confirmation_text
from ranker.domain.goals import BELOW_FLOOR
from ranker.domain.rows import LeaderboardKey
from ranker.domain.score import PooledScore, pool_results
from ranker.domain.ties import Place, ScoredEntry, assign_places
from shared import events
from shared.api.audits import LeaderboardRow
from shared.event_log import RecordedEvent
from shared.events import Fact, ProblemPublished, SubmissionFinished
from shared.presentation.units import difference_text
from shared.subjects import last_token
from shared.wire import is_genuine


class ReceivedSubmission(NamedTuple):
    """A submission; its `number` is the sequence of its SubmissionReceived."""

    number: int
    account: str
    board: LeaderboardKey
    source: str
    received_at: datetime


@dataclass
class Rejudge:
    """The results of a rejudge, which count once it is applied."""

    to_number: int
    items: frozenset[str]
    results: dict[str, SubmissionFinished] = field(default_factory=dict)


class _Entry(NamedTuple):
    submission: str
    received: ReceivedSubmission
    pool: PooledScore
    pooled_over: tuple[int, ...]


@dataclass
class Standings:
    """The state folded from a history: results by leaderboard, and what is kept off."""

    received: dict[str, ReceivedSubmission] = field(default_factory=dict)
    results: dict[LeaderboardKey, dict[str, SubmissionFinished]] = field(default_factory=dict)
    newest: dict[str, ProblemPublished] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    disqualified: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    banned: dict[str, datetime | None] = field(default_factory=dict)
    rejudges: dict[str, Rejudge] = field(default_factory=dict)
    duels: dict[str, events.DuelRequested] = field(default_factory=dict)
    wins: dict[LeaderboardKey, dict[str, dict[str, str]]] = field(default_factory=dict)
    confirmations: dict[str, events.ConfirmationRequested] = field(default_factory=dict)
    confirmed: dict[str, str] = field(default_factory=dict)

    def fold(self, event: RecordedEvent) -> None:
        """Fold the next event. Raises UnknownEvent."""
        change = _CHANGES.get(event.envelope.type)
        if change is not None and is_genuine(event.envelope):
            change(self, last_token(event.envelope.agg), event, event.fact)

    def board(self, board: LeaderboardKey, at: datetime) -> list[LeaderboardRow]:
        """A leaderboard, best first, with the bans at that instant."""
        entries = self._best_entries(board, at)
        scored_entries = [
            ScoredEntry(
                number,
                entry.pool.score_us,
                entry.pool.error,
                entry.pool.freedom,
                entry.pool.delta,
                entry.received.source,
                self.wins.get(board, {}).get(entry.received.source, {}),
            )
            for number, entry in entries.items()
        ]
        results = self.results.get(board, {})
        rows = []
        for place in assign_places(scored_entries):
            entry = entries[place.number]
            run = results[entry.submission].run
            rows.append(_row(place, entry, self.confirmed.get(run or "", "")))
        return rows

    def counting(self, board: LeaderboardKey) -> set[str]:
        """The submissions whose results count there, in an entry or in its pooled score."""
        return {
            submission
            for submissions in self._group_by_source(board).values()
            for submission in submissions
        }

    def _group_by_source(self, board: LeaderboardKey) -> dict[tuple[str, str], list[str]]:
        """The submissions that count, by account and source, in the order of their decision."""
        by_source: dict[tuple[str, str], list[str]] = {}
        for submission, result in self.results.get(board, {}).items():
            if (
                result.is_eligible
                and result.score_us is not None
                and not self._is_kept_off(submission)
            ):
                received = self.received[submission]
                by_source.setdefault((received.account, received.source), []).append(submission)
        return by_source

    def _is_kept_off(self, submission: str) -> bool:
        return any(submission in off for off in (self.held, self.disqualified, self.withdrawn))

    def _best_entries(self, board: LeaderboardKey, at: datetime) -> dict[int, _Entry]:
        """The best entry of each account by number: the fastest source, on a tie the first."""
        best: dict[str, _Entry] = {}
        for (account, _), submissions in self._group_by_source(board).items():
            pool = pool_results(self.results[board][name] for name in submissions)
            over = tuple(sorted(self.received[name].number for name in submissions[: pool.runs]))
            for submission in submissions:
                entry = _Entry(submission, self.received[submission], pool, over)
                other = best.get(account)
                if other is None or _entry_key(entry) < _entry_key(other):
                    best[account] = entry
        allowed = (
            entry for entry in best.values() if not self._is_banned(entry.received.account, at)
        )
        return {entry.received.number: entry for entry in allowed}

    def _is_banned(self, account: str, at: datetime) -> bool:
        if account not in self.banned:
            return False
        until_at = self.banned[account]
        return until_at is None or until_at > at


def _entry_key(entry: _Entry) -> tuple[float, int]:
    return entry.pool.score_us, entry.received.number


def _row(place: Place, entry: _Entry, confirmation: str) -> LeaderboardRow:
    received, pool = entry.received, entry.pool
    return LeaderboardRow(
        rank=place.rank,
        is_tied=place.is_tied,
        account=received.account,
        submission=entry.submission,
        number=received.number,
        source=received.source,
        pooled_over=entry.pooled_over,
        score_us=pool.score_us,
        error=pool.error,
        freedom=pool.freedom,
        delta=pool.delta,
        received_at=received.received_at,
        duel=place.duel,
        confirmation=confirmation,
    )


def _publish(state: Standings, slug: str, _: RecordedEvent, fact: ProblemPublished) -> None:
    state.newest[slug] = fact


def _receive(
    state: Standings, submission: str, event: RecordedEvent, fact: events.SubmissionReceived
) -> None:
    board = LeaderboardKey(fact.problem, fact.gpu, fact.problem_number)
    state.received[submission] = ReceivedSubmission(
        event.seq, fact.account, board, fact.source.digest, event.envelope.at
    )


def _reject(
    state: Standings, submission: str, _: RecordedEvent, _fact: events.SubmissionRejected
) -> None:
    state.over.add(submission)


def _finish(state: Standings, submission: str, _: RecordedEvent, fact: SubmissionFinished) -> None:
    known = state.received.get(submission)
    if known is not None and submission not in state.over:
        state.over.add(submission)
        _add_result(state, submission, known.board, fact)


def _add_result(
    state: Standings, submission: str, board: LeaderboardKey, result: SubmissionFinished
) -> None:
    """A new result becomes the last of its leaderboard, even if it replaces another."""
    results = state.results.setdefault(board, {})
    results.pop(submission, None)
    results[submission] = result


def _hold(state: Standings, submission: str, _: RecordedEvent, _fact: Fact) -> None:
    state.held.add(submission)


def _release(state: Standings, submission: str, _: RecordedEvent, _fact: Fact) -> None:
    state.held.discard(submission)
    _lift_hold(state, submission)


def _lift_hold(state: Standings, submission: str) -> None:
    """A run that was held for a time under its floor counts from now on, as the newest result."""
    for board, results in state.results.items():
        result = results.get(submission)
        if result is not None and result.code == BELOW_FLOOR and result.score_us is not None:
            _add_result(state, submission, board, replace(result, is_eligible=True, code="ranked"))


def _disqualify(state: Standings, submission: str, _: RecordedEvent, _fact: Fact) -> None:
    state.disqualified.add(submission)


def _restore(state: Standings, submission: str, _: RecordedEvent, _fact: Fact) -> None:
    state.disqualified.discard(submission)


def _withdraw(state: Standings, submission: str, _: RecordedEvent, _fact: Fact) -> None:
    state.withdrawn.add(submission)


def _decide(
    state: Standings, submission: str, _: RecordedEvent, fact: events.AppealDecided
) -> None:
    if fact.is_accepted:
        state.held.discard(submission)
        state.disqualified.discard(submission)
        _lift_hold(state, submission)


def _ban(state: Standings, account: str, _: RecordedEvent, fact: events.AccountBanned) -> None:
    state.banned[account] = fact.until_at


def _unban(state: Standings, account: str, _: RecordedEvent, _fact: Fact) -> None:
    state.banned.pop(account, None)


def _rejudge(
    state: Standings, rejudge: str, _: RecordedEvent, fact: events.RejudgeRequested
) -> None:
    items = frozenset(item.submission for item in fact.items)
    state.rejudges[rejudge] = Rejudge(fact.to_number, items)


def _judge(state: Standings, rejudge: str, _: RecordedEvent, fact: events.RejudgeJudged) -> None:
    open_rejudge = state.rejudges.get(rejudge)
    if open_rejudge is not None and fact.submission in open_rejudge.items:
        open_rejudge.results[fact.submission] = fact.result


def _apply(state: Standings, rejudge: str, _: RecordedEvent, _fact: Fact) -> None:
    applied = state.rejudges.pop(rejudge, None)
    for submission, result in sorted(applied.results.items()) if applied else ():
        known = state.received.get(submission)
        # Where the platform failed, the earlier result stays.
        if applied is not None and known is not None and result.outcome != "infra_failed":
            _add_result(
                state, submission, known.board._replace(problem_number=applied.to_number), result
            )


def _request_duel(
    state: Standings, duel: str, _: RecordedEvent, fact: events.DuelRequested
) -> None:
    state.duels.setdefault(duel, fact)


def _judge_duel(state: Standings, duel: str, _: RecordedEvent, fact: events.DuelJudged) -> None:
    """The newest duel of a pair that has a result counts."""
    requested, result = state.duels.pop(duel, None), fact.result
    if requested is None or result is None or result.ratio is None or result.interval is None:
        return
    board = LeaderboardKey(requested.problem, requested.gpu, requested.problem_number)
    wins = state.wins.setdefault(board, {})
    first, second = requested.first.source.digest, requested.second.source.digest
    wins.get(first, {}).pop(second, None)
    wins.get(second, {}).pop(first, None)
    if result.winner in ("A", "B"):
        winner, loser = (first, second) if result.winner == "A" else (second, first)
        difference = difference_text(result.ratio, result.interval)
        wins.setdefault(winner, {})[loser] = difference


def _request_confirmation(
    state: Standings, confirmation: str, _: RecordedEvent, fact: events.ConfirmationRequested
) -> None:
    state.confirmations.setdefault(confirmation, fact)


def _judge_confirmation(
    state: Standings, confirmation: str, _: RecordedEvent, fact: events.ConfirmationJudged
) -> None:
    requested = state.confirmations.pop(confirmation, None)
    if requested is not None:
        state.confirmed[requested.run] = confirmation_text(fact)


def _discard(state: Standings, rejudge: str, _: RecordedEvent, _fact: Fact) -> None:
    state.rejudges.pop(rejudge, None)


_CHANGES: dict[str, Callable[[Standings, str, RecordedEvent, Any], None]] = {
    "ProblemPublished": _publish,
    "SubmissionReceived": _receive,
    "SubmissionRejected": _reject,
    "SubmissionFinished": _finish,
    "SubmissionHeld": _hold,
    "SubmissionReleased": _release,
    "SubmissionDisqualified": _disqualify,
    "SubmissionRestored": _restore,
    "SubmissionWithdrawn": _withdraw,
    "AppealDecided": _decide,
    "AccountBanned": _ban,
    "AccountUnbanned": _unban,
    "DuelRequested": _request_duel,
    "DuelJudged": _judge_duel,
    "ConfirmationRequested": _request_confirmation,
    "ConfirmationJudged": _judge_confirmation,
    "RejudgeRequested": _rejudge,
    "RejudgeJudged": _judge,
    "RejudgeApplied": _apply,
    "RejudgeDiscarded": _discard,
}
