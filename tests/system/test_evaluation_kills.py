"""Evaluations while a process of the platform is killed."""

from typing import Any

import httpx
import pytest

from shared.events import JobFinished, JobRequeued
from tests.support.people import Person
from tests.support.platform import Running
from tests.support.waits import eventually
from tests.system.test_evaluations import evaluate, results
from tests.system.test_kills import SLOW, kill, witness

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long, pytest.mark.timeout(240)]


@pytest.mark.filterwarnings("ignore:.*StreamWriter:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["gpu-agent", "scheduler", "ingest", "ranker"])
async def test_whatever_is_killed_each_item_ends_once(platform_to_kill: Running, name: str) -> None:
    async with witness(platform_to_kill) as log:
        with Person(platform_to_kill.url, "ada") as ada:
            sources = [f"{SLOW}# {name} {place}\n" for place in range(6)]
            evaluation = evaluate(ada, *sources)["id"]
            await log.until(evaluation, "RunStarted")
            kill(platform_to_kill, name)
            await log.until(evaluation, "EvaluationFinished")

            async def read_results() -> list[dict[str, Any]]:
                try:
                    return results(ada, evaluation)
                except httpx.HTTPError:
                    return []  # What was killed is not back yet.

            found = await eventually(read_results, 60)
    assert sorted(one["item"] for one in found) == list(range(6))
    assert {one["verdict"] for one in found} == {"passed"}
    facts = [event.fact for event in log.about(evaluation, "JobFinished", "JobRequeued")]
    ends = [fact.result for fact in facts if isinstance(fact, JobFinished | JobRequeued)]
    assert sum(len(end.verdicts) for end in ends if end is not None) == 6
