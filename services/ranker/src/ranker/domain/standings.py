"""Every leaderboard at any moment, folded from events in memory: no SQL has a part in it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from ranker.domain.confirmation import confirmation_text
from ranker.domain.pools import Pool, pooled
from ranker.domain.roofs import BELOW_FLOOR
from ranker.domain.ties import Place, Standing, places
from shared import events
from shared.event_log import Recorded
from shared.events import Fact, ProblemPublished, SubmissionFinished
from shared.subjects import last_token
from shared.telling.duels import difference_text
from shared.wire import is_genuine


class Board(NamedTuple):
    """Which leaderboard: a version of a problem on a GPU type."""

    problem: str
    number: int
    gpu: str


class Received(NamedTuple):
    """What a submission is; its `number` is the sequence of its SubmissionReceived."""

    number: int
    account: str
    board: Board
    source: str
    received_at: datetime


class Row(NamedTuple):
    """An entry of a leaderboard with its place; `pooled_over` numbers what its score is made of."""

    rank: int
    is_tied: bool
    account: str
    submission: str
    number: int
    source: str
    pooled_over: tuple[int, ...]
    score_us: float
    error: float | None
    freedom: int
    delta: float
    received_at: datetime
    duel: str = ""
    confirmation: str = ""


@dataclass
class Rejudge:
    """The results of a rejudge, which count once it is applied."""

    to_number: int
    items: frozenset[str]
    results: dict[str, SubmissionFinished] = field(default_factory=dict)


class _Entry(NamedTuple):
    submission: str
    received: Received
    pool: Pool
    pooled_over: tuple[int, ...]


@dataclass
class Standings:
    """The state that a history means: results by leaderboard, and who and what is kept off."""

    received: dict[str, Received] = field(default_factory=dict)
    results: dict[Board, dict[str, SubmissionFinished]] = field(default_factory=dict)
    newest: dict[str, ProblemPublished] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    disqualified: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    banned: dict[str, datetime | None] = field(default_factory=dict)
    rejudges: dict[str, Rejudge] = field(default_factory=dict)
    duels: dict[str, events.DuelRequested] = field(default_factory=dict)
    wins: dict[Board, dict[str, dict[str, str]]] = field(default_factory=dict)
    confirmations: dict[str, events.ConfirmationRequested] = field(default_factory=dict)
    confirmed: dict[str, str] = field(default_factory=dict)

    def fold(self, event: Recorded) -> None:
        """Take the next event in. Errors: UnknownEvent."""
        meaning = _MEANING.get(event.envelope.type)
        if meaning is not None and is_genuine(event.envelope):
            meaning(self, last_token(event.envelope.agg), event, event.fact)

    def board(self, board: Board, at: datetime) -> list[Row]:
        """A leaderboard, best first, with the bans of that instant."""
        entries = self._entries(board, at)
        standings = [
            Standing(
                number,
                one.pool.score_us,
                one.pool.error,
                one.pool.freedom,
                one.pool.delta,
                one.received.source,
                self.wins.get(board, {}).get(one.received.source, {}),
            )
            for number, one in entries.items()
        ]
        results = self.results.get(board, {})
        rows = []
        for place in places(standings):
            entry = entries[place.number]
            run = results[entry.submission].run
            rows.append(_row(place, entry, self.confirmed.get(run or "", "")))
        return rows

    def counting(self, board: Board) -> set[str]:
        """The submissions whose results count there, in an entry or in another's score."""
        return {one for submissions in self._sources(board).values() for one in submissions}

    def _sources(self, board: Board) -> dict[tuple[str, str], list[str]]:
        """The submissions that count, by account and source, in the order of their decision."""
        found: dict[tuple[str, str], list[str]] = {}
        for submission, result in self.results.get(board, {}).items():
            if result.is_eligible and result.score_us is not None and not self._is_off(submission):
                received = self.received[submission]
                found.setdefault((received.account, received.source), []).append(submission)
        return found

    def _is_off(self, submission: str) -> bool:
        return any(submission in off for off in (self.held, self.disqualified, self.withdrawn))

    def _entries(self, board: Board, at: datetime) -> dict[int, _Entry]:
        """The best of each account, by number: the fastest source, of equals the first."""
        best: dict[str, _Entry] = {}
        for (account, _), submissions in self._sources(board).items():
            pool = pooled(self.results[board][one] for one in submissions)
            over = tuple(sorted(self.received[one].number for one in submissions[: pool.runs]))
            for submission in submissions:
                entry = _Entry(submission, self.received[submission], pool, over)
                other = best.get(account)
                if other is None or _order(entry) < _order(other):
                    best[account] = entry
        shown = (one for one in best.values() if not self._is_banned(one.received.account, at))
        return {entry.received.number: entry for entry in shown}

    def _is_banned(self, account: str, at: datetime) -> bool:
        if account not in self.banned:
            return False
        until_at = self.banned[account]
        return until_at is None or until_at > at


def _order(entry: _Entry) -> tuple[float, int]:
    return entry.pool.score_us, entry.received.number


def _row(place: Place, entry: _Entry, confirmation: str) -> Row:
    received, pool = entry.received, entry.pool
    return Row(
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


def _publish(state: Standings, slug: str, _: Recorded, fact: ProblemPublished) -> None:
    state.newest[slug] = fact


def _receive(
    state: Standings, submission: str, event: Recorded, fact: events.SubmissionReceived
) -> None:
    board = Board(fact.problem, fact.problem_number, fact.gpu)
    state.received[submission] = Received(
        event.seq, fact.account, board, fact.source.digest, event.envelope.at
    )


def _reject(
    state: Standings, submission: str, _: Recorded, _fact: events.SubmissionRejected
) -> None:
    state.over.add(submission)


def _finish(state: Standings, submission: str, _: Recorded, fact: SubmissionFinished) -> None:
    known = state.received.get(submission)
    if known is not None and submission not in state.over:
        state.over.add(submission)
        _count(state, submission, known.board, fact)


def _count(state: Standings, submission: str, board: Board, result: SubmissionFinished) -> None:
    """A new result is the last of its leaderboard, even where it takes another's place."""
    results = state.results.setdefault(board, {})
    results.pop(submission, None)
    results[submission] = result


def _hold(state: Standings, submission: str, _: Recorded, _fact: Fact) -> None:
    state.held.add(submission)


def _release(state: Standings, submission: str, _: Recorded, _fact: Fact) -> None:
    state.held.discard(submission)
    _lift(state, submission)


def _lift(state: Standings, submission: str) -> None:
    """What was held for a time under its floor counts from now on, as the newest of its board."""
    for board, results in state.results.items():
        result = results.get(submission)
        if result is not None and result.code == BELOW_FLOOR and result.score_us is not None:
            _count(state, submission, board, replace(result, is_eligible=True, code="ranked"))


def _disqualify(state: Standings, submission: str, _: Recorded, _fact: Fact) -> None:
    state.disqualified.add(submission)


def _restore(state: Standings, submission: str, _: Recorded, _fact: Fact) -> None:
    state.disqualified.discard(submission)


def _withdraw(state: Standings, submission: str, _: Recorded, _fact: Fact) -> None:
    state.withdrawn.add(submission)


def _decide(state: Standings, submission: str, _: Recorded, fact: events.AppealDecided) -> None:
    if fact.is_accepted:
        state.held.discard(submission)
        state.disqualified.discard(submission)
        _lift(state, submission)


def _ban(state: Standings, account: str, _: Recorded, fact: events.AccountBanned) -> None:
    state.banned[account] = fact.until_at


def _unban(state: Standings, account: str, _: Recorded, _fact: Fact) -> None:
    state.banned.pop(account, None)


def _rejudge(state: Standings, rejudge: str, _: Recorded, fact: events.RejudgeRequested) -> None:
    items = frozenset(item.submission for item in fact.items)
    state.rejudges[rejudge] = Rejudge(fact.to_number, items)


def _judge(state: Standings, rejudge: str, _: Recorded, fact: events.RejudgeJudged) -> None:
    open_one = state.rejudges.get(rejudge)
    if open_one is not None and fact.submission in open_one.items:
        open_one.results[fact.submission] = fact.result


def _apply(state: Standings, rejudge: str, _: Recorded, _fact: Fact) -> None:
    applied = state.rejudges.pop(rejudge, None)
    for submission, result in sorted(applied.results.items()) if applied else ():
        known = state.received.get(submission)
        # Of a run that the platform failed nothing follows: what stood before stands.
        if applied is not None and known is not None and result.outcome != "infra_failed":
            _count(state, submission, known.board._replace(number=applied.to_number), result)


def _request_duel(state: Standings, duel: str, _: Recorded, fact: events.DuelRequested) -> None:
    state.duels.setdefault(duel, fact)


def _judge_duel(state: Standings, duel: str, _: Recorded, fact: events.DuelJudged) -> None:
    """Of a pair the newest duel with a result counts."""
    requested, result = state.duels.pop(duel, None), fact.result
    if requested is None or result is None or result.ratio is None or result.interval is None:
        return
    board = Board(requested.problem, requested.problem_number, requested.gpu)
    wins = state.wins.setdefault(board, {})
    one, other = requested.first.source.digest, requested.second.source.digest
    wins.get(one, {}).pop(other, None)
    wins.get(other, {}).pop(one, None)
    if result.winner in ("A", "B"):
        winner, loser = (one, other) if result.winner == "A" else (other, one)
        said = difference_text(result.ratio, result.interval)
        wins.setdefault(winner, {})[loser] = said


def _request_confirmation(
    state: Standings, confirmation: str, _: Recorded, fact: events.ConfirmationRequested
) -> None:
    state.confirmations.setdefault(confirmation, fact)


def _judge_confirmation(
    state: Standings, confirmation: str, _: Recorded, fact: events.ConfirmationJudged
) -> None:
    requested = state.confirmations.pop(confirmation, None)
    if requested is not None:
        state.confirmed[requested.run] = confirmation_text(fact)


def _discard(state: Standings, rejudge: str, _: Recorded, _fact: Fact) -> None:
    state.rejudges.pop(rejudge, None)


_MEANING: dict[str, Callable[[Standings, str, Recorded, Any], None]] = {
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
