"""Which submissions a contest takes: by phase, window and registration."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from ingest.contests.rules import check_not_disqualified
from ingest.contests.state import ContestState
from ingest.problems.rules import Problem, check_in_time, check_not_archived, is_over
from shared.api.fields import QueueClass
from shared.contests.definition import (
    Contest,
    ContestProblem,
    Phase,
    has_closed,
    is_in_window,
    phase_at,
    round_at,
)
from shared.contests.definition import is_over as is_contest_over
from shared.errors import Refused
from shared.events import SubmissionReceived

# After the rounds anybody may practise, if the phase says so.
OPEN_KINDS = ("review", "archive")


class ContestEntry(NamedTuple):
    """What a submission is sent to: the contest, by whom, in which phase, and whether it scores.

    `contestant` is "" for somebody who does not take part.
    """

    contest: Contest
    contestant: str
    phase: Phase
    scores: bool

    @property
    def queue_class(self) -> QueueClass:
        """Return the class in the queue: that of contests while it scores."""
        return "contest" if self.scores else "practice"


class Attempt(NamedTuple):
    """A submission that an account sends to a problem, by its slug, at an instant."""

    account: str
    slug: str
    mode: str
    at: datetime


def admit(attempt: Attempt, problem: Problem, contest: ContestState | None) -> ContestEntry | None:
    """Return what a submission to a problem is sent to; None if that is no contest.

    `contest` is the state of the problem's contest. Raises `Refused` after the deadline, and for a
    submission that the contest does not take.
    """
    account, slug, mode, at = attempt
    definition = contest.contest if contest is not None else None
    entered = definition.problem(slug) if definition is not None else None
    if contest is None or definition is None or entered is None:
        check_in_time(slug, problem, at)
        return None
    check_not_archived(slug, problem)
    phase = phase_at(definition, at)
    if phase is None or mode not in phase.modes:
        raise _closed_phase(definition, phase, mode, at)
    if phase.kind in OPEN_KINDS:
        return ContestEntry(definition, "", phase, scores=False)
    _check_takes_part(definition, account, contest)
    round_, contestant = round_at(definition, at), contest.contestant_of(account)
    if round_ is not None:
        _check_window(definition, entered, at)
        if round_ == "finals" and contestant not in contest.finalists:
            message = f"only those admitted to the finals of {definition.title} can submit now"
            raise Refused("contest_closed", message, "problem")
    return ContestEntry(definition, contestant, phase, scores=round_ is not None)


def enter(
    submissions: Sequence[SubmissionReceived],
    problem: Problem,
    contest: ContestState | None,
    at: datetime,
    *,
    is_for_operator: bool,
) -> list[SubmissionReceived]:
    """Return the submissions of a request with what they are sent to at an instant.

    That is a contest, or practice after the deadline of a leaderboard that is in none.

    Raises `Refused` as `admit`, but an operator may send a submission at any time.
    """
    first = submissions[0]
    try:
        entry = admit(Attempt(first.account, first.problem, first.mode, at), problem, contest)
    except Refused:
        if not is_for_operator:
            raise
        entry = None
    if entry is None:
        # What an operator sends for somebody is marked otherwise: it is held for review.
        is_practice = not is_for_operator and is_over(problem, at)
        return [structs.replace(it, is_practice=is_practice) for it in submissions]
    return [
        structs.replace(
            submission,
            class_=entry.queue_class,
            contest=entry.contest.slug,
            contestant=entry.contestant,
        )
        for submission in submissions
    ]


def check_may_withdraw(received: SubmissionReceived, contest: ContestState, at: datetime) -> None:
    """Refuse to withdraw what may be an entry from the close of its contest until the results.

    Everybody knows the places then, and a withdrawal would move those of others.
    """
    definition = contest.contest
    if definition is None or not received.contestant or received.mode != "ranked":
        return
    if has_closed(definition, at) and not (contest.is_final or is_contest_over(definition, at)):
        message = f"{definition.title} has closed and its results are not final"
        raise Refused("under_review", f"{message}: withdraw it then, or ask the organisers")


def _closed_phase(contest: Contest, phase: Phase | None, mode: str, at: datetime) -> Refused:
    """Return the refusal of a mode outside of the phases that accept it, with when one does."""
    following = next(
        (later for later in contest.phases if later.starts_at > at and mode in later.modes), None
    )
    if phase is not None:
        now_text = f"the phase {phase.kind} of {contest.title} takes "
        now_text += f"{' and '.join(phase.modes) or 'no'} submissions"
    else:
        now_text = f"{contest.title} takes no submissions now"
    when = f"; {mode} is open from {following.starts_at.isoformat()} on" if following else ""
    wait_s = (following.starts_at - at).total_seconds() if following else None
    return Refused("contest_closed", now_text + when, "mode", wait_s)


def _check_takes_part(contest: Contest, account: str, state: ContestState) -> None:
    if account not in state.people:
        message = f"{contest.title} takes submissions of registered participants: "
        message += f"`warpboard contest register {contest.slug}`"
        raise Refused("not_registered", message)
    check_not_disqualified(account, state)


def _check_window(contest: Contest, problem: ContestProblem, at: datetime) -> None:
    if is_in_window(problem, at):
        return
    if at < problem.starts_at:
        message = f"{problem.slug} opens in {contest.title} at {problem.starts_at.isoformat()}"
        wait_s = (problem.starts_at - at).total_seconds()
        raise Refused("contest_closed", message, "problem", wait_s)
    message = f"{problem.slug} closed in {contest.title} at {problem.ends_at.isoformat()}"
    raise Refused("contest_closed", message, "problem")
