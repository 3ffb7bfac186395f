"""The runs of a contest's winners are repeated on several agents once the contest has ended."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from shared import events, subjects
from shared.contests.definition import Contest, Phase
from shared.events import ContestResultsProposed
from tests.ranker.podium import Podium, open_podium
from tests.ranker.test_confirmations import facts_of
from tests.ranker.test_contest_results import HOUR, ORGANISER, begin_contest, contest, places, read
from tests.support.lives import AGENT, T0, Life, enrol, registration, say
from tests.support.waits import eventually

pytestmark = pytest.mark.server


async def add_agents(podium: Podium, *agents: str) -> None:
    """Enrol agents that take ranked runs."""
    for agent in agents:
        await say(podium.log, subjects.agent(agent), registration())
        await enrol(podium.log, agent)
    await podium.settle()


def requests_of(podium: Podium, submission: str) -> list[tuple[str, events.ConfirmationRequested]]:
    """The repetitions of a submission that the contest requested, in order."""
    return [
        (id_, fact)
        for id_, fact in podium.find(events.ConfirmationRequested)
        if fact.contest and fact.item.submission == submission
    ]


async def repeat(podium: Podium, submission: str, count: int, agent: str, life: Life) -> Any:
    """Run the repetition with this number, and return how it was judged."""
    await eventually(lambda: len(requests_of(podium, submission)) == count)
    id_, requested = requests_of(podium, submission)[-1]
    run = f"{submission}-{agent}"
    for aggregate, fact in facts_of(id_, life, agent, {"source": requested.item.source}):
        is_job = isinstance(fact, events.JobLeased | events.JobFinished)
        await say(
            podium.log,
            subjects.run(agent, run) if aggregate.startswith("run.") else aggregate,
            structs.replace(fact, run=run) if is_job else fact,
        )

    def judged() -> list[events.ConfirmationJudged]:
        return [fact for own, fact in podium.find(events.ConfirmationJudged) if own == id_]

    (judgement,) = await eventually(judged)
    await podium.settle()
    return requested, judgement


async def winner(podium: Podium) -> dict[str, Any]:
    """The first place of the results as organisers see it."""
    first: dict[str, Any] = (await read(podium, ORGANISER))["places"][0]
    return first


def definition(count: int, *, is_fresh: bool = False) -> Contest:
    """The contest, whose winners are run again on this many agents."""
    qualifier, finals = contest().problems
    finals = structs.replace(finals, is_confirmed_fresh=is_fresh)
    phases = [*contest().phases, Phase(kind="review", starts_at=T0 + HOUR)]
    return contest(confirm_agents=count, problems=[qualifier, finals], phases=phases)


@pytest.mark.feature("N14")
async def test_a_winner_is_run_again_on_each_of_k_agents(postgres_dsn: str) -> None:
    async with open_podium(postgres_dsn) as podium:
        await begin_contest(podium, definition(2))
        # Without another agent nothing is requested, and the results say so.
        proposed = ContestResultsProposed(places=places("ada", "grace"), as_of_seq=9)
        await say(podium.log, subjects.contest("cup"), proposed)
        await podium.settle()
        first = await winner(podium)
        assert (first["repetitions"], requests_of(podium, "best")) == ("incomplete", [])
        (entry,) = first["entries"]
        assert entry["confirmation"] == (
            "confirmed by 0 of 2 agents; no other agent of CPU can repeat it"
        )
        await add_agents(podium, AGENT, "a2", "a3")
        best = Life("best", time_us=40.0)
        requested, judged = await repeat(podium, "best", 1, "a2", best)
        assert (requested.agent, requested.other_agents) == (AGENT, [])
        assert (judged.code, judged.agent) == ("confirmed", "a2")
        assert (await winner(podium))["repetitions"] == "waiting"
        requested, judged = await repeat(podium, "best", 2, "a3", best)
        assert (requested.other_agents, judged.agent) == (["a2"], "a3")
        first = await winner(podium)
        assert first["repetitions"] == "confirmed"
        rerun = first["checks"][0]
        assert (rerun["item"], rerun["is_passed"], rerun["is_doubtful"]) == ("rerun", None, False)
        assert rerun["evidence"] == "identity: confirmed by 2 of 2 agents (a2, a3)"
        # Two agents are enough, only the podium is run again, and ranks stay.
        assert len(requests_of(podium, "best")) == 2
        assert {fact.item.submission for _, fact in podium.find(events.ConfirmationRequested)} == {
            "best"
        }
        assert {row["confirmation"] for row in await podium.rows()} == {""}
        report = await podium.audit()
        assert report.is_clean, report.findings


@pytest.mark.parametrize(
    ("repetition", "state", "text"),
    [
        (Life("best", time_us=60.0), "differs", "not confirmed: 50 % slower on agent a2"),
        (Life("best", verdict="wrong_answer"), "failed", "not confirmed: wrong_answer on agent a2"),
    ],
)
async def test_a_repetition_that_fails_marks_the_check_list(
    postgres_dsn: str, repetition: Life, state: str, text: str
) -> None:
    async with open_podium(postgres_dsn) as podium:
        await begin_contest(podium, definition(1))
        await add_agents(podium, AGENT, "a2")
        # The podium is run again at the end, before anybody announces results.
        await repeat(podium, "best", 1, "a2", repetition)
        proposed = ContestResultsProposed(places=places("ada", "grace"), as_of_seq=9)
        await say(podium.log, subjects.contest("cup"), proposed)
        await podium.settle()
        first = await winner(podium)
        assert first["repetitions"] == state
        rerun = first["checks"][0]
        assert rerun["is_doubtful"]
        assert rerun["evidence"] == f"identity: confirmed by 0 of 1 agents; {text}"
        # Everybody sees how it ended; the check list is for organisers.
        (public, _) = (await read(podium, structs.replace(ORGANISER, account="zoe")))["places"]
        assert (public["repetitions"], public["checks"], public["entries"]) == (state, None, None)


@dataclass(frozen=True)
class HiddenLife(Life):
    """A life whose run has a hidden case with this name."""

    hidden: str = ""

    def completed(self) -> events.RunCompleted:
        completed = super().completed()
        case = events.CaseResult(
            name=self.hidden, stage="hidden_check", verdict="passed", is_hidden=True
        )
        return structs.replace(completed, cases=[*completed.cases, case])


# The hidden check repeats each public case, with other seeds.
@pytest.mark.parametrize(
    ("hidden", "code"), [("size=1", "not_fresh"), ("hidden test 1", "confirmed")]
)
async def test_a_repetition_counts_only_with_fresh_hidden_sizes_where_these_are_demanded(
    postgres_dsn: str, hidden: str, code: str
) -> None:
    async with open_podium(postgres_dsn) as podium:
        await begin_contest(podium, definition(1, is_fresh=True))
        await add_agents(podium, AGENT, "a2")
        life = HiddenLife("best", time_us=40.0, hidden=hidden)
        requested, judged = await repeat(podium, "best", 1, "a2", life)
        assert requested.is_fresh
        assert (judged.code, judged.result is None) == (code, code == "not_fresh")


async def test_results_and_a_judged_repetition_make_the_next_one_due_at_once(
    postgres_dsn: str,
) -> None:
    async with open_podium(postgres_dsn, look_s=3600.0) as podium:
        await begin_contest(podium, definition(2))
        await add_agents(podium, AGENT, "a2", "a3")
        proposed = ContestResultsProposed(places=places("ada"), as_of_seq=9)
        await say(podium.log, subjects.contest("cup"), proposed)
        for count, agent in enumerate(("a2", "a3"), 1):
            await repeat(podium, "best", count, agent, Life("best", time_us=40.0))
