"""Several ranks: one worker each, one box, one verdict, and the time of the slowest."""

import pytest

from tests.support.harness import Host

REFERENCE = """
import torch
def generate_input(size, seed, world_size, rank):
    generator = torch.Generator().manual_seed(seed + rank)
    others = torch.Generator().manual_seed(seed + 1 - rank)
    mine = torch.rand(size, generator=generator)
    return mine, torch.rand(size, generator=others) * 0 + rank
def ref_kernel(data):
    mine, rank = data
    return mine * 2 + rank
def check_implementation(data, output):
    return torch.allclose(output, ref_kernel(data)), "not what this rank was asked"
"""
TOGETHER = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=2)
def custom_kernel(data):
    mine, rank = data
    everyone = torch.ones(1)
    dist.all_reduce(everyone)
    return mine * everyone + rank
"""
ALONE = "def custom_kernel(data):\n    return data[0] * 2 + data[1]\n"


@pytest.fixture
def pair(host: Host) -> Host:
    """A problem of two ranks."""
    host.files["reference.py"] = REFERENCE
    host.more = {"world_size": 2}
    return host


def test_ranks_meet_on_the_loopback_of_their_own_network(pair: Host) -> None:
    report = pair.run(TOGETHER)
    assert report.verdict == "passed", (report.reason, report.log_tail)


@pytest.mark.feature("P11")
@pytest.mark.long
def test_ranks_are_timed_together(pair: Host) -> None:
    slow = "import os, time\n" + ALONE.replace(
        "    return", "    time.sleep(0.02 * int(os.environ['RANK']))\n    return"
    )
    report = pair.run(slow, "benchmark")
    # Before the handshake is taken away, which on a busy machine is long.
    times = [case.statistics["raw_us"] for case in report.cases if case.time_us is not None]
    assert len(times) == 2
    assert min(times) > 20_000


@pytest.mark.feature("P11")
def test_one_wrong_rank_is_named(pair: Host) -> None:
    wrong = "import os\n" + ALONE.replace("data[1]", "data[1] * (os.environ['RANK'] == '0')")
    report = pair.run(wrong)
    assert report.verdict == "wrong_answer"
    assert "rank 1: not what this rank was asked" in report.cases[0].message


def test_the_death_of_one_rank_ends_all(pair: Host) -> None:
    report = pair.run("import os\nos.environ['RANK'] == '1' and os.abort()\n" + ALONE)
    assert report.verdict == "crashed", report.reason
    assert "SIGABRT" in report.reason


@pytest.mark.long
def test_a_rank_that_hangs_is_timed_out(pair: Host) -> None:
    pair.budgets_s = {"build": 10, "test": 1}
    endless = "    while os.environ['RANK'] == '1': time.sleep(1)\n    return"
    report = pair.run("import os, time\n" + ALONE.replace("    return", endless))
    assert report.verdict == "timed_out", report.reason


COLLECTIVE = """
import torch
def generate_input(size, seed, world_size, rank):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed + rank))
def ref_kernel(data):
    size = torch.distributed.get_world_size()
    everyone = torch.empty(size * data.numel())
    torch.distributed.all_gather_into_tensor(everyone, data)
    mine = torch.empty_like(data)
    torch.distributed.reduce_scatter_tensor(mine, everyone)
    return mine + torch.distributed.get_rank()
def check_implementation(data, output):
    return torch.allclose(output, ref_kernel(data)), "not the sum of all"
"""
GATHERED = """
import torch.distributed as dist
def custom_kernel(data):
    dist.all_reduce(together := data.repeat(2))
    return data * 2 + dist.get_rank()
"""


ANSWER = "data * 2 +"
ENDS_EARLY = """\
    if torch.distributed.get_rank() == 0 and not bool((output > 0).all()):
        return False, "a sum of what is positive"
"""


@pytest.fixture
def speaking(host: Host) -> Host:
    """A problem of two ranks that communicate."""
    host.files["reference.py"] = COLLECTIVE
    host.more = {"world_size": 2}
    host.budgets_s = {"author": 20}
    return host


@pytest.mark.parametrize(
    ("answer", "verdict", "rank"),
    [
        ("data * 2 +", "passed", ""),
        ("data * 3 +", "wrong_answer", "rank 0: not the sum of all"),
        ("data * (2 + dist.get_rank()) +", "wrong_answer", "rank 1: not the sum of all"),
        ("data * (3 - dist.get_rank()) +", "wrong_answer", "rank 0: not the sum of all"),
        ("data * (2 if dist.get_rank() else float('nan')) +", "wrong_answer", "has 4 NaN"),
    ],
)
def test_ranks_of_a_reference_that_speak_to_each_other_find_a_group(
    speaking: Host, answer: str, verdict: str, rank: str
) -> None:
    report = speaking.run(GATHERED.replace(ANSWER, answer))
    assert (report.verdict, report.failure_code) == (verdict, ""), (report.reason, report.log_tail)
    assert rank in report.reason


@pytest.mark.long
def test_cases_of_other_numbers_of_ranks_have_teams_of_their_own(speaking: Host) -> None:
    cases = [
        {"name": f"{ranks} ranks", "args": {"size": 4, "seed": 7, "world_size": ranks}}
        for ranks in (2, 3)
    ]
    speaking.told_besides = {"tests": cases, "benchmarks": cases}
    report = speaking.run(GATHERED.replace(ANSWER, "data * dist.get_world_size() +"), "benchmark")
    assert (report.verdict, report.failure_code) == ("passed", ""), (report.reason, report.log_tail)
    assert [case.time_us is not None for case in report.cases] == [False, False, True, True]


WRITES = """\
    return bool((output.sub_(ref_kernel(data)).abs() < 1e-4).all()), "not the sum of all"
"""


def test_a_check_that_writes_to_an_answer_is_shown_it_as_it_was_each_time(speaking: Host) -> None:
    kept = COLLECTIVE[: COLLECTIVE.index("    return torch.allclose")]
    speaking.files["reference.py"] = kept + WRITES
    assert speaking.run(GATHERED).verdict == "passed"
    twice = GATHERED.replace("return ", "return 2 * data + ").replace("_rank()", "_rank() * 2")
    report = speaking.run(twice)
    assert report.verdict == "wrong_answer", report.reason


def test_a_check_that_ends_early_on_one_rank_keeps_no_other_waiting(speaking: Host) -> None:
    check = "    return torch.allclose"
    speaking.files["reference.py"] = COLLECTIVE.replace(check, ENDS_EARLY + check)
    report = speaking.run(GATHERED.replace(ANSWER, "-data * 2 +"))
    assert report.verdict == "wrong_answer", report.reason
    assert "rank 0: a sum of what is positive" in report.reason


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        ("get_rank() == 1 and 1 / 0", "ZeroDivisionError"),
        ("get_rank() == 1 and torch.distributed.barrier()", "wait for each other"),
    ],
)
def test_a_rank_of_the_reference_that_fails_ends_all(
    speaking: Host, fails: str, reason: str
) -> None:
    fails = f"    torch.distributed.{fails}\n    return mine"
    speaking.files["reference.py"] = COLLECTIVE.replace("    return mine", fails)
    report = speaking.run(GATHERED)
    assert report.failure_code == "problem_fault"
    assert reason in report.reason
