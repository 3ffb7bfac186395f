"""What a release may contain: visibility, consent, withdrawal, embargo and licences, at an event.

It is folded twice, up to the previous release and up to this one: what differs leaves or joins.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from ranker.domain.rows import RANKED
from shared import events, subjects
from shared.contests.visibility import Embargo, list_embargoes
from shared.embargo import is_published
from shared.event_log import RecordedEvent
from shared.licences import UNDECIDED, Licence, choose_licence
from shared.subjects import last_token
from shared.wire import is_genuine, is_written_by_agent

PUBLIC = "public"
WITHDRAWN, CONSENT = "withdrawn", "consent"
FOLDED = frozenset(
    kind.__name__
    for kind in (
        *(events.ProblemPublished, events.LeaderboardChanged, events.SubmissionWithdrawn),
        *(events.ConsentGiven, events.ConsentWithdrawn, events.PreferenceSet),
        events.ContestPublished,
    )
)
LICENCE = "licence"


class Tombstone(NamedTuple):
    """Why and when a submission left: the event, its time, and the reason.

    Without a consent that its version needs it was never there: 0 and None.
    """

    seq: int
    at: datetime | None
    reason: str


@dataclass
class Problem:
    """A problem as its leaderboards are published."""

    visibility: str = PUBLIC
    deadline_at: datetime | None = None
    contest: str = ""
    versions: dict[int, events.ProblemPublished] = field(default_factory=dict)


@dataclass
class Publication:
    """The state of everything that decides whether a row is in a release.

    `at` is the time of the newest event; `licence` is the operator's default, "" for none.
    """

    licence: str
    at: datetime | None = None
    problems: dict[str, Problem] = field(default_factory=dict)
    withdrawn: dict[str, Tombstone] = field(default_factory=dict)
    consents: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    refusals: dict[tuple[str, str], Tombstone] = field(default_factory=dict)
    licences: dict[str, str] = field(default_factory=dict)
    embargoes: dict[str, list[Embargo]] = field(default_factory=dict)

    def fold(  # noqa: C901  (one case for each event)
        self, event: RecordedEvent
    ) -> None:
        """Fold the next event."""
        if not is_written_by_agent(event.envelope):
            self.at = max(self.at or event.envelope.at, event.envelope.at)
        if event.envelope.type not in FOLDED or not is_genuine(event.envelope):
            return
        fact, id_ = event.fact, last_token(event.envelope.aggregate)
        match fact:
            case events.ProblemPublished() | events.LeaderboardChanged():
                self._change(self.problems.setdefault(id_, Problem()), fact)
            case events.SubmissionWithdrawn():
                departure = Tombstone(event.seq, event.envelope.at, WITHDRAWN)
                self.withdrawn.setdefault(id_, departure)
            case events.ConsentGiven():
                self.consents.setdefault((id_, fact.problem), set()).add(fact.digest)
            case events.ConsentWithdrawn():
                self.consents.pop((id_, fact.problem), None)
                departure = Tombstone(event.seq, event.envelope.at, CONSENT)
                self.refusals[id_, fact.problem] = departure
            case events.ContestPublished():
                self.embargoes[id_] = list_embargoes(fact.contest)
            case events.PreferenceSet(preference="licence"):
                self.licences[id_] = fact.value
            case _:
                pass

    def _change(
        self, problem: Problem, fact: events.ProblemPublished | events.LeaderboardChanged
    ) -> None:
        if isinstance(fact, events.ProblemPublished):
            problem.versions[fact.number] = fact
            return
        if fact.visibility is not None:
            problem.visibility = fact.visibility
        if fact.contest is not None:
            problem.contest = fact.contest
        if fact.has_deadline is not None:
            problem.deadline_at = fact.deadline_at if fact.has_deadline else None

    def shows_problem(self, slug: str) -> bool:
        """Whether a problem is on public leaderboards."""
        problem = self.problems.get(slug)
        if problem is None or not problem.versions or problem.visibility != PUBLIC:
            return False
        return not any(embargo.hides_ranks for embargo in self._embargoes(slug))

    def _embargoes(self, slug: str) -> list[Embargo]:
        """What the contest of a problem hides by now."""
        at, embargoes = self.at, self.embargoes.get(self.problems[slug].contest, ())
        return [
            embargo
            for embargo in embargoes
            if embargo.problem == slug and at is not None and embargo.is_at(at)
        ]

    def shows_submission(self, id_: str, fact: events.SubmissionReceived) -> bool:
        """Whether a submission is in the data set."""
        is_public = fact.mode == RANKED and self.shows_problem(fact.problem)
        return is_public and self.departure(id_, fact) is None

    def departure(self, id_: str, fact: events.SubmissionReceived) -> Tombstone | None:
        """Why a ranked submission to a public leaderboard is not in the data set; None if it is."""
        if id_ in self.withdrawn:
            return self.withdrawn[id_]
        version = self._version(fact)
        if version is None or not version.consent:
            return None
        accepted = self.consents.get((fact.account, fact.problem), set())
        if version.files[version.consent].digest in accepted:
            return None
        return self.refusals.get((fact.account, fact.problem), Tombstone(0, None, CONSENT))

    def licence_of(self, id_: str, fact: events.SubmissionReceived) -> Licence | None:
        """The licence of a source that is in the data set; None if the source is not."""
        if not self.shows_submission(id_, fact) or not self._is_published(fact):
            return None
        account = self.licences.get(fact.account, UNDECIDED)
        return choose_licence(fact.licence, account, self.licence)

    def publishes_sources(self, slug: str) -> bool:
        """Whether sources of a problem are in the data set, those of any version."""
        problem = self.problems.get(slug)
        if problem is None or not self.shows_problem(slug):
            return False
        return any(self._is_open(slug, version) for version in problem.versions.values())

    def _is_published(self, fact: events.SubmissionReceived) -> bool:
        """Whether the embargo of a submission's source is over."""
        version = self._version(fact)
        return version is not None and self._is_open(fact.problem, version)

    def _is_open(self, slug: str, version: events.ProblemPublished) -> bool:
        """Whether the sources of a version are published by now."""
        if any(embargo.sources != PUBLIC for embargo in self._embargoes(slug)):
            return False
        return is_published(version.publish, self.problems[slug].deadline_at, self.at)

    def _version(self, fact: events.SubmissionReceived) -> events.ProblemPublished | None:
        problem = self.problems.get(fact.problem)
        return problem.versions.get(fact.problem_number) if problem else None


def is_baseline(fact: events.SubmissionReceived) -> bool:
    """Whether the platform itself runs it, beside a problem's submissions."""
    return bool(fact.baseline) or fact.account == subjects.BASELINE_ACCOUNT
