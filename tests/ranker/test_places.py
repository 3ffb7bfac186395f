"""The stored places of a leaderboard equal those computed from its entries."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from ranker import postgres
from ranker.domain.goals import POLICY_REVIEW
from ranker.domain.places import assign_places
from ranker.domain.rows import LeaderboardKey
from ranker.http.ranking import find_best_rank
from ranker.postgres import SCHEMA, ReadModels
from ranker.service import leaderboard, places
from ranker.service import projection as projecting
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
from shared import events, subjects
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


class Crowd(Chaos):
    """A random history in which most entries are on one leaderboard, and many have duels."""

    numbers = (1, 1, 1, 1, 1, 2)
    gpus = ("CPU", "CPU", "CPU", "CPU", "H200")
    originals = 16

    async def step(self) -> None:
        """Append a random event, or a whole duel."""
        moves = {self.receive: 8}
        if self.open:
            moves |= {self.finish: 12}
        if self.over:
            moves |= {self.moderate: 1, self.ban: 1, self.request: 1}
        if self.ranked:
            moves |= {self.fight: 12}
        if self.rejudges:
            moves |= {self.judge: 2, self.conclude: 1}
        (move,) = self.chance.choices(list(moves), list(moves.values()))
        await move()

    async def fight(self) -> None:
        """Append a duel and its judgement."""
        await self.duel()
        await self.judge_duel()


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


@pytest.mark.parametrize("chaos_of", [Chaos, Crowd])
@pytest.mark.parametrize("window", [1, 100])
@seeds(4)
async def test_any_history_keeps_the_places_that_its_entries_give(
    postgres_dsn: str,
    seed: int,
    window: int,
    chaos_of: type[Chaos],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "WINDOW", window)
    if window == 1:
        # A rebuild updates entries more than once, too.
        monkeypatch.setattr(projecting, "BATCH_MAX", 20)
        monkeypatch.setattr(postgres, "DEFERRED_SUBMISSIONS_MAX", 1)
    chaos = chaos_of(seed, ACCOUNTS, (100, 112 + 40 * (seed % 2)))
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


class Rivals(Chaos):
    """Entries that their scores cannot tell apart, and their duels."""

    async def enter(
        self, submission: str, score_us: float, error: float = 0.01, code: str = "ranked"
    ) -> None:
        """Append a submission and its result."""
        self.open.append(submission)
        received = events.SubmissionReceived(
            account=f"account-{submission}",
            problem="identity",
            problem_number=1,
            problem_digest="d",
            gpu="CPU",
            mode="ranked",
            source=events.Blob(digest=submission, bytes=1),
            name="k.py",
            deadline_at=T0,
            via="http",
        )
        ended = self.result(score_us, error, code)
        await self.say(subjects.submission(submission), received)
        await self.say(subjects.submission(submission), ended)

    def result(
        self, score_us: float, error: float = 0.01, code: str = "ranked"
    ) -> events.SubmissionFinished:
        """A result that counts if its code is `ranked`, and otherwise after a release."""
        return events.SubmissionFinished(
            outcome="passed",
            is_eligible=code == "ranked",
            code=code,
            reason="",
            score_us=score_us,
            error=error,
            freedom=22,
            delta=0.003,
            grade="ok",
        )

    async def compare(self, winner: str, loser: str, ratio: float) -> None:
        """Append a duel and its judgement."""
        self.requests += 1
        board: dict[str, Any] = {"problem": "identity", "problem_number": 1, "gpu": "CPU"}
        first, second = self.side(winner), self.side(loser)
        first, second = (
            structs.replace(side, source=events.Blob(digest=name, bytes=1))
            for side, name in ((first, winner), (second, loser))
        )
        requested = events.DuelRequested(**board, problem_digest="d", first=first, second=second)
        interval = ratio - 0.001, min(ratio + 0.001, 1.001)
        named = "A" if interval[1] < 1 else "equal"
        result = events.DuelResult(winner=named, ratio=ratio, interval=interval)
        duel = subjects.duel(f"d{self.requests}")
        await self.say(duel, requested)
        await self.say(duel, events.DuelJudged(**board, result=result))


@pytest.mark.parametrize("window", [1, 100])
async def test_a_duel_separates_ranks_for_as_long_as_both_entries_stand(
    postgres_dsn: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WINDOW", window)
    monkeypatch.setattr(leaderboard, "STEP", 1)
    rivals = Rivals(0)
    await publish(rivals.log)
    async with projection(postgres_dsn) as models:

        async def ranks() -> list[tuple[str, int]]:
            await follow(rivals, models)
            page = await read_page(models, BOARDS[0], range(10), rivals.clock)
            ranked = await rank_top(models, BOARDS[0], 10, rivals.clock)
            assert lines(page.placed) == lines(ranked)
            first = await rank_top(models, BOARDS[0], 1, rivals.clock)
            assert lines(first) == lines(ranked)[: len(first)]
            return [(item.row["submission"], item.place.rank) for item in page.placed]

        for submission, score_us in (("a", 100.0), ("b", 100.2), ("c", 100.4), ("d", 100.6)):
            await rivals.enter(submission, score_us)
        tied = [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
        assert await ranks() == tied
        await rivals.compare("c", "a", 0.99)
        separate = [("b", 1), ("c", 1), ("a", 3), ("d", 3)]
        assert await ranks() == separate
        await rivals.say(
            subjects.moderation("c"), events.SubmissionDisqualified(rule="r", reason="")
        )
        assert await ranks() == [("a", 1), ("b", 1), ("d", 1)]
        await rivals.say(subjects.moderation("c"), events.SubmissionRestored(reason=""))
        assert await ranks() == separate
        await rivals.compare("b", "d", 0.99)
        assert await ranks() == separate
        await rivals.say(subjects.account("account-a"), events.AccountBanned(reason=""))
        assert await ranks() == [("b", 1), ("c", 1), ("d", 3)]
        await rivals.say(subjects.account("account-a"), events.AccountUnbanned(reason=""))
        assert await ranks() == separate
        await rivals.compare("c", "a", 1.0)
        assert await ranks() == [("a", 1), ("b", 1), ("c", 1), ("d", 4)]
        await rivals.compare("a", "c", 0.99)
        last = [("a", 1), ("b", 1), ("c", 3), ("d", 3)]
        assert await ranks() == last
        await rivals.say(subjects.moderation("c"), events.SubmissionHeld(rule="r", reason=""))
        assert await ranks() == [("a", 1), ("b", 1), ("d", 3)]
        await rivals.say(subjects.moderation("c"), events.SubmissionReleased(reason=""))
        assert await ranks() == last
    monkeypatch.setattr(projecting, "BATCH_MAX", 1)
    monkeypatch.setattr(postgres, "DEFERRED_SUBMISSIONS_MAX", 0)
    compared = await replayed(postgres_dsn, rivals.log, SCHEMA)
    assert compared.differences == []


async def test_the_first_places_consider_a_winner_that_is_further_down(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "STEP", 3)
    rivals = Rivals(0)
    await publish(rivals.log)
    for submission, score_us in (("a", 100.0), ("b", 101.0), ("c", 101.1), ("d", 101.9)):
        await rivals.enter(submission, score_us, error=0.0)
    await rivals.enter("e", 102.0, error=0.02)
    await rivals.compare("e", "a", 0.99)
    async with projection(postgres_dsn) as models:
        await follow(rivals, models)
        first = await rank_top(models, BOARDS[0], 1, rivals.clock)
        page = await read_page(models, BOARDS[0], range(len(first)), rivals.clock)
        assert [item.row["submission"] for item in first] == ["b", "c"]
        assert lines(page.placed) == lines(first)


async def test_a_rebuild_lifts_a_hold_whose_result_a_rejudge_replaced_since(
    postgres_dsn: str,
) -> None:
    log = Rivals(0)
    await publish(log.log)
    await log.enter("a", 100.0, code=POLICY_REVIEW)
    item = events.RejudgeItem(
        submission="a",
        account="account-a",
        gpu="CPU",
        source=events.Blob(digest="a", bytes=1),
        name="k",
    )
    requested = events.RejudgeRequested(
        problem="identity",
        from_number=1,
        to_number=1,
        to_digest="d",
        select="all",
        reason="",
        items=[item],
    )
    again = log.result(101.0, code=POLICY_REVIEW)
    rejudge = subjects.rejudge("r1")
    async with projection(postgres_dsn) as models:
        for aggregate, fact in (
            (subjects.moderation("a"), events.SubmissionReleased(reason="")),
            (rejudge, requested),
            (rejudge, events.RejudgeJudged(submission="a", result=again)),
            (rejudge, events.RejudgeApplied(reason="")),
        ):
            await follow(log, models)
            await log.say(aggregate, fact)
        await follow(log, models)
    compared = await replayed(postgres_dsn, log.log, SCHEMA)
    assert compared.differences == []
