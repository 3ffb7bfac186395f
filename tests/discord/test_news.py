"""What everybody is told, in words: short enough, and harmless whatever it is about."""

from datetime import UTC, datetime

import msgspec
import pytest

from discord_edge.domain import news
from discord_edge.domain.news import Entry, Facts, Ranking, Rejudge

HOSTILE = "**@everyone** <@&1> `x`\n# big"
SORT = Facts(slug="sort", title="Sort", number=1, gpus=["H100", "CPU"], state="active")
AGAIN = Rejudge(problem="s", from_version=1, to_version=2, submissions=9, changed=1)
AT = datetime(2126, 12, 1, tzinfo=UTC)


def entry(rank: int, name: str = "ada") -> Entry:
    """A row of a leaderboard."""
    return Entry(rank=rank, submission=f"s{rank}", number=rank, score_us=9.5, participant=name)


@pytest.mark.parametrize(
    ("rank", "said"),
    [(1, "🥇"), (3, "🥉"), (4, "on place 4"), (10, "on place 10"), (11, "new best, place 11")],
)
def test_a_line_says_how_good_it_is(rank: int, said: str) -> None:
    board = Ranking(problem="sort", gpu="H100", items=[entry(1), entry(rank)])
    assert said in news.line(entry(rank), board)


def test_a_hostile_name_or_statement_mentions_nobody() -> None:
    board = Ranking(problem="sort", gpu="H100", items=[entry(1, HOSTILE)])
    bad = msgspec.structs.replace(SORT, title=HOSTILE, statement=HOSTILE)
    for text in (
        news.line(board.items[0], board),
        news.podium(board, None, is_record=True),
        news.post(bad),
        news.changes(SORT, bad),
    ):
        assert "@everyone" not in text
        assert "<@&1>" not in text


def test_nothing_is_longer_than_discord_takes() -> None:
    long = "g" * 300
    board = Ranking(problem="s" * 95, gpu=long, items=[entry(1, long), entry(2, long)])
    facts = Facts(
        slug="s" * 95,
        title=long,
        number=1,
        gpus=[long] * 40,
        state="active",
        deadline_at=AT,
        statement=long * 40,
    )
    assert len(news.post(facts)) < 1950
    marks = {"title": "*" * 300, "gpus": ["_" * 300], "rejudge": news.rejudged(AGAIN, "*" * 400)}
    assert len(news.post(msgspec.structs.replace(facts, **marks))) < 1950
    assert len(news.thread_name(entry(1, long), board)) <= 100
    assert len(news.podium(board, [], is_record=False)) < 1950


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"deadline_at": AT}, "The deadline is now <t:"),
        ({"state": "ended"}, "takes nothing in"),
        ({"state": "hidden"}, "Not public any more"),
        ({"gpus": ["CPU"]}, "GPU types are now: CPU"),
        ({"gpus": ["CPU", "H100"]}, ""),
        ({"statement": "another"}, "The description"),
        ({"state": "ended", "number": 2}, "Version 2 is out."),
    ],
)
def test_a_change_says_what_is_not_as_it_was(change: dict[str, object], said: str) -> None:
    found = news.changes(SORT, msgspec.structs.replace(SORT, **change))
    assert said in found
    assert bool(found) == bool(said)


def test_a_podium_says_who_moved_since_it_was_told() -> None:
    rows = [entry(rank, name) for rank, name in enumerate(("ada", "eve", "bob", "kim"), 1)]
    items = [msgspec.structs.replace(one, account=one.participant or "") for one in rows]
    board = Ranking(problem="sort", gpu="H100", items=items)
    said = news.podium(board, ["eve", "kim", "bob"], is_record=False).splitlines()[0]
    assert "**ada** took the first place, **kim** fell out." in said
    assert "eve" not in said
    # Changed, and changed back, within the ten minutes.
    assert news.podium(board, ["ada", "eve", "bob"], is_record=False) == ""
    assert news.podium(board, None, is_record=False).splitlines()[0].endswith("H100:")


def test_a_problem_for_beginners_is_calm() -> None:
    assert msgspec.structs.replace(SORT, tags=["beginner", "memory"]).is_calm
    assert not SORT.is_calm


def test_a_rejudge_stays_in_the_post() -> None:
    rejudge = Rejudge(problem="sort", from_version=1, to_version=2, submissions=1, changed=2)
    said = news.rejudged(rejudge, HOSTILE)
    assert said.startswith("Rejudged under version 2: 1 submission was run again, and 2 results")
    assert "@everyone" not in said
    assert said in news.post(msgspec.structs.replace(SORT, rejudge=said))


def test_a_valid_result_that_is_not_the_best_says_so() -> None:
    board = Ranking(problem="sort", gpu="H100", items=[entry(2)])
    assert "valid but slower than their 9.5 µs on place 2 · #9" in news.slower(
        entry(2), board, 9, 14.0
    )
    pooled = msgspec.structs.replace(entry(2), pooled_over=[7, 9])
    said = news.slower(pooled, board, 9, 9.5)
    assert "has 9.5 µs on `sort`, H100, pooled over #7, #9, on place 2 · #9" in said
