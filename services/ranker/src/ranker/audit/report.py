"""The result of an audit: every row of a leaderboard, and the events that made it."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from ranker.domain.confirmation import confirmation_text
from ranker.domain.rows import LeaderboardKey
from shared import events, subjects
from shared.api.audits import AuditReport, CausingEvent, LeaderboardRow
from shared.event_log import RecordedEvent
from shared.ids import submission_job_id
from shared.presentation.units import difference_text, pooled_text, rank_text
from shared.subjects import history_of, last_token
from shared.wire import is_genuine


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
        self._rejudges: dict[str, list[CausingEvent]] = {}
        self._versions: list[tuple[int, CausingEvent]] = []
        self._duels: dict[str, events.DuelRequested] = {}
        self._confirmations: dict[str, str] = {}

    def fold(self, event: RecordedEvent) -> None:
        """Record an event that concerns this leaderboard."""
        rule = _RULES.get(event.envelope.type)
        if rule is None or not is_genuine(event.envelope):
            return
        record, sentence = rule
        fact = event.fact
        envelope = event.envelope
        reason = CausingEvent(event.seq, envelope.type, envelope.at, envelope.actor, sentence(fact))
        history = history_of(envelope.agg)
        subject_id = history if history.startswith("run.") else last_token(history)
        record(self, subject_id, reason, fact)

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

    def version(self, slug: str, reason: CausingEvent, fact: events.ProblemPublished) -> None:
        """Record a version of the problem."""
        if slug == self.problem:
            self._versions.append((fact.number, reason))

    def received(
        self, submission: str, reason: CausingEvent, fact: events.SubmissionReceived
    ) -> None:
        """Start recording the events of a submission."""
        if (fact.problem, fact.gpu) == (self.problem, self.gpu):
            self._submissions[submission] = [reason]
            self._numbers[reason.seq] = submission
            self._jobs[submission_job_id(submission)] = submission

    def submission(self, submission: str, reason: CausingEvent, _fact: object) -> None:
        """Record an event of a submission, or a decision about it."""
        if submission in self._submissions:
            self._submissions[submission].append(reason)

    def leased(self, job: str, reason: CausingEvent, fact: events.JobLeased) -> None:
        """Record a run of a job; it counts once it has its order."""
        if job in self._jobs:
            self._leases.add((job, subjects.run(fact.agent, fact.run)))
            self.submission(self._jobs[job], reason, fact)

    def assigned(self, run: str, _reason: CausingEvent, fact: events.JobAssigned) -> None:
        """Record the order of a run, which tells whose it is if two leases name it."""
        if (fact.job, run) in self._leases:
            self._runs[run] = self._jobs[fact.job]

    def queued(self, job: str, _reason: CausingEvent, fact: events.JobQueued) -> None:
        """Record whose job this is: a rejudge's or, in older logs, the submission's own."""
        if fact.submission in self._submissions and not (fact.duel or fact.confirmation):
            self._jobs[job] = fact.submission

    def duel_requested(self, duel: str, reason: CausingEvent, fact: events.DuelRequested) -> None:
        """Record the request of a duel for both submissions."""
        if (fact.problem, fact.gpu) != (self.problem, self.gpu):
            return
        self._duels[duel] = fact
        for side, other in ((fact.first, fact.second), (fact.second, fact.first)):
            sentence = f"a duel with #{other.number} was requested"
            self.submission(side.submission, replace(reason, sentence=sentence), fact)

    def duel_judged(self, duel: str, reason: CausingEvent, fact: events.DuelJudged) -> None:
        """Record the end of a duel for both submissions."""
        requested = self._duels.pop(duel, None)
        if requested is None:
            return
        sides = (("A", requested.first, requested.second), ("B", requested.second, requested.first))
        for name, side, other in sides:
            sentence = _duel_sentence(name, other.number, fact)
            self.submission(side.submission, replace(reason, sentence=sentence), fact)

    def confirmation_requested(
        self, confirmation: str, reason: CausingEvent, fact: events.ConfirmationRequested
    ) -> None:
        """Record that a run is to be repeated on another agent."""
        if (fact.problem, fact.gpu) == (self.problem, self.gpu):
            self._confirmations[confirmation] = fact.item.submission
            self.submission(fact.item.submission, reason, fact)

    def confirmation_judged(
        self, confirmation: str, reason: CausingEvent, fact: events.ConfirmationJudged
    ) -> None:
        """Record the end of a confirmation."""
        submission = self._confirmations.pop(confirmation, None)
        if submission is not None:
            self.submission(submission, reason, fact)

    def run(self, run: str, reason: CausingEvent, fact: object) -> None:
        """Record the first verdict of a run by its own agent."""
        submission = self._runs.pop(run, None)
        if submission is not None:
            self.submission(submission, reason, fact)

    def account(self, account: str, reason: CausingEvent, _fact: object) -> None:
        """Record that a participant was banned or unbanned."""
        self._accounts.setdefault(account, []).append(reason)

    def judged(self, rejudge: str, reason: CausingEvent, fact: events.RejudgeJudged) -> None:
        """Record a new result, which counts once its rejudge is applied."""
        if fact.submission in self._submissions:
            self.submission(fact.submission, reason, fact)
            self._rejudges.setdefault(rejudge, []).append(replace(reason, sentence=fact.submission))

    def applied(self, rejudge: str, reason: CausingEvent, fact: object) -> None:
        """Record that a rejudge was applied or discarded."""
        for pending in self._rejudges.pop(rejudge, ()):
            self.submission(pending.sentence, reason, fact)


def _ranked(fact: events.SubmissionFinished) -> str:
    if fact.is_eligible:
        score = "without a score" if fact.score_us is None else f"{fact.score_us:.3f} us"
        return f"it may be ranked: {score}"
    return f"it is not ranked ({fact.code}): {fact.reason}"


def _off(fact: events.SubmissionHeld | events.SubmissionDisqualified) -> str:
    return f"it is kept off by the rule {fact.rule!r}: {fact.reason}"


def _banned(fact: events.AccountBanned) -> str:
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


def _confirmation_sentence(fact: events.ConfirmationJudged) -> str:
    without_result = f"its confirmation ended without a result ({fact.code}): {fact.reason}"
    return confirmation_text(fact) or without_result


_POOLED_TYPES = ("SubmissionReceived", "RunCompleted", "SubmissionFinished", "RejudgeJudged")
_Record = Callable[[AuditTrail, str, CausingEvent, Any], None]
_RULES: dict[str, tuple[_Record, Callable[[Any], str]]] = {
    "ProblemPublished": (AuditTrail.version, lambda fact: f"version {fact.number} was published"),
    "SubmissionReceived": (
        AuditTrail.received,
        lambda fact: f"source {fact.source.digest[:12]} was submitted, mode {fact.mode}",
    ),
    "JobQueued": (AuditTrail.queued, lambda _: ""),
    "JobLeased": (
        AuditTrail.leased,
        lambda fact: f"run {fact.run} was given to agent {fact.agent}, attempt {fact.attempt}",
    ),
    "JobAssigned": (AuditTrail.assigned, lambda _: ""),
    "RunCompleted": (AuditTrail.run, _completed),
    "SubmissionFinished": (AuditTrail.submission, _ranked),
    "SubmissionHeld": (AuditTrail.submission, _off),
    "SubmissionReleased": (AuditTrail.submission, lambda fact: f"it was released: {fact.reason}"),
    "SubmissionDisqualified": (AuditTrail.submission, _off),
    "SubmissionRestored": (AuditTrail.submission, lambda fact: f"it was restored: {fact.reason}"),
    "SubmissionWithdrawn": (AuditTrail.submission, lambda fact: f"it was withdrawn: {fact.reason}"),
    "AppealDecided": (
        AuditTrail.submission,
        lambda fact: (
            f"the appeal was {'accepted' if fact.is_accepted else 'refused'}: {fact.reason}"
        ),
    ),
    "AccountBanned": (AuditTrail.account, _banned),
    "AccountUnbanned": (AuditTrail.account, lambda fact: f"the ban is over: {fact.reason}"),
    "DuelRequested": (AuditTrail.duel_requested, lambda _: ""),
    "DuelJudged": (AuditTrail.duel_judged, lambda _: ""),
    "ConfirmationRequested": (
        AuditTrail.confirmation_requested,
        lambda fact: f"run {fact.run} is to be repeated on an agent other than {fact.agent}",
    ),
    "ConfirmationJudged": (AuditTrail.confirmation_judged, _confirmation_sentence),
    "RejudgeJudged": (
        AuditTrail.judged,
        lambda fact: f"judged again: {_ranked(fact.result)}",
    ),
    "RejudgeApplied": (AuditTrail.applied, lambda fact: f"the rejudge counts: {fact.reason}"),
    "RejudgeDiscarded": (
        AuditTrail.applied,
        lambda fact: f"the rejudge does not count: {fact.reason}",
    ),
}


SHOWN_MAX = 20


def report_lines(report: AuditReport) -> Iterator[str]:
    """The report as lines of text."""
    board = report.board
    moment = f" as of {report.as_of.isoformat()}" if report.as_of else ""
    yield f"{board.problem} on {board.gpu}, version {board.number}{moment}, event {report.seq}"
    yield f"  log    {report.events} events, chain {report.chain}"
    checked = f"checked with {', '.join(report.keys)}" if report.keys else "no key to check with"
    yield f"  seals  {report.seals}, {checked}"
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
    rank = rank_text(row.rank, is_tied=row.is_tied)
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
