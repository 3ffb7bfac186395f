"""Confirmations: a ranked run of a podium entry is repeated on another agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from shared import events, subjects
from shared.subjects import job_id_of
from tests.ranker.podium import Podium, open_podium
from tests.support.lives import AGENT, Life, enrol, live, registration, say
from tests.support.waits import eventually

pytestmark = pytest.mark.server

OTHER = "a2"
FAST = Life("fast", time_us=100.0)


class ConfirmationPodium(Podium):
    """A podium with another agent to repeat its runs."""

    async def requested(self) -> tuple[str, events.ConfirmationRequested]:
        """The id and request of the first confirmation."""
        request = await eventually(lambda: self.find(events.ConfirmationRequested))
        return request[0]

    def runs(self) -> list[str]:
        """The runs for which a confirmation was requested."""
        return [fact.run for _, fact in self.find(events.ConfirmationRequested)]

    async def repeat(self, repetition: Life, agent: str = OTHER, **order: Any) -> None:
        """Run the confirmation's job as this life."""
        id_, _ = await self.requested()
        for aggregate, fact in facts_of(id_, repetition, agent, order):
            await say(self.log, aggregate, fact)

    async def judged(self) -> events.ConfirmationJudged:
        """How the confirmation ended."""
        ((_, fact),) = await eventually(lambda: self.find(events.ConfirmationJudged))
        await self.settle()
        return fact

    async def entry_texts(self) -> list[tuple[str, float, str]]:
        """The entries with their confirmation texts."""
        return [
            (row["submission"], row["score_us"], row["confirmation"]) for row in await self.rows()
        ]


def facts_of(
    confirmation: str, repetition: Life, agent: str, order: dict[str, Any]
) -> list[tuple[str, events.Fact]]:
    """The events of a confirmation's job."""
    id_ = job_id_of(confirmation)
    job, run = subjects.job(id_), subjects.run(agent, "repeated")
    (_, queued), (_, leased), (_, assigned), (_, began), (_, ended), _ = repetition.side_facts()
    return [
        (job, structs.replace(queued, confirmation=confirmation)),
        (job, structs.replace(leased, run="repeated", agent=agent)),
        (run, structs.replace(assigned, **{"job": id_, "class_": "rejudge"} | order)),
        (run, began),
        (run, ended),
        (job, events.JobFinished(run="repeated", verdict=repetition.verdict)),
    ]


@asynccontextmanager
async def confirming_at(
    dsn: str, *, has_confirmations: bool = True, agents: tuple[str, ...] = (AGENT, OTHER)
) -> AsyncIterator[ConfirmationPodium]:
    async with open_podium(dsn, has_confirmations=has_confirmations) as podium:
        for agent in agents:
            await say(podium.log, subjects.agent(agent), registration())
            await enrol(podium.log, agent)
        yield ConfirmationPodium(podium.log, podium.progress, podium.http)


@pytest.fixture
async def podium(postgres_dsn: str) -> AsyncIterator[ConfirmationPodium]:
    async with confirming_at(postgres_dsn) as podium:
        await live(podium.log, FAST)
        yield podium


async def test_a_run_on_a_podium_is_repeated_once(podium: ConfirmationPodium) -> None:
    _, requested = await podium.requested()
    assert (requested.item.submission, requested.item.source) == ("fast", FAST.blob)
    assert (requested.run, requested.agent, requested.score_us) == ("run-fast", AGENT, 100.0)
    await live(podium.log, Life("slow", "grace", 300.0))
    await eventually(lambda: podium.runs() == ["run-fast", "run-slow"])
    await podium.settle()
    assert podium.runs() == ["run-fast", "run-slow"]


async def test_the_fourth_of_a_leaderboard_has_no_confirmation(podium: ConfirmationPodium) -> None:
    await live(podium.log, *(Life(f"s{at}", f"p{at}", 100.0 * at) for at in (2, 3)))
    first_three = ["run-fast", "run-s2", "run-s3"]
    await eventually(lambda: podium.runs() == first_three)
    await live(podium.log, Life("s4", "p4", 400.0))
    await eventually(lambda: len(podium.find(events.SubmissionFinished)) == 4)
    await podium.settle()
    assert podium.runs() == first_three


@pytest.mark.parametrize(
    ("repetition", "text"),
    [
        (Life("fast", time_us=102.0), "confirmed on agent a2"),
        (Life("fast", time_us=60.0), "confirmed on agent a2"),
        (Life("fast", time_us=150.0), "not confirmed: 50 % slower on agent a2"),
        (Life("fast", verdict="wrong_answer"), "not confirmed: wrong_answer on agent a2"),
    ],
)
async def test_a_row_says_how_its_run_was_confirmed(
    podium: ConfirmationPodium, repetition: Life, text: str
) -> None:
    await podium.repeat(repetition)
    assert (await podium.judged()).agent == OTHER
    assert await podium.entry_texts() == [("fast", 100.0, text)]
    report = await podium.audit()
    assert report.is_clean, report.findings
    (row,) = report.rows
    assert row.confirmation == text
    assert text in [reason.sentence for reason in row.because]


async def test_a_better_run_has_a_confirmation_of_its_own(podium: ConfirmationPodium) -> None:
    await podium.repeat(FAST)
    await podium.judged()
    await live(podium.log, Life("faster", time_us=50.0))
    await eventually(lambda: podium.runs() == ["run-fast", "run-faster"])
    await podium.settle()
    assert await podium.entry_texts() == [("faster", 50.0, "")]


async def test_a_confirmation_that_the_platform_failed_says_nothing(
    podium: ConfirmationPodium,
) -> None:
    id_, _ = await podium.requested()
    (aggregate, queued), *_ = facts_of(id_, FAST, OTHER, {})
    await say(podium.log, aggregate, queued)
    await say(podium.log, aggregate, events.JobGivenUp(attempts=2, reason="the device is gone"))
    judged = await podium.judged()
    assert (judged.code, judged.reason, judged.result) == ("given_up", "the device is gone", None)
    assert await podium.entry_texts() == [("fast", 100.0, "")]


async def test_an_agent_that_was_revoked_confirms_nothing(podium: ConfirmationPodium) -> None:
    await say(podium.log, subjects.agent(OTHER), events.AgentRevoked(reason="sold"))
    await podium.repeat(FAST)
    judged = await podium.judged()
    assert (judged.code, judged.result) == ("agent_not_enrolled", None)
    assert await podium.entry_texts() == [("fast", 100.0, "")]


async def test_a_confirmation_leaves_the_submission_as_it_was(podium: ConfirmationPodium) -> None:
    await podium.settle()
    before = (await podium.http.get("/v1/submissions/3")).json()
    await podium.repeat(Life("fast", verdict="wrong_answer"))
    await podium.judged()
    after = (await podium.http.get("/v1/submissions/3")).json()
    for name in ("state", "outcome", "verdict", "run", "score_us", "reason"):
        assert before.get(name) == after.get(name), name


async def test_an_audit_finds_a_confirmation_that_no_run_gave(podium: ConfirmationPodium) -> None:
    id_, _ = await podium.requested()
    end = next(fact for _, fact in podium.find(events.SubmissionFinished))
    judged = events.ConfirmationJudged(
        problem="identity",
        problem_number=1,
        gpu="CPU",
        agent=OTHER,
        code="confirmed",
        ratio=1.0,
        result=structs.replace(end, run="run-none"),
    )
    await say(podium.log, subjects.confirmation(id_), judged)
    report = await podium.audit()
    assert not report.is_clean
    assert "names run run-none" in report.findings[0].what


@pytest.mark.parametrize(
    ("agent", "order"),
    [(AGENT, {}), (OTHER, {"source": events.Blob(digest="e" * 64, bytes=1)})],
    ids=["first agent", "other source"],
)
async def test_an_audit_finds_a_run_that_is_no_repetition(
    podium: ConfirmationPodium, agent: str, order: dict[str, Any]
) -> None:
    await podium.repeat(FAST, agent, **order)
    await podium.judged()
    report = await podium.audit()
    assert "does not follow from its run" in report.findings[0].what


@pytest.mark.parametrize(
    "settings", [{"has_confirmations": False}, {"agents": (AGENT,)}], ids=["off", "one agent"]
)
async def test_without_another_agent_nothing_is_repeated(
    postgres_dsn: str, settings: dict[str, Any]
) -> None:
    async with confirming_at(postgres_dsn, **settings) as podium:
        await live(podium.log, FAST)
        await podium.settle()
        assert podium.find(events.ConfirmationRequested) == []
