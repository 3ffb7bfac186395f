"""What everybody is told, in words: short enough, and harmless whatever it is about."""

from datetime import UTC, datetime

import msgspec
import pytest

from discord_edge.notifications import texts
from discord_edge.notifications.texts import ProblemSummary
from shared.api.leaderboards import Entry, Leaderboard
from shared.api.moderation import RejudgeSummary
from tests.support.api_examples import make_example

HOSTILE = "**@everyone** <@&1> `x`\n# big"
SORT = ProblemSummary(
    slug="sort", title="Sort", problem_version=1, gpus=["H100", "CPU"], state="active"
)
AGAIN = RejudgeSummary(problem="s", from_version=1, to_version=2, count=9, changed_count=1)
AT = datetime(2126, 12, 1, tzinfo=UTC)


def entry(rank: int, name: str = "ada") -> Entry:
    """A row of a leaderboard."""
    return make_example(
        Entry, rank=rank, submission=f"s{rank}", number=rank, score_us=9.5, participant=name
    )


@pytest.mark.parametrize(
    ("rank", "said"),
    [(1, "🥇"), (3, "🥉"), (4, "has rank 4"), (10, "has rank 10"), (11, "new best, rank 11")],
)
def test_a_result_line_says_how_good_it_is(rank: int, said: str) -> None:
    board = make_example(Leaderboard, problem="sort", gpu="H100", items=[entry(1), entry(rank)])
    assert said in texts.result_line(entry(rank), board)


def test_a_hostile_name_or_statement_mentions_nobody() -> None:
    board = make_example(Leaderboard, problem="sort", gpu="H100", items=[entry(1, HOSTILE)])
    bad = msgspec.structs.replace(SORT, title=HOSTILE, statement=HOSTILE)
    for text in (
        texts.result_line(board.items[0], board),
        texts.podium_text(board, None, is_record=True),
        texts.post_text(bad),
        texts.changes_text(SORT, bad),
    ):
        assert "@everyone" not in text
        assert "<@&1>" not in text


def test_texts_keep_discords_limits() -> None:
    long = "g" * 300
    board = make_example(
        Leaderboard, problem="s" * 95, gpu=long, items=[entry(1, long), entry(2, long)]
    )
    facts = ProblemSummary(
        slug="s" * 95,
        title=long,
        problem_version=1,
        gpus=[long] * 40,
        state="active",
        deadline_at=AT,
        statement=long * 40,
    )
    assert len(texts.post_text(facts)) < 1950
    marks = {
        "title": "*" * 300,
        "gpus": ["_" * 300],
        "rejudge": texts.rejudge_text(AGAIN, "*" * 400),
    }
    assert len(texts.post_text(msgspec.structs.replace(facts, **marks))) < 1950
    assert len(texts.thread_name(entry(1, long), board)) <= 100
    assert len(texts.podium_text(board, [], is_record=False)) < 1950


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"deadline_at": AT}, "The deadline is now <t:"),
        ({"state": "ended"}, "no longer takes submissions"),
        ({"state": "hidden"}, "No longer public"),
        ({"gpus": ["CPU"]}, "GPU types are now: CPU"),
        ({"gpus": ["CPU", "H100"]}, ""),
        ({"statement": "another"}, "The description"),
        ({"state": "ended", "problem_version": 2}, "Version 2 is out."),
    ],
)
def test_changes_are_described(change: dict[str, object], said: str) -> None:
    found = texts.changes_text(SORT, msgspec.structs.replace(SORT, **change))
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.feature("P20")
def test_a_podium_names_the_changes_since_the_last_one() -> None:
    rows = [entry(rank, name) for rank, name in enumerate(("ada", "eve", "bob", "kim"), 1)]
    items = [msgspec.structs.replace(one, participant_id=one.participant or "") for one in rows]
    board = make_example(Leaderboard, problem="sort", gpu="H100", items=items)
    said = texts.podium_text(board, ["eve", "kim", "bob"], is_record=False).splitlines()[0]
    assert "**ada** took first place, **kim** dropped out." in said
    assert "eve" not in said
    # Changed, and changed back, within the ten minutes.
    assert texts.podium_text(board, ["ada", "eve", "bob"], is_record=False) == ""
    assert texts.podium_text(board, None, is_record=False).splitlines()[0].endswith("H100:")


def test_a_problem_for_beginners_is_calm() -> None:
    assert msgspec.structs.replace(SORT, tags=["beginner", "memory"]).is_calm
    assert not SORT.is_calm


def test_a_rejudge_stays_in_the_post() -> None:
    rejudge = RejudgeSummary(problem="sort", from_version=1, to_version=2, count=1, changed_count=2)
    said = texts.rejudge_text(rejudge, HOSTILE)
    assert said.startswith("Rejudged under version 2: 1 submission was run again, and 2 results")
    assert "@everyone" not in said
    assert said in texts.post_text(msgspec.structs.replace(SORT, rejudge=said))


def test_a_valid_result_that_is_not_the_best_says_so() -> None:
    board = make_example(Leaderboard, problem="sort", gpu="H100", items=[entry(2)])
    assert "valid but slower than their 9.5 µs at rank 2 · #9" in texts.slower_result_line(
        entry(2), board, 9, 14.0
    )
    pooled = msgspec.structs.replace(entry(2), pooled_over=[7, 9])
    said = texts.slower_result_line(pooled, board, 9, 9.5)
    assert "has 9.5 µs on `sort`, H100, pooled over #7, #9, at rank 2 · #9" in said
