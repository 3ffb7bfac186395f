"""The rating over all problems: its formula, what counts, and the second implementation."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ranker.domain.rating import (
    POINTS_MAX,
    RatedPlace,
    count_points,
    rate,
    select_boards,
)
from ranker.domain.rating_fold import RatingFold
from ranker.domain.rows import LeaderboardKey
from ranker.service import rating as service
from shared import events, subjects
from shared.clock import now
from shared.contests.definition import Contest
from tests.support.lives import Life, problem, say
from tests.support.reading import Reads, as_, reading

SOFTMAX, COPY = LeaderboardKey("softmax", "CPU", 1), LeaderboardKey("copy", "CPU", 1)
T0 = datetime(2026, 1, 1, tzinfo=UTC)


def places(**ranks: int) -> list[RatedPlace]:
    return [RatedPlace(account, rank, at) for at, (account, rank) in enumerate(ranks.items())]


@pytest.mark.feature("P22")
def test_the_rating_is_the_sum_of_the_best_points_of_each_problem() -> None:
    boards = {
        SOFTMAX: places(ada=1, eve=2, zoe=2, joe=4),
        SOFTMAX._replace(gpu="H100"): places(eve=1, joe=2),
        COPY: places(joe=1),
    }
    ratings = rate(boards)
    # Ada beats 3 of 3, Eve and Zoe 1 and half of another, Eve 1 of 1 on the other GPU type.
    found = [(it.participant_id, it.rank, it.is_tied, round(it.rating, 3)) for it in ratings]
    assert found == [
        ("ada", 1, False, 37.5),
        ("eve", 2, True, 18.75),
        ("zoe", 2, True, 18.75),
        ("joe", 4, False, 0.0),
    ]
    assert [(it.problem, it.gpu) for it in ratings[1].problems] == [("softmax", "CPU")]
    assert [it.problem for it in ratings[3].problems] == ["copy", "softmax"]


@given(st.lists(st.integers(1, 8), min_size=1, max_size=30))
def test_points_are_bounded_and_follow_the_rank(groups: list[int]) -> None:
    count, rank, earlier = sum(groups), 1, POINTS_MAX
    for size in groups:
        points = count_points(rank, size - 1, count)
        assert 0 <= points < earlier <= POINTS_MAX
        rank, earlier = rank + size, points
    # One more entry behind everybody takes nothing from anybody.
    assert count_points(1, 0, count + 1) > count_points(1, 0, count)


def test_a_participant_loses_nothing_by_an_entry_more() -> None:
    before = rate({SOFTMAX: places(ada=1, eve=2)})
    after = rate({SOFTMAX: places(ada=1, eve=2), COPY: places(joe=1, eve=2)})
    found: Mapping[str, float] = {it.participant_id: it.rating for it in after}
    assert all(found[it.participant_id] >= it.rating for it in before)


def contest(**phase: Any) -> Contest:
    """A contest with one problem, whose only phase is as said."""
    document = {
        "slug": "spring",
        "title": "Spring",
        "terms": "",
        "organisers": [],
        "divisions": [],
        "register_until_at": T0,
        "problems": [
            {
                "slug": "softmax",
                "round": "qualifier",
                "starts_at": T0,
                "ends_at": T0 + timedelta(days=7),
            }
        ],
        "phases": [
            {
                "kind": "qualifier",
                "starts_at": T0,
                "ends_at": T0 + timedelta(days=7),
            }
            | phase
        ],
    }
    return msgspec.convert(document, Contest)


def test_closed_leaderboards_older_versions_and_running_contests_do_not_count() -> None:
    newer = SOFTMAX._replace(problem_number=2)
    known = [SOFTMAX, newer, COPY]
    assert select_boards(known, [], [], T0) == [COPY, newer]
    assert select_boards(known, ["copy"], [], T0) == [newer]
    running = [contest()]
    assert select_boards(known, [], running, T0 - timedelta(days=1)) == [COPY, newer]
    assert select_boards(known, [], running, T0) == [COPY]
    assert select_boards(known, [], running, T0 + timedelta(days=6)) == [COPY]
    assert select_boards(known, [], running, T0 + timedelta(days=8)) == [COPY, newer]
    # After the window, a phase that freezes or hides the ranks goes on hiding them.
    for ranks in ("frozen", "hidden"):
        hiding = [contest(ranks=ranks)]
        assert select_boards(known, [], hiding, T0 + timedelta(days=8)) == [COPY]


@pytest.fixture
async def reads(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reads]:
    monkeypatch.setattr(service, "KEPT_S", 0.0)
    async with reading(postgres_dsn) as running:
        for name in ("ada", "eve", "zoe"):
            await running.named(name, name.title())
        fact = replace(problem(2), gpus=["CPU", "H100"])
        await say(running.log, subjects.problem("identity"), fact)
        yield running


async def rated(reads: Reads) -> list[tuple[str, float, int]]:
    items = (await reads.get("rating"))["items"]
    return [(it["participant"], round(it["rating"], 3), it["rank"]) for it in items]


@pytest.mark.server
async def test_the_rating_is_that_of_the_second_implementation(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = [
        Life("s1", "ada", 100.0, problem_number=2),
        Life("s2", "eve", 200.0, problem_number=2),
        Life("s3", "zoe", 300.0, problem_number=2),
        Life("s4", "zoe", 50.0, problem_number=2, gpu="H100"),
        Life("s5", "ada", 10.0),
    ]
    await reads.ended(*lives)
    expected = [("Ada", 28.571, 1), ("Eve", 14.286, 2), ("Zoe", 0.0, 3)]
    assert await rated(reads) == expected
    fold = RatingFold()
    for event in reads.log.since(0):
        fold.fold(event)
    page = await reads.get("rating")
    assert [(it.participant_id, it.rating, it.rank) for it in fold.rate(now())] == [
        (it["participant_id"], it["rating"], it["rank"]) for it in page["items"]
    ]
    assert page["as_of"] == await reads.log.last()
    # It is on the page of a participant too, for every reader.
    for headers in (as_(None), as_("eve")):
        answer = await reads.http.get("/v1/participants/Ada", headers=headers)
        assert round(answer.json()["rating"]["rating"], 3) == 28.571
        others = (await reads.http.get("/v1/rating", headers=headers)).json()
        assert (others["items"], others["as_of"]) == (page["items"], page["as_of"])
    first = await reads.get("rating?limit=1")
    assert (first["total"], first["next_after"]) == (3, 1)
    assert (await reads.get("rating?limit=2&after=1"))["items"] == page["items"][1:]

    async def becomes(wanted: list[tuple[str, float, int]]) -> None:
        await reads.settle()
        assert await rated(reads) == wanted

    # What is held, banned or closed does not count.
    await say(reads.log, subjects.moderation("s1"), events.SubmissionHeld(rule="r", reason="r"))
    await becomes([("Eve", 16.667, 1), ("Zoe", 0.0, 2)])
    # A rating is kept for some seconds, although it changed, but not if a leaderboard is hidden.
    monkeypatch.setattr(service, "KEPT_S", 3600.0)
    kept = await rated(reads)
    await say(reads.log, subjects.moderation("s1"), events.SubmissionReleased(reason="r"))
    await becomes(kept)
    closed = events.LeaderboardChanged(reason="", visibility="closed")
    await say(reads.log, subjects.problem("identity"), closed)
    await becomes([])
