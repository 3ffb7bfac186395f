"""A person's submission beside an evaluation does not wait for the whole of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.events import JobRequeued
from tests.support.people import HONEST, Person
from tests.support.platform import PATIENT, Running, run_platform
from tests.support.waits import until
from tests.system.test_evaluations import WRONG, evaluate, results
from tests.system.test_kills import witness

pytestmark = [pytest.mark.server, pytest.mark.platform, pytest.mark.long]

ITEM_S = 2.0
# The import of this kernel takes so long, on a busy machine too.
SLOW = f"import time\n\ntime.sleep({ITEM_S})\n{HONEST}"
ONE_SLOT = {"WARPBOARD_GPU_AGENT_BUILD_SLOTS": "0"}


@pytest.fixture
def single(servers: None, tmp_path: Path) -> Iterator[Running]:  # noqa: ARG001
    """A platform whose agent has one slot, so that a submission has to wait for the chunk."""
    yield from run_platform(Running(tmp_path / "home", PATIENT | ONE_SLOT))


def test_a_submission_does_not_wait_for_the_whole_of_an_evaluation(
    platform: Running, ada: Person
) -> None:
    crashes = "import os\n\n\ndef custom_kernel(data):\n    os.abort()\n"
    kinds = {3: WRONG, 7: crashes}
    sources = [f"{kinds.get(place % 20, HONEST)}# long {place}\n" for place in range(40)]
    evaluation = evaluate(ada, *sources, use_cache=False)
    path = f"/v1/evaluations/{evaluation['id']}"
    until(lambda: ada.http.get(path).json()["state"] == "running")
    with Person(platform.url, "grace") as grace:
        assert grace.end(grace.submit(HONEST))["outcome"] == "passed"
    assert ada.http.get(path).json()["outcome"] is None, "it waited for the whole evaluation"
    expected = {3: "wrong_answer", 7: "crashed"}
    assert {one["item"]: one["verdict"] for one in results(ada, evaluation["id"])} == {
        place: expected.get(place % 20, "passed") for place in range(40)
    }


async def test_a_submission_starts_after_the_current_item_of_a_chunk(single: Running) -> None:
    async with witness(single) as log:
        with Person(single.url, "ada") as ada, Person(single.url, "grace") as grace:
            evaluation = evaluate(ada, *(f"{SLOW}# slow {place}\n" for place in range(4)))["id"]
            await log.until(evaluation, "RunStarted")
            number = grace.submit(HONEST)
            received = await log.until(await log.received(number), "SubmissionReceived")
            started = await log.until(received.envelope.corr, "RunStarted")
            found = results(ada, evaluation)
            assert grace.end(number)["outcome"] == "passed"
        await log.until(evaluation, "EvaluationFinished")
    longest_s = max(one["took_s"] for one in found)
    assert longest_s >= ITEM_S
    waited_s = (started.envelope.at - received.envelope.at).total_seconds()
    assert waited_s < longest_s + ITEM_S, "it waited for a second item"

    (requeued,) = (event.fact for event in log.about(evaluation, "JobRequeued"))
    assert isinstance(requeued, JobRequeued)
    assert requeued.result is not None
    assert requeued.result.verdicts == ["passed"], "the run went on after its current item"
    first, second = log.about(evaluation, "RunStarted")
    assert first.seq < started.seq < second.seq
    assert sorted(one["item"] for one in found) == [0, 1, 2, 3]
    assert {one["verdict"] for one in found} == {"passed"}
