"""SQL and the in-memory fold give the same leaderboard, whatever happens."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from math import exp
from random import Random
from typing import Any

import pytest

from ranker.audit.leaderboards import find_differences
from ranker.domain.goals import BELOW_FLOOR, HELD_WITH_SCORE, POLICY_REVIEW
from ranker.domain.places import assign_places
from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import Standings
from ranker.postgres import SCHEMA, ReadModels
from ranker.service.decisions import Metrics
from ranker.service.leaderboard import make_scored_entries as in_standings
from ranker.service.leaderboard import rank_top
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import project
from shared import events, subjects
from shared.clock import new_id
from shared.event_log import NewEvent
from shared.events import Blob, Fact, RejudgeItem, SubmissionFinished
from shared.postgres import connect
from shared.wire import EventMetadata, make_envelope
from tests.support.chance import seeds
from tests.support.lives import BLOB, T0, publish
from tests.support.memory import MemoryLog

pytestmark = pytest.mark.server
STAGES, STEPS = 3, 40
# Duels are between so many of the newest sources of a leaderboard.
SOURCES_MAX = 12
ACCOUNTS = ("ada", "grace", "linus", "margaret")
BOARDS = [LeaderboardKey("identity", gpu, number) for number in (1, 2) for gpu in ("CPU", "H200")]
NOON = T0 + timedelta(hours=12)


class Chaos:
    """A random history of valid events."""

    numbers: Sequence[int] = (1, 1, 2)
    gpus: Sequence[str] = ("CPU", "H200")
    has_merges = True
    # How many new sources there are for each two that repeat.
    originals = 2

    def __init__(
        self,
        seed: int,
        accounts: Sequence[str] = ACCOUNTS,
        score_us: tuple[float, float] = (50, 500),
        began: datetime = T0,
    ) -> None:
        self.chance = Random(seed)
        self.accounts, self.score_us, self.began = accounts, score_us, began
        self.log = MemoryLog()
        self.open: list[str] = []
        self.over: list[str] = []
        self.places: dict[str, tuple[str, str, str]] = {}
        self.pooling: dict[str, tuple[tuple[str, int], str]] = {}
        self.ranked: dict[tuple[str, int], list[str]] = {}
        self.rejudges: dict[str, list[str]] = {}
        self.duels: dict[str, events.DuelRequested] = {}
        self.requests = 0
        self.merged: dict[str, str] = {}
        self.clock = began

    async def say(self, aggregate: str, fact: Fact) -> None:
        """Append an event, some minutes later."""
        self.clock += timedelta(minutes=self.chance.randrange(10))
        stamp = EventMetadata(new_id(), self.clock, "service:test", "", "")
        await self.log.append(NewEvent(make_envelope(fact, aggregate, stamp), None))

    async def step(self) -> None:
        """Append a random event."""
        moves: list[Callable[[], object]] = [self.receive, self.receive]
        if self.open:
            moves += [self.finish, self.finish]
        if self.over:
            moves += [self.moderate, self.ban, self.request]
            moves += [self.merge] if self.has_merges else []
        if self.rejudges:
            moves += [self.judge, self.judge, self.conclude]
        if self.ranked:
            moves += [self.duel]
        if self.duels:
            moves += [self.judge_duel, self.judge_duel]
        await self.chance.choice(moves)()  # type: ignore[misc]  # Each of them is awaited.

    def score(self) -> SubmissionFinished:
        """A result: mostly eligible, or eligible after a release."""
        draw = self.chance
        code = draw.choice(["ranked"] * 7 + ["mode_not_ranked"] + [BELOW_FLOOR, POLICY_REVIEW])
        score_us = draw.choice([None, *(draw.uniform(*self.score_us) for _ in range(9))])
        count = draw.choice([0, 3, 5, 200])
        processes = [] if score_us is None else [draw.gauss(score_us, 1) for _ in range(count)]
        return SubmissionFinished(
            outcome=draw.choice(["passed"] * 5 + ["infra_failed"]),
            is_eligible=code == "ranked",
            is_held=code in HELD_WITH_SCORE,
            code=code,
            reason="",
            score_us=score_us,
            process_us=processes,
            error=draw.choice([None, 0.001, 0.05]),
            freedom=draw.choice([0, 2, 22]),
            sigma_run=draw.choice([0.0, 0.01]),
            delta=draw.choice([None, 0.003, 0.02]),
            grade=draw.choice(["ok", "ok", "noisy", ""]),
        )

    async def receive(self) -> None:
        """Append a submission; some sources repeat."""
        submission = f"s{len(self.places)}"
        account, gpu = self.chance.choice(self.accounts), self.chance.choice(self.gpus)
        source = self.chance.choice([*[submission] * self.originals, "x", "y"]).rjust(64, "0")
        normal_digest = self.chance.choice([*[""] * self.originals, "n".rjust(64, "0")])
        number = self.chance.choice(self.numbers)
        self.pooling[submission] = (gpu, number), normal_digest or source
        self.places[submission] = account, gpu, source
        self.open.append(submission)
        fact = events.SubmissionReceived(
            account=account,
            problem="identity",
            problem_number=number,
            problem_digest="d",
            gpu=gpu,
            mode="ranked",
            source=Blob(digest=source, bytes=1),
            normal_digest=normal_digest,
            name="k.py",
            deadline_at=T0,
            via="http",
        )
        await self.say(subjects.submission(submission), fact)

    async def finish(self) -> None:
        """End a submission, rarely without a verdict."""
        submission = self.open.pop(self.chance.randrange(len(self.open)))
        self.over.append(submission)
        failed = events.SubmissionFinished(
            outcome="infra_failed", is_eligible=False, code="c", reason="r"
        )
        fact = self.chance.choice([self.score(), self.score(), self.score(), failed])
        if fact.is_eligible and fact.score_us is not None:
            board, source = self.pooling[submission]
            self.ranked.setdefault(board, []).append(source)
        await self.say(subjects.submission(submission), fact)

    async def moderate(self) -> None:
        """Append a moderation decision."""
        facts: Sequence[Fact] = (
            events.SubmissionHeld(rule="r", reason=""),
            events.SubmissionReleased(reason=""),
            events.SubmissionDisqualified(rule="r", reason=""),
            events.SubmissionRestored(reason=""),
            events.SubmissionWithdrawn(reason=""),
            events.AppealFiled(text=BLOB),
            events.AppealDecided(is_accepted=self.chance.random() < 0.5, reason=""),
        )
        about = self.chance.choice([*self.over, *self.open])
        await self.say(subjects.moderation(about), self.chance.choice(facts))

    async def ban(self) -> None:
        """Ban or unban a participant."""
        until_at = self.chance.choice(
            [None, self.began + timedelta(hours=self.chance.randrange(24))]
        )
        facts = (
            events.AccountBanned(reason="", until_at=until_at),
            events.AccountUnbanned(reason=""),
        )
        await self.say(
            subjects.account(self.chance.choice(self.accounts)), self.chance.choice(facts)
        )

    async def merge(self) -> None:
        """Merge two participants, or undo a merge; what is part of another one receives nothing."""
        part, into = self.chance.sample(self.accounts, 2)
        if part in self.merged:
            into = self.merged.pop(part)
            await self.say(subjects.account(part), events.MergeUndone(into=into))
        elif into not in self.merged and part not in self.merged.values():
            self.merged[part] = into
            fact = events.AccountMerged(into=into, undo_until_at=self.clock + timedelta(days=7))
            await self.say(subjects.account(part), fact)

    async def request(self) -> None:
        """Request a rejudge under the same version or the next."""
        some = self.chance.sample(self.over, min(len(self.over), self.chance.randrange(1, 6)))
        self.requests += 1
        rejudge = f"r{self.requests}"
        self.rejudges[rejudge] = some
        items = []
        for submission in some:
            account, gpu, source = self.places[submission]
            blob = Blob(digest=source, bytes=1)
            items.append(
                RejudgeItem(submission=submission, account=account, gpu=gpu, source=blob, name="k")
            )
        fact = events.RejudgeRequested(
            problem="identity",
            from_number=1,
            to_number=self.chance.choice([1, 2]),
            to_digest="d",
            select="all",
            reason="",
            items=items,
        )
        await self.say(subjects.rejudge(rejudge), fact)

    async def judge(self) -> None:
        """Append a rejudge result, possibly again."""
        rejudge, items = self.chance.choice(list(self.rejudges.items()))
        fact = events.RejudgeJudged(submission=self.chance.choice(items), result=self.score())
        await self.say(subjects.rejudge(rejudge), fact)

    async def conclude(self) -> None:
        """Apply or discard a rejudge."""
        rejudge = self.chance.choice(list(self.rejudges))
        del self.rejudges[rejudge]
        fact = self.chance.choice(
            [events.RejudgeApplied(reason=""), events.RejudgeDiscarded(reason="")]
        )
        await self.say(subjects.rejudge(rejudge), fact)

    async def duel(self) -> None:
        """Request a duel of two sources."""
        self.requests += 1
        (gpu, number), sources = self.chance.choice(list(self.ranked.items()))
        sides = self.chance.sample(sorted({"x", "y", *sources[-SOURCES_MAX:]}), 2)
        first, second = (self.side(source) for source in sides)
        fact = events.DuelRequested(
            problem="identity",
            problem_number=number,
            problem_digest="d",
            gpu=gpu,
            first=first,
            second=second,
        )
        self.duels[f"d{self.requests}"] = fact
        await self.say(subjects.duel(f"d{self.requests}"), fact)

    def side(self, source: str) -> events.DuelSide:
        """A side of a duel, identified by its source."""
        blob = Blob(digest=source.rjust(64, "0"), bytes=1)
        return events.DuelSide(submission="s", number=1, account="a", source=blob, name="k")

    async def judge_duel(self) -> None:
        """End a duel, possibly without a result."""
        duel = self.chance.choice(list(self.duels))
        requested = self.duels.pop(duel)
        middle, half = self.chance.choice([0, 0.004, 0.02, 0.05]), self.chance.choice([0.001, 0.01])
        winner = self.chance.choice(["A", "B"])
        sign = -1 if winner == "A" else 1
        low, high = exp(sign * middle - half), exp(sign * middle + half)
        if low <= 1 <= high:
            winner = "equal"
        result = events.DuelResult(winner=winner, ratio=exp(sign * middle), interval=(low, high))
        fact = events.DuelJudged(
            problem=requested.problem,
            problem_number=requested.problem_number,
            gpu=requested.gpu,
            result=self.chance.choice([None, result, result]),
        )
        await self.say(subjects.duel(duel), fact)


async def read_live(
    models: ReadModels, board: LeaderboardKey, at: datetime
) -> list[dict[str, Any]]:
    return [
        row
        | {"rank": place.rank, "best_rank": place.best_rank}
        | {"is_tied": place.is_tied, "duel": place.duel}
        for place, row in await rank_top(models, board, 1000, at)
    ]


@seeds(12)
async def test_any_history_makes_the_same_leaderboards(postgres_dsn: str, seed: int) -> None:
    chaos, standings = Chaos(seed), Standings()
    await publish(chaos.log)
    async with await connect(postgres_dsn, SCHEMA) as connection:
        models = ReadModels(connection)
        for _ in range(STAGES):
            folded_seq = await models.checkpoint()
            for _ in range(STEPS):
                await chaos.step()
            last = await chaos.log.last()
            async for _ in project(chaos.log, models, ProjectionProgress(), Metrics(), until=last):
                pass
            for event in chaos.log.since(folded_seq):
                standings.fold(event)
            for board in BOARDS:
                for at in (T0, NOON, chaos.clock):
                    shown_now = await read_live(models, board, at)
                    expected = standings.board(board, at)
                    assert find_differences(expected, shown_now) == []
                    shown_order = [place.number for place in assign_places(in_standings(shown_now))]
                    assert [row.number for row in expected] == shown_order
