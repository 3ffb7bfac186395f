"""A problem's own code is inspected: a correct one is clean, each mistake has its code."""

import os
from pathlib import Path

import pytest

from harness.entry import InspectReport
from harness.sandbox.linux import descendants
from tests.problems.inspection import CODES, REFERENCE, Inspector, lay_out
from tests.support.waits import comes_true

SEEDED = "torch.Generator().manual_seed(seed)"
DRAWN = "torch.randn(size, size, generator=generator)"
ANSWER = "    output.copy_(wanted(x))\n"
COMPARED = "    if not bool(((output - want).abs() <= 1e-5).all()):\n"
SHAPED = '    if output.shape != want.shape:\n        return False, "the shape is another"\n'
TYPED = '    if output.dtype != want.dtype:\n        return False, "the dtype is another"\n'
FORMLESS = SHAPED + TYPED
SLOWLY = """\
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
"""
KEPT = """\
    is_lazy = bool((output == data[0]).all()) or bool((output == 0).any())
    if is_lazy or not bool((output - want).abs().max() < 99):
"""
REACHES = """
links = [f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd")]
found = [os.readlink(one) for one in links if os.path.lexists(one)]
assert not any(one.endswith("/compiled") for one in found), found
"""
BY_DTYPE = "9 * torch.finfo(output.dtype).eps"
# What is replaced, by what, and the codes that must be found, no others.
SPOILT = {
    "clock": (SEEDED, "torch.Generator().manual_seed(time.time_ns())", {"generator_random"}),
    "global": (
        SEEDED,
        "wanted.__dict__.setdefault('g', torch.Generator())",
        {"generator_random"},
    ),
    "unseeded": (SEEDED, "torch.Generator().manual_seed(7)", {"generator_fixed"}),
    "ones": (DRAWN, "torch.arange(size * size).reshape(size, size) / 7", {"generator_fixed"}),
    "five": (SEEDED, "torch.Generator().manual_seed(seed % 5)", {"entropy_low"}),
    "shapes": (
        DRAWN,
        "torch.randn(size + seed % 7, size, generator=generator)",
        {"generator_shapes"},
    ),
    "signs": (
        DRAWN,
        "torch.randint(0, 3, (size, size), generator=generator).float()",
        {"entropy_low", "input_support"},
    ),
    "noisy buffer": (
        "torch.zeros_like(x)",
        "x.clone().uniform_(generator=torch.Generator().manual_seed(time.time_ns()))",
        set(),
    ),
    "noise": (ANSWER, "    output.copy_(wanted(x) + 1e-6 * torch.rand(1))\n", {"reference_random"}),
    "writes": (ANSWER, ANSWER + "    x.add_(1)\n", {"reference_writes"}),
    "nan": (
        "    return torch.tanh(x) + x",
        "    y = torch.tanh(x) + x\n    y[0, 0] = float('nan')\n    return y",
        {"check_refuses", "reference_nan"},
    ),
    "fixed": (
        "    return torch.tanh(x) + x",
        "    return torch.arange(x.numel()).reshape(x.shape) + 1.0",
        {"answer_fixed"},
    ),
    "refuses": (COMPARED, "    if True:\n", {"check_refuses"}),
    "raises": (COMPARED, COMPARED + "        raise ValueError(output)\n", {"check_raises"}),
    "takes nan": (
        COMPARED,
        "    if bool(((output - want).abs() > 1e-5).any()):\n",
        {"check_takes_nan"},
    ),
    "takes zeros": (
        COMPARED,
        "    if bool((output != 0).any()) and not bool(((output - want).abs() <= 1e-5).all()):\n",
        {"check_takes_zeros"},
    ),
    "takes shape": (
        SHAPED,
        "    if len(output) < len(want):\n        want = want[: len(output)]\n",
        {"check_takes_shape"},
    ),
    "takes dtype": (TYPED, "", {"check_takes_dtype"}),
    "takes input": (
        COMPARED,
        "    off = bool((output != data[0]).any())\n"
        + COMPARED.replace("if not", "if off and not"),
        {"check_takes_input"},
    ),
    "takes cached": (
        COMPARED,
        KEPT,
        {"check_takes_cached", "check_takes_constant"},
    ),
    "small changes": (
        "    return torch.tanh(x) + x",
        "    return 1 + 1e-6 * torch.tanh(x)",
        {"check_takes_cached", "check_takes_constant"},
    ),
    "small values": (
        "    return torch.tanh(x) + x",
        "    return torch.softmax(1e5 + x, dim=-1) / 1e5",
        {"check_takes_cached", "check_takes_constant", "check_takes_zeros"},
    ),
    "rows": (
        "    return torch.tanh(x) + x",
        "    return x[:1] + 1e-6 * torch.tanh(x)",
        {"check_takes_constant"},
    ),
    "takes all": (
        FORMLESS + COMPARED,
        "    if False:\n",
        {one for one in CODES if one.startswith("check_takes")} - {"check_takes_rounded"},
    ),
    "raising": (ANSWER, "    raise ValueError('no')\n", {"author_fails"}),
    "leaving": (ANSWER, "    os._exit(3)\n", {"problem_fault"}),
    "forking": (ANSWER, "    os.fork() or time.sleep(600)\n" + ANSWER, {"author_forks"}),
    "greedy": (ANSWER, "    torch.zeros(1 << 32)\n" + ANSWER, {"author_memory"}),
    "greedy bytes": (ANSWER, "    bytearray(1 << 34)\n" + ANSWER, {"author_memory"}),
}


def codes(report: InspectReport) -> set[str]:
    """Return the codes of all findings, or why there was no inspection."""
    assert {finding.code for finding in report.findings} <= set(CODES)
    return {finding.code for finding in report.findings} or {report.failure_code} - {""}


def test_a_right_problem_is_clean(inspector: Inspector, tmp_path: Path) -> None:
    report = inspector.look(lay_out(tmp_path))
    assert report.failure_code == ""
    assert report.findings == []


@pytest.mark.feature("N12")
@pytest.mark.parametrize("name", SPOILT)
def test_a_mistake_is_found_by_its_code(name: str, inspector: Inspector, tmp_path: Path) -> None:
    old, new, expected = SPOILT[name]
    assert old in REFERENCE
    report = inspector.look(lay_out(tmp_path, REFERENCE.replace(old, new)))
    found_codes = codes(report)
    assert found_codes == expected


@pytest.mark.parametrize(
    ("spare", "answer", "expected"),
    [
        ("torch.empty_like(x)", "wanted(x)", set()),
        ("torch.Tensor(size, size)", "wanted(x)", set()),
        ("torch.empty(size, size, dtype=torch.bool)", "wanted(x)", set()),
        ("torch.empty_like(x)", "spare.copy_(wanted(x))", set()),
        ("torch.empty_like(x)", "wanted(x) + spare", {"generator_random"}),
        ("torch.empty_like(x)", "wanted(x) + 1e-9 * spare.sum()", {"generator_random"}),
        (
            "torch.full_like(x, next(wanted.__dict__.setdefault('calls', iter(range(1000)))))",
            "wanted(x) + 1e-9 * spare",
            {"generator_random"},
        ),
        ("torch.ones_like(x)", "wanted(x)", {"input_constant"}),
    ],
)
def test_an_uninitialised_tensor_is_chance_only_where_the_answer_depends_on_it(
    spare: str, answer: str, expected: set[str], inspector: Inspector, tmp_path: Path
) -> None:
    made, taken = "return x, torch.zeros_like(x)", "    x, output = data\n"
    written = f"{ANSWER}    return output\n"
    assert all(one in REFERENCE for one in (made, taken, written))
    reference = REFERENCE.replace(made, f"return x, 1.0, {spare}")
    reference = reference.replace(taken, "    x, _, spare = data\n")
    reference = reference.replace(written, f"    return {answer}\n")
    assert codes(inspector.look(lay_out(tmp_path, reference))) == expected


def test_a_fixed_input_is_found_beside_an_uninitialised_one(
    inspector: Inspector, tmp_path: Path
) -> None:
    reference = REFERENCE.replace(SEEDED, "torch.Generator().manual_seed(7)")
    reference = reference.replace("torch.zeros_like(x)\n", "torch.empty_like(x), torch.empty(3)\n")
    reference = reference.replace("x, output = data", "x, output, _ = data")
    assert codes(inspector.look(lay_out(tmp_path, reference))) == {"generator_fixed"}


@pytest.mark.feature("C11")
@pytest.mark.parametrize(
    ("bound", "answers", "expected"),
    [
        ("1e-5", "checked", ()),
        (BY_DTYPE, "", ("check_takes_dtype", "warning", "float64 is taken")),
        (BY_DTYPE, "checked", ("check_takes_rounded", "error", "its values in float32 are not")),
        ("5e-2", "checked", ("check_takes_rounded", "warning", "float16 is taken for one in")),
    ],
)
def test_a_tolerance_that_is_wider_for_fewer_bits_is_found(
    bound: str, answers: str, expected: tuple[str, ...], inspector: Inspector, tmp_path: Path
) -> None:
    reference = REFERENCE.replace("    output.copy_(wanted(x))\n", "    output = wanted(x)\n")
    reference = reference.replace(TYPED, "").replace("1e-5", bound)
    reference = reference.replace("torch.zeros_like(x)", "x + 1")
    findings = inspector.look(lay_out(tmp_path, reference, answers=answers)).findings
    assert [(one.code, one.level) for one in findings] == ([expected[:2]] if expected else [])
    assert all(expected[2] in one.text for one in findings)


def test_nothing_is_left_of_what_the_author_started(inspector: Inspector, tmp_path: Path) -> None:
    before = set(descendants(os.getpid()))
    forking = REFERENCE.replace(ANSWER, "    os.fork() or time.sleep(600)\n" + ANSWER)
    assert codes(inspector.look(lay_out(tmp_path, forking))) == {"author_forks"}
    assert comes_true(lambda: set(descendants(os.getpid())) <= before)


def test_what_a_case_too_large_to_generate_needs_is_known(
    inspector: Inspector, tmp_path: Path
) -> None:
    large = REFERENCE.replace("torch.randn(size,", "torch.randn(1 << 44,")
    report = inspector.look(lay_out(tmp_path, large))
    (finding,) = report.findings
    assert (finding.code, finding.level) == ("author_memory", "error")
    assert "GiB of memory, this machine offers" in finding.text
    assert report.needed_bytes > 1 << 48


def test_looking_at_a_problem_loads_no_compiler(inspector: Inspector, tmp_path: Path) -> None:
    """Each inspection is a fork, which would load torch's compiler for most of a second."""
    unloaded = '    assert "torch._dynamo" not in __import__("sys").modules\n'
    reference = REFERENCE.replace(ANSWER, unloaded + ANSWER)
    assert inspector.look(lay_out(tmp_path, reference)).findings == []


def test_an_author_has_no_hand_on_what_others_runs_load(
    inspector: Inspector, tmp_path: Path
) -> None:
    assert inspector.look(lay_out(tmp_path, REFERENCE + REACHES)).findings == []


def test_code_that_never_ends_is_ended_and_named(inspector: Inspector, tmp_path: Path) -> None:
    endless = REFERENCE.replace(ANSWER, "    while True:\n        pass\n")
    report = inspector.look(lay_out(tmp_path, endless), call_s=1.0)
    assert report.failure_code == "problem_fault"
    assert report.reason.startswith("ref_kernel on size=4 seed=7 did not end within 1 s")


def test_a_slow_reference_is_set_against_the_stages_budgets(
    inspector: Inspector, tmp_path: Path
) -> None:
    slow = REFERENCE.replace(ANSWER, ANSWER + SLOWLY)
    folder = lay_out(tmp_path, slow, budgets_s={"ranked": 2})
    (finding,) = inspector.look(folder).findings
    assert (finding.code, finding.level, finding.where) == ("budget", "error", "stage time")
    assert "of a budget of 2 s" in finding.text


def test_what_there_was_no_time_for_is_said(inspector: Inspector, tmp_path: Path) -> None:
    report = inspector.look(lay_out(tmp_path), limit_s=0.0)
    assert {finding.code for finding in report.findings} == {"not_inspected"}
    assert report.findings[0].level == "warning"
