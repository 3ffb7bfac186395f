"""Every error of an author's code is a fault of the problem, with a reason."""

import pytest

from harness.entry import Started, environment
from tests.support.harness import HONEST, Host

GOOD = """
import torch
def generate_input(size, seed):
    return torch.rand(size), torch.empty(size)
def ref_kernel(data):
    return data[1].copy_(data[0])
def check_implementation(data, output):
    return torch.equal(output, data[0])
"""
CROWD = "return [torch.rand(1) for _ in range(5000)]"
FOUR_BITS = "return data[0].view(torch.uint8).view(torch.float4_e2m1fn_x2)"
FEWER = """
CALLS = []
def ref_kernel(data):
    CALLS.append(1)
    return [data[0] * 1, data[0] + 1][: 1 + (len(CALLS) == 1)]
def check_implementation(data, output):
    return "never right"
"""
SHY = """
class Shy(Exception):
    def __repr__(self):
        raise ValueError
def check_implementation(data, output):
    raise Shy
"""
TWO = "def custom_kernel(data):\n    return [data[0], data[0] + 1]\n"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (GOOD.replace("return torch.rand(size), torch.empty(size)", CROWD), "fewer tensors"),
        (GOOD.replace("torch.rand(size)", "10**5000"), "64 bits"),
        (GOOD + FEWER, "other shapes"),
        (GOOD + SHY, "check_implementation failed on size=4 seed=7: Shy"),
        (GOOD + "raise KeyboardInterrupt\n", "reference.py cannot be imported"),
        (GOOD.replace("return data[1]", "raise GeneratorExit"), "ref_kernel failed on"),
        (GOOD.replace("return data[1].copy_(data[0])", FOUR_BITS), "dtype float4_e2m1fn_x2"),
    ],
    ids=["crowd", "huge_int", "fewer_answers", "shy_error", "import", "no_exception", "four_bits"],
)
def test_an_authors_mistake_is_a_fault_of_the_problem(
    host: Host, reference: str, said: str
) -> None:
    host.files["reference.py"] = reference
    report = host.run(TWO if FEWER in reference else HONEST)
    assert report.failure_code == "problem_fault", report.reason
    assert said in report.reason


@pytest.mark.parametrize("end", ["os._exit(0)", "os.abort()"])
def test_an_author_that_ends_the_run_is_to_blame(host: Host, end: str) -> None:
    host.files["reference.py"] = f"{GOOD}\nimport os\ndef ref_kernel(data): {end}\n"
    report = host.run(HONEST)
    assert (report.verdict, report.failure_code) == ("", "problem_fault")
    assert "the author's code ended the run in ref_kernel on size=4 seed=7" in report.reason


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("def generate_input(size, seed):", "generate_input on size=4 seed=7"),
        ("def ref_kernel(data):", "ref_kernel on size=4 seed=7"),
        ("def check_implementation(data, output):", "check_implementation on size=4 seed=7"),
        ("", "reference.py"),
    ],
    ids=["generator", "reference", "check", "import"],
)
def test_an_authors_code_that_never_ends_is_named(host: Host, function: str, said: str) -> None:
    """The code cannot survive by catching exceptions."""
    endless = "while True:\n    try:\n        while True: pass\n    except BaseException: pass\n"
    inside = endless.replace("\n", "\n    ")
    host.budgets_s = {"author": 0.3}
    host.files["reference.py"] = f"{GOOD}\n" + (
        f"{function}\n    {inside}" if function else endless
    )
    report = host.run(HONEST)
    assert (report.verdict, report.failure_code) == ("", "problem_fault")
    assert report.reason == f"{said} did not end within 0.3 s"
    host.budgets_s, host.files["reference.py"] = {}, GOOD
    assert host.run(HONEST).verdict == "passed"


@pytest.mark.long
def test_an_author_who_waits_for_the_processor_is_not_blamed(host: Host) -> None:
    """The budget is CPU time, so other processes on the core cannot use it up."""
    host.budgets_s = {"author": 0.6}
    waits = "import time\n_check = check_implementation\n"
    waits += "def check_implementation(data, output):\n    time.sleep(1.4)\n"
    host.files["reference.py"] = f"{GOOD}\n{waits}    return _check(data, output)\n"
    assert host.run(HONEST).verdict == "passed"
    host.files["reference.py"] = host.files["reference.py"].replace("1.4", "600")
    report = host.run(HONEST)
    assert report.reason == "check_implementation on size=4 seed=7 did not end within 0.6 s"


KEEPS = """
import os, time
os._exit = lambda code: time.sleep(600)
_write = os.write
os.write = lambda to, data: time.sleep(600) if data == b"." else _write(to, data)
"""


@pytest.mark.long
def test_an_author_that_keeps_a_run_from_ending_keeps_no_other(host: Host) -> None:
    host.files["reference.py"] = GOOD + KEEPS
    assert host.run(HONEST).verdict == "passed"
    host.files["reference.py"] = GOOD
    assert host.run(HONEST).verdict == "passed"


BEGINS_AGAIN = """
import sys
from harness.messages import Started
frame = sys._getframe()
while not hasattr(frame.f_locals.get("self"), "channel"):
    frame = frame.f_back
frame.f_locals["self"].tell(Started("2", "strong", "G1", "0" * 64, {"harness_code": "0" * 64}))
"""


def test_an_author_cannot_say_how_a_run_began(host: Host) -> None:
    host.files["reference.py"] = GOOD + BEGINS_AGAIN
    assert host.run(HONEST).verdict == "passed"
    (started,) = [one for one in host.messages if isinstance(one, Started)]
    assert started.environment.items() >= environment().items()


FLEES = """
import os, stat
for one in range(3, 64):
    try:
        stat.S_ISFIFO(os.fstat(one).st_mode) and os.write(one, b".")
    except OSError:
        pass
os._exit(0)
"""


def test_an_author_that_only_seems_to_have_reported_keeps_nobody_waiting(host: Host) -> None:
    host.files["reference.py"] = GOOD + FLEES
    report = host.run(HONEST)
    said = "the author's code ended the run in reference.py: the process exited with code 0"
    assert (report.failure_code, report.reason) == ("problem_fault", said)
    host.files["reference.py"] = GOOD
    assert host.run(HONEST).verdict == "passed"
