"""The stored places of a leaderboard equal those computed from its entries."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from ranker.domain.places import assign_places
from ranker.domain.rows import LeaderboardKey
from ranker.http.ranking import find_best_rank
from ranker.postgres import SCHEMA, ReadModels
from ranker.service import places
from ranker.service.decisions import Metrics
from ranker.service.leaderboard import (
    PlacedEntry,
    make_scored_entries,
    rank_top,
    read_ladder,
    read_ladder_before,
    read_page,
    read_standing,
)
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import project
from shared.clock import now
from shared.postgres import connect
from tests.ranker.replays import replayed
from tests.ranker.test_standings_sql import Chaos
from tests.support.chance import seeds
from tests.support.lives import T0, publish

pytestmark = pytest.mark.server
ACCOUNTS = [f"p{number}" for number in range(40)]
BOARDS = [LeaderboardKey("identity", gpu, number) for number in (1, 2) for gpu in ("CPU", "H200")]
STAGES = 15


@asynccontextmanager
async def projection(dsn: str) -> AsyncIterator[ReadModels]:
    async with await connect(dsn, SCHEMA) as connection:
        yield ReadModels(connection)


async def follow(chaos: Chaos, models: ReadModels) -> None:
    last = await chaos.log.last()
    async for _ in project(chaos.log, models, ProjectionProgress(), Metrics(), until=last):
        pass


def lines(placed: Sequence[PlacedEntry]) -> list[Any]:
    return [(item.place, item.row["account"], item.row["score_us"]) for item in placed]


async def check_pages(
    models: ReadModels, board: LeaderboardKey, at: datetime, chaos: Chaos
) -> None:
    """Compare the pages of a leaderboard with its computed places."""
    all_placed = await rank_top(models, board, 1000, at)
    page = await read_page(models, board, range(1000), at)
    assert page.holds
    assert lines(page.placed) == lines(all_placed)
    assert page.total == len(all_placed)
    for _ in range(5):
        start = chaos.chance.randrange(len(all_placed) + 2)
        positions = range(start, start + chaos.chance.randrange(1, 8))
        part = await read_page(models, board, positions, at)
        assert lines(part.placed) == lines(all_placed)[positions.start : positions.stop]


async def check_standings(models: ReadModels, board: LeaderboardKey, at: datetime) -> None:
    """Compare each account's stored place with the computed one."""
    all_placed = await rank_top(models, board, 1000, at)
    ladder = await read_ladder(models, board, 1000, at)
    ranks = [item.place.rank for item in all_placed]
    by_account = {item.row["account"]: item for item in all_placed}
    for account in ACCOUNTS:
        standing = await read_standing(models, board, account, at)
        assert standing is not None
        if account not in by_account:
            assert standing["number"] is None
            continue
        place = by_account[account].place
        rank = place.rank
        ahead_us = ladder[rank - 2]["order_us"] if rank > 1 else None
        expected = (rank, ranks.count(rank), ladder[0]["score_us"], ahead_us)
        assert find_best_rank(standing) == place.best_rank
        names = ("rank", "shared", "best_us", "ahead_us")
        assert tuple(standing[name] for name in names) == expected


@pytest.mark.parametrize("window", [1, 100])
@seeds(4)
async def test_any_history_keeps_the_places_that_its_entries_give(
    postgres_dsn: str, seed: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WINDOW", window)
    chaos = Chaos(seed, ACCOUNTS, (100, 112 + 40 * (seed % 2)))
    await publish(chaos.log)
    async with projection(postgres_dsn) as models:
        for _ in range(STAGES):
            for _ in range(chaos.chance.randrange(1, 40)):
                await chaos.step()
            await follow(chaos, models)
            for board in BOARDS:
                await check_pages(models, board, chaos.clock, chaos)
                await check_standings(models, board, chaos.clock)
    compared = await replayed(postgres_dsn, chaos.log, SCHEMA)
    assert compared.differences == []
    assert compared.rows["tie_group"] > 0


async def test_where_a_ban_ended_by_the_clock_alone_no_kept_place_is_believed(
    postgres_dsn: str,
) -> None:
    chaos = Chaos(4, ACCOUNTS, (100, 150))
    await publish(chaos.log)
    held = refused = 0
    async with projection(postgres_dsn) as models:
        for _ in range(300):
            await chaos.step()
        await follow(chaos, models)
        for board in BOARDS:
            for hours in range(0, 30, 3):
                at = T0 + timedelta(hours=hours)
                page = await read_page(models, board, range(1000), at)
                standing = await read_standing(models, board, ACCOUNTS[0], at)
                assert page.holds == (standing is not None)
                held, refused = held + page.holds, refused + (not page.holds)
                if page.holds:
                    assert lines(page.placed) == lines(await rank_top(models, board, 1000, at))
    assert held
    assert refused


async def test_a_page_after_changes_is_of_the_moment_of_the_first(postgres_dsn: str) -> None:
    chaos = Chaos(5, ACCOUNTS, (100, 150), began=now())
    await publish(chaos.log)
    async with projection(postgres_dsn) as models:
        earlier: list[tuple[int, LeaderboardKey, list[Any]]] = []
        for _ in range(12):
            for _ in range(25):
                await chaos.step()
            await follow(chaos, models)
            seq = await models.checkpoint()
            for board in BOARDS:
                all_placed = await rank_top(models, board, 1000, chaos.clock)
                earlier += [(seq, board, lines(all_placed))]
        for seq, board, expected in earlier:
            page = await read_page(models, board, range(1000), chaos.clock, seq)
            if page.holds:
                page_lines = lines(page.placed)
            else:
                ladder = await read_ladder_before(models, board, 1000, seq)
                rows = {row["number"]: row for row in ladder}
                places_ = assign_places(make_scored_entries(ladder))
                page_lines = lines([PlacedEntry(place, rows[place.number]) for place in places_])
            assert page_lines == expected


async def test_what_entries_were_is_not_kept_of_old_events(postgres_dsn: str) -> None:
    chaos = Chaos(5, ACCOUNTS, (100, 150))
    await publish(chaos.log)
    async with projection(postgres_dsn) as models:
        for _ in range(200):
            await chaos.step()
        await follow(chaos, models)
        board, seq = BOARDS[0], await models.checkpoint()
        assert await read_ladder_before(models, board, 1000, seq)
        assert await read_ladder_before(models, board, 1000, seq - 1) == []
