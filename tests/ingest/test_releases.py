"""What of a leaderboard is passed on to everybody, and what of it never is."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ingest.consents import rules as consents
from ingest.problems import rules as problems
from shared.errors import Refused
from shared.events import (
    Blob,
    ConsentGiven,
    ConsentWithdrawn,
    Fact,
    LeaderboardChanged,
    ProblemPublished,
)
from tests.ingest.taking_in import T0
from tests.support.examples import example_event

PLAIN = replace(example_event(ProblemPublished), number=1, consent="")
GIVEN = ConsentGiven(problem="copy", number=1, digest="d")
OTHER = ConsentGiven(problem="copy", number=2, digest="e")
ELSEWHERE = ConsentGiven(problem="other", number=1, digest="d")
BACK = ConsentWithdrawn(problem="copy", digest="d")


@pytest.mark.feature("D4")
@given(
    st.lists(st.sampled_from(["never", "after_close", "always"]), min_size=1, max_size=4),
    st.none() | st.integers(-2, 2).map(lambda days: T0 + timedelta(days=days)),
    st.sampled_from(["public", "closed"]),
)
def test_a_version_is_released_by_its_policy_and_never_too_early(
    words: list[str], deadline: datetime | None, visibility: str
) -> None:
    history: list[Fact] = [
        replace(PLAIN, number=number, digest=str(number), publish=word)
        for number, word in enumerate(words, 1)
    ]
    has = deadline is not None
    history.append(
        LeaderboardChanged(
            visibility=visibility, reason="r", has_deadline=has, deadline_at=deadline
        )
    )
    state, known = problems.PROBLEM_DECIDER.fold(history), problems.versions(history)
    is_over = deadline is not None and deadline <= T0
    public_policies = {"always", "after_close"} if is_over else {"always"}
    expected = {number for number, word in enumerate(words, 1) if word in public_policies}
    if visibility == "closed" or not expected:
        with pytest.raises(Refused, match="private=true"):
            problems.released_versions("copy", state, known, T0)
    else:
        assert set(problems.released_versions("copy", state, known, T0)) == expected


def test_the_refusal_says_when_it_will_be_published() -> None:
    later = T0 + timedelta(days=1)
    dated = LeaderboardChanged(visibility=None, reason="r", has_deadline=True, deadline_at=later)
    after, never = (replace(PLAIN, publish=word) for word in ("after_close", "never"))
    for history, expected in (
        ([after, dated], later.isoformat()),
        ([after], "it has none"),
        ([never, dated], "publish: never"),
    ):
        state = problems.PROBLEM_DECIDER.fold(history)
        with pytest.raises(Refused, match="private=true") as refused:
            problems.released_versions("copy", state, problems.versions(history), T0)
        assert expected in refused.value.reason


@pytest.mark.parametrize(
    ("facts", "agrees"),
    [
        ([], False),
        ([GIVEN], True),
        ([GIVEN, OTHER], True),
        ([OTHER], False),
        ([ELSEWHERE], False),
        ([GIVEN, BACK], False),
        ([GIVEN, OTHER, BACK], False),
        ([GIVEN, BACK, GIVEN], True),
    ],
)
def test_submissions_are_released_while_their_text_is_accepted(
    facts: list[Fact], agrees: bool
) -> None:
    text = Blob(digest="d", bytes=1)
    asking = replace(PLAIN, consent="C.md", files={"C.md": text})
    texts = consents.accepted_consents(facts, "copy")
    assert consents.allows_release(texts, asking) is agrees
    assert consents.allows_release(texts, PLAIN)
