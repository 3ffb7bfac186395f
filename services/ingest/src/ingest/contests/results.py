"""Contests: who is admitted to the finals, and how results become final."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ingest.contests.commands import AdmitFinalists, ConfirmResults, ProposeResults, ReviewWinner
from ingest.contests.state import ContestState, definition
from shared import events
from shared.contests.definition import REVIEW_ITEMS, Contest, Round
from shared.errors import Refused


def admit_finalists(command: AdmitFinalists, state: ContestState) -> Sequence[events.ContestFact]:
    """Return that the contestants may take part in the finals. Raises `Refused`."""
    contest = definition("", state)
    check_has_finalists(contest)
    _check_over(contest, command.at, "qualifier")
    if not command.contestants:
        message = "nobody has a place in the qualifier: name the contestants"
        raise Refused("wrong_state", message, "contestants")
    known = {*state.people, *state.teams}
    if unknown := sorted(set(command.contestants) - known):
        message = f"{unknown[0]} is not a contestant"
        raise Refused("unknown_contestant", message, "contestants")
    if frozenset(command.contestants) == state.finalists:
        return ()
    finals = [problem for problem in contest.problems if problem.round == "finals"]
    have_begun = any(problem.starts_at <= command.at for problem in finals)
    if have_begun and state.finalists.difference(command.contestants):
        message = "the finals have begun, so nobody leaves them: disqualify them, with a reason"
        raise Refused("wrong_state", message, "contestants")
    return (
        events.ContestFinalistsAdmitted(
            contestants=list(command.contestants),
            as_of_seq=command.as_of_seq,
            reason=command.reason,
        ),
    )


def check_has_finalists(contest: Contest) -> None:
    """Refuse a contest whose finals, if it has any, are open to all contestants."""
    rounds = {problem.round for problem in contest.problems}
    if not {"qualifier", "finals"} <= rounds:
        message = "nobody can be admitted: this contest has no qualifier with finals after it"
        raise Refused("wrong_state", message, "contest")
    if not contest.finalists:
        message = (
            "nobody has to be admitted: the finals are open to all contestants, since finalists is"
            " 0; to limit them, write finalists: N in contest.yml and update the contest"
        )
        raise Refused("wrong_state", message, "contest")


def propose_results(command: ProposeResults, state: ContestState) -> Sequence[events.ContestFact]:
    """Return the provisional results; they can be appealed from now on. Raises `Refused`."""
    contest = definition("", state)
    _check_over(contest, command.at)
    if not command.places:
        raise Refused("wrong_state", "nobody has a place in this contest", "contest")
    return (
        events.ContestResultsProposed(
            places=list(command.places),
            as_of_seq=command.as_of_seq,
            appeals_until_at=command.at + timedelta(hours=contest.appeal_hours),
        ),
    )


def review_winner(command: ReviewWinner, state: ContestState) -> Sequence[events.ContestFact]:
    """Return the decision on an item of a winner's check list. Raises `Refused`."""
    if command.contestant not in _winners(state):
        name = command.name or command.contestant
        message = f"{name} is not among the winners of the provisional results"
        raise Refused("unknown_contestant", message, "contestant")
    if state.is_final:
        raise Refused("wrong_state", "the results are final: propose others first", "contest")
    return (
        events.ContestReviewed(
            contestant=command.contestant,
            item=command.item,
            is_passed=command.is_passed,
            note=command.note,
        ),
    )


def confirm_results(command: ConfirmResults, state: ContestState) -> Sequence[events.ContestFact]:
    """Return that the provisional results are final. Raises `Refused` if a check is open."""
    proposed = state.proposed
    winners = _winners(state)
    assert proposed is not None, "there are winners"
    if state.is_final:
        return ()
    until_at = proposed.appeals_until_at
    if until_at is not None and command.at < until_at:
        message = f"the results may be appealed until {until_at.isoformat()}: confirm them then"
        raise Refused("wrong_state", message, "contest")
    if command.outdated:
        raise Refused("wrong_state", command.outdated, "contest")
    for contestant in winners:
        for item in REVIEW_ITEMS:
            if not state.reviews.get((contestant, item)):
                name = command.names.get(contestant) or contestant
                message = f"the check {item} of {name}"
                if (contestant, item) in state.reviews:
                    hint = "disqualify them and announce the results again, or let it pass"
                    raise Refused("wrong_state", f"{message} failed: {hint}", "contest")
                raise Refused("wrong_state", f"{message} is open: decide it first", "contest")
    return (events.ContestResultsConfirmed(places=proposed.places, as_of_seq=proposed.as_of_seq),)


def _winners(state: ContestState) -> list[str]:
    """The contestants on the podium of each division of the provisional results."""
    contest = definition("", state)
    if state.proposed is None:
        message = "there are no provisional results: propose them first"
        raise Refused("wrong_state", message, "contest")
    places = state.proposed.places
    return [place.contestant for place in places if place.place <= contest.podium]


def _check_over(contest: Contest, at: datetime, round_: Round | None = None) -> None:
    """Refuse while a problem of a round, by default of any, takes submissions that score."""
    ends = [problem.ends_at for problem in contest.problems if round_ in (None, problem.round)]
    if not ends:
        raise Refused("wrong_state", f"this contest has no problem in its {round_}", "contest")
    if at < max(ends):
        period = f"the {round_}" if round_ else "the contest"
        message = f"{period} takes submissions until {max(ends).isoformat()}: wait until then"
        raise Refused("wrong_state", message, "contest")
