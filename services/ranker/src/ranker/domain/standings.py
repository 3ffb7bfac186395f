"""Folds every leaderboard at any moment from events in memory, without SQL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeAlias, assert_never, get_args

from msgspec.structs import replace

from ranker.domain.conclusion import confirmation_text
from ranker.domain.goals import HELD_WITH_SCORE
from ranker.domain.places import Place, ScoredEntry, Win, assign_places
from ranker.domain.rows import LeaderboardKey
from ranker.domain.score import PooledScore, pool_results, results_that_count
from ranker.domain.yardsticks import apply_restated
from shared import events
from shared.api.audits import LeaderboardRow
from shared.event_log import RecordedEvent
from shared.events import ProblemPublished, SubmissionFinished
from shared.subjects import last_token
from shared.wire import is_genuine

# Decisions about a submission.
DecisionFact: TypeAlias = (
    events.SubmissionFinished
    | events.SubmissionHeld
    | events.SubmissionReleased
    | events.SubmissionDisqualified
    | events.SubmissionRestored
    | events.SubmissionWithdrawn
    | events.AppealDecided
)
# Runs that were repeated: against a rival, on another agent, or under another problem version.
RepetitionFact: TypeAlias = (
    events.ComparisonFact
    | events.RejudgeRequested
    | events.RejudgeJudged
    | events.RejudgeApplied
    | events.RejudgeDiscarded
)
# What moves a leaderboard.
StandingsFact: TypeAlias = (
    events.ProblemPublished
    | events.SubmissionReceived
    | events.YardstickFixed
    | DecisionFact
    | events.AccountBanned
    | events.AccountUnbanned
    | events.AccountMerged
    | events.MergeUndone
    | RepetitionFact
)
_FOLDED = frozenset(kind.__name__ for kind in get_args(StandingsFact))


class ReceivedSubmission(NamedTuple):
    """A submission; its `number` is the sequence of its SubmissionReceived.

    Equal sources have the same `source`: the digest of their normal form, or of their bytes.
    """

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


class BoardEntry(NamedTuple):
    """The best entry of an account on a leaderboard, without its place."""

    submission: str
    received: ReceivedSubmission
    pool: PooledScore
    pooled_over: tuple[int, ...]

    def score(self, wins: Mapping[str, Mapping[str, Win]]) -> ScoredEntry:
        """The values that its rank depends on; `wins` are the duels that each source won."""
        return ScoredEntry(
            self.received.number,
            self.pool.score_us,
            self.pool.error,
            self.pool.freedom,
            self.pool.delta,
            self.received.source,
            wins.get(self.received.source, {}),
            is_noisy=self.pool.is_noisy,
        )


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
    merged: dict[str, str] = field(default_factory=dict)
    rejudges: dict[str, Rejudge] = field(default_factory=dict)
    duels: dict[str, events.DuelRequested] = field(default_factory=dict)
    wins: dict[LeaderboardKey, dict[str, dict[str, Win]]] = field(default_factory=dict)
    confirmations: dict[str, events.ConfirmationRequested] = field(default_factory=dict)
    confirmed: dict[str, str] = field(default_factory=dict)

    def fold(self, event: RecordedEvent) -> None:
        """Fold the next event. Raises UnknownEvent."""
        if event.envelope.type not in _FOLDED or not is_genuine(event.envelope):
            return
        fact, id_ = event.fact, last_token(event.envelope.aggregate)
        assert isinstance(fact, StandingsFact), "a type names its class"
        if isinstance(fact, events.SubmissionReceived):
            board = LeaderboardKey(fact.problem, fact.gpu, fact.problem_number)
            received_at = fact.sent_at or event.envelope.at
            self.received[id_] = ReceivedSubmission(
                event.seq, fact.account, board, fact.pooling_digest, received_at
            )
        else:
            self.apply(id_, fact)

    def apply(  # noqa: C901, PLR0912  (one case for each event)
        self, id_: str, fact: StandingsFact
    ) -> None:
        """Fold a fact about a submission, an account or a problem that is known by its id."""
        match fact:
            case events.SubmissionReceived():
                raise AssertionError("only its event has its number")
            case SubmissionFinished():
                known = self.received.get(id_)
                if known is not None and id_ not in self.over:
                    self.over.add(id_)
                    self.add_result(id_, known.board, fact)
            case events.YardstickFixed():
                self._restate_results(fact)
            case events.ProblemPublished():
                self.newest[id_] = fact
            case events.SubmissionHeld():
                self.held.add(id_)
            case events.SubmissionReleased():
                self._lift_hold(id_)
            case events.SubmissionDisqualified():
                self.disqualified.add(id_)
            case events.SubmissionRestored():
                self.disqualified.discard(id_)
            case events.SubmissionWithdrawn():
                self.withdrawn.add(id_)
            case events.AppealDecided():
                if fact.is_accepted:
                    self.disqualified.discard(id_)
                    self._lift_hold(id_)
            case events.AccountBanned():
                self.banned[id_] = fact.until_at
            case events.AccountUnbanned():
                self.banned.pop(id_, None)
            case events.AccountMerged():
                self.merged[id_] = fact.into
            case events.MergeUndone():
                self.merged.pop(id_, None)
            case _:
                self._apply_repetition(id_, fact)

    def _apply_repetition(  # noqa: C901  (one case for each event)
        self, id_: str, fact: RepetitionFact
    ) -> None:
        match fact:
            case events.DuelRequested():
                self.duels.setdefault(id_, fact)
            case events.DuelJudged():
                self._judge_duel(id_, fact)
            case events.ConfirmationRequested():
                self.confirmations.setdefault(id_, fact)
            case events.ConfirmationJudged():
                requested = self.confirmations.pop(id_, None)
                if requested is not None and not requested.contest:
                    self.confirmed[requested.run] = confirmation_text(fact)
            case events.RejudgeRequested():
                items = frozenset(item.submission for item in fact.items)
                self.rejudges[id_] = Rejudge(fact.to_number, items)
            case events.RejudgeJudged():
                rejudge = self.rejudges.get(id_)
                if rejudge is not None and fact.submission in rejudge.items:
                    rejudge.results[fact.submission] = fact.result
            case events.RejudgeApplied():
                self._apply_rejudge(id_)
            case events.RejudgeDiscarded():
                self.rejudges.pop(id_, None)
            case _:
                assert_never(fact)

    def add_result(
        self, submission: str, board: LeaderboardKey, result: SubmissionFinished
    ) -> None:
        """A new result becomes the last of its leaderboard, even if it replaces another."""
        results = self.results.setdefault(board, {})
        results.pop(submission, None)
        results[submission] = result

    def _restate_results(self, fact: events.YardstickFixed) -> None:
        """Earlier runs of a leaderboard have their scores in the new unit from now on."""
        board = LeaderboardKey(fact.problem, fact.gpu, fact.problem_number)
        results = self.results.get(board, {})
        for score in fact.restated:
            result = results.get(score.submission)
            if result is not None and result.run == score.run:
                results[score.submission] = apply_restated(result, score)

    def _lift_hold(self, submission: str) -> None:
        """Lift a hold; a run that was held with its score counts from now on.

        It does as the newest result.
        """
        self.held.discard(submission)
        for board, results in self.results.items():
            result = results.get(submission)
            if result is None or result.score_us is None:
                continue
            if result.code in HELD_WITH_SCORE:
                lifted = replace(result, is_eligible=True, code="ranked")
                self.add_result(submission, board, lifted)

    def _judge_duel(self, duel: str, fact: events.DuelJudged) -> None:
        """The newest duel of a pair that has a result counts."""
        requested, result = self.duels.pop(duel, None), fact.result
        if requested is None or result is None or result.ratio is None or result.interval is None:
            return
        board = LeaderboardKey(requested.problem, requested.gpu, requested.problem_number)
        wins = self.wins.setdefault(board, {})
        first, second = requested.first.pooling_digest, requested.second.pooling_digest
        wins.get(first, {}).pop(second, None)
        wins.get(second, {}).pop(first, None)
        if result.winner in ("A", "B"):
            winner, loser = (first, second) if result.winner == "A" else (second, first)
            wins.setdefault(winner, {})[loser] = Win(result.ratio, *result.interval)

    def _apply_rejudge(self, rejudge: str) -> None:
        applied = self.rejudges.pop(rejudge, None)
        for submission, result in sorted(applied.results.items()) if applied else ():
            known = self.received.get(submission)
            # Where the platform failed, the earlier result stays.
            if applied is not None and known is not None and result.outcome != "infra_failed":
                board = known.board._replace(problem_number=applied.to_number)
                self.add_result(submission, board, result)

    def board(self, board: LeaderboardKey, at: datetime) -> list[LeaderboardRow]:
        """A leaderboard, best first, with the bans at that instant."""
        entries = {entry.received.number: entry for entry in self.best_entries(board, at)}
        wins = self.wins.get(board, {})
        scored_entries = [entry.score(wins) for entry in entries.values()]
        results = self.results.get(board, {})
        rows = []
        for place in assign_places(scored_entries):
            entry = entries[place.number]
            run = results[entry.submission].run
            rows.append(_row(place, entry, self.confirmed.get(run or "", "")))
        return rows

    def has_entry(self, board: LeaderboardKey, at: datetime) -> bool:
        """Whether a leaderboard has an entry, with the bans at that instant."""
        return any(
            not self.is_banned(self.account_of(self.received[submission]), at)
            for submission in self.eligible_results(board)
        )

    def counting(self, board: LeaderboardKey) -> set[str]:
        """The submissions whose results count there, in an entry or in its pooled score."""
        return {
            submission
            for submissions in self._group_by_source(board).values()
            for submission in submissions
        }

    def eligible_results(self, board: LeaderboardKey) -> dict[str, SubmissionFinished]:
        """The results that may count there, in the order of their decisions."""
        off = (self.held, self.disqualified, self.withdrawn)
        return {
            submission: result
            for submission, result in self.results.get(board, {}).items()
            if result.is_eligible
            and result.score_us is not None
            and not any(submission in names for names in off)
        }

    def _group_by_source(self, board: LeaderboardKey) -> dict[tuple[str, str], list[str]]:
        by_source: dict[tuple[str, str], dict[str, SubmissionFinished]] = {}
        for submission, result in self.eligible_results(board).items():
            received = self.received[submission]
            source = self.account_of(received), received.source
            by_source.setdefault(source, {})[submission] = result
        return {source: results_that_count(results) for source, results in by_source.items()}

    def best_entries(self, board: LeaderboardKey, at: datetime) -> list[BoardEntry]:
        """The best entry of each account: that of the source which is placed best."""
        best: dict[str, BoardEntry] = {}
        for (account, _), submissions in self._group_by_source(board).items():
            pool = pool_results(self.results[board][name] for name in submissions)
            over = tuple(sorted(self.received[name].number for name in submissions[: pool.runs]))
            for submission in submissions:
                received = self.received[submission]._replace(account=account)
                entry = BoardEntry(submission, received, pool, over)
                other = best.get(account)
                if other is None or _entry_key(entry) < _entry_key(other):
                    best[account] = entry
        return [entry for entry in best.values() if not self.is_banned(entry.received.account, at)]

    def account_of(self, received: ReceivedSubmission) -> str:
        """The account that a submission belongs to: that which its sender is part of now."""
        return self.merged.get(received.account, received.account)

    def is_banned(self, account: str, at: datetime) -> bool:
        """Whether a participant is banned at an instant."""
        if account not in self.banned:
            return False
        until_at = self.banned[account]
        return until_at is None or until_at > at


def _entry_key(entry: BoardEntry) -> tuple[float, int]:
    return entry.pool.placed_us, entry.received.number


def _row(place: Place, entry: BoardEntry, confirmation: str) -> LeaderboardRow:
    received, pool = entry.received, entry.pool
    return LeaderboardRow(
        rank=place.rank,
        is_tied=place.is_tied,
        best_rank=place.best_rank,
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
