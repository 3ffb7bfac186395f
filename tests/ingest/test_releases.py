"""What of a leaderboard is passed on to everybody, and what of it never is."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ingest.domain import problems, releases
from shared.errors import Refused
from shared.events import (
    Blob,
    ConsentGiven,
    ConsentWithdrawn,
    Fact,
    LeaderboardChanged,
    ProblemPublished,
)
from shared.testing import example
from tests.ingest.taking_in import T0

PLAIN = replace(example(ProblemPublished), number=1, consent="")
GIVEN = ConsentGiven(problem="copy", number=1, digest="d")
OTHER = ConsentGiven(problem="copy", number=2, digest="e")
ELSEWHERE = ConsentGiven(problem="other", number=1, digest="d")
BACK = ConsentWithdrawn(problem="copy", digest="d")


@given(
    st.lists(st.sampled_from(["never", "after_close", "always"]), min_size=1, max_size=4),
    st.none() | st.integers(-2, 2).map(lambda days: T0 + timedelta(days=days)),
    st.sampled_from(["public", "closed"]),
)
def test_a_version_is_passed_on_as_it_says_and_never_too_early(
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
    state, known = problems.problems.fold(history), releases.versions(history)
    is_over = deadline is not None and deadline <= T0
    wanted = {"always", "after_close"} if is_over else {"always"}
    expected = {number for number, word in enumerate(words, 1) if word in wanted}
    if visibility == "closed" or not expected:
        with pytest.raises(Refused, match="private=true"):
            releases.published("copy", state, known, T0)
    else:
        assert set(releases.published("copy", state, known, T0)) == expected


def test_the_refusal_says_when_it_is_published() -> None:
    later = T0 + timedelta(days=1)
    dated = LeaderboardChanged(visibility=None, reason="r", has_deadline=True, deadline_at=later)
    after, never = (replace(PLAIN, publish=word) for word in ("after_close", "never"))
    for history, said in (
        ([after, dated], later.isoformat()),
        ([after], "it has none"),
        ([never, dated], "publish: never"),
    ):
        state = problems.problems.fold(history)
        with pytest.raises(Refused, match="private=true") as refused:
            releases.published("copy", state, releases.versions(history), T0)
        assert said in refused.value.reason


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
def test_what_is_sent_is_passed_on_while_its_text_is_accepted(
    facts: list[Fact], agrees: bool
) -> None:
    text = Blob(digest="d", bytes=1)
    asking = replace(PLAIN, consent="C.md", files={"C.md": text})
    texts = releases.accepted(facts, "copy")
    assert releases.agrees(texts, asking) is agrees
    assert releases.agrees(texts, PLAIN)
