"""Folds the standing of a contest at any moment from events in memory, without SQL."""

from datetime import datetime
from typing import NamedTuple, TypeAlias, get_args

from ranker.domain.contest_results import ResultsFold
from ranker.domain.contests import (
    PRACTICE,
    ContestRun,
    CountedRuns,
    Person,
    Roster,
    Team,
    Window,
    derive_divisions,
    find_gpu,
    find_windows,
)
from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import Standings
from shared import events, subjects
from shared.api.audits import AuditedResults
from shared.api.contest_standings import DivisionStanding, StandingRound
from shared.contests.definition import Contest
from shared.event_log import RecordedEvent
from shared.subjects import last_token
from shared.wire import is_genuine

RANKED = "ranked"

# What moves the standing of a contest besides the results on its leaderboards.
PeopleFact: TypeAlias = (
    events.ContestRegistered
    | events.ContestRegistrationWithdrawn
    | events.ContestTeamCreated
    | events.ContestTeamJoined
    | events.ContestTeamLeft
    | events.ContestCaptainChanged
    | events.ContestDeclared
    | events.ContestDisqualified
    | events.ContestRestored
)
_PEOPLE = frozenset(kind.__name__ for kind in get_args(PeopleFact))


class ContestSubmission(NamedTuple):
    """A submission to a problem of a contest, by its contestant of that moment."""

    problem: str
    contestant: str
    mode: str
    received_at: datetime


class ContestFold:
    """The state of one contest, folded from the log."""

    def __init__(self, slug: str) -> None:
        self.slug = slug
        self.contest: Contest | None = None
        self.number = 0
        self.roster = Roster()
        self.standings = Standings()
        self.results = ResultsFold(slug)
        self._submissions: dict[str, ContestSubmission] = {}
        self._gpus: dict[str, list[str]] = {}

    def fold(self, event: RecordedEvent) -> None:
        """Fold the next event. Raises UnknownEvent."""
        self.standings.fold(event)
        self.results.fold(event, self.contest)
        kind, envelope = event.envelope.type, event.envelope
        if not is_genuine(envelope):
            return
        if kind == "SubmissionReceived":
            self._receive(event)
        elif kind == "LeaderboardChanged":
            fact = event.fact
            if isinstance(fact, events.LeaderboardChanged) and fact.gpus is not None:
                self._gpus[last_token(envelope.aggregate)] = fact.gpus
        elif envelope.aggregate == subjects.contest(self.slug):
            self._fold_contest(event)

    def _receive(self, event: RecordedEvent) -> None:
        fact = event.fact
        if isinstance(fact, events.SubmissionReceived) and fact.contest == self.slug:
            self._submissions[last_token(event.envelope.aggregate)] = ContestSubmission(
                fact.problem,
                fact.contestant,
                fact.mode,
                fact.sent_at or event.envelope.at,
            )

    def _fold_contest(self, event: RecordedEvent) -> None:
        fact = event.fact
        if isinstance(fact, events.ContestPublished):
            self.contest, self.number = fact.contest, fact.number
        elif isinstance(fact, events.ContestFinalistsAdmitted):
            self.roster.finalists = frozenset(fact.contestants)
        elif event.envelope.type in _PEOPLE:
            assert isinstance(fact, PeopleFact), "a type names its class"
            _fold_people(self.roster, fact)

    def derive_results(self) -> AuditedResults | None:
        """Return the newest results with the events that made them; None without any."""
        submissions: dict[str, list[str]] = {}
        for id_, submission in self._submissions.items():
            submissions.setdefault(submission.contestant, []).append(id_)
        return self.results.results(submissions)

    def derive(
        self, round_: StandingRound, until_at: datetime | None, at: datetime
    ) -> list[DivisionStanding]:
        """Return the standing of each division, with the bans at an instant.

        Nothing that was received from `until_at` on counts. Without a contest there is no division.
        """
        if self.contest is None:
            return []
        windows = find_windows(self.contest, round_, until_at)
        boards = {slug: board for slug in windows if (board := self._find_board(slug))}
        counts: dict[str, int] = {}
        for submission in self._submissions.values():
            window = windows.get(submission.problem)
            is_counted = submission.mode == RANKED and submission.contestant
            if window is not None and is_counted and window.has(submission.received_at):
                counts[submission.contestant] = counts.get(submission.contestant, 0) + 1
        counted = CountedRuns(
            runs={
                slug: self._find_runs(board, windows[slug], round_, at)
                for slug, board in boards.items()
            },
            wins={slug: self.standings.wins.get(board, {}) for slug, board in boards.items()},
            gpus={slug: board.gpu for slug, board in boards.items()},
            submissions_counts=counts,
        )
        return derive_divisions(self.contest, round_, self.roster, counted)

    def _find_board(self, slug: str) -> LeaderboardKey | None:
        newest = self.standings.newest.get(slug)
        problem = self.contest and self.contest.problem(slug)
        if newest is None or not problem:
            return None
        gpu = find_gpu(problem, self._gpus.get(slug, newest.gpus))
        return LeaderboardKey(slug, gpu, newest.number) if gpu else None

    def _find_runs(
        self, board: LeaderboardKey, window: Window, round_: StandingRound, at: datetime
    ) -> list[ContestRun]:
        runs = []
        for submission, result in self.standings.eligible_results(board).items():
            received, known = self.standings.received[submission], self._submissions.get(submission)
            account = self.standings.account_of(received)
            if not window.has(received.received_at) or self.standings.is_banned(account, at):
                continue
            contestant = known.contestant if known else ""
            if round_ == PRACTICE:
                contestant = account
            if contestant:
                runs.append(
                    ContestRun(
                        submission=submission,
                        account=account,
                        contestant=contestant,
                        number=received.number,
                        source=received.source,
                        received_at=received.received_at,
                        result=result,
                    )
                )
        return runs


def _fold_people(  # noqa: C901, PLR0912  (one case for each event)
    roster: Roster, fact: PeopleFact
) -> None:
    people, teams = roster.people, roster.teams
    person: Person | None
    match fact:
        case events.ContestRegistered():
            person = people.setdefault(fact.account, Person(fact.account, fact.division))
            person.division, person.is_registered = fact.division, True
        case events.ContestRegistrationWithdrawn():
            if (person := people.get(fact.account)) is not None:
                person.is_registered, person.team = False, ""
        case events.ContestTeamCreated():
            person = people.get(fact.captain)
            division = person.division if person is not None else ""
            teams.setdefault(fact.team, Team(fact.team, fact.name, fact.captain, division))
            if person is not None:
                person.team = fact.team
        case events.ContestTeamJoined():
            if (person := people.get(fact.account)) is not None:
                person.team = fact.team
        case events.ContestTeamLeft():
            person = people.get(fact.account)
            if person is not None and person.team == fact.team:
                person.team = ""
        case events.ContestCaptainChanged():
            if (team := teams.get(fact.team)) is not None:
                team.captain = fact.captain
        case events.ContestDeclared():
            for contestant in (people.get(fact.contestant), teams.get(fact.contestant)):
                if contestant is not None:
                    contestant.division = fact.division
        case events.ContestDisqualified() | events.ContestRestored():
            for contestant in (people.get(fact.subject), teams.get(fact.subject)):
                if contestant is not None:
                    contestant.is_disqualified = isinstance(fact, events.ContestDisqualified)
