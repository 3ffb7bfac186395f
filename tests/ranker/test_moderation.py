"""Moderation changes the leaderboards, and undoing it restores the former leaderboard."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from ranker.domain.rows import LeaderboardKey
from ranker.postgres import SCHEMA, ReadModels
from ranker.service.leaderboard import rank_top
from ranker.service.progress import ProjectionProgress
from shared import events, subjects
from shared.clock import now
from shared.events import Fact
from shared.postgres import connect, migrate
from tests.support.lives import BLOB, Life, begin, live, say
from tests.support.memory import MemoryLog
from tests.support.ranking import is_folded, ranker_of, running, settle
from tests.support.waits import eventually

pytestmark = pytest.mark.server
BOARD = LeaderboardKey("identity", "CPU", 1)
HELD = events.SubmissionHeld(rule="r", reason="look")
RELEASED = events.SubmissionReleased(reason="fine")
DISQUALIFIED = events.SubmissionDisqualified(rule="r", reason="cheat")
RESTORED = events.SubmissionRestored(reason="sorry")
ACCEPTED = events.AppealDecided(is_accepted=True, reason="right")
REJECTED = events.AppealDecided(is_accepted=False, reason="wrong")
BANNED = events.AccountBanned(reason="spam")
UNBANNED = events.AccountUnbanned(reason="over")


class Ruled:
    """A log with moderation, and its leaderboard."""

    def __init__(self, log: MemoryLog, models: ReadModels, progress: ProjectionProgress) -> None:
        self.log = log
        self.models = models
        self.progress = progress

    async def settle(self) -> None:
        """Wait until everything is folded, decided and announced."""
        await settle(self.log, self.progress)

    async def say(self, aggregate: str, *facts: Fact) -> None:
        """Append facts to one aggregate, and wait until they are folded."""
        for fact in facts:
            await say(self.log, aggregate, fact)
        await self.settle()

    async def decide(self, submission: str, *facts: Fact) -> None:
        """Append a decision about a submission."""
        await self.say(subjects.moderation(submission), *facts)

    async def board(self, days: float = 0) -> list[tuple[int, str, float]]:
        """Rank, submission and score of each entry at a day from now."""
        placed = await rank_top(self.models, BOARD, 100, now() + timedelta(days=days))
        return [(item.place.rank, item.row["submission"], item.row["score_us"]) for item in placed]

    async def results(self) -> list[dict[str, Any]]:
        """The result of each submission."""
        cursor = await self.models.connection.execute(
            b"select submission, pooled_us, pooled_error, pooled_over from result order by 1"
        )
        return [dict(zip("suer", row, strict=True)) for row in await cursor.fetchall()]


@pytest.fixture
async def ruled(postgres_dsn: str) -> AsyncIterator[Ruled]:
    log, dsn, progress = MemoryLog(), postgres_dsn, ProjectionProgress()
    await begin(log)
    async with (
        await connect(dsn, SCHEMA) as writing,
        await connect(dsn, SCHEMA) as reading,
        running(ranker_of(log, ReadModels(writing), progress)),
    ):
        yield Ruled(log, ReadModels(reading), progress)


@pytest.mark.feature("A7")
async def test_the_next_best_stands_where_the_best_is_disqualified(ruled: Ruled) -> None:
    await live(ruled.log, Life("best", time_us=100), Life("next", time_us=150))
    await ruled.decide("best", DISQUALIFIED)
    assert await ruled.board() == [(1, "next", 150.0)]
    await ruled.decide("next", HELD)
    assert await ruled.board() == []


async def test_a_pooled_score_forgets_a_disqualified_run(ruled: Ruled) -> None:
    slow = (120.0, 120.0, 120.0)
    await live(
        ruled.log,
        Life("mine", source="x", process_us=(100.0, 100.0, 100.0)),
        Life("again", source="x", time_us=120.0, process_us=slow),
    )
    await ruled.settle()
    assert {round(score) for _, _, score in await ruled.board()} == {110}
    await ruled.decide("mine", DISQUALIFIED)
    assert [(name, round(score)) for _, name, score in await ruled.board()] == [("again", 120)]


@pytest.mark.parametrize(
    ("off", "on"),
    [
        ([HELD], [RELEASED]),
        ([DISQUALIFIED], [RESTORED]),
        ([HELD, DISQUALIFIED], [RESTORED, RELEASED]),
        ([DISQUALIFIED, events.AppealFiled(text=BLOB)], [ACCEPTED]),
        ([HELD, DISQUALIFIED, events.AppealFiled(text=BLOB)], [REJECTED, RESTORED, RELEASED]),
    ],
)
async def test_what_is_taken_back_brings_the_former_board_back(
    ruled: Ruled, off: list[Fact], on: list[Fact]
) -> None:
    chance = Random(len(off) + len(on))
    lives = [
        Life(
            f"s{number}",
            account=chance.choice(["ada", "grace", "linus"]),
            time_us=chance.uniform(90, 110),
            source=chance.choice(["", "x", "y"]),
            process_us=tuple(chance.uniform(90, 110) for _ in range(3)),
        )
        for number in range(6)
    ]
    await live(ruled.log, *lives)
    await ruled.settle()
    board, results = await ruled.board(), await ruled.results()
    for life in lives:
        await ruled.decide(life.id, *off)
        assert life.id not in [name for _, name, _ in await ruled.board()]
        await ruled.decide(life.id, *on)
        assert (await ruled.board(), await ruled.results()) == (board, results)


async def test_a_banned_participant_is_hidden_and_comes_back(ruled: Ruled) -> None:
    await live(ruled.log, Life("mine", time_us=100), Life("theirs", "grace", time_us=150))
    await ruled.settle()
    board = await ruled.board()
    await ruled.say(subjects.account("ada"), BANNED)
    assert await ruled.board() == [(1, "theirs", 150.0)]
    await ruled.say(subjects.account("ada"), UNBANNED)
    assert await ruled.board() == board


async def test_a_ban_ends_by_itself_without_any_event(ruled: Ruled) -> None:
    await live(ruled.log, Life("mine", time_us=100))
    until_at = now() + timedelta(days=2)
    await ruled.say(subjects.account("ada"), events.AccountBanned(reason="s", until_at=until_at))
    assert await ruled.board(days=1) == []
    assert [name for _, name, _ in await ruled.board(days=3)] == ["mine"]


async def test_a_hold_before_the_end_holds_after_it(ruled: Ruled) -> None:
    life = Life("s1")
    facts = life.facts()
    for aggregate, fact in facts[:3]:
        await say(ruled.log, aggregate, fact)
    await say(ruled.log, subjects.moderation("s1"), HELD)
    for aggregate, fact in facts[3:]:
        await say(ruled.log, aggregate, fact)
    await ruled.settle()
    assert await ruled.board() == []
    await ruled.decide("s1", RELEASED)
    assert [name for _, name, _ in await ruled.board()] == ["s1"]


def announced(log: MemoryLog) -> list[tuple[str, Any]]:
    """Announced records as submissions, podiums as accounts, in order."""
    announced_facts: list[tuple[str, Any]] = []
    for event in log.since(0):
        fact = event.fact
        if isinstance(fact, events.RecordSet):
            announced_facts.append(("record", fact.submission))
        if isinstance(fact, events.PodiumChanged):
            announced_facts.append(("podium", fact.after))
    return announced_facts


async def test_records_and_podiums_are_announced_as_they_happen(ruled: Ruled) -> None:
    for life in (Life("a"), Life("b", "grace", 150), Life("c", "linus", 50)):
        await live(ruled.log, life)
        await ruled.settle()
    assert announced(ruled.log) == [
        ("record", "a"),
        ("podium", ["ada"]),
        ("podium", ["ada", "grace"]),
        ("record", "c"),
        ("podium", ["linus", "ada", "grace"]),
    ]


async def test_who_moves_up_by_anothers_fall_sets_no_record(ruled: Ruled) -> None:
    for life in (Life("a", time_us=100), Life("b", "grace", 105)):
        await live(ruled.log, life)
        await ruled.settle()
    await ruled.decide("a", DISQUALIFIED)
    await live(ruled.log, Life("c", "linus", 103))
    await ruled.settle()
    await ruled.decide("a", RESTORED)
    records = [fact for kind, fact in announced(ruled.log) if kind == "record"]
    # c is the fastest of what stands when it ends; b was not, and a is no news.
    assert records == ["a", "c"]


async def test_a_run_is_no_record_that_what_was_withdrawn_is_faster_than(ruled: Ruled) -> None:
    # Two that are tied set no record, and yet both stood.
    for life in (Life("a", time_us=15.13), Life("b", "grace", 15.14), Life("c", "linus", 17.4)):
        await live(ruled.log, life)
        await ruled.settle()
    before = announced(ruled.log)
    for submission in ("a", "b"):
        await ruled.decide(submission, events.SubmissionWithdrawn(reason=""))
    await live(ruled.log, Life("d", "linus", 17.39))
    await ruled.settle()
    records = [fact for kind, fact in announced(ruled.log)[len(before) :] if kind == "record"]
    assert records == []
    await live(ruled.log, Life("e", "linus", 15.0))
    await ruled.settle()
    assert announced(ruled.log)[-1] == ("record", "e")


async def test_a_podium_that_a_decision_changed_is_by_nobodys_run(ruled: Ruled) -> None:
    for life in (Life("a", time_us=100), Life("b", "grace", 150), Life("c", "linus", 200)):
        await live(ruled.log, life)
        await ruled.settle()
    await ruled.decide("a", DISQUALIFIED)
    await live(ruled.log, Life("d", "linus", 120))
    await ruled.settle()
    facts = [event.fact for event in ruled.log.since(0)]
    changes = [fact for fact in facts if isinstance(fact, events.PodiumChanged)]
    assert [(fact.after, fact.is_by_run) for fact in changes] == [
        (["ada"], True),
        (["ada", "grace"], True),
        (["ada", "grace", "linus"], True),
        (["grace", "linus"], False),
        (["linus", "grace"], True),
    ]


async def test_a_tie_is_no_record(ruled: Ruled) -> None:
    for life in (Life("a", time_us=100), Life("b", "grace", 99.9), Life("c", "linus", 99.0)):
        await live(ruled.log, life)
        await ruled.settle()
    assert [fact for kind, fact in announced(ruled.log) if kind == "record"] == ["a", "c"]


async def test_two_rankers_announce_once(postgres_dsn: str) -> None:
    log, dsn = MemoryLog(), postgres_dsn
    await begin(log)
    async with (
        await connect(dsn, SCHEMA) as first_connection,
        await connect(dsn, SCHEMA) as second_connection,
    ):
        first, second = (
            ranker_of(log, ReadModels(first_connection)),
            ranker_of(log, ReadModels(second_connection)),
        )
        async with running(first):
            await live(log, Life("a"))
            await eventually(lambda: len(announced(log)) >= 2)
            await asyncio.gather(
                second.announcements.announce(None), second.announcements.announce(None)
            )
            await eventually(lambda: is_folded(log, ReadModels(second_connection)))
            await second.announcements.announce(None)
    assert announced(log) == [("record", "a"), ("podium", ["ada"])]


async def test_a_ban_that_is_over_moves_the_podium_with_the_next_event(ruled: Ruled) -> None:
    await live(ruled.log, Life("a"))
    await ruled.settle()
    until_at = now() + timedelta(seconds=1)
    await ruled.say(subjects.account("ada"), events.AccountBanned(reason="s", until_at=until_at))

    async def is_back() -> bool:
        await say(ruled.log, subjects.agent("a9"), events.AgentDrained(reason="any event"))
        return announced(ruled.log)[-2:] == [("podium", []), ("podium", ["ada"])]

    await eventually(is_back)


async def test_a_ranker_that_folds_everything_anew_announces_nothing_again(
    postgres_dsn: str, ruled: Ruled
) -> None:
    for life in (Life("a"), Life("b", "grace", 50)):
        await live(ruled.log, life)
        await ruled.settle()
    await ruled.decide("b", DISQUALIFIED)
    announced_before, last = announced(ruled.log), await ruled.log.last()
    migrate(postgres_dsn, "ranker", "rm_anew")
    async with await connect(postgres_dsn, "rm_anew") as anew:
        ranker = ranker_of(ruled.log, ReadModels(anew))
        async with running(ranker):
            await settle(ruled.log, ranker.progress)
    assert (announced(ruled.log), await ruled.log.last()) == (announced_before, last)
