"""What one participant is told, in words: with a reason, with a way to appeal, and harmless."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discord_edge.domain import letters
from discord_edge.domain.letters import Owner, Person
from discord_edge.domain.news import Entry, Ranking
from shared.events import (
    AppealDecided,
    Fact,
    SubmissionDisqualified,
    SubmissionFinished,
    SubmissionHeld,
    SubmissionReleased,
    SubmissionRestored,
)

HOSTILE = "**@everyone** <@&1> `x`\n# big"
OWNER = Owner(participant_id="a", discord="7", number=12, problem="sort", gpu="H100", mode="ranked")


def finished(*, is_held: bool) -> SubmissionFinished:
    """An end of a submission."""
    return SubmissionFinished(
        outcome="passed", is_eligible=not is_held, code="c", reason=HOSTILE, is_held=is_held
    )


@pytest.mark.parametrize(
    ("fact", "said", "may_appeal"),
    [
        (SubmissionHeld(rule="compute anew", reason=HOSTILE), "is held", True),
        (finished(is_held=True), "is held", True),
        (SubmissionDisqualified(rule="compute anew", reason=HOSTILE), "is disqualified:", True),
        (SubmissionReleased(reason=HOSTILE), "is held no longer", False),
        (SubmissionRestored(reason=HOSTILE), "is disqualified no longer", False),
        (AppealDecided(is_accepted=True, reason=HOSTILE), "your appeal is accepted", False),
        (AppealDecided(is_accepted=False, reason=HOSTILE), "your appeal is rejected", False),
    ],
)
def test_what_is_decided_is_told_with_its_reason(fact: Fact, said: str, may_appeal: bool) -> None:
    found = letters.decided(fact, OWNER)
    assert found is not None
    text, is_appealed = found
    assert said in text
    assert is_appealed == may_appeal
    assert "Reason: " in text
    assert "@everyone" not in text
    assert "<@&1>" not in text
    assert ("Rule: compute anew" in text) == hasattr(fact, "rule")


def test_no_letter_is_longer_than_discord_takes() -> None:
    found = letters.decided(SubmissionDisqualified(rule="*" * 900, reason="*" * 900), OWNER)
    assert found is not None
    assert len(f"{found[0]}\n{letters.how_to_appeal(OWNER.number)}") < 2000


def test_an_end_that_is_nobodys_decision_is_no_letter() -> None:
    assert letters.decided(finished(is_held=False), OWNER) is None


def test_nothing_is_wanted_until_it_is_chosen_or_without_discord() -> None:
    person = Person(participant_id="a", discord="7", preferences={"overtaken": "off"})
    assert not person.wants("overtaken")
    assert not person.wants("run_finished")
    assert not Person(participant_id="a", preferences={"overtaken": "dm"}).wants("overtaken")


SCORES = st.lists(st.floats(1, 1000), min_size=1, max_size=12, unique=True)


@given(SCORES, st.integers(0, 11), st.one_of(st.none(), st.floats(1, 2000)))
def test_who_was_behind_before_is_not_overtaken(
    scores: list[float], place: int, before_us: float | None
) -> None:
    rows = [
        Entry(rank=rank, submission=str(rank), number=rank, score_us=score)
        for rank, score in enumerate(sorted(scores), 1)
    ]
    entry = rows[place % len(rows)]
    passed = letters.behind(entry, Ranking(problem="p", gpu="g", items=rows), before_us)
    for one in rows:
        was_ahead = before_us is None or one.score_us < before_us
        assert (one in passed) == (one.score_us > entry.score_us and was_ahead)
