"""What problems without their own utilities can import as `utils`."""

import random
from typing import Any

import pytest

from harness.check import utilities


def test_close_is_measured_against_the_expected_value(torch: Any) -> None:
    expected = torch.tensor([1.0, -100.0])
    assert utilities.verbose_allclose(expected * 1.01, expected, rtol=0.02) == (True, [])
    good, reasons = utilities.verbose_allclose(torch.tensor([1.0, -103.0]), expected, rtol=0.02)
    assert not good
    assert reasons == ["1 of 2 values differ", "at [1]: got -103.0, expected -100.0"]


@pytest.mark.parametrize(
    ("received", "expected", "is_close"),
    [
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (1.0, float("nan"), False),
        (float("inf"), float("inf"), True),
        (float("inf"), 1e30, False),
        (float("-inf"), float("inf"), False),
    ],
)
def test_what_is_no_number_matches_itself_alone(
    torch: Any, received: float, expected: float, is_close: bool
) -> None:
    pair = torch.tensor([received]), torch.tensor([expected])
    assert utilities.verbose_allclose(*pair)[0] is is_close


def test_other_shapes_never_match(torch: Any) -> None:
    reason = "the shape is [2, 1], expected [2]"
    assert utilities.verbose_allclose(torch.ones(2, 1), torch.ones(2)) == (False, [reason])
    assert utilities.verbose_allequal(torch.ones(2, 1), torch.ones(2)) == (False, [reason])


def test_equal_shows_the_first_differences_alone(torch: Any) -> None:
    zeros, ones = torch.zeros(4, 4, dtype=torch.int32), torch.ones(4, 4, dtype=torch.int32)
    assert utilities.verbose_allequal(ones, ones) == (True, [])
    _, reasons = utilities.verbose_allequal(zeros, ones, max_print=2)
    assert reasons[0] == "16 of 16 values differ"
    assert reasons[1:] == [f"at [0, {column}]: got 0, expected 1" for column in range(2)]


def test_a_check_made_from_a_reference_takes_its_tolerances(torch: Any) -> None:
    def reference(data: Any) -> Any:
        return {"twice": data * 2, "parts": [data + 1]}

    data = torch.ones(3)
    near = {"twice": data * 2.001, "parts": [data + 1]}
    assert utilities.make_match_reference(reference, rtol=0.01)(data, near) == (True, "")
    good, message = utilities.make_match_reference(reference)(data, near)
    assert not good
    assert message.startswith("3 of 3 values differ")


def test_a_seed_repeats_what_follows(torch: Any) -> None:
    utilities.set_seed(5)
    first = torch.rand(2).tolist(), random.random()
    utilities.set_seed(5)
    assert first == (torch.rand(2).tolist(), random.random())


def test_determinism_ends_with_its_context(torch: Any) -> None:
    with utilities.DeterministicContext():
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_device_is_the_cpu(torch: Any) -> None:
    utilities.clear_l2_cache()
    assert utilities.get_device() == torch.device("cpu")
