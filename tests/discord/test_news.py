"""What everybody is told, in words: short enough, and harmless whatever it is about."""

from datetime import UTC, datetime

import msgspec
import pytest

from discord_edge.domain import news
from discord_edge.domain.news import Entry, Facts, Ranking

HOSTILE = "**@everyone** <@&1> `x`\n# big"
SORT = Facts(slug="sort", title="Sort", number=1, gpus=["H100", "CPU"], state="active")
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
        news.podium(board, is_record=True),
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
    assert len(news.thread_name(entry(1, long), board)) <= 100
    assert len(news.podium(board, is_record=False)) < 1950


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
