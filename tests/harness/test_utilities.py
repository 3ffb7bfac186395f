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


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fn", "complex64", "int64"])
def test_equal_elements_are_within_every_tolerance(torch: Any, dtype: str) -> None:
    values = torch.tensor([0.0, -0.0, 3.0, -7.0]).to(getattr(torch, dtype))
    assert utilities.is_same(values, values.clone())
    assert utilities.verbose_allclose(values, values.clone(), rtol=0, atol=0) == (True, [])
    assert utilities.verbose_allequal(values, values.clone()) == (True, [])


def test_zeros_of_both_signs_are_equal(torch: Any) -> None:
    assert utilities.verbose_allclose(torch.tensor([-0.0]), torch.tensor([0.0])) == (True, [])


def test_what_is_not_the_same_is_still_compared(torch: Any) -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert not utilities.is_same(nan, nan)
    assert utilities.verbose_allclose(nan, nan.clone()) == (True, [])
    assert not utilities.verbose_allclose(nan, torch.tensor([float("nan"), 2.0]))[0]
    wide = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert not utilities.is_same(wide.float(), wide)
    assert utilities.verbose_allclose(wide.float(), wide) == (True, [])


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


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "complex64"])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 100.0])
def test_by_scale_zeros_are_close_to_zeros_alone(torch: Any, dtype: str, scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    expected = torch.randn(1000, generator=generator).mul(scale).to(getattr(torch, dtype))
    bound = 1e-2 if expected.element_size() == 2 else 1e-4
    zeros = torch.zeros_like(expected)
    assert int(utilities.is_close_by_scale(zeros, expected, bound, bound)[0].sum()) < 50
    assert bool(utilities.is_close_by_scale(zeros, zeros, bound, bound)[0].all())
    near = expected * (1 + bound / 2)
    assert bool(utilities.is_close_by_scale(near, expected, bound, bound)[0].all())


def test_by_scale_an_answer_may_be_off_by_its_bound_at_most(torch: Any) -> None:
    expected = torch.tensor([0.0, 1e6, float("inf"), float("nan")])
    close, absolute = utilities.is_close_by_scale(expected + 2e-4, expected, 1e-4, 1e-4)
    assert close.tolist() == [False, True, True, True]
    assert absolute == 1e-4


@pytest.mark.parametrize("rounded", ["bfloat16", "float16"])
def test_by_scale_a_small_product_in_fewer_bits_is_close(torch: Any, rounded: str) -> None:
    """Its answers are about 1e-3, so half precision is within the absolute tolerance of 1e-4."""
    generator = torch.Generator().manual_seed(2)
    left, right = (torch.randn(256, 1024, generator=generator) for _ in range(2))
    left = left * 3e-5
    halves = [part.to(getattr(torch, rounded)) for part in (left * 1e3, right)]
    product = (halves[0].float() @ halves[1].float().T) / 1e3
    assert bool(utilities.is_close_by_scale(product, left @ right.T, 1e-4, 1e-4)[0].all())
    rolled = (left @ right.T).roll(1, 0)
    assert not bool(utilities.is_close_by_scale(rolled, left @ right.T, 1e-4, 1e-4)[0].all())


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 2**13), (2**14 + 1,)])
def test_by_scale_an_answer_of_any_size_is_compared(torch: Any, shape: tuple[int, ...]) -> None:
    expected = torch.full(shape, 1e-6)
    close, absolute = utilities.is_close_by_scale(expected, expected, 1e-4, 1e-4)
    assert close.shape == expected.shape
    assert bool(close.all())
    assert absolute == (pytest.approx(2e-8) if expected.numel() else 0.0)
    if len(shape) and expected.numel():
        expected.reshape(-1)[-1] *= 2
        close, _ = utilities.is_close_by_scale(torch.full(shape, 1e-6), expected, 1e-4, 1e-4)
        assert int(close.sum()) == expected.numel() - 1
