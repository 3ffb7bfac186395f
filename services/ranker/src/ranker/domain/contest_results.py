"""The results of a contest as the log has them, and whether each was decided by the rules."""

from dataclasses import dataclass, field

from ranker.domain.conclusion import confirmation_text
from ranker.domain.contest_review import find_winners
from shared import events, subjects
from shared.api.audits import AuditedPlace, AuditedResults, CausingEvent, Finding
from shared.contests.definition import REVIEW_ITEMS, Contest
from shared.event_log import RecordedEvent
from shared.subjects import last_token
from shared.wire import is_genuine

KINDS = frozenset(
    kind.__name__
    for kind in (
        events.ContestResultsProposed,
        events.ContestResultsConfirmed,
        events.ContestReviewed,
        events.ConfirmationRequested,
        events.ConfirmationJudged,
    )
)


@dataclass
class ResultsFold:
    """Folds how a contest's results were announced, reviewed and confirmed."""

    slug: str
    findings: list[Finding] = field(default_factory=list)
    _proposed: tuple[int, events.ContestResultsProposed] | None = None
    _confirmed_seq: int | None = None
    _reviews: dict[tuple[str, str], bool] = field(default_factory=dict)
    _requested: dict[str, str] = field(default_factory=dict)
    _repetitions: dict[str, list[CausingEvent]] = field(default_factory=dict)

    def fold(self, event: RecordedEvent, contest: Contest | None) -> None:
        """Fold the next event, with the definition of that moment."""
        if event.envelope.type not in KINDS or not is_genuine(event.envelope):
            return
        fact, id_ = event.fact, last_token(event.envelope.aggregate)
        if isinstance(fact, events.ConfirmationRequested):
            if fact.contest == self.slug:
                self._requested[id_] = fact.item.submission
        elif isinstance(fact, events.ConfirmationJudged):
            if (submission := self._requested.pop(id_, None)) is not None:
                text = confirmation_text(fact) or f"no result ({fact.code}): {fact.reason}"
                reason = CausingEvent(
                    *(event.seq, event.envelope.type, event.envelope.at, event.envelope.actor),
                    text,
                )
                self._repetitions.setdefault(submission, []).append(reason)
        elif event.envelope.aggregate == subjects.contest(self.slug):
            self._fold_contest(event, fact, contest)

    def _fold_contest(
        self, event: RecordedEvent, fact: events.Fact, contest: Contest | None
    ) -> None:
        if isinstance(fact, events.ContestResultsProposed):
            self._proposed, self._confirmed_seq = (event.seq, fact), None
        elif isinstance(fact, events.ContestReviewed):
            self._reviews[fact.contestant, fact.item] = fact.is_passed
        elif isinstance(fact, events.ContestResultsConfirmed):
            fault = self._find_fault(event, fact, contest)
            if fault:
                self.findings.append(Finding(event.seq, f"results were confirmed {fault}"))
            self._confirmed_seq = event.seq

    def _find_fault(
        self,
        event: RecordedEvent,
        fact: events.ContestResultsConfirmed,
        contest: Contest | None,
    ) -> str:
        """Why results could not be confirmed then, "" if they could."""
        if self._proposed is None or contest is None:
            return "that nobody had announced"
        _, proposed = self._proposed
        if fact.places != proposed.places:
            return "with other places than those that were announced"
        until_at = proposed.appeals_until_at
        if until_at is not None and event.envelope.at < until_at:
            return f"while they could be appealed, until {until_at.isoformat()}"
        for contestant in sorted(find_winners(contest, fact.places)):
            for item in REVIEW_ITEMS:
                if not self._reviews.get((contestant, item)):
                    return f"although the check {item} of {contestant} had not passed"
        return ""

    def results(self, submissions: dict[str, list[str]]) -> AuditedResults | None:
        """The newest results; `submissions` are those of each contestant."""
        if self._proposed is None:
            return None
        seq, proposed = self._proposed
        return AuditedResults(
            proposed_seq=seq,
            confirmed_seq=self._confirmed_seq,
            places=[
                AuditedPlace(
                    contestant=place.contestant,
                    division=place.division,
                    place=place.place,
                    points=place.points,
                    repetitions=sorted(
                        reason
                        for submission in submissions.get(place.contestant, ())
                        for reason in self._repetitions.get(submission, ())
                    ),
                )
                for place in proposed.places
            ],
        )
