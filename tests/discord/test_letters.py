"""What one participant is told, in words: with a reason, with a way to appeal, and harmless."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discord_edge.notifications import texts
from shared.api.accounts import DiscordParticipant, Preferences, SubmissionOwner
from shared.api.leaderboards import Entry, Leaderboard
from shared.events import (
    AppealDecided,
    Fact,
    SubmissionDisqualified,
    SubmissionFinished,
    SubmissionHeld,
    SubmissionReleased,
    SubmissionRestored,
)
from tests.support.api_examples import make_example

HOSTILE = "**@everyone** <@&1> `x`\n# big"
OWNER = make_example(
    SubmissionOwner,
    participant_id="a",
    discord="7",
    number=12,
    problem="sort",
    gpu="H100",
    mode="ranked",
)


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
        (SubmissionReleased(reason=HOSTILE), "is no longer held", False),
        (SubmissionRestored(reason=HOSTILE), "is no longer disqualified", False),
        (AppealDecided(is_accepted=True, reason=HOSTILE), "your appeal is accepted", False),
        (AppealDecided(is_accepted=False, reason=HOSTILE), "your appeal is rejected", False),
    ],
)
def test_a_decision_is_described_with_its_reason(fact: Fact, said: str, may_appeal: bool) -> None:
    found = texts.decision_text(fact, OWNER)
    assert found is not None
    text, is_appealed = found
    assert said in text
    assert is_appealed == may_appeal
    assert "Reason: " in text
    assert "@everyone" not in text
    assert "<@&1>" not in text
    assert ("Rule: compute anew" in text) == hasattr(fact, "rule")


def test_no_direct_message_exceeds_discords_limit() -> None:
    found = texts.decision_text(SubmissionDisqualified(rule="*" * 900, reason="*" * 900), OWNER)
    assert found is not None
    assert len(f"{found[0]}\n{texts.appeal_hint(OWNER.number)}") < 2000


def test_an_ordinary_end_is_not_a_decision() -> None:
    assert texts.decision_text(finished(is_held=False), OWNER) is None


def test_notices_are_opt_in_and_need_discord() -> None:
    preferences = make_example(Preferences, overtaken="off", run_finished="dm")
    person = make_example(DiscordParticipant, discord="7", preferences=preferences)
    assert not texts.wants_notice(person, "overtaken")
    assert texts.wants_notice(person, "run_finished")
    elsewhere = make_example(DiscordParticipant, preferences=preferences)
    assert not texts.wants_notice(elsewhere, "run_finished")


ENTRY = make_example(Entry)
BOARD = make_example(Leaderboard, problem="sort", gpu="H100")
SCORES = st.lists(st.floats(1, 1000), min_size=1, max_size=12, unique=True)


@given(SCORES, st.integers(0, 11), st.one_of(st.none(), st.floats(1, 2000)))
def test_participants_who_were_behind_before_are_not_overtaken(
    scores: list[float], place: int, before_us: float | None
) -> None:
    rows = [
        msgspec.structs.replace(ENTRY, rank=rank, number=rank, score_us=score)
        for rank, score in enumerate(sorted(scores), 1)
    ]
    entry = rows[place % len(rows)]
    passed = texts.newly_overtaken(entry, msgspec.structs.replace(BOARD, items=rows), before_us)
    for one in rows:
        was_ahead = before_us is None or one.score_us < before_us
        assert (one in passed) == (one.score_us > entry.score_us and was_ahead)


def test_an_overtaken_participant_reads_who_overtook_them() -> None:
    ada = msgspec.structs.replace(ENTRY, rank=1, number=7, score_us=10.0, participant="ada")
    eve = msgspec.structs.replace(ENTRY, rank=2, number=3, score_us=12.5, participant="eve")
    assert texts.overtaken_text(eve, ada, BOARD) == (
        "**ada** overtook you on `sort`, H100, with #7: 10 µs. Your #3, 12.5 µs, now has rank 2."
    )
