"""Problems with rules and files, comparisons, and the queue of a GPU type."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from shared import events, subjects
from shared.problems.compilation import compile_problem
from shared.problems.evaluation import render_evaluation
from shared.problems.submission_file import read_directives
from tests.support.lives import AGENT, T0, Life, problem, say
from tests.support.reading import Reads, as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server
FOLDER = Path(__file__).parent.parent.parent / "problems" / "identity"
SEEDS = ("4242", "1010", "5236", "1001", "9173", "6252")


async def published(reads: Reads, **files: bytes) -> None:
    """Publish the repository's problem as its second version, with more files if given."""
    folder = {item.name: item.read_bytes() for item in FOLDER.iterdir() if item.is_file()}
    version = compile_problem("identity", folder | files)
    for data in version.files.values():
        await reads.blobs.put(data)
    manifest = await reads.blobs.put(version.manifest)
    fact = replace(problem(number=2), manifest=manifest)
    await say(reads.log, subjects.problem("identity"), fact)

    async def there() -> bool:
        return [item["problem_version"] for item in (await reads.get("problems"))["items"]] == [2]

    await eventually(there)


async def test_a_problem_tells_its_rules_and_never_a_seed(reads: Reads) -> None:
    await published(reads)
    answer = await reads.http.get("/v1/problems/Identity", headers=as_(None))
    body = answer.json()
    assert "Copy a vector" in body["description"]
    assert body["templates"] == {"Python": "template.py"}
    case = {"name": "size=1", "args": {"size": 1}, "is_seeded": True}
    assert body["rules"]["cases"]["tests"][0] == case
    assert "last timed case" in body["rules"]["formula"]
    assert (body["rules"]["consent"], body["rules"]["licence"]) == ("", {})
    assert not [seed for seed in SEEDS if seed in answer.text]
    assert body["statement"]


async def test_its_files_are_read_by_name(reads: Reads) -> None:
    await published(reads)
    for file in (await reads.get("problems/identity"))["files"]:
        answer = await reads.http.get(file["url"], headers=as_(None))
        assert (answer.status_code, answer.content) == (200, (FOLDER / file["name"]).read_bytes())
        tag = {"If-None-Match": answer.headers["etag"]}
        assert (await reads.http.get(file["url"], headers=tag)).status_code == 304
    for name in ("task.yml", "hidden.py", "..%2Fsecret", "nothing"):
        answer = await reads.http.get(f"/v1/problems/identity/files/{name}")
        assert answer.status_code == 404, name


async def test_another_version_is_shown_when_it_is_asked_for(reads: Reads) -> None:
    await published(reads)
    second = await reads.get("problems/identity?version=2")
    assert (second["problem_version"], second["newest_version"]) == (2, 2)
    answer = await reads.http.get("/v1/problems/identity?version=7")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_problem")
    assert answer.json()["detail"] == "there is no problem 'identity' in version 7"


async def test_a_misspelt_problem_is_answered_with_the_closest_one(reads: Reads) -> None:
    await published(reads)
    for path in ("problems/idntity", "leaderboards/idntity/CPU"):
        answer = await reads.http.get(f"/v1/{path}")
        assert answer.status_code == 404
        assert answer.json()["detail"] == (
            "there is no problem 'idntity'; did you mean identity?"
        ), path


async def test_two_submissions_are_compared_with_their_sources(reads: Reads) -> None:
    texts = [b"one\ntwo\n", b"one\nthree\n"]
    sources = [(await reads.blobs.put(text)).digest for text in texts]
    fast = (50.0, 51.0, 49.0)
    slow = (100.0, 101.0, 99.0)
    a, b = await reads.ended(
        Life("a", "ada", 100.0, source=sources[0], process_us=slow),
        Life("b", "ada", 50.0, source=sources[1], process_us=fast),
    )
    path = f"/v1/compare?a={a['number']}&b={b['number']}"
    body = (await reads.http.get(path, headers=as_("ada"))).json()
    assert "-two" in body["diff"]
    assert "+three" in body["diff"]
    (case,) = body["cases"]
    assert (case["a_us"], case["b_us"], case["ratio"]) == (100.0, 50.0, 0.5)
    assert body["score"]["outcome"] == "faster"
    others = (await reads.http.get(path, headers=as_("grace"))).json()
    assert (others["diff"], others["cases"]) == (None, [])
    assert others["score"]["ratio"] == pytest.approx(0.5, abs=0.01)


async def test_how_far_one_is_behind_is_said_in_seconds(reads: Reads) -> None:
    _, second = await reads.ended(Life("a", "ada", 100.0), Life("b", "grace", 150.0))
    ranking = second["ranking"]
    assert ranking["score_us"] == pytest.approx(150)
    assert ranking["delta_to_best"] == pytest.approx(50e-6)
    assert ranking["delta_to_next"] == pytest.approx(50e-6)
    (slower,) = await reads.ended(Life("c", "grace", 170.0))
    assert (slower["ranking"]["code"], slower["ranking"]["best_number"]) == (
        "superseded",
        second["number"],
    )
    assert slower["ranking"]["own_best_us"] == pytest.approx(150)
    assert slower["ranking"]["rank_before"] == 2
    assert "own_best_us" not in second["ranking"]
    (faster,) = await reads.ended(Life("d", "grace", 50.0))
    assert (faster["ranking"]["rank"], faster["ranking"]["rank_before"]) == (1, 2)


async def test_what_is_not_over_is_pending(reads: Reads) -> None:
    life = Life("s1")
    for aggregate, fact in life.facts()[:1]:
        await say(reads.log, aggregate, fact, life.id)

    async def page() -> Any:
        items = (await reads.get("submissions"))["items"]
        return items and await reads.get(f"submissions/{items[0]['number']}")

    body = await eventually(page)
    assert (body["ranking"]["status"], body["ranking"]["code"]) == ("pending", "awaiting_runs")
    assert body["ranking"]["is_eligible"] is None
    assert (body["queue"]["position"], body["queue"]["ahead"]) == (None, None)


@pytest.mark.feature("P13")
async def test_a_gpu_types_queue_is_told_to_anybody(reads: Reads) -> None:
    reads.live.queues["CPU"] = {"run_s": {"p50": 1.0, "p90": 2.0}, "jobs": []}

    async def read_queue() -> Any:
        answer = await reads.http.get("/v1/queue/cpu", headers=as_(None))
        return answer.json() if answer.status_code == 200 else None

    body = await eventually(read_queue)
    assert (body["gpu"], body["state"], body["waiting"]) == ("CPU", "no_agent", 0)
    assert body["position"] is None
    assert body["run_s"] == {"p50": 1.0, "p90": 2.0}
    assert (await reads.http.get("/v1/queue/nothing")).status_code == 404


async def test_an_agent_that_takes_no_jobs_serves_no_queue(reads: Reads) -> None:
    async def read_queue(**query: str) -> Any:
        answer = await reads.http.get("/v1/queue/cpu", params=query, headers=as_(None))
        return answer.json() if answer.status_code == 200 else {}

    async def is_in_state(state: str, **query: str) -> Any:
        body = await read_queue(**query)
        return body if body.get("state") == state else None

    modes = ["test", "benchmark"]
    registration = {"gpu": "CPU", "toolchains": {}, "modes": modes}
    reads.live.agents["a1"] = {"is_free": True, "registration": registration}
    assert await eventually(lambda: is_in_state("queued"))
    assert (await read_queue(mode="test"))["state"] == "queued"
    profile = await read_queue(mode="profile")
    assert profile["state"] == "no_agent"
    assert "takes mode profile: agent a1: not offered" in profile["reason"]
    cordoned = events.AgentCordoned(reason="it drifts")
    await say(reads.log, subjects.agent("a1"), cordoned)
    held = await eventually(lambda: is_in_state("no_agent", mode="test"))
    assert "agent a1: cordoned: it drifts" in held["reason"]
    assert (await reads.http.get("/v1/queue/cpu?mode=dance")).status_code == 422


async def test_a_gpu_types_queue_has_the_toolchains_of_its_agents(reads: Reads) -> None:
    offers = ({"nvcc": "13", "g++": "12"}, {"g++": "12", "nvcc": "12"}, {"jax": "1", "Not one": ""})
    for number, toolchains in enumerate(offers):
        registration = {"gpu": "CPU", "toolchains": toolchains}
        reads.live.agents[f"a{number}"] = {"is_free": True, "registration": registration}
    registration = {"gpu": "CPU", "toolchains": {"triton": "3"}, "quarantine": "broken"}
    reads.live.agents["a9"] = {"is_free": True, "registration": registration}

    async def toolchains_offered() -> Any:
        answer = await reads.http.get("/v1/queue/cpu", headers=as_(None))
        return answer.json()["toolchains"] if answer.status_code == 200 else None

    assert await eventually(toolchains_offered) == [["g++", "nvcc"], ["jax"]]


async def test_who_waits_is_told_to_nobody_else(reads: Reads) -> None:
    life = Life("s1")
    for aggregate, fact in life.facts()[:1]:
        await say(reads.log, aggregate, fact, life.id)
    reads.live.queues["CPU"] = {"jobs": [["s1", 1, 2.0, 3.0, ""]]}

    async def forecast(account: str | None) -> Any:
        answer = await reads.http.get("/v1/queue", headers=as_(account))
        jobs = answer.json()["pools"][0]["forecast"]
        return jobs[0] if jobs else None

    async def mine() -> bool:
        return bool((await forecast("ada"))["number"])

    await eventually(mine)
    other = await forecast("grace")
    assert (other["number"], other["submission"], other["position"]) == (None, None, 1)


async def test_what_an_agent_runs_is_named_to_those_who_may_see_it(reads: Reads) -> None:
    for ratio in (1.0, 1.25):
        judged = events.CanaryJudged(run="c", ratio=ratio, is_good=ratio < 1.1)
        await say(reads.log, subjects.agent(AGENT), judged)
    (aggregate, received), *_ = Life("s1").facts()
    await say(reads.log, aggregate, replace(received, mode="test"))
    reads.live.agents[AGENT] = {"registration": {"gpu": "CPU"}, "is_free": False}
    reads.live.queues["CPU"] = {"runs": [[AGENT, "rejudge", "s1", T0.isoformat()]]}

    async def agent(account: str | None) -> Any:
        answer = await reads.http.get("/v1/agents", headers=as_(account))
        return next(item for item in answer.json()["items"] if item["id"] == AGENT)

    async def is_named() -> bool:
        runs = (await agent("ada"))["current_runs"]
        return [run["number"] is not None for run in runs] == [True]

    await eventually(is_named)
    other = await agent(None)
    assert [(run["kind"], run["number"]) for run in other["current_runs"]] == [("rejudge", None)]
    assert [(item["ratio"], item["is_good"]) for item in other["canaries"]] == [
        (1.25, False), (1.0, True)
    ]  # fmt: skip
    reads.live.agents[AGENT]["is_free"] = True
    assert (await agent("ada"))["current_runs"] == []
    reads.live.agents[AGENT]["registration"]["slots"] = 2
    assert len((await agent("ada"))["current_runs"]) == 1


async def test_a_history_is_the_records_or_ones_own_scores(reads: Reads) -> None:
    await reads.named("ada", "Ada")
    await reads.ended(Life("a", "ada", 100.0))
    await reads.ended(Life("b", "ada", 90.0))
    path = "leaderboards/identity/CPU/history"

    async def records() -> bool:
        return len((await reads.get(path))["items"]) == 2

    await eventually(records)
    mine = (await reads.get(f"{path}?participant=Ada"))["items"]
    assert [item["score_us"] for item in mine] == pytest.approx([90, 100])
    missing = await reads.http.get(f"/v1/{path}?participant=Nobody")
    assert missing.status_code == 404


async def test_a_public_case_says_what_it_was_made_of(reads: Reads) -> None:
    await published(reads)
    life = Life("s1")
    for aggregate, fact in life.facts():
        completed = fact
        if isinstance(completed, events.SubmissionReceived):
            completed = replace(completed, problem_number=2)
        if isinstance(completed, events.RunCompleted):
            (timed,) = completed.cases
            hidden = replace(timed, name="size=127 seed=1010", is_hidden=True)
            completed = replace(
                completed, cases=[replace(timed, name="size=127 seed=1010"), hidden]
            )
        await say(reads.log, aggregate, completed, life.id)

    async def read_cases() -> Any:
        items = (await reads.get("submissions"))["items"]
        return items[0]["number"] if items and items[0]["state"] == "finished" else None

    number = await eventually(read_cases)
    public, secret = await reads.get(f"submissions/{number}/cases")
    assert (public["is_hidden"], public["args"]) == (False, {"size": 127})
    assert (secret["is_hidden"], secret["args"], secret["estimate"]) == (True, None, None)


@pytest.mark.feature("P2")
async def test_every_language_has_a_file_to_begin_with(reads: Reads) -> None:
    await published(reads)
    body = await reads.get("problems/identity")
    assert [(item["language"], item["is_generated"]) for item in body["starts"]] == [
        ("python", False),
        ("cpp", True),
        ("cuda", True),
    ]
    for start in body["starts"]:
        answer = await reads.http.get(f"{start['url']}?gpu=cpu", headers=as_(None))
        assert answer.status_code == 200, answer.text
        directives = read_directives(answer.text)
        assert (directives.leaderboard, directives.gpus) == ("identity", ("CPU",))
        name = f'filename="identity{start["name"].removeprefix("kernel")}"'
        assert name in answer.headers["content-disposition"]
        tag = {"If-None-Match": answer.headers["etag"]}
        assert (await reads.http.get(f"{start['url']}?gpu=cpu", headers=tag)).status_code == 304
    for path, status in (("cobol", 404), ("python?gpu=TPU", 400), ("python?version=7", 404)):
        answer = await reads.http.get(f"/v1/problems/identity/templates/{path}")
        assert answer.status_code == status, path


async def test_a_problem_has_a_program_that_states_the_procedure(reads: Reads) -> None:
    await published(reads)
    body = await reads.get("problems/identity")
    program, utilities = body["evaluation"]
    assert [program["name"], utilities["name"]] == ["eval.py", "utils.py"]
    answer = await reads.http.get(program["url"], headers=as_(None))
    assert 'filename="eval.py"' in answer.headers["content-disposition"]
    assert "    {'size': " in answer.text
    tag = {"If-None-Match": answer.headers["etag"]}
    assert (await reads.http.get(program["url"], headers=tag)).status_code == 304
    general = await reads.http.get("/v1/evaluation/eval.py")
    assert general.content == render_evaluation("eval.py")
    for path in ("eval.c", "eval.cu?problem=identity", "eval.py?problem=no", "reference.py"):
        answer = await reads.http.get(f"/v1/evaluation/{path}")
        assert answer.status_code == 404, path
