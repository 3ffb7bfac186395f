"""A run that needs too much memory ends with both figures before a case runs."""

import re

import pytest

from harness.check.inputs import (
    BLOCK_CALLS_MAX,
    AvailableMemory,
    Shape,
    calls_ahead,
    measure_sizes,
    needed_bytes,
)
from harness.check.structure import Leaf
from harness.entry import Progress
from harness.problem import Case, MemoryShortage
from harness.sandbox.host import total_bytes
from harness.time.policy import policy_for
from harness.vocabulary import MODES
from tests.support.harness import HONEST, REFERENCE, Host

MIB, GIB = 1024**2, 1024**3
NEEDS = re.compile(r"needs ([0-9.]+) GiB of memory.* (?:offers|has) ([0-9.]+) GiB$")
# Its pages are there once somebody writes to them, which nobody does.
ANSWER = "    torch = importlib.import_module('torch')\n    return torch.empty({size})\n"
BUFFERLESS = REFERENCE.replace(", torch.empty(size, size)", ", 1.0")


def shape(inputs: int, outputs: int, *, is_buffer: bool) -> Shape:
    leaf = [Leaf(0, size, "uint8", (size,), (1,)) for size in (inputs, outputs)]
    answer = ["buffer" if is_buffer else "tensor", 0]
    return Shape(tuple(leaf[:1]), tuple(leaf[1:]), ["tensor", 0], answer, [], (0,), 63, 0.0)


def answering(size: int) -> str:
    """A problem whose reference returns this many 4-byte numbers."""
    head, _, tail = BUFFERLESS.partition("    matrix, out = data\n")
    return head + ANSWER.format(size=size) + "\n\n" + tail.partition("\n\n\n")[2]


@pytest.mark.parametrize(("is_timed", "is_buffer", "tensors"), [(0, 1, 8), (0, 0, 8), (1, 1, 16)])
def test_a_case_needs_every_copy_of_its_tensors(
    is_timed: bool, is_buffer: bool, tensors: int
) -> None:
    case = [measure_sizes(shape(GIB, GIB, is_buffer=is_buffer))]
    needed = needed_bytes(case, is_timed=bool(is_timed))
    assert needed >= tensors * GIB
    assert needed_bytes(case * 2, is_timed=bool(is_timed)) == 2 * needed


@pytest.mark.parametrize("size", [MIB // 4, 16 * MIB, GIB])
def test_a_timed_case_needs_the_data_that_are_drawn_ahead(size: int) -> None:
    case = [measure_sizes(shape(size, size, is_buffer=True))]
    ahead = min(policy_for("cpu", "ranked").calls_max, calls_ahead(case)) - 1
    # Each call has inputs, a buffer and an answer of each side.
    assert needed_bytes(case, is_timed=True) >= (16 + 4 * ahead) * size
    assert 2 * size * calls_ahead(case) <= max(128 * MIB, 2 * size)


def test_no_block_of_the_processor_has_more_calls_than_its_memory_is_counted_for() -> None:
    modes = [policy_for("cpu", mode).calls_max for mode, about in MODES.items() if about.is_timed]
    assert max(modes) <= BLOCK_CALLS_MAX


def test_what_does_not_fit_is_said_with_both_figures() -> None:
    case, small = Case("size=7", {}), [measure_sizes(shape(GIB, GIB, is_buffer=False))]
    AvailableMemory(machine=64 * GIB, sandbox=GIB).require(case, small, is_timed=True)
    with pytest.raises(MemoryShortage, match=r"size=7 needs \d+ GiB .* machine offers 4 GiB"):
        AvailableMemory(machine=4 * GIB, sandbox=GIB).require(case, small, is_timed=False)
    with pytest.raises(MemoryShortage, match=r"to size=7 needs 1 GiB .* offers 0.9 GiB"):
        AvailableMemory(machine=64 * GIB, sandbox=GIB - 1).require(case, small, is_timed=False)


def test_a_case_that_the_machine_cannot_hold_is_not_begun(host: Host) -> None:
    host.files = {"reference.py": answering(total_bytes() // 16)}
    report = host.run(HONEST)
    assert (report.verdict, report.failure_code) == ("", "memory")
    needs = NEEDS.search(report.reason)
    assert needs, report.reason
    assert float(needs[1]) > float(needs[2]) > 0
    assert not any(isinstance(one, Progress) for one in host.messages)
    host.files = {"reference.py": REFERENCE}
    assert host.run(HONEST).verdict == "passed"


def test_an_answer_that_no_sandbox_holds_is_not_asked_for(host: Host) -> None:
    host.files = {"reference.py": answering(270 * 1024**2)}
    report = host.run(HONEST)
    assert report.failure_code == "memory"
    assert re.search(r"needs [0-9.]+ GiB of memory", report.reason), report.reason


@pytest.mark.parametrize("where", ["return torch.randn", "out.copy_"])
def test_an_allocation_of_the_author_that_fails_is_a_want_of_memory(host: Host, where: str) -> None:
    assert where in REFERENCE
    greedy = f"importlib.import_module('torch').empty(1 << 46)\n    {where}"
    host.files = {"reference.py": REFERENCE.replace(where, greedy)}
    report = host.run(HONEST)
    assert report.failure_code == "memory"
    name = "generate_input" if "randn" in where else "ref_kernel"
    assert re.match(rf"{name} on size=\d+.* needs \d+ GiB more memory", report.reason)


def test_a_case_that_cannot_even_be_generated_is_said_with_both_figures(host: Host) -> None:
    host.files = {"reference.py": REFERENCE.replace("(size, size", "(size << 42, size")}
    report = host.run(HONEST)
    assert report.failure_code == "memory"
    needs = NEEDS.search(report.reason)
    assert needs, report.reason
    # Some tensors of 4 rows or more, each of 64 TiB.
    assert float(needs[1]) > 4 * 65536 > float(needs[2])


@pytest.mark.parametrize(
    ("declared", "who"),
    [
        ({"memory_mib": 2**30}, "a submission needs 1048576 GiB"),
        ({"requires": {"memory_mib": 2**30}}, "the problem needs 1048576 GiB"),
    ],
)
def test_what_a_problem_declares_is_more_than_is_here(
    host: Host, declared: dict[str, int], who: str
) -> None:
    host.told_besides = declared
    report = host.run(HONEST)
    assert report.failure_code == "memory"
    assert report.reason.startswith(f"{who} of memory, ")
