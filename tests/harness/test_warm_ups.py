"""A submission may compile for new shapes in its own call, which shows it no judged input."""

from collections import defaultdict

import pytest

from harness.entry import RunReport
from tests.harness.problem.reference import generate_input
from tests.support.harness import HONEST, Host

# They compile, or wait for what never ends.
pytestmark = pytest.mark.long

COMPILES = """
import time
SHAPES = set()
def work(seconds):
    ends_at = time.process_time() + seconds
    while time.process_time() < ends_at:
        pass
def custom_kernel(data):
    if data[0].shape not in SHAPES:
        SHAPES.add(data[0].shape)
        work(1.5)
    return data[1].copy_(data[0])
"""
HANGS = """
import time
def custom_kernel(data):
    while len(data[0]) == 8:
        time.sleep(1)
    return data[1].copy_(data[0])
"""
PRINTS_INPUTS = """
def custom_kernel(data):
    print("input", len(data[0]), data[0].numpy().tobytes().hex())
    return data[1].copy_(data[0])
"""
REFUSES_KNOWN_INPUTS = """
SEEN = set()
def custom_kernel(data):
    key = data[0].numpy().tobytes()
    assert key not in SEEN
    SEEN.add(key)
    return data[1].copy_(data[0])
"""


def inputs_of(host: Host, report: RunReport) -> dict[int, list[str]]:
    """The inputs of all calls by size, in order."""
    assert report.verdict == "passed", report.reason
    found: dict[int, list[str]] = defaultdict(list)
    for line in (host.out / "log.txt").read_text().splitlines():
        word, size, data = line.split()
        assert word == "input"
        found[int(size)].append(data)
    return found


@pytest.mark.parametrize("mode", ["test", "benchmark"])
def test_compiling_for_every_new_shape_costs_the_stages_nothing(host: Host, mode: str) -> None:
    host.budgets_s = {"build": 30.0, "test": 1.0, "benchmark": 1.0}
    report = host.run(COMPILES, mode)
    assert report.verdict == "passed", report.reason


def test_a_profile_has_a_warm_up_before_its_calls(host: Host) -> None:
    # Longer than a call may take.
    compiles = COMPILES.replace("work(1.5)", "work(5.5 * (len(data[0]) == 16))")
    report = host.run(compiles, "profile", case=1)
    assert report.verdict == "passed", report.reason


def test_every_process_that_times_may_compile_again(host: Host) -> None:
    host.budgets_s = {"build": 30.0, "test": 1.0, "ranked": 2.5}
    report = host.run(COMPILES, "ranked")
    assert report.verdict == "passed", report.reason
    # The build and both checks share a process; three more time two shapes each.
    assert report.usage["wall_s"] > (2 + 3 * 2) * 1.5


def test_a_warm_up_that_does_not_end_is_timed_out_and_names_the_shape(host: Host) -> None:
    host.budgets_s = {"build": 3.0, "test": 60.0}
    report = host.run(HANGS)
    assert [case.verdict for case in report.cases] == ["passed", "timed_out"]
    said = "the warm-up for float32[8, 8] took more than 3 s; it used "
    assert report.cases[1].message.startswith(said)
    assert said in report.reason


def test_a_warm_up_shows_no_input_of_another_call(host: Host) -> None:
    inputs_by_size = inputs_of(host, host.run(PRINTS_INPUTS))
    # The last case has one more call, which is recorded.
    assert [len(inputs) for inputs in inputs_by_size.values()] == [1 + 2, 1 + 2 + 1]
    for size, inputs in inputs_by_size.items():
        warm_up, *judged = inputs
        assert warm_up not in judged
        assert generate_input(size, 7)[0].numpy().tobytes().hex() == judged[0]


def test_no_call_sees_an_input_twice(host: Host) -> None:
    host.budgets_s = {"benchmark": 2.0}
    report = host.run(REFUSES_KNOWN_INPUTS, "benchmark")
    assert report.verdict == "passed", report.reason


def test_equal_shapes_are_warmed_up_once_a_process(host: Host) -> None:
    cases = [{"name": f"seed={seed}", "args": {"size": 4, "seed": seed}} for seed in (1, 2, 3)]
    host.told_besides = {"tests": cases}
    inputs = inputs_of(host, host.run(PRINTS_INPUTS))
    assert len(inputs[4]) == 1 + 2 * len(cases) + 1, "the last call is recorded"


def test_an_answer_of_a_warm_up_is_not_judged(host: Host) -> None:
    wrong_first = HONEST.replace("def", "CALLS = []\ndef", 1).replace(
        "data[1].copy_(data[0])",
        "CALLS.append(len(data[0])); data[1].copy_(data[0] + (CALLS.count(len(data[0])) == 1))",
    )
    assert host.run(wrong_first).verdict == "passed"


def test_an_exception_in_a_warm_up_is_the_cases_verdict(host: Host) -> None:
    report = host.run("def custom_kernel(data):\n    raise KeyError('lost')\n")
    assert [case.verdict for case in report.cases] == ["crashed", "crashed"]
