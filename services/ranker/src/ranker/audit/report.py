"""The result of an audit: every row of a leaderboard, and the events that made it."""

from collections.abc import Iterator
from typing import TypeAlias, get_args

from ranker.domain.conclusion import confirmation_text
from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import DecisionFact
from shared import events, subjects
from shared.api.audits import AuditReport, CausingEvent, LeaderboardRow
from shared.event_log import RecordedEvent
from shared.presentation.units import difference_text, pooled_text, rank_text
from shared.subjects import history_of, job_id_of, last_token
from shared.wire import is_genuine

# Runs that were repeated: against a rival, on another agent, or under another problem version.
RepetitionFact: TypeAlias = (
    events.ComparisonFact | events.RejudgeJudged | events.RejudgeApplied | events.RejudgeDiscarded
)
TrailFact: TypeAlias = (
    events.ProblemPublished
    | events.SubmissionReceived
    | events.JobQueued
    | events.JobLeased
    | events.JobAssigned
    | events.RunCompleted
    | events.AccountBanned
    | events.AccountUnbanned
    | events.AccountMerged
    | events.MergeUndone
    | events.YardstickFixed
    | DecisionFact
    | RepetitionFact
)
_FOLDED = frozenset(kind.__name__ for kind in get_args(TrailFact))
_POOLED_TYPES = ("SubmissionReceived", "RunCompleted", "SubmissionFinished", "RejudgeJudged")


class AuditTrail:
    """Collects the events of one leaderboard's submissions and accounts while the log is folded."""

    def __init__(self, problem: str, gpu: str) -> None:
        self.problem = problem
        self.gpu = gpu
        self._submissions: dict[str, list[CausingEvent]] = {}
        self._numbers: dict[int, str] = {}
        self._accounts: dict[str, list[CausingEvent]] = {}
        self._jobs: dict[str, str] = {}
        self._leases: set[tuple[str, str]] = set()
        self._runs: dict[str, str] = {}
        self._rejudged: dict[str, list[str]] = {}
        self._versions: list[tuple[int, CausingEvent]] = []
        self._duels: dict[str, events.DuelRequested] = {}
        self._confirmations: dict[str, str] = {}

    def explain(self, row: LeaderboardRow, board: LeaderboardKey) -> list[CausingEvent]:
        """The events that made a row, in order."""
        reasons = [reason for number, reason in self._versions if number == board.problem_number]
        reasons += self._submissions.get(row.submission, ())
        reasons += self._accounts.get(row.account, ())
        for number in row.pooled_over:
            if number != row.number:
                pooled = self._submissions[self._numbers[number]]
                reasons += (reason for reason in pooled if reason.type in _POOLED_TYPES)
        return sorted(set(reasons))

    def fold(self, event: RecordedEvent) -> None:  # noqa: C901, PLR0912  (one case for each event)
        """Record an event that concerns this leaderboard."""
        if event.envelope.type not in _FOLDED or not is_genuine(event.envelope):
            return
        fact, id_ = event.fact, last_token(event.envelope.aggregate)
        assert isinstance(fact, TrailFact), "a type names its class"
        run = history_of(event.envelope.aggregate)
        match fact:
            case events.ProblemPublished():
                if id_ == self.problem:
                    reason = _make_reason(event, f"version {fact.number} was published")
                    self._versions.append((fact.number, reason))
            case events.SubmissionReceived():
                if (fact.problem, fact.gpu) == (self.problem, self.gpu):
                    sentence = f"source {fact.source.digest[:12]} was submitted, mode {fact.mode}"
                    self._submissions[id_] = [_make_reason(event, sentence)]
                    self._numbers[event.seq] = id_
                    self._jobs[job_id_of(id_)] = id_
            case events.JobQueued():
                # A rejudge's; the submission's own has no such event.
                if fact.submission in self._submissions and not (fact.duel or fact.confirmation):
                    self._jobs[id_] = fact.submission
            case events.JobLeased():
                if id_ in self._jobs:
                    self._leases.add((id_, subjects.run(fact.agent, fact.run)))
                    sentence = f"run {fact.run} was given to agent {fact.agent}"
                    self._note(event, self._jobs[id_], f"{sentence}, attempt {fact.attempt}")
            case events.JobAssigned():
                # The order tells whose run it is if two leases name it.
                if (fact.job, run) in self._leases:
                    self._runs[run] = self._jobs[fact.job]
            case events.RunCompleted():
                # The first verdict by the run's own agent.
                self._note(event, self._runs.pop(run, None), _completed(fact))
            case events.AccountBanned() | events.AccountUnbanned():
                reason = _make_reason(event, _banned(fact))
                self._accounts.setdefault(id_, []).append(reason)
            case events.AccountMerged() | events.MergeUndone():
                is_merged = isinstance(fact, events.AccountMerged)
                verb = "became part of" if is_merged else "is no longer part of"
                sentence = f"the account {id_} {verb} the account {fact.into}"
                for account in (id_, fact.into):
                    self._accounts.setdefault(account, []).append(_make_reason(event, sentence))
            case events.YardstickFixed():
                self._take_yardstick(event, fact)
            case _ if isinstance(fact, RepetitionFact):
                self._apply_repetition(event, fact, id_)
            case _:
                self._note(event, id_, _decided(fact))

    def _take_yardstick(self, event: RecordedEvent, fact: events.YardstickFixed) -> None:
        """Record the unit of a version's scores, and what became of earlier scores in it."""
        if (fact.problem, fact.gpu) != (self.problem, self.gpu):
            return
        sentence = f"the yardstick was fixed by {len(fact.runs)} of the first runs"
        self._versions.append((fact.problem_number, _make_reason(event, sentence)))
        for score in fact.restated:
            sentence = f"its score in units of the fixed yardstick: {score.score_us:.3f} us"
            self._note(event, score.submission, sentence)

    def _apply_repetition(  # noqa: C901, PLR0912  (one case for each event)
        self, event: RecordedEvent, fact: RepetitionFact, id_: str
    ) -> None:
        match fact:
            case events.DuelRequested():
                if (fact.problem, fact.gpu) == (self.problem, self.gpu):
                    self._duels[id_] = fact
                    for side, other in ((fact.first, fact.second), (fact.second, fact.first)):
                        sentence = f"a duel with #{other.number} was requested"
                        self._note(event, side.submission, sentence)
            case events.DuelJudged():
                if (duel := self._duels.pop(id_, None)) is not None:
                    sides = (("A", duel.first, duel.second), ("B", duel.second, duel.first))
                    for name, side, other in sides:
                        sentence = _duel_sentence(name, other.number, fact)
                        self._note(event, side.submission, sentence)
            case events.ConfirmationRequested():
                if (fact.problem, fact.gpu) == (self.problem, self.gpu):
                    self._confirmations[id_] = fact.item.submission
                    sentence = f"run {fact.run} is to be repeated on an agent other than"
                    self._note(event, fact.item.submission, f"{sentence} {fact.agent}")
            case events.ConfirmationJudged():
                reason = f"ended without a result ({fact.code}): {fact.reason}"
                sentence = confirmation_text(fact) or f"its confirmation {reason}"
                self._note(event, self._confirmations.pop(id_, None), sentence)
            case events.RejudgeJudged():
                # It counts once its rejudge is applied.
                if fact.submission in self._submissions:
                    self._rejudged.setdefault(id_, []).append(fact.submission)
                    self._note(event, fact.submission, f"judged again: {_decided(fact.result)}")
            case events.RejudgeApplied() | events.RejudgeDiscarded():
                verb = "counts" if isinstance(fact, events.RejudgeApplied) else "does not count"
                for submission in self._rejudged.pop(id_, ()):
                    self._note(event, submission, f"the rejudge {verb}: {fact.reason}")

    def _note(self, event: RecordedEvent, submission: str | None, sentence: str) -> None:
        if submission in self._submissions:
            self._submissions[submission].append(_make_reason(event, sentence))


def _make_reason(event: RecordedEvent, sentence: str) -> CausingEvent:
    envelope = event.envelope
    return CausingEvent(event.seq, envelope.type, envelope.at, envelope.actor, sentence)


def _decided(fact: DecisionFact) -> str:
    match fact:
        case events.SubmissionFinished(is_eligible=True):
            score = "without a score" if fact.score_us is None else f"{fact.score_us:.3f} us"
            return f"it may be ranked: {score}"
        case events.SubmissionFinished():
            return f"it is not ranked ({fact.code}): {fact.reason}"
        case events.SubmissionHeld() | events.SubmissionDisqualified():
            return f"it is kept off by the rule {fact.rule!r}: {fact.reason}"
        case events.AppealDecided():
            return f"the appeal was {'accepted' if fact.is_accepted else 'refused'}: {fact.reason}"
        case _:
            # Released, restored or withdrawn.
            verb = type(fact).__name__.removeprefix("Submission").lower()
            return f"it was {verb}: {fact.reason}"


def _banned(fact: events.AccountBanned | events.AccountUnbanned) -> str:
    if isinstance(fact, events.AccountUnbanned):
        return f"the ban is over: {fact.reason}"
    until = "for ever" if fact.until_at is None else f"until {fact.until_at.isoformat()}"
    return f"the participant stands on no leaderboard {until}: {fact.reason}"


def _completed(fact: events.RunCompleted) -> str:
    code = fact.environment.get(events.HARNESS_CODE, "")
    by = f", by harness code {code[:12]}" if code else ""
    return f"the run ended {fact.verdict} with {len(fact.cases)} cases{by}"


def _duel_sentence(name: str, other: int, fact: events.DuelJudged) -> str:
    """What a duel with another submission means for the side with this name."""
    result = fact.result
    if result is None or result.ratio is None or result.interval is None:
        return f"the duel with #{other} ended without a result ({fact.code}): {fact.reason}"
    if result.winner not in ("A", "B"):
        return f"a duel cannot tell it from #{other}"
    place = "ahead of" if result.winner == name else "behind"
    return f"{place} #{other} by a duel: {difference_text(result.ratio, result.interval)}"


SHOWN_MAX = 20


def report_lines(report: AuditReport) -> Iterator[str]:
    """The report as lines of text."""
    board = report.board
    moment = f" as of {report.as_of.isoformat()}" if report.as_of else ""
    yield f"{board.problem} on {board.gpu}, version {board.number}{moment}, event {report.seq}"
    yield f"  log    {report.events} events, chain {report.chain}"
    checked = f"checked with {', '.join(report.keys)}" if report.keys else "no key to check with"
    yield f"  seals  {report.seals}, {checked}"
    for change in report.key_changes:
        yield f"  key changed at event {change.seq}: {change.what}"
    yield f"  runs   {report.verified_runs} signed by enrolled agents"
    for finding in report.ignored[:SHOWN_MAX]:
        yield f"  ignored event {finding.seq}: {finding.what}"
    if report.live_seq is not None:
        equal = "not equal" if report.differences else "equal"
        yield f"  live   {equal} at event {report.live_seq}"
    for row in report.rows:
        yield from _row_lines(row)
    yield from _verdict_lines(report)


def _row_lines(row: LeaderboardRow) -> Iterator[str]:
    rank = rank_text(row.rank, row.best_rank, is_tied=row.is_tied)
    score = f"{row.score_us:.3f} us{pooled_text(row.pooled_over)}"
    yield f"{rank:>5} {row.account}: {score}, submission {row.number}"
    for reason in row.because:
        at = reason.at.isoformat(timespec="seconds")
        yield f"       {reason.seq:>8} {at} {reason.type} by {reason.actor}: {reason.sentence}"


def _verdict_lines(report: AuditReport) -> Iterator[str]:
    if report.is_clean:
        yield "clean: the leaderboard is what the log says, and the log is untouched"
    if report.findings:
        first = report.findings[0]
        yield f"NOT CLEAN: first at event {first.seq}: {first.what}"
    for finding in report.findings[1:SHOWN_MAX]:
        yield f"  event {finding.seq}: {finding.what}"
    if report.differences:
        yield "NOT EQUAL: what is shown is not what the log says"
    for difference in report.differences[:SHOWN_MAX]:
        yield f"  {difference}"
