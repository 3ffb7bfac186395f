"""Which events made a row of a leaderboard, a sentence each."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from ranker.domain.confirmation import confirmation_text
from ranker.domain.standings import Board, Row
from shared import events, subjects
from shared.event_log import Recorded
from shared.ids import submission_job
from shared.subjects import history_of, last_token
from shared.telling.duels import difference_text
from shared.wire import is_genuine


class Reason(NamedTuple):
    """One event that a row hangs on."""

    seq: int
    type: str
    at: datetime
    actor: str
    sentence: str


class Trail:
    """The events of one leaderboard's submissions and accounts, gathered while folding."""

    def __init__(self, problem: str, gpu: str) -> None:
        self.problem = problem
        self.gpu = gpu
        self._submissions: dict[str, list[Reason]] = {}
        self._numbers: dict[int, str] = {}
        self._accounts: dict[str, list[Reason]] = {}
        self._jobs: dict[str, str] = {}
        self._leases: set[tuple[str, str]] = set()
        self._runs: dict[str, str] = {}
        self._rejudges: dict[str, list[Reason]] = {}
        self._versions: list[tuple[int, Reason]] = []
        self._duels: dict[str, events.DuelRequested] = {}
        self._confirmations: dict[str, str] = {}

    def fold(self, event: Recorded) -> None:
        """Note what concerns this leaderboard."""
        telling = _TELLING.get(event.envelope.type)
        if telling is None or not is_genuine(event.envelope):
            return
        where, sentence = telling
        fact = event.fact
        envelope = event.envelope
        reason = Reason(event.seq, envelope.type, envelope.at, envelope.actor, sentence(fact))
        history = history_of(envelope.agg)
        about = history if history.startswith("run.") else last_token(history)
        where(self, about, reason, fact)

    def of(self, row: Row, board: Board) -> list[Reason]:
        """The events that made a row, in order."""
        found = [reason for number, reason in self._versions if number == board.number]
        found += self._submissions.get(row.submission, ())
        found += self._accounts.get(row.account, ())
        for number in row.pooled_over:
            if number != row.number:
                reasons = self._submissions[self._numbers[number]]
                found += (reason for reason in reasons if reason.type in _POOLED)
        return sorted(set(found))

    def version(self, slug: str, reason: Reason, fact: events.ProblemPublished) -> None:
        """A version of the problem."""
        if slug == self.problem:
            self._versions.append((fact.number, reason))

    def received(self, submission: str, reason: Reason, fact: events.SubmissionReceived) -> None:
        """From now on this submission's events are noted."""
        if (fact.problem, fact.gpu) == (self.problem, self.gpu):
            self._submissions[submission] = [reason]
            self._numbers[reason.seq] = submission
            self._jobs[submission_job(submission)] = submission

    def submission(self, submission: str, reason: Reason, _fact: object) -> None:
        """An event of a submission, or what was decided about it."""
        if submission in self._submissions:
            self._submissions[submission].append(reason)

    def leased(self, job: str, reason: Reason, fact: events.JobLeased) -> None:
        """A run of a job, which speaks for its submission once it has its order."""
        if job in self._jobs:
            self._leases.add((job, subjects.run(fact.agent, fact.run)))
            self.submission(self._jobs[job], reason, fact)

    def assigned(self, run: str, _reason: Reason, fact: events.JobAssigned) -> None:
        """The order of a run: of two leases that name it, the one that it is of."""
        if (fact.job, run) in self._leases:
            self._runs[run] = self._jobs[fact.job]

    def queued(self, job: str, _reason: Reason, fact: events.JobQueued) -> None:
        """Whose job this is: a rejudge's, or in older logs the submission's own."""
        if fact.submission in self._submissions and not (fact.duel or fact.confirmation):
            self._jobs[job] = fact.submission

    def duel_requested(self, duel: str, reason: Reason, fact: events.DuelRequested) -> None:
        """Two submissions are to be timed in alternation."""
        if (fact.problem, fact.gpu) != (self.problem, self.gpu):
            return
        self._duels[duel] = fact
        for side, other in ((fact.first, fact.second), (fact.second, fact.first)):
            sentence = f"a duel with #{other.number} was requested"
            self.submission(side.submission, reason._replace(sentence=sentence), fact)

    def duel_judged(self, duel: str, reason: Reason, fact: events.DuelJudged) -> None:
        """The end of a duel, as each of the two sees it."""
        requested = self._duels.pop(duel, None)
        if requested is None:
            return
        sides = (("A", requested.first, requested.second), ("B", requested.second, requested.first))
        for name, side, other in sides:
            sentence = _duel_sentence(name, other.number, fact)
            self.submission(side.submission, reason._replace(sentence=sentence), fact)

    def confirmation_requested(
        self, confirmation: str, reason: Reason, fact: events.ConfirmationRequested
    ) -> None:
        """A run is to be repeated on another agent."""
        if (fact.problem, fact.gpu) == (self.problem, self.gpu):
            self._confirmations[confirmation] = fact.item.submission
            self.submission(fact.item.submission, reason, fact)

    def confirmation_judged(
        self, confirmation: str, reason: Reason, fact: events.ConfirmationJudged
    ) -> None:
        """The end of a confirmation."""
        submission = self._confirmations.pop(confirmation, None)
        if submission is not None:
            self.submission(submission, reason, fact)

    def run(self, run: str, reason: Reason, fact: object) -> None:
        """The first verdict of a run, by the agent that was given it."""
        submission = self._runs.pop(run, None)
        if submission is not None:
            self.submission(submission, reason, fact)

    def account(self, account: str, reason: Reason, _fact: object) -> None:
        """A participant was kept off, or let back."""
        self._accounts.setdefault(account, []).append(reason)

    def judged(self, rejudge: str, reason: Reason, fact: events.RejudgeJudged) -> None:
        """A new result, which counts once its rejudge is applied."""
        if fact.submission in self._submissions:
            self.submission(fact.submission, reason, fact)
            self._rejudges.setdefault(rejudge, []).append(reason._replace(sentence=fact.submission))

    def applied(self, rejudge: str, reason: Reason, fact: object) -> None:
        """The results of a rejudge count, or never will."""
        for one in self._rejudges.pop(rejudge, ()):
            self.submission(one.sentence, reason, fact)


def _score(score_us: float | None) -> str:
    return "without a score" if score_us is None else f"{score_us:.3f} us"


def _ranked(fact: events.SubmissionFinished) -> str:
    if fact.is_eligible:
        return f"it may be ranked: {_score(fact.score_us)}"
    return f"it is not ranked ({fact.code}): {fact.reason}"


def _judged_again(fact: events.RejudgeJudged) -> str:
    return f"judged again: {_ranked(fact.result)}"


def _off(fact: events.SubmissionHeld | events.SubmissionDisqualified) -> str:
    return f"it is kept off by the rule {fact.rule!r}: {fact.reason}"


def _banned(fact: events.AccountBanned) -> str:
    until = "for ever" if fact.until_at is None else f"until {fact.until_at.isoformat()}"
    return f"the participant stands on no leaderboard {until}: {fact.reason}"


def _appeal(fact: events.AppealDecided) -> str:
    return f"the appeal was {'accepted' if fact.is_accepted else 'refused'}: {fact.reason}"


def _completed(fact: events.RunCompleted) -> str:
    code = fact.environment.get(events.HARNESS_CODE, "")
    by = f", by harness code {code[:12]}" if code else ""
    return f"the run ended {fact.verdict} with {len(fact.cases)} cases{by}"


def _duel_sentence(name: str, other: int, fact: events.DuelJudged) -> str:
    """What a duel with another submission means for the side of this name."""
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


_POOLED = ("SubmissionReceived", "RunCompleted", "SubmissionFinished", "RejudgeJudged")
_Where = Callable[[Trail, str, Reason, Any], None]
_TELLING: dict[str, tuple[_Where, Callable[[Any], str]]] = {
    "ProblemPublished": (Trail.version, lambda fact: f"version {fact.number} was published"),
    "SubmissionReceived": (
        Trail.received,
        lambda fact: f"source {fact.source.digest[:12]} was submitted, mode {fact.mode}",
    ),
    "JobQueued": (Trail.queued, lambda _: ""),
    "JobLeased": (
        Trail.leased,
        lambda fact: f"run {fact.run} was given to agent {fact.agent}, attempt {fact.attempt}",
    ),
    "JobAssigned": (Trail.assigned, lambda _: ""),
    "RunCompleted": (Trail.run, _completed),
    "SubmissionFinished": (Trail.submission, _ranked),
    "SubmissionHeld": (Trail.submission, _off),
    "SubmissionReleased": (Trail.submission, lambda fact: f"it was released: {fact.reason}"),
    "SubmissionDisqualified": (Trail.submission, _off),
    "SubmissionRestored": (Trail.submission, lambda fact: f"it was restored: {fact.reason}"),
    "SubmissionWithdrawn": (Trail.submission, lambda fact: f"it was withdrawn: {fact.reason}"),
    "AppealDecided": (Trail.submission, _appeal),
    "AccountBanned": (Trail.account, _banned),
    "AccountUnbanned": (Trail.account, lambda fact: f"the ban is over: {fact.reason}"),
    "DuelRequested": (Trail.duel_requested, lambda _: ""),
    "DuelJudged": (Trail.duel_judged, lambda _: ""),
    "ConfirmationRequested": (
        Trail.confirmation_requested,
        lambda fact: f"run {fact.run} is to be repeated on an agent other than {fact.agent}",
    ),
    "ConfirmationJudged": (Trail.confirmation_judged, _confirmation_sentence),
    "RejudgeJudged": (Trail.judged, _judged_again),
    "RejudgeApplied": (Trail.applied, lambda fact: f"the rejudge counts: {fact.reason}"),
    "RejudgeDiscarded": (Trail.applied, lambda fact: f"the rejudge does not count: {fact.reason}"),
}


def told(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    """Reasons as plain data."""
    return [reason._asdict() for reason in reasons]
