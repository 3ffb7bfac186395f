"""Jobs of two GPUs on a platform with several real agents of one host, and a demanded tier."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, Running
from tests.support.processes import stopped
from tests.support.waits import until
from tests.system.crew import LOCAL, SETTINGS, Crew, crew_of

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.usefixtures("servers"),
]

TASK = """
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "reference.py", source: "reference.py"}
lang: "py"
config: {main: "eval.py"}
description: "Every rank doubles its own."
multi_gpu: true
tests: [{size: 64, seed: 1, world_size: 2}, {size: 65, seed: 2, world_size: 2}]
benchmarks: [{size: 64, seed: 3, world_size: 2}]
test_timeout: 60
benchmark_timeout: 60
ranked_timeout: 60
gpus: ["CPU"]
"""
REFERENCE = """
import torch


def generate_input(size, seed, world_size, rank):
    mine = torch.rand(size, generator=torch.Generator().manual_seed(seed + rank))
    return mine, rank


def ref_kernel(data):
    mine, rank = data
    return mine * 2 + rank


def check_implementation(data, output):
    return torch.allclose(output, ref_kernel(data)), "not what this rank was asked"
"""
TOGETHER = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=2)


def custom_kernel(data):
    mine, rank = data
    everyone = torch.ones(1)
    dist.all_reduce(everyone)
    return mine * everyone + rank
"""
UNHURRIED = TOGETHER.replace("    mine, rank = data", "    time.sleep(0.7)\n    mine, rank = data")
UNHURRIED = f"import time\n{UNHURRIED}"
SLOW = HONEST.replace("    source,", "    time.sleep(0.4)\n    source,")
SLOW = f"import time\n{SLOW}"
# Of jobs that come one after the other, a gang lets so many go first.
PASSED_MAX = 2
POLICY = {"WARPBOARD_SCHEDULER_GANG_PASSED_MAX": str(PASSED_MAX)}
# By its name the last: the leader is the first.
MEMBER = "member"
OTHER, SECOND = "other", "slow"


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A platform with a problem of two ranks and one of one, and its own agent alone."""
    problem = {"task.yml": TASK, "reference.py": REFERENCE}
    running = Running(tmp_path_factory.mktemp("gangs") / "home", SETTINGS | POLICY)
    with crew_of(running, "doubled", problem) as crew:
        add_problem(crew.running.url, ROOT / "problems" / "identity")
        yield crew


@pytest.fixture
def alone(crew: Crew) -> None:
    """The platform's own agent is the only one."""
    crew.staff()


@pytest.fixture
def pair(crew: Crew) -> None:
    """The platform's own agent and the member are the agents."""
    crew.staff(MEMBER)


@pytest.fixture
def ada(crew: Crew) -> Iterator[Person]:
    """A participant."""
    with Person(crew.running.url, "ada") as person:
        yield person


def begun(ada: Person) -> int:
    """A job of two that takes its time, once its ranks are being called."""
    number = ada.submit(UNHURRIED, problem="doubled")
    until(lambda: (ada.seen(number).get("progress") or {}).get("stage") == "check")
    return number


def leased(found: Any) -> int:
    """When a submission's job was given out first, as a sequence."""
    return next(int(one["seq"]) for one in found["timeline"] if one["type"] == "JobAssigned")


@pytest.mark.usefixtures("alone")
def test_a_gang_waits_for_its_second_agent_and_lets_others_pass(crew: Crew, ada: Person) -> None:
    gang = ada.submit(TOGETHER, "ranked", problem="doubled")
    why = until(lambda: ada.why(gang))
    assert why == "no host has 2 agents of CPU that fit"
    assert why in [job["why"] for job in crew.pool()["forecast"]]
    assert ada.end(ada.submit(HONEST))["outcome"] == "passed"
    assert not ada.seen(gang)["is_over"]
    crew.hire(MEMBER)
    found = ada.end(gang)
    assert (found["outcome"], found["ranking"]["status"]) == ("passed", "ranked"), found
    assert [entry["number"] for entry in ada.board("doubled")] == [gang]
    until(lambda: crew.are_free(LOCAL, MEMBER))


@pytest.mark.feature("P11")
@pytest.mark.usefixtures("pair")
def test_a_gang_holds_both_agents_while_two_ranks_run_under_the_first(
    crew: Crew, ada: Person
) -> None:
    number = begun(ada)
    # A spare box of another slot has processes that look like workers while it is built.
    until(lambda: (len(crew.workers(LOCAL)), len(crew.workers(MEMBER))) == (2, 0))
    # What everybody sees follows the agents' own word.
    until(lambda: not crew.are_free(LOCAL) and not crew.are_free(MEMBER))
    assert not ada.seen(number)["is_over"]
    found = ada.end(number)
    assert (found["outcome"], found["agent"]) == ("passed", LOCAL)
    until(lambda: crew.are_free(LOCAL, MEMBER))
    until(lambda: crew.workers(LOCAL) == [])


@pytest.mark.usefixtures("pair")
def test_singles_that_keep_coming_do_not_starve_a_gang(crew: Crew, ada: Person) -> None:
    with Person(crew.running.url, "grace") as grace:
        first = [ada.submit(HONEST) for _ in range(2)]
        gang = grace.submit(TOGETHER, problem="doubled")
        later = [ada.submit(HONEST) for _ in range(4)]
        found = {number: ada.end(number) for number in [*first, *later]}
        found[gang] = grace.end(gang)
    assert {one["outcome"] for one in found.values()} == {"passed"}
    before = [number for number in later if leased(found[number]) < leased(found[gang])]
    assert len(before) <= PASSED_MAX, found


@pytest.mark.usefixtures("pair")
def test_a_cancelled_gang_leaves_nothing_running(crew: Crew, ada: Person) -> None:
    number = begun(ada)
    answer = ada.http.post(f"/v1/submissions/{number}/cancel", json={"reason": "a mistake"})
    assert answer.is_success, answer.text
    assert ada.end(number)["outcome"] == "cancelled"
    until(lambda: crew.workers(LOCAL) == [] and crew.are_free(LOCAL, MEMBER))


@pytest.mark.usefixtures("pair")
def test_a_gang_whose_leader_dies_frees_its_member_and_runs_again(crew: Crew, ada: Person) -> None:
    number = begun(ada)
    os.kill(crew.pid(LOCAL), signal.SIGKILL)
    found = ada.end(number)
    assert (found["outcome"], found["attempt"]) == ("passed", 2)
    until(lambda: crew.are_free(LOCAL, MEMBER))


@pytest.mark.usefixtures("pair")
def test_a_gang_that_loses_its_member_waits_for_another_and_nothing_runs_on(
    crew: Crew, ada: Person
) -> None:
    number = begun(ada)
    crew.kill(MEMBER)

    def requeued() -> list[str]:
        timeline = ada.seen(number)["timeline"]
        return [one["note"] for one in timeline if one["type"] == "JobRequeued"]

    (why,) = until(requeued)
    assert f"agent {MEMBER} fell silent" in why
    until(lambda: crew.workers(LOCAL) == [] and crew.are_free(LOCAL))
    assert ada.end(ada.submit(HONEST))["agent"] == LOCAL
    until(lambda: ada.why(number) == "no host has 2 agents of CPU that fit")
    answer = ada.http.post(f"/v1/submissions/{number}/cancel", json={"reason": "a mistake"})
    assert answer.is_success, answer.text
    assert ada.end(number)["outcome"] == "cancelled"


@pytest.mark.usefixtures("alone")
def test_a_run_whose_agent_dies_is_repeated_on_another(crew: Crew, ada: Person) -> None:
    crew.hire(SECOND)
    number = ada.submit(SLOW)
    until(lambda: (ada.seen(number).get("progress") or {}).get("stage") == "check")
    victim = ada.seen(number)["agent"]
    if victim == LOCAL:
        os.kill(crew.pid(LOCAL), signal.SIGKILL)
    else:
        crew.kill(victim)
    found = ada.end(number)
    assert (found["outcome"], found["attempt"]) == ("passed", 2)
    assert {victim, found["agent"]} == {LOCAL, SECOND}


@pytest.mark.usefixtures("alone")
def test_below_the_demand_ranked_waits_with_the_reason_and_tests_go_on(
    crew: Crew, ada: Person
) -> None:
    crew.hire(OTHER, TIERS="G1")
    assert "ranked" not in crew.agent(OTHER)["modes"]
    with stopped(crew.pid(LOCAL)):
        until(lambda: crew.pool()["agents_online"] == 1)
        waiting = ada.submit(HONEST, mode="ranked")
        assert ada.end(ada.submit(HONEST))["verdict"] == "passed"

        def reason() -> Any:
            return (ada.seen(waiting).get("queue") or {}).get("reason")

        assert "demanded is one of G1" in until(reason)
