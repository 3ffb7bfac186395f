"""Evaluations in the read models: their results in order, once, and verdicts for equal sources."""

import asyncio
import json
from typing import Any

import pytest

from shared import events, subjects
from shared.api.evaluations import EvaluationItem
from shared.evaluations import ItemResult, encode_lines
from shared.events import (
    HARNESS_CODE,
    Blob,
    CachedVerdict,
    CaseResult,
    Chunk,
    ChunkResult,
    EvaluationRequested,
)
from shared.subjects import chunk_job_id
from tests.support.lives import T0, say
from tests.support.reading import STAFF, Reads, as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server

CODE = "c" * 64
ADA = as_("ada")
HIDDEN = CaseResult(
    name="size=7", stage="check", verdict="wrong_answer", message="seed 77", is_hidden=True
)


async def put_results(reads: Reads, *verdicts: str, first: int = 0) -> Blob:
    results = [
        ItemResult(
            item=first + place,
            id="the id in the file of another participant",
            verdict=verdict,
            reason=f"reason {place}",
            cases=[HIDDEN],
            key="the key of the run",
            log_head="printed",
        )
        for place, verdict in enumerate(verdicts)
    ]
    return await reads.blobs.put(encode_lines(results))


async def request(
    reads: Reads, id_: str, sources: str, cached: list[CachedVerdict] | None = None
) -> None:
    items = [EvaluationItem(id=f"{id_} {source}", source=source) for source in sources]
    fact = EvaluationRequested(
        account="ada",
        token="t1",
        problem="identity",
        problem_number=1,
        problem_digest="d",
        gpu="CPU",
        mode="test",
        source=await reads.blobs.put(encode_lines(items)),
        sources=[source * 64 for source in sources],
        chunk_items=32,
        item_s_max=5.0,
        deadline_at=T0,
        request_hash="",
        cached=cached or [],
    )
    await say(reads.log, subjects.evaluation(id_), fact, id_)


async def end_items(
    reads: Reads, id_: str, first: int, *verdicts: str, rest: Chunk | None = None
) -> None:
    result = ChunkResult(
        evaluation=id_,
        first=first,
        verdicts=list(verdicts),
        results=await put_results(reads, *verdicts, first=first),
        harness=CODE,
        device_s=2.0,
    )
    fact: events.Fact = events.JobFinished(run="r", verdict="passed", result=result)
    if rest is not None:
        fact = events.JobRequeued(run="r", reason="", chunk=rest, result=result)
    await say(reads.log, subjects.job(chunk_job_id(id_, 0)), fact, id_)


async def finish(reads: Reads, id_: str, completed: int, failed: int = 0) -> None:
    end = events.EvaluationFinished(
        outcome="completed", completed=completed, failed=failed, cancelled=0, device_s=5.0
    )
    await say(reads.log, subjects.evaluation(id_), end, id_)
    await reads.settle()


async def results(
    reads: Reads, id_: str, query: str = "", headers: dict[str, str] = ADA
) -> list[dict[str, Any]]:
    path = f"/v1/evaluations/{id_}/results?{query}"
    answer = await reads.http.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines() if line]


async def test_results_come_in_the_order_in_which_they_ended(reads: Reads) -> None:
    await request(reads, "e1", "abcd")
    rest = Chunk(evaluation="e1", first=1, count=3)
    await end_items(reads, "e1", 0, "passed", rest=rest)
    await reads.settle()
    assert [one["id"] for one in await results(reads, "e1", "wait=false")] == ["e1 a"]
    await end_items(reads, "e1", 2, "wrong_answer", "passed")
    lost = Chunk(evaluation="e1", first=1, count=1)
    given_up = events.JobGivenUp(attempts=3, reason="it died", code="agents_lost", chunk=lost)
    await say(reads.log, subjects.job("j2"), given_up, "e1")
    await finish(reads, "e1", 3, 1)
    found = await results(reads, "e1")
    assert [(one["number"], one["item"], one["id"]) for one in found] == [
        *[(1, 0, "e1 a"), (2, 2, "e1 c"), (3, 3, "e1 d"), (4, 1, "e1 b")]
    ]
    assert [one.get("verdict") for one in found] == ["passed", "wrong_answer", "passed", None]
    assert (found[3]["outcome"], found[3]["failure_code"]) == ("failed", "agents_lost")
    assert [one["number"] for one in await results(reads, "e1", "after=2")] == [3, 4]
    state = (await reads.http.get("/v1/evaluations/e1", headers=ADA)).json()
    assert (state["state"], state["ended"], state["completed"]) == ("finished", 4, 3)


async def test_a_reader_who_waits_gets_what_comes_until_the_end(reads: Reads) -> None:
    await request(reads, "e1", "ab")
    await reads.settle()
    waiting = asyncio.create_task(results(reads, "e1"))
    await eventually(lambda: "e1" in reads.progress.followers)
    await end_items(reads, "e1", 0, "passed", "passed")
    await finish(reads, "e1", 2)
    assert [result["number"] for result in await waiting] == [1, 2]


async def test_a_result_tells_no_more_than_a_test(reads: Reads) -> None:
    await request(reads, "e1", "a")
    await end_items(reads, "e1", 0, "wrong_answer")
    await finish(reads, "e1", 1)
    (found,) = await results(reads, "e1")
    assert found["cases"] == [
        {"name": "hidden", "stage": "check", "verdict": "wrong_answer", "is_hidden": True}
    ]
    assert "key" not in found
    assert "seed 77" not in json.dumps(found)


async def test_only_the_owner_and_operators_read_an_evaluation(reads: Reads) -> None:
    await request(reads, "e1", "a")
    await reads.settle()
    for path in ("evaluations/e1", "evaluations/e1/results?wait=false"):
        statuses = [
            (await reads.http.get(f"/v1/{path}", headers=headers)).status_code
            for headers in (ADA, STAFF, as_("grace"), as_(None))
        ]
        assert statuses == [200, 200, 404, 404]
    listed = [
        (await reads.http.get("/v1/evaluations", headers=headers)).json().get("items")
        for headers in (ADA, STAFF, as_("grace"))
    ]
    assert [len(items) for items in listed] == [1, 1, 0]
    assert (await reads.http.get("/v1/evaluations", headers=as_(None))).status_code == 401


async def test_a_verdict_is_known_for_equal_sources_under_the_same_harness(reads: Reads) -> None:
    await request(reads, "e1", "abc")
    await end_items(reads, "e1", 0, "passed", "timed_out", "wrong_answer")
    await finish(reads, "e1", 3)
    asked = {"source": [source * 64 for source in "abcx"], "problem_digest": "d", "gpu": "CPU"}

    async def known() -> dict[str, str]:
        answer = await reads.http.get("/internal/verdicts", params=asked)
        return {item["source"][0]: item["verdict"] for item in answer.json()["items"]}

    assert await known() == {}, "no agent has a harness code"
    offer = {"registration": {"gpu": "CPU", "details": {HARNESS_CODE: CODE}}}
    reads.live.agents["a1"] = offer
    # A verdict that depends on how busy the machine was is not kept.
    assert await known() == {"a": "passed", "c": "wrong_answer"}
    reads.live.agents["a1"] = {"registration": {"gpu": "CPU", "details": {HARNESS_CODE: "d" * 64}}}
    assert await known() == {}


async def test_a_cached_result_has_the_details_but_not_what_its_first_owner_printed(
    reads: Reads,
) -> None:
    file = await put_results(reads, "passed", "wrong_answer")
    cached = CachedVerdict(verdict="wrong_answer", results=file, line=1)
    await request(reads, "e1", "ab", [cached])
    await end_items(reads, "e1", 0, "passed")
    await finish(reads, "e1", 2)
    first, second = await results(reads, "e1")
    assert (first["id"], first["item"], first["is_cached"]) == ("e1 b", 1, True)
    assert (first["verdict"], first["reason"]) == ("wrong_answer", "reason 1")
    assert "log_head" not in first
    assert (second["id"], second["log_head"]) == ("e1 a", "printed")


async def test_a_file_that_is_not_what_was_promised_leaves_the_verdict(reads: Reads) -> None:
    await request(reads, "e1", "a")
    other = ChunkResult(
        evaluation="e1",
        first=0,
        verdicts=["passed"],
        results=await put_results(reads, "wrong_answer"),
        harness="",
        device_s=1.0,
    )
    fact = events.JobFinished(run="r", verdict="passed", result=other)
    await say(reads.log, subjects.job("j"), fact, "e1")
    await finish(reads, "e1", 1)
    (found,) = await results(reads, "e1")
    assert (found["verdict"], found.get("reason", "")) == ("passed", "")


async def test_operators_see_what_each_token_used(reads: Reads) -> None:
    await request(reads, "e1", "abc")
    await finish(reads, "e1", 3)
    answer = await reads.http.get("/v1/admin/evaluations?days=366", headers=STAFF)
    assert answer.status_code == 200, answer.text
    assert (await reads.http.get("/v1/admin/evaluations", headers=ADA)).status_code in (401, 403)
