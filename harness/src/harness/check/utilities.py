"""What a problem can import as `utils` if it brings no utils.py of its own."""

import importlib
import math
import random
from collections.abc import Callable
from typing import Any, Self

_CACHE_BYTES = 256 * 1024 * 1024
# The share of its mean magnitude that an answer may be off by where it is small. A product in
# bfloat16 with normal inputs is off by 1 % of it at most; zeros and other constants by more.
_SCALE_SHARE = 0.02
# Large answers are compared in pieces that fit into a processor's cache: 5 times less work than in
# one piece (2 cores, 2026-11). On a GPU each piece costs some launches.
_PIECE_ELEMENTS, _PIECE_ELEMENTS_GPU = 16 * 1024, 16 * 1024 * 1024

_WRONG_SHAPE = "the shape is {}, expected {}"

CheckResult = tuple[bool, list[str]]


def set_seed(seed: int = 42) -> None:
    """Seed the global generators of Python, torch and every device."""
    random.seed(seed)
    _torch().manual_seed(seed)


def get_device(use_cuda: bool = True) -> Any:
    """Return the device for a problem's tensors; a run sees only the GPU that it times."""
    torch = _torch()
    return torch.device("cuda" if use_cuda and torch.cuda.is_available() else "cpu")


def clear_l2_cache() -> None:
    """Write more bytes than any cache holds."""
    torch = _torch()
    torch.empty(_CACHE_BYTES, dtype=torch.uint8, device=get_device()).fill_(1)


def verbose_allclose(
    received: Any, expected: Any, rtol: float = 1e-05, atol: float = 1e-08, max_print: int = 5
) -> CheckResult:
    """Return whether |received - expected| <= atol + rtol * |expected| everywhere, and where not.

    A NaN matches only NaN, an infinity only itself. Raises nothing; a wrong shape is also a reason.
    """
    if received.shape != expected.shape:
        return False, [_WRONG_SHAPE.format(list(received.shape), list(expected.shape))]
    if is_same(received, expected):
        return True, []
    received_wide, expected_wide = (
        tensor if tensor.is_complex() else tensor.double() for tensor in (received, expected)
    )
    close = _torch().isclose(received_wide, expected_wide, rtol=rtol, atol=atol, equal_nan=True)
    return _report_mismatches(~close, received, expected, max_print)


def verbose_allequal(received: Any, expected: Any, max_print: int = 5) -> CheckResult:
    """Return whether two tensors are equal everywhere, and where they are not."""
    if received.shape != expected.shape:
        return False, [_WRONG_SHAPE.format(list(received.shape), list(expected.shape))]
    if is_same(received, expected):
        return True, []
    return _report_mismatches(received != expected, received, expected, max_print)


def match_reference(
    data: Any,
    output: Any,
    reference: Callable[[Any], Any],
    rtol: float = 1e-05,
    atol: float = 1e-08,
) -> tuple[bool, str]:
    """Return whether an output, or every part of a nested one, is close to the reference's."""
    reasons = _reasons(output, reference(data), (rtol, atol))
    return not reasons, "\n".join(reasons)


def make_match_reference(
    reference: Callable[[Any], Any], **tolerances: float
) -> Callable[[Any, Any], tuple[bool, str]]:
    """Return a check_implementation that compares with a reference."""

    def check(data: Any, output: Any) -> tuple[bool, str]:
        return match_reference(data, output, reference, **tolerances)

    return check


def is_same(received: Any, expected: Any) -> bool:
    """Return whether two tensors of the same shape have the same dtype and equal elements.

    They are then within every tolerance, which takes 17 times as long to compute. False if there is
    a NaN.
    """
    is_alike = received.dtype == expected.dtype and received.device == expected.device
    return is_alike and bool(_torch().equal(received, expected))


def is_close_by_scale(received: Any, expected: Any, rtol: float, atol: float) -> tuple[Any, float]:
    """Return where values are close for the size of the answer, and the absolute tolerance.

    It is `atol`, but not more than 2 % of the mean magnitude of the answer's finite values that are
    not zero. So zeros are close only to zeros. Two NaN are close. Both have the same shape.
    """
    torch = _torch()
    wide = torch.complex128 if expected.is_complex() else torch.float64
    size = _PIECE_ELEMENTS_GPU if expected.is_cuda else _PIECE_ELEMENTS
    received_parts, expected_parts = (
        tensor.detach().reshape(-1).split(size) for tensor in (received, expected)
    )
    atol = min(atol, _SCALE_SHARE * _mean_magnitude(expected_parts, wide))
    close = [
        torch.isclose(got.to(wide), want.to(wide), rtol, atol, equal_nan=True)
        for got, want in zip(received_parts, expected_parts, strict=True)
    ]
    return torch.cat(close).reshape(expected.shape), atol


def find_largest_error(received: Any, expected: Any) -> tuple[float, float]:
    """Return the largest difference of two tensors, and the largest finite magnitude expected.

    Equal infinities and two NaN do not differ; other values that are not finite differ infinitely.
    Both have the same shape.
    """
    torch = _torch()
    wide = torch.complex128 if expected.is_complex() else torch.float64
    size = _PIECE_ELEMENTS_GPU if expected.is_cuda else _PIECE_ELEMENTS
    largest = scale = 0.0
    received_parts, expected_parts = (
        tensor.detach().reshape(-1).split(size) for tensor in (received, expected)
    )
    for got_part, want_part in zip(received_parts, expected_parts, strict=True):
        got, want = got_part.to(wide), want_part.to(wide)
        if not want.numel():
            continue
        is_same_value = (got == want) | (torch.isnan(got) & torch.isnan(want))
        difference = (got - want).abs().nan_to_num(nan=math.inf, posinf=math.inf)
        largest = max(largest, float(difference.masked_fill(is_same_value, 0.0).max()))
        magnitude = want.abs()
        finite = magnitude[torch.isfinite(magnitude)]
        scale = max(scale, float(finite.max()) if finite.numel() else 0.0)
    return largest, scale


def _mean_magnitude(parts: Any, wide: Any) -> float:
    """Return the mean magnitude of the finite values that are not zero; 0.0 if there are none."""
    torch = _torch()
    total, count = 0.0, 0
    for part in parts:
        values = part.to(wide)
        length = torch.linalg.vector_norm(values, 1)
        if not torch.isfinite(length):
            values = values[torch.isfinite(values)]
            length = torch.linalg.vector_norm(values, 1)
        total += float(length)
        count += int(torch.count_nonzero(values))
    return total / count if count else 0.0


class DeterministicContext:
    """Within it, torch uses deterministic algorithms and full precision."""

    def __init__(self) -> None:
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        torch = _torch()
        cudnn = torch.backends.cudnn
        self._before = [
            torch.are_deterministic_algorithms_enabled(),
            cudnn.allow_tf32,
            cudnn.deterministic,
        ]
        self._set(True, False, True)
        return self

    def __exit__(self, *_: object) -> None:
        self._set(*self._before)

    def _set(self, algorithms: bool, allow_tf32: bool, deterministic: bool) -> None:
        torch = _torch()
        torch.use_deterministic_algorithms(algorithms)
        torch.backends.cudnn.allow_tf32 = allow_tf32
        torch.backends.cudnn.deterministic = deterministic


def _reasons(output: Any, expected: Any, tolerances: tuple[float, float]) -> list[str]:
    if isinstance(expected, dict):
        pairs = [(output[key], expected[key]) for key in expected]
    elif isinstance(expected, list | tuple):
        pairs = list(zip(output, expected, strict=True))
    else:
        return verbose_allclose(output, expected, *tolerances)[1]
    return [reason for pair in pairs for reason in _reasons(*pair, tolerances)]


def _report_mismatches(wrong: Any, received: Any, expected: Any, max_print: int) -> CheckResult:
    count = int(wrong.sum())
    if count == 0:
        return True, []
    places = wrong.nonzero()[:max_print].tolist()
    examples = [
        f"at {place}: got {received[tuple(place)].item()}, expected {expected[tuple(place)].item()}"
        for place in places
    ]
    return False, [f"{count} of {wrong.numel()} values differ", *examples]


def _torch() -> Any:
    return importlib.import_module("torch")
