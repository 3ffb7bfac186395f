"""A submission has one score: every read shows the same, whatever happened."""

from random import Random
from typing import Any

import pytest

from shared import events, subjects
from tests.ranker.test_rejudge import AGG, Again, requested
from tests.support.chance import seeds
from tests.support.lives import Life, problem, say
from tests.support.reading import Reads, reading
from tests.support.waits import eventually

pytestmark = pytest.mark.server
ACCOUNTS, SOURCES = ("ada", "grace"), ("x", "y", "z")
DECIDED = (
    events.SubmissionHeld(rule="r", reason=""),
    events.SubmissionDisqualified(rule="r", reason=""),
    events.SubmissionWithdrawn(reason=""),
    events.SubmissionReleased(reason=""),
    events.SubmissionRestored(reason=""),
)


class History:
    """A random history, and what each read shows of each submission after it."""

    def __init__(self, reads: Reads, seed: int) -> None:
        self.reads = reads
        self.chance = Random(seed)
        self.lives: list[Life] = []

    async def submit(self, count: int) -> None:
        """Let participants submit, some of them the same source again."""
        fresh = []
        for number in range(len(self.lives), len(self.lives) + count):
            account, time_us = self.chance.choice(ACCOUNTS), self.chance.uniform(50.0, 200.0)
            source = account + self.chance.choice(SOURCES)
            processes_us = tuple(time_us * share for share in (0.99, 1.0, 1.01))
            fresh.append(
                Life(f"s{number}", account, time_us, source=source, process_us=processes_us)
            )
        self.lives += fresh
        await self.reads.ended(*fresh)

    async def decide(self, count: int) -> None:
        """Let a moderator or the owner decide about some submissions."""
        for _ in range(count):
            life, fact = self.chance.choice(self.lives), self.chance.choice(DECIDED)
            await say(self.reads.log, subjects.moderation(life.id), fact)
        await self.settle()

    async def rejudge(self) -> None:
        """Publish a second version, run some submissions again under it, and apply that."""
        chosen = self.chance.sample(self.lives, len(self.lives) // 2)
        await say(self.reads.log, subjects.problem("identity"), problem(number=2))
        await say(self.reads.log, AGG, requested(chosen, select="all"))
        for item in chosen:
            time_us = self.chance.uniform(50.0, 200.0)
            again = Again(item.id, item.account, time_us, source=item.source)
            for aggregate, fact in again.side_facts():
                await say(self.reads.log, aggregate, fact)
        await eventually(lambda: self._said(events.RejudgePreviewed))
        await say(self.reads.log, AGG, events.RejudgeApplied(reason="as previewed"))
        await self.settle()

    def _said(self, kind: type[events.Fact]) -> bool:
        return any(isinstance(event.fact, kind) for event in self.reads.log.since(0))

    async def settle(self) -> None:
        """Wait until everything is folded, decided and announced."""
        await self.reads.settle()

    async def scores(self) -> dict[str, list[tuple[int, float | None, list[int]]]]:
        """By submission: version, score and `pooled_over` in each read that shows it."""
        get = self.reads.get
        lines = (await get("submissions"))["items"]
        scores_: dict[str, list[tuple[int, float | None, list[int]]]] = {}
        for item in lines:
            page = await get(f"submissions/{item['number']}")
            version = page["result_version"]
            views = [page, page["ranking"], item]
            views += [result for result in page["results"] if result["problem_version"] == version]
            views += await self._elsewhere(item, version)
            scores_[item["id"]] = [
                (version, each["score_us"], each["pooled_over"]) for each in views
            ]
        return scores_

    async def _elsewhere(self, line: dict[str, Any], version: int) -> list[dict[str, Any]]:
        """A submission in its participant's history, and on the leaderboard if it is there."""
        board = await self.reads.get(f"leaderboards/identity/CPU?version={version}")
        account = line["participant_id"]
        path = f"participants/{account}/history?problem=identity&gpu=CPU&version={version}"
        past = await self.reads.get(path)
        rows = [*board["items"], *past["items"]]
        return [row for row in rows if row["number"] == line["number"]]


@pytest.mark.feature("N24")
@seeds(3)
async def test_every_read_shows_the_same_score(postgres_dsn: str, seed: int) -> None:
    async with reading(postgres_dsn) as reads:
        for account in ACCOUNTS:
            await reads.named(account, account)
        history = History(reads, seed)
        await history.submit(5)
        await history.decide(3)
        await history.rejudge()
        await history.submit(2)
        await history.decide(2)
        for submission, views in (await history.scores()).items():
            assert len(views) >= 5, f"{submission} is missing in a read"
            assert len({str(item) for item in views}) == 1, f"{submission}: {views}"
