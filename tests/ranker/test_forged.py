"""Forged events of an agent, or late ones, change no submission."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from ranker.postgres import ReadModels
from shared import events, subjects
from shared.events import Fact, SubmissionFinished
from tests.support.lives import AGENT, T0, Life, begin, problem, say
from tests.support.memory import MemoryLog
from tests.support.ranking import is_folded, ranking
from tests.support.waits import eventually

pytestmark = pytest.mark.server
THIEF = "thief"
FAST = SubmissionFinished(
    outcome="passed",
    is_eligible=True,
    code="ranked",
    reason="",
    run="r",
    verdict="passed",
    score_us=1.0,
    delta=0.01,
)


@dataclass
class ForgingLog:
    """A ranker, and a log that accepts any event."""

    log: MemoryLog
    models: ReadModels

    async def begin(self, life: Life) -> None:
        """Append everything before the verdict."""
        for aggregate, fact in life.facts()[:4]:
            await say(self.log, aggregate, fact)

    async def ends(self, submission: str) -> list[Fact]:
        """The ends of a submission, once everything is folded and decided."""
        await eventually(lambda: is_folded(self.log, self.models))
        history = await self.log.history(subjects.submission(submission))
        return [event.fact for event in history if isinstance(event.fact, SubmissionFinished)]

    async def row(self, statement: str, **values: object) -> Any:
        """One row of the read models, once everything is folded."""
        await eventually(lambda: is_folded(self.log, self.models))
        cursor = await self.models.connection.execute(statement.encode(), values)
        return await cursor.fetchone()


@pytest.fixture
async def forging(postgres_dsn: str) -> AsyncIterator[ForgingLog]:
    log = MemoryLog()
    await begin(log)
    async with ranking(log, postgres_dsn) as models:
        yield ForgingLog(log, models)


async def test_no_run_ends_a_submission_or_changes_an_agents_key(forging: ForgingLog) -> None:
    life = Life("s1")
    await forging.begin(life)
    key = events.AgentEnrolled(sign_key="bWluZQ==", owner=THIEF)
    for id_, fact in (("s1", FAST), (AGENT, key), (AGENT, events.AgentRevoked(reason="a rival"))):
        await say(forging.log, subjects.run(THIEF, id_), fact)
    await say(forging.log, subjects.run(THIEF, "identity"), problem(2))
    state = await forging.row("select state, outcome from submission where id = 's1'")
    assert state == ("running", None)
    await say(forging.log, subjects.run(AGENT, life.run), life.completed())
    (end,) = await eventually(lambda: forging.ends("s1"))
    assert isinstance(end, SubmissionFinished)
    assert (end.code, end.score_us) == ("ranked", 100.0)


async def test_a_forged_order_takes_no_run_from_its_agent(forging: ForgingLog) -> None:
    life, own = Life("s1"), Life("s2", account="eve")
    await forging.begin(life)
    order = own.facts()[2][1]
    await say(forging.log, subjects.run(THIEF, life.run), order)
    await say(forging.log, subjects.run(AGENT, life.run), life.completed())
    (end,) = await eventually(lambda: forging.ends("s1"))
    assert isinstance(end, SubmissionFinished)
    assert end.code == "ranked"


async def test_what_an_agent_says_after_its_lease_is_never_decided_on(forging: ForgingLog) -> None:
    life = Life("s1")
    await forging.begin(life)
    run = subjects.run(AGENT, life.run)
    await say(forging.log, run, events.JobExpired(reason="it fell silent", code="agent_silent"))
    await say(forging.log, run, life.completed())
    assert await forging.ends("s1") == []
    state = await forging.row("select state from submission where id = 's1'")
    assert state == ("running",)


async def test_of_two_verdicts_of_a_run_the_first_counts(forging: ForgingLog) -> None:
    life = Life("s1", mode="test")
    await forging.begin(life)
    run = subjects.run(AGENT, life.run)
    await say(forging.log, run, structs.replace(life.completed(), verdict="wrong", stage="check"))
    await say(forging.log, run, life.completed())
    (end,) = await eventually(lambda: forging.ends("s1"))
    assert isinstance(end, SubmissionFinished)
    assert end.outcome == "failed"
    verdict = await forging.row("select verdict from run where id = %(id)s", id=life.run)
    assert verdict == ("wrong",)


async def test_a_decision_that_a_cancel_crossed_is_made_again(
    forging: ForgingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, append = Life("s1"), forging.log.append
    crossed: list[bool] = []
    cancel = events.SubmissionCancelRequested(reason="never mind")

    async def crossing(event: Any) -> int:
        if event.envelope.type == "SubmissionFinished" and not crossed:
            crossed.append(True)
            await say(forging.log, subjects.submission("s1"), cancel)
        return await append(event)

    monkeypatch.setattr(forging.log, "append", crossing)
    await forging.begin(life)
    await say(forging.log, subjects.run(AGENT, life.run), life.completed())
    (end,) = await eventually(lambda: forging.ends("s1"))
    assert isinstance(end, SubmissionFinished)
    assert (crossed, end.code) == ([True], "ranked")


EXTREMES = (1e308, -1e308, 5e-324, -0.0)


@pytest.mark.parametrize("number", EXTREMES)
async def test_no_number_and_no_text_of_an_agent_holds_the_projection_up(
    forging: ForgingLog, number: float
) -> None:
    life, text = Life("s1"), "nul \0, \u2028 and \U0010ffff" * 1000
    await forging.begin(life)
    run = subjects.run(AGENT, life.run)
    case = events.CaseResult(
        name=text,
        stage="time",
        verdict="passed",
        time_us=number,
        interval_us=(number, number),
        samples=2**63,
        process_us=[number, number],
        error=number,
        freedom=-(2**63),
        null_us=[number] * 3,
        statistics={text: number},
    )
    told_more: list[Fact] = [
        structs.replace(
            life.completed(),
            cases=[case],
            took_s=number,
            sigma_run=number,
            tie_us=number,
            usage={text: number},
            environment={text: text},
            reason=text,
            log_head=text,
            stages=[events.StageResult(stage=text, verdict=text, took_s=number, cases=2**63)],
        ),
        events.RunDiscarded(verdict=text),
    ]
    for fact in told_more:
        await say(forging.log, run, fact)
    (end,) = await eventually(lambda: forging.ends("s1"))
    assert isinstance(end, SubmissionFinished)
    assert not end.is_eligible


async def test_an_order_that_an_agent_writes_itself_speaks_for_its_lease_alone(
    forging: ForgingLog,
) -> None:
    mine, other = Life("s1"), Life("s2")
    for aggregate, fact in [*mine.facts()[:2], *other.facts()[:1]]:
        await say(forging.log, aggregate, fact)
    (_, order) = mine.facts()[2]
    assert isinstance(order, events.JobAssigned)
    forged = structs.replace(order, submission="s2", attempt=9)
    await say(forging.log, subjects.run(AGENT, mine.run), forged)
    row = await forging.row("select submission, attempt from run where id = 'run-s1'")
    assert row == ("s1", 1)


async def test_of_two_leases_that_name_one_run_its_order_says_whose_it_is(
    forging: ForgingLog,
) -> None:
    mine, other = Life("s1"), Life("s2")
    (_, (lease_agg, _), *_) = other.facts()
    for aggregate, fact in [*mine.facts()[:1], *other.facts()[:1]]:
        await say(forging.log, aggregate, fact)
    leased = events.JobLeased(run=mine.run, agent=AGENT, attempt=1, lease_until_at=T0)
    await say(forging.log, lease_agg, leased)
    for aggregate, fact in mine.facts()[1:]:
        await say(forging.log, aggregate, fact)
    assert await eventually(lambda: forging.ends("s1"))
    assert await forging.ends("s2") == []
    assert await forging.row("select state from submission where id = 's2'") == ("assigned",)
    again = events.JobRequeued(run=mine.run, reason="the agent was given another run")
    await say(forging.log, lease_agg, again)
    assert await forging.row("select state, run from submission where id = 's2'") == (
        "queued",
        None,
    )
