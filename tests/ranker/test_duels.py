"""Duels: requested for tied neighbours of a podium, judged by a signed run, and audited."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from harness.vocabulary import DUEL
from ranker.service.podium_jobs import is_sound
from shared import events, subjects
from shared.events import DuelResult
from shared.subjects import job_id_of
from tests.ranker.podium import Podium, open_podium
from tests.support.lives import AGENT, RUN_KEY, Life, live, registration, say
from tests.support.waits import eventually

pytestmark = pytest.mark.server
FAST, SLOW = Life("fast", time_us=100.0), Life("slow", "grace", 100.1)
B_WINS = DuelResult(winner="B", ratio=1.004, interval=(1.003, 1.005), pairs=40)


class DuelPlatform(Podium):
    """A ranker over a log in memory, with two tied entries."""

    async def requested(self) -> tuple[str, events.DuelRequested]:
        """The id and request of the only duel."""
        (request,) = await eventually(lambda: self.find(events.DuelRequested))
        return request

    async def run(self, duel: str, result: DuelResult | None, **other: Any) -> None:
        """Append the job of a duel from its queue to its end."""
        _, fact = self.find(events.DuelRequested)[0]
        for aggregate, event_fact in facts_of(duel, fact, result, **other):
            await say(self.log, aggregate, event_fact)

    async def judged(self) -> events.DuelJudged:
        """How the duel ended."""
        ((_, fact),) = await eventually(lambda: self.find(events.DuelJudged))
        await self.settle()
        return fact

    async def board(self) -> list[tuple[str, int, str]]:
        """The entries with ranks and duel texts."""
        return [(row["submission"], row["rank"], row["duel"]) for row in await self.rows()]


def facts_of(
    duel: str,
    requested: events.DuelRequested,
    result: DuelResult | None,
    *,
    verdict: str = "passed",
    rival: events.Blob | None = None,
    run: str = "run-duel",
) -> list[tuple[str, events.Fact]]:
    """The events of a duel's job."""
    job, aggregate = subjects.job(job_id_of(duel)), subjects.run(AGENT, run)
    first, second = requested.first, requested.second
    pattern = Life("fast", mode=DUEL)
    (_, queued), (_, leased), (_, order), (_, began), (_, ended), _ = pattern.side_facts()
    assert isinstance(order, events.JobAssigned)
    return [
        (
            job,
            structs.replace(
                queued,
                mode=DUEL,
                duel=duel,
                source=first.source,
                rival=second.source,
            ),
        ),
        (job, structs.replace(leased, run=run)),
        (
            aggregate,
            structs.replace(
                order,
                job=job_id_of(duel),
                source=first.source,
                rival=rival or second.source,
                class_="rejudge",
            ),
        ),
        (aggregate, began),
        (aggregate, structs.replace(ended, verdict=verdict, duel=result, cases=[], key=RUN_KEY)),
        (job, events.JobFinished(run=run, verdict=verdict)),
    ]


@asynccontextmanager
async def dueling_at(
    dsn: str, *, has_duels: bool = True, has_agent: bool = True
) -> AsyncIterator[DuelPlatform]:
    async with open_podium(dsn, has_duels=has_duels) as podium:
        offer = structs.replace(registration(), modes=["ranked", *([DUEL] if has_agent else [])])
        await say(podium.log, subjects.agent(AGENT), offer)
        yield DuelPlatform(podium.log, podium.progress, podium.http)


@pytest.fixture
async def dueling(postgres_dsn: str) -> AsyncIterator[DuelPlatform]:
    async with dueling_at(postgres_dsn) as platform:
        await live(platform.log, FAST, SLOW)
        yield platform


async def test_tied_neighbours_of_a_podium_have_one_duel(dueling: DuelPlatform) -> None:
    _, requested = await dueling.requested()
    sides = requested.first.submission, requested.second.submission
    assert sides == ("fast", "slow")
    assert (requested.first.source, requested.second.source) == (FAST.blob, SLOW.blob)
    assert (requested.problem_digest, requested.gpu) == ("d" * 64, "CPU")
    await live(dueling.log, Life("third", "linus", 500.0))
    await dueling.settle()
    assert len(dueling.find(events.DuelRequested)) == 1


async def test_the_winner_stands_first_within_the_rank(dueling: DuelPlatform) -> None:
    duel, _ = await dueling.requested()
    assert await dueling.board() == [("fast", 1, ""), ("slow", 1, "")]
    await dueling.run(duel, B_WINS)
    judged = await dueling.judged()
    assert (judged.result, judged.code) == (B_WINS, "judged")
    because = "ahead of #4 by a duel: 0.4 % ± 0.1 %"
    assert await dueling.board() == [("slow", 1, because), ("fast", 1, "")]
    report = await dueling.audit()
    assert report.is_clean, report.findings
    assert [(row.submission, row.duel) for row in report.rows] == [
        ("slow", because),
        ("fast", ""),
    ]
    sentences = [[reason.sentence for reason in row.because] for row in report.rows]
    assert because in sentences[0]
    assert any(sentence.startswith("behind #") for sentence in sentences[1])
    podiums = dueling.find(events.PodiumChanged)
    assert podiums[-1][1].after == ["grace", "ada"]


async def test_what_a_duel_cannot_tell_apart_stays_as_it_was(dueling: DuelPlatform) -> None:
    duel, _ = await dueling.requested()
    await dueling.run(duel, DuelResult(winner="equal", ratio=1.0, interval=(0.999, 1.001)))
    assert (await dueling.judged()).code == "judged"
    assert await dueling.board() == [("fast", 1, ""), ("slow", 1, "")]
    assert len(dueling.find(events.DuelRequested)) == 1


async def test_a_run_that_does_not_pass_orders_nobody(dueling: DuelPlatform) -> None:
    duel, _ = await dueling.requested()
    await dueling.run(duel, DuelResult(winner="", failed="A"), verdict="wrong_answer")
    judged = await dueling.judged()
    assert (judged.code, judged.result) == ("wrong_answer", None)
    assert await dueling.board() == [("fast", 1, ""), ("slow", 1, "")]


async def test_a_result_that_cannot_be_orders_nobody(dueling: DuelPlatform) -> None:
    duel, _ = await dueling.requested()
    await dueling.run(duel, structs.replace(B_WINS, ratio=0.5))
    assert (await dueling.judged()).code == "bad_result"
    assert await dueling.board() == [("fast", 1, ""), ("slow", 1, "")]


async def test_a_duel_that_the_platform_failed_changes_nothing(dueling: DuelPlatform) -> None:
    duel, requested = await dueling.requested()
    (aggregate, queued), *_ = facts_of(duel, requested, None)
    await say(dueling.log, aggregate, queued)
    await say(dueling.log, aggregate, events.JobGivenUp(attempts=2, reason="the device is gone"))
    judged = await dueling.judged()
    assert (judged.code, judged.reason, judged.result) == ("given_up", "the device is gone", None)
    assert await dueling.board() == [("fast", 1, ""), ("slow", 1, "")]


async def test_an_agent_that_was_revoked_decides_no_duel(dueling: DuelPlatform) -> None:
    duel, _ = await dueling.requested()
    await say(dueling.log, subjects.agent(AGENT), events.AgentRevoked(reason="sold"))
    await dueling.run(duel, B_WINS)
    judged = await dueling.judged()
    assert (judged.code, judged.result) == ("agent_not_enrolled", None)
    assert await dueling.board() == [("fast", 1, ""), ("slow", 1, "")]


async def test_a_duel_leaves_the_submission_as_it_was(dueling: DuelPlatform) -> None:
    async def is_finished() -> bool:
        submission = (await dueling.http.get("/v1/submissions/4")).json()
        return bool(submission["state"] == "finished")

    await eventually(is_finished)
    before = (await dueling.http.get("/v1/submissions/4")).json()
    duel, _ = await dueling.requested()
    await dueling.run(duel, B_WINS)
    await dueling.judged()
    after = (await dueling.http.get("/v1/submissions/4")).json()
    for name in ("state", "outcome", "verdict", "run", "score_us", "reason"):
        assert before.get(name) == after.get(name), name


async def test_an_audit_finds_a_winner_that_no_run_found(dueling: DuelPlatform) -> None:
    duel, requested = await dueling.requested()
    judged = events.DuelJudged(
        problem="identity", problem_number=1, gpu="CPU", run="run-none", result=B_WINS
    )
    await say(dueling.log, subjects.duel(duel), judged)
    report = await dueling.audit()
    assert not report.is_clean
    assert "no leased run run-none ended before it" in report.findings[0].what
    assert requested.gpu == "CPU"


async def test_an_audit_finds_a_run_of_other_sources(dueling: DuelPlatform) -> None:
    duel, _ = await dueling.requested()
    other = events.Blob(digest="e" * 64, bytes=1)
    await dueling.run(duel, B_WINS, rival=other)
    await dueling.judged()
    report = await dueling.audit()
    assert "does not follow from its run" in report.findings[0].what


async def test_a_platform_may_have_no_duels(postgres_dsn: str) -> None:
    async with dueling_at(postgres_dsn, has_duels=False) as platform:
        await live(platform.log, FAST, SLOW)
        await platform.settle()
        assert platform.find(events.DuelRequested) == []


async def test_no_duel_is_requested_that_no_agent_takes(postgres_dsn: str) -> None:
    async with dueling_at(postgres_dsn, has_agent=False) as platform:
        await live(platform.log, FAST, SLOW)
        await platform.settle()
        assert platform.find(events.DuelRequested) == []


async def test_one_source_has_no_duel_with_itself(postgres_dsn: str) -> None:
    async with dueling_at(postgres_dsn) as platform:
        await live(platform.log, FAST, with_source(SLOW, source="fast"))
        await platform.settle()
        assert platform.find(events.DuelRequested) == []


def with_source(life: Life, source: str) -> Life:
    """The same life with another source."""
    return Life(life.id, life.account, life.time_us, source=source)


@pytest.mark.parametrize(
    "result",
    [
        None,
        DuelResult(winner="A", ratio=1.1, interval=(1.05, 1.2)),
        DuelResult(winner="B", ratio=0.9, interval=(0.8, 0.95)),
        DuelResult(winner="C", ratio=1.0, interval=(0.9, 1.1)),
        DuelResult(winner="A", ratio=0.5, interval=(0.8, 0.9)),
        DuelResult(winner="A", ratio=0.0, interval=(0.0, 0.0)),
        DuelResult(winner="A", ratio=float("inf"), interval=(0.1, float("inf"))),
        DuelResult(winner="A", failed="B", ratio=0.9, interval=(0.8, 0.95)),
    ],
)
def test_a_result_that_contradicts_itself_is_none(result: DuelResult | None) -> None:
    assert not is_sound(result)


A_CLEARLY = DuelResult(winner="A", ratio=0.98, interval=(0.979, 0.981), pairs=40)
B_CLEARLY = DuelResult(winner="B", ratio=1.02, interval=(1.01898, 1.02102), pairs=40)
CLEARLY = "by a duel: 2 % ± 0.1 %"


async def test_a_clear_winner_has_a_rank_of_its_own(dueling: DuelPlatform) -> None:
    duel, _ = await dueling.requested()
    await dueling.run(duel, B_CLEARLY)
    await dueling.judged()
    assert await dueling.board() == [("slow", 1, f"ahead of #4 {CLEARLY}"), ("fast", 2, "")]
    report = await dueling.audit()
    assert report.is_clean, report.findings
    assert [(row.submission, row.rank) for row in report.rows] == [("slow", 1), ("fast", 2)]
    assert dueling.find(events.PodiumChanged)[-1][1].after == ["grace", "ada"]
    # Only a score makes a record.
    assert "slow" not in [fact.submission for _, fact in dueling.find(events.RecordSet)]


async def test_a_clear_winner_with_the_best_score_sets_the_record(postgres_dsn: str) -> None:
    async with dueling_at(postgres_dsn) as platform:
        await live(platform.log, SLOW)
        await platform.settle()
        await live(platform.log, FAST)
        duel, _ = await platform.requested()
        assert [fact.submission for _, fact in platform.find(events.RecordSet)] == ["slow"]
        await platform.run(duel, A_CLEARLY)
        await platform.judged()
        number = platform.find(events.DuelRequested)[0][1].second.number
        expected = [("fast", 1, f"ahead of #{number} {CLEARLY}"), ("slow", 2, "")]
        assert await platform.board() == expected
        records = [fact.submission for _, fact in platform.find(events.RecordSet)]
        assert records == ["slow", "fast"]
