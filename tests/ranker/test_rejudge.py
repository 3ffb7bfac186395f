"""A rejudge: invisible drafts, a preview that equals the application, and both ends."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA, Reader, ReadModels
from ranker.service.progress import Live, ProjectionProgress
from shared import events, subjects
from shared.event_log import RecordedEvent
from shared.events import RejudgeItem
from shared.postgres import connect, create_pool
from tests.ranker.replays import replayed
from tests.support.lives import Life, begin, live, problem, say
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.ranking import is_folded, ranker_of, running, settle
from tests.support.reading import STAFF
from tests.support.waits import eventually

pytestmark = pytest.mark.server
REJUDGE = "rj1"
AGG = subjects.rejudge(REJUDGE)


class Judging:
    """Two versions of a problem, two participants ranked under the first, an open rejudge."""

    def __init__(self, log: MemoryLog, blobs: MemoryBlobStore, http: httpx.AsyncClient) -> None:
        self.log = log
        self.blobs = blobs
        self.http = http
        self.progress = ProjectionProgress()
        self.lives = [Life("fast", time_us=100), Life("slow", "grace", 200)]

    async def get(self, path: str) -> Any:
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def board(self, version: int) -> list[tuple[str, float]]:
        items = (await self.get(f"/v1/leaderboards/identity/CPU?version={version}"))["items"]
        return [(item["submission"], item["score_us"]) for item in items]

    async def started(self) -> None:
        """Rank both, publish the second version, and request the rejudge."""
        await live(self.log, *self.lives)
        await say(self.log, subjects.problem("identity"), problem(number=2))
        await self.settled()
        await say(self.log, AGG, requested(self.lives))

    async def settled(self) -> None:
        """Wait until everything is folded, decided and announced."""
        await settle(self.log, self.progress)

    async def ran(self, life: Life, time_us: float, verdict: str = "passed") -> None:
        """Append a rejudge's job of a submission, from its queue to its verdict."""
        again = Again(life.id, life.account, time_us, verdict=verdict, source=life.source)
        for aggregate, fact in again.side_facts():
            await say(self.log, aggregate, fact)

    def find_events(self, kind: type[events.Fact]) -> list[RecordedEvent]:
        """The events of one type."""
        return [event for event in self.log.since(0) if isinstance(event.fact, kind)]

    async def previewed(self) -> dict[str, Any]:
        """The preview, once all drafts are there."""
        (event,) = await eventually(lambda: self.find_events(events.RejudgePreviewed))
        assert isinstance(event.fact, events.RejudgePreviewed)
        preview: dict[str, Any] = msgspec.json.decode(await self.blobs.get(event.fact.diff.digest))
        return preview


def requested(lives: Sequence[Life], select: str = "best") -> events.RejudgeRequested:
    """The request to run these submissions again under the second version."""
    items = [
        RejudgeItem(submission=item.id, account=item.account, gpu="CPU", source=item.blob, name="")
        for item in lives
    ]
    return events.RejudgeRequested(
        problem="identity",
        from_number=1,
        to_number=2,
        to_digest="d",
        select=select,
        reason="a case was wrong",
        items=items,
    )


class Again(Life):
    """A submission's run in a rejudge."""

    @property
    def job(self) -> str:
        """Its job there."""
        return f"job-again-{self.id}"

    @property
    def run(self) -> str:
        """Its run there."""
        return f"run-again-{self.id}"

    def side_facts(self) -> list[tuple[str, events.Fact]]:
        """As any life, for a rejudge."""
        return [(aggregate, _rejudged(fact)) for aggregate, fact in super().side_facts()]


def _rejudged(fact: events.Fact) -> events.Fact:
    if isinstance(fact, events.JobQueued):
        return msgspec.structs.replace(fact, rejudge=REJUDGE)
    if isinstance(fact, events.JobAssigned):
        return msgspec.structs.replace(fact, class_="rejudge")
    return fact


@asynccontextmanager
async def judging_at(dsn: str) -> AsyncIterator[Judging]:
    log, blobs = MemoryLog(), MemoryBlobStore()
    await begin(log)
    judging = Judging(log, blobs, httpx.AsyncClient(base_url="http://ranker"))
    async with (
        await connect(dsn, SCHEMA) as writing,
        create_pool(dsn, 1, 4, SCHEMA) as connections,
        running(ranker_of(log, ReadModels(writing), judging.progress, blobs)),
    ):
        app = create_app(
            ReadSources(Reader(connections), judging.progress, Live(), log.last, blobs)
        )
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://ranker", headers=STAFF
        ) as http:
            judging.http = http
            yield judging


@pytest.fixture
async def judging(postgres_dsn: str) -> AsyncIterator[Judging]:
    async with judging_at(postgres_dsn) as result:
        await result.started()
        yield result


async def test_drafts_change_nothing_that_is_public(judging: Judging) -> None:
    before = await judging.board(1)
    submission = await judging.get("/v1/submissions/3")
    await judging.ran(judging.lives[0], 90)
    await eventually(lambda: judging.find_events(events.RejudgeJudged))
    await judging.settled()
    assert (await judging.board(1), await judging.board(2)) == (before, [])
    after = await judging.get("/v1/submissions/3")
    changing = ("version",)
    assert {k: v for k, v in after.items() if k not in changing} == {
        k: v for k, v in submission.items() if k not in changing
    }


@pytest.mark.feature("N11")
async def test_the_preview_says_what_applying_then_does(judging: Judging) -> None:
    fast, slow = judging.lives
    await judging.ran(fast, 300)
    await judging.ran(slow, 150)
    preview = await judging.previewed()
    items = {item["submission"]: item for item in preview["items"]}
    assert [items[name]["old"]["rank"] for name in ("fast", "slow")] == [1, 2]
    assert [items[name]["new"]["rank"] for name in ("fast", "slow")] == [2, 1]
    assert preview["changed_count"] == 2
    assert {move["participant_id"]: move["new_rank"] for move in preview["moves"]} == {
        "ada": 2,
        "grace": 1,
    }
    await judging.settled()
    assert await judging.board(2) == []
    await say(judging.log, AGG, events.RejudgeApplied(reason="right"))
    await judging.settled()
    assert await judging.board(2) == [("slow", 150.0), ("fast", 300.0)]
    assert await judging.board(1) == [("fast", 100.0), ("slow", 200.0)]
    page = await judging.get(f"/v1/rejudges/{REJUDGE}")
    assert (page["state"], page["judged"], page["preview"]["changed_count"]) == ("applied", 2, 2)
    # What a page and a list show of a submission is what the newest leaderboard shows.
    lines = {item["id"]: item for item in (await judging.get("/v1/submissions"))["items"]}
    for submission, rank, score_us in (("slow", 1, 150.0), ("fast", 2, 300.0)):
        line = lines[submission]
        page = await judging.get(f"/v1/submissions/{line['number']}")
        ranking = page["ranking"]
        assert (ranking["problem_version"], ranking["rank"]) == (2, rank)
        assert ranking["score_us"] == page["score_us"] == pytest.approx(score_us)
        assert (line["result_version"], line["score_us"]) == (2, page["score_us"])


async def test_an_empty_leaderboard_says_which_version_has_entries(judging: Judging) -> None:
    board = await judging.get("/v1/leaderboards/identity/CPU")
    assert (board["problem_version"], board["items"]) == (2, [])
    assert board["other_versions"] == [{"problem_version": 1, "entries_count": 2}]


async def test_a_discarded_rejudge_leaves_no_trace(judging: Judging) -> None:
    for life in judging.lives:
        await judging.ran(life, 50)
    await judging.previewed()
    await say(judging.log, AGG, events.RejudgeDiscarded(reason="no"))
    await judging.settled()
    assert (await judging.board(1), await judging.board(2)) == (
        [("fast", 100.0), ("slow", 200.0)],
        [],
    )


async def test_a_failing_draft_is_judged_and_not_ranked(judging: Judging) -> None:
    fast, slow = judging.lives
    await judging.ran(fast, 100, verdict="wrong_answer")
    await judging.ran(slow, 200)
    items = {item["submission"]: item for item in (await judging.previewed())["items"]}
    assert (items["fast"]["new"]["verdict"], items["fast"]["new"]["rank"]) == ("wrong_answer", None)
    await say(judging.log, AGG, events.RejudgeApplied(reason="right"))
    await judging.settled()
    assert await judging.board(2) == [("slow", 200.0)]


async def test_a_job_that_was_given_up_does_not_hold_the_preview(judging: Judging) -> None:
    fast, slow = judging.lives
    await judging.ran(slow, 200)
    (job, queued), *_ = Again(fast.id, fast.account).side_facts()
    await say(judging.log, job, queued)
    await say(judging.log, job, events.JobGivenUp(attempts=3, reason="no agent"))
    items = {item["submission"]: item for item in (await judging.previewed())["items"]}
    assert items["fast"]["new"]["code"] == "given_up"
    await say(judging.log, AGG, events.RejudgeApplied(reason="right"))
    await judging.settled()
    assert await judging.board(2) == [("slow", 200.0)]


async def test_ingest_is_told_what_to_run_again(judging: Judging) -> None:
    path = "/internal/rejudge-items?problem=identity&from_version=1"
    best = (await judging.get(f"{path}&gpu=CPU&select=best"))["items"]
    assert [msgspec.convert(item, RejudgeItem).submission for item in best] == ["fast", "slow"]
    assert len((await judging.get(f"{path}&select=all"))["items"]) == 2


async def test_a_rejudge_rebuilds_to_what_grew(judging: Judging, postgres_dsn: str) -> None:
    for life in judging.lives:
        await judging.ran(life, 70)
    await judging.previewed()
    await say(judging.log, AGG, events.RejudgeApplied(reason="right"))
    await say(judging.log, subjects.moderation("slow"), events.SubmissionHeld(rule="", reason=""))
    await judging.settled()
    async with await connect(postgres_dsn, SCHEMA) as connection:
        await eventually(lambda: is_folded(judging.log, ReadModels(connection)))
    result = await replayed(postgres_dsn, judging.log)
    assert (result.differences, result.rows["entry"]) == ([], 3 - 1)


async def test_a_rejudge_that_was_just_started_is_known_at_once(judging: Judging) -> None:
    for place in range(20):
        rejudge = f"rejudge-{place}"
        await say(judging.log, subjects.rejudge(rejudge), requested(judging.lives))
        response = await judging.http.get(f"/v1/rejudges/{rejudge}")
        assert response.status_code == 200, response.text
    response = await judging.http.get("/v1/rejudges/nobodys")
    assert (response.status_code, response.json()["code"]) == (404, "unknown_rejudge")
