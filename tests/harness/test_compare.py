"""Guards that apply whatever the problem's own check says."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.check.author import parse_check_result
from harness.check.judging import (
    require_numbers,
    require_valid_bools,
    require_written,
)
from harness.check.structure import Leaf, lay_out, layout_bytes
from harness.messages import CaseFailed
from harness.problem import ProblemFault


@pytest.mark.parametrize("said", [True, "", [], (True, ""), (True, "all well"), (True, [])])
def test_a_passing_check_has_many_forms(said: object) -> None:
    assert parse_check_result(said) is None


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (False, "the output is wrong"),
        ("2 differ", "2 differ"),
        (["2 differ", "at 0"], "2 differ\nat 0"),
        ((False, "2 differ"), "2 differ"),
        ((False, ["2 differ"]), "2 differ"),
        ((False, ""), "the output is wrong"),
    ],
)
def test_a_failing_check_has_many_forms(said: object, message: str) -> None:
    assert parse_check_result(said) == message


@pytest.mark.parametrize("said", [None, 1, 0.0, (1, ""), [True], {}, ("", True)])
def test_any_other_form_is_a_fault_of_the_problem(said: object) -> None:
    with pytest.raises(ProblemFault, match="check_implementation returned"):
        parse_check_result(said)


def test_a_check_may_return_the_bool_of_a_library(torch: Any) -> None:
    numpy = pytest.importorskip("numpy")
    for right, wrong in (
        (torch.tensor(True), torch.tensor(False)),
        (numpy.bool_(True), numpy.bool_(False)),
        ((torch.tensor(True), ""), (torch.tensor(False), "")),
    ):
        assert parse_check_result(right) is None
        assert parse_check_result(wrong) == "the output is wrong"
    for odd in (torch.tensor(1), torch.tensor([True]), numpy.float32(1)):
        with pytest.raises(ProblemFault, match="check_implementation returned"):
            parse_check_result(odd)


def test_an_untouched_output_was_never_written(torch: Any) -> None:
    leaves = lay_out([torch.empty(4), torch.empty(4)])
    poison = torch.randint(0, 256, (layout_bytes(leaves),), dtype=torch.uint8)
    snapshot = poison.clone()
    leaves[0].view(snapshot).zero_()
    with pytest.raises(CaseFailed, match="output 1 was never written") as caught:
        require_written(leaves, snapshot, _filled(poison))
    assert caught.value.verdict == "wrong_answer"
    assert not caught.value.is_last
    leaves[1].view(snapshot)[-1] = 0
    require_written(leaves, snapshot, _filled(poison))


def test_an_output_is_looked_at_to_its_last_byte(torch: Any) -> None:
    leaves = lay_out([torch.empty(5000)])
    poison = torch.randint(0, 256, (layout_bytes(leaves),), dtype=torch.uint8)
    snapshot = poison.clone()
    with pytest.raises(CaseFailed, match="never written"):
        require_written(leaves, snapshot, _filled(poison))
    leaves[0].bytes_in(snapshot)[-1] += 1
    require_written(leaves, snapshot, _filled(poison))


def test_an_output_so_small_that_poison_may_be_right_is_left_to_the_check(torch: Any) -> None:
    leaves = lay_out([torch.zeros(8, dtype=torch.bool), torch.zeros(1)])
    memory = torch.ones(layout_bytes(leaves), dtype=torch.uint8)
    require_written(leaves, memory, _filled(memory))


def _filled(poison: Any) -> Callable[[Leaf, int], Any]:
    return lambda leaf, size: leaf.bytes_in(poison)[:size]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "complex64"])
def test_a_nan_is_wrong_where_the_reference_has_none(torch: Any, dtype: str) -> None:
    nan = torch.tensor([float("nan"), 1.0]).to(getattr(torch, dtype))
    number = torch.tensor([2.0, 1.0]).to(getattr(torch, dtype))
    require_numbers([number], lambda: pytest.fail("the reference is not needed"))
    require_numbers([nan], lambda: [nan])
    with pytest.raises(CaseFailed, match="the output has 1 NaN among 2 values"):
        require_numbers([nan], lambda: [number])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e5m2", "complex64"])
def test_infinities_of_both_signs_are_no_nan(torch: Any, dtype: str) -> None:
    # Their sum is NaN.
    values = torch.tensor([float("inf"), float("-inf"), 3.0]).to(getattr(torch, dtype))
    require_numbers([values], lambda: [values])
    require_numbers([values], lambda: [torch.zeros(3).to(getattr(torch, dtype))])


def test_a_nan_in_an_imaginary_part_is_found(torch: Any) -> None:
    values = torch.tensor([1 + 2j, complex(1, float("nan"))])
    with pytest.raises(CaseFailed, match="has 1 NaN among 2 values"):
        require_numbers([values], lambda: [torch.zeros_like(values)])


def test_a_sum_beyond_the_largest_number_hides_no_nan(torch: Any) -> None:
    values = torch.full((1000,), 60_000.0, dtype=torch.float16)
    require_numbers([values], lambda: pytest.fail("the reference is not needed"))
    values[999] = float("nan")
    with pytest.raises(CaseFailed, match="has 1 NaN among 1000 values"):
        require_numbers([values], lambda: [torch.zeros_like(values)])


def test_integers_and_bools_hold_no_nan(torch: Any) -> None:
    outputs = [torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.bool)]
    require_numbers(outputs, lambda: pytest.fail("the reference is not needed"))


def test_a_bool_holds_nothing_but_zero_and_one(torch: Any) -> None:
    leaves = lay_out([torch.zeros(3, dtype=torch.bool), torch.zeros(3, dtype=torch.uint8)])
    memory = torch.zeros(layout_bytes(leaves), dtype=torch.uint8)
    leaves[1].bytes_in(memory).fill_(7)
    require_valid_bools(leaves, memory)
    leaves[0].bytes_in(memory)[1] = 2
    with pytest.raises(CaseFailed, match="output 0 holds bytes that are not valid bools"):
        require_valid_bools(leaves, memory)
