"""Finalists are admitted and results become final by rules; each refusal says what is missing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from ingest.contests.commands import (
    AdmitFinalists,
    ConfirmResults,
    ContestCommand,
    ProposeResults,
    ReviewWinner,
)
from ingest.contests.rules import decide
from ingest.contests.state import ContestState, fold_contest
from shared import events
from shared.api.contest_standings import ContestStandingRow, DivisionStanding
from shared.contests.definition import (
    REVIEW_ITEMS,
    Contest,
    ContestPlace,
    ContestProblem,
    Division,
    Phase,
)
from shared.errors import Refused
from shared.presentation.contests import find_outdated

T0 = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def contest() -> Contest:
    """A contest with a qualifier of an hour, finals of an hour, and appeals of two."""
    problems = [
        ContestProblem(slug="first", round="qualifier", starts_at=T0, ends_at=T0 + HOUR),
        ContestProblem(slug="last", round="finals", starts_at=T0 + HOUR, ends_at=T0 + 2 * HOUR),
    ]
    return Contest(
        slug="spring",
        title="Spring",
        terms="Be fair.",
        organisers=["olga"],
        problems=problems,
        divisions=[Division(slug="open", title="Open")],
        phases=[Phase(kind="registration", starts_at=T0 - HOUR)],
        register_until_at=T0,
        finalists=2,
        podium=2,
        appeal_hours=2,
    )


def places(*contestants: str) -> tuple[ContestPlace, ...]:
    """The places of contestants, in order."""
    return tuple(
        ContestPlace(contestant=name, division="open", place=place, points=10.0 - place)
        for place, name in enumerate(contestants, 1)
    )


def begun() -> ContestState:
    """A contest with four people."""
    facts: list[events.Fact] = [events.ContestPublished(number=1, contest=contest())]
    facts += [
        events.ContestRegistered(account=name, division="open", terms_digest="d")
        for name in ("ada", "ben", "eve", "dan")
    ]
    return fold_contest(ContestState(), facts)


def after(state: ContestState, *commands: ContestCommand) -> ContestState:
    """The state after some commands."""
    for command in commands:
        state = fold_contest(state, decide(command, state))
    return state


def refusal(command: ContestCommand, state: ContestState) -> str:
    """Return why a command is refused."""
    with pytest.raises(Refused) as refused:
        decide(command, state)
    return refused.value.reason


def test_the_first_of_the_qualifier_are_admitted_once_it_is_over() -> None:
    admit = AdmitFinalists(("ada", "ben"), 9, "", T0 + HOUR - timedelta(seconds=1))
    assert "takes submissions until 2026-01-01T01:00" in refusal(admit, begun())
    state = after(begun(), replace(admit, at=T0 + HOUR))
    assert state.finalists == {"ada", "ben"}
    assert decide(replace(admit, at=T0 + HOUR), state) == ()
    stranger = replace(admit, contestants=("zoe",), at=T0 + HOUR)
    assert refusal(stranger, state) == "zoe is not a contestant"


def test_a_finalist_is_not_dropped_in_silence_once_the_finals_have_begun() -> None:
    before = T0 + HOUR
    begun_at = before + timedelta(seconds=1)
    state = after(begun(), AdmitFinalists(("ada", "ben"), 9, "", before))
    # One who was forgotten may be added.
    state = after(state, AdmitFinalists(("ada", "ben", "eve"), 9, "late", begun_at))
    without_ada = AdmitFinalists(("ben", "eve"), 9, "", begun_at)
    assert "disqualify" in refusal(without_ada, state)


@pytest.mark.feature("N14")
def test_results_are_final_when_appeals_are_over_and_each_check_of_a_winner_passed() -> None:
    over_at = T0 + 2 * HOUR
    state = begun()
    confirm = ConfirmResults(over_at + 2 * HOUR)
    assert "propose them first" in refusal(confirm, state)
    propose = ProposeResults(places("ada", "ben", "eve"), 20, over_at)
    early = replace(propose, at=over_at - timedelta(seconds=1))
    assert "the contest takes submissions until" in refusal(early, state)
    state = after(state, propose)
    reason = refusal(replace(confirm, at=over_at + HOUR), state)
    assert reason.startswith("the results may be appealed until 2026-01-01T04:00")
    assert refusal(confirm, state).startswith("the check rerun of ada is open")
    passed = [
        ReviewWinner(name, item, True, "") for name in ("ada", "ben") for item in REVIEW_ITEMS
    ]
    state = after(state, *passed)
    failed = after(state, ReviewWinner("ben", "code", False, "it reads the clock"))
    assert refusal(confirm, failed).startswith("the check code of ben failed")
    third = ReviewWinner("eve", "code", True, "")
    assert "not among the winners" in refusal(third, state)
    (confirmed,) = decide(confirm, state)
    assert isinstance(confirmed, events.ContestResultsConfirmed)
    assert (confirmed.places, confirmed.as_of_seq) == (list(propose.places), 20)
    state = after(state, confirm)
    assert state.is_final
    assert decide(confirm, state) == ()
    assert "are final" in refusal(passed[0], state)
    # Results that are proposed again are provisional again.
    assert not after(state, replace(propose, places=places("ben", "ada"))).is_final


def test_results_that_the_standing_no_longer_gives_are_not_confirmed() -> None:
    over_at = T0 + 2 * HOUR
    state = after(begun(), ProposeResults(places("ada", "ben"), 20, over_at))
    row = ContestStandingRow(rank=1, is_tied=False, points=9.0, contestant="ben", name="Ben")
    division = DivisionStanding(division="open", title="Open", rows=[row])
    names = {"ada": "Ada", "ben": "Ben"}
    outdated = find_outdated(places("ada", "ben"), [division], names)
    assert outdated == (
        "Ada had place 1 and is not in the standing any more, so Ben advances to it: announce the"
        " results again"
    )
    confirm = ConfirmResults(over_at + 2 * HOUR, outdated, names)
    assert refusal(confirm, state) == outdated


def test_nobody_is_admitted_where_the_finals_are_open_to_all() -> None:
    open_to_all = events.ContestPublished(number=2, contest=replace_finalists(0))
    state = fold_contest(begun(), [open_to_all])
    reason = refusal(AdmitFinalists(("ada",), 9, "", T0 + HOUR), state)
    assert reason.startswith("nobody has to be admitted: the finals are open to all contestants")


def replace_finalists(count: int) -> Contest:
    """The contest with another number of finalists."""
    return structs.replace(contest(), finalists=count)
