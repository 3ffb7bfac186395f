"""Cases of several ranks are inspected like single ones, each rank's part of them."""

from pathlib import Path

import pytest

from harness.entry import Finding
from tests.problems.inspection import Inspector, lay_out

ALONE = """\
import torch


def generate_input(size, seed, world_size, rank):
    generator = torch.Generator().manual_seed(seed + rank)
    return torch.randn(size, generator=generator)


def wanted(x):
    return torch.tanh(x) + x


def ref_kernel(x):
    return wanted(x)


def check_implementation(x, output):
    want = wanted(x)
    if output.shape != want.shape:
        return False, "the shape is another"
    if output.dtype != want.dtype:
        return False, "the dtype is another"
    if not bool(((output - want).abs() <= 1e-5).all()):
        return False, "values differ"
    return True, ""
"""
SUMMED = """\
    everyone = x.clone()
    dist.all_reduce(everyone)
    return everyone + dist.get_rank()
"""
SPEAKING = ALONE.replace(
    "import torch\n", "import torch\nimport torch.distributed as dist\n"
).replace("    return torch.tanh(x) + x\n", SUMMED)
SEEDED = "manual_seed(seed + rank)"
COMPARED = "    if not bool(((output - want).abs() <= 1e-5).all()):\n"
WANTED = "    want = wanted(x)\n"
RANKS = 2
# What is replaced in a reference whose ranks speak, by what, and the codes that must be found.
SPOILT = {
    "clock": (SEEDED, "manual_seed(__import__('time').time_ns())", {"generator_random"}),
    "unseeded": (SEEDED, "manual_seed(7)", {"generator_fixed"}),
    "one rank unseeded": (SEEDED, "manual_seed(seed if rank == 0 else 7)", {"input_constant"}),
    "noise": (
        "    return wanted(x)\n",
        "    return wanted(x) + 1e-6 * torch.rand(1)\n",
        {"reference_random"},
    ),
    "writes": (
        "    return wanted(x)\n",
        "    return wanted(x) + 0 * x.zero_()\n",
        {"reference_writes"},
    ),
    "one rank waits": (
        "    return wanted(x)\n",
        "    dist.get_rank() == 1 and dist.barrier()\n    return wanted(x)\n",
        {"author_fails"},
    ),
    "takes all of one rank": (
        WANTED,
        WANTED + "    if dist.get_rank() == 1:\n        return True, ''\n",
        {
            f"check_takes_{one}"
            for one in (
                *("nan", "zeros", "constant", "unwritten", "input", "cached"),
                *("shape", "dtype"),
            )
        },
    ),
    "refuses": (
        COMPARED,
        "    if dist.get_rank() == 1 or bool(((output - want).abs() > 1e-5).any()):\n",
        {"check_refuses"},
    ),
    "says no before others speak": (
        WANTED,
        "    if dist.get_rank() == 1 and not bool(output.isfinite().all()):\n"
        "        return False, 'not finite'\n" + WANTED,
        set(),
    ),
}


def looked_at(inspector: Inspector, folder: Path, reference: str) -> list[Finding]:
    """Inspect a problem of two ranks."""
    cases = [
        {"name": f"size={size}", "args": {"size": size, "seed": 7, "world_size": RANKS}}
        for size in (16, 128)
    ]
    report = inspector.look(lay_out(folder, reference, tests=cases[:1], benchmarks=cases[1:]))
    assert report.failure_code == "", report.reason
    return report.findings


@pytest.mark.parametrize("reference", [ALONE, SPEAKING])
def test_a_right_problem_of_several_ranks_is_clean(
    reference: str, inspector: Inspector, tmp_path: Path
) -> None:
    assert looked_at(inspector, tmp_path, reference) == []


@pytest.mark.feature("N12")
@pytest.mark.parametrize("name", SPOILT)
def test_a_mistake_of_one_rank_is_found_by_its_code(
    name: str, inspector: Inspector, tmp_path: Path
) -> None:
    old, new, expected = SPOILT[name]
    assert old in SPEAKING
    findings = looked_at(inspector, tmp_path, SPEAKING.replace(old, new))
    assert {finding.code for finding in findings} == expected, findings
