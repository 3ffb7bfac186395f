"""What a problem may import as `utils` when it brings no utils.py of its own."""

import importlib
import random
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

_SHOWN_MAX = 5
_CACHE_BYTES = 256 * 1024 * 1024

Judged = tuple[bool, list[str]]


def set_seed(seed: int = 42) -> None:
    """Seeds Python's, torch's and every device's global generator."""
    random.seed(seed)
    _torch().manual_seed(seed)


def get_device(use_cuda: bool = True) -> Any:
    """The device that problems make their tensors on: a run sees no GPU but one that it times."""
    torch = _torch()
    return torch.device("cuda" if use_cuda and torch.cuda.is_available() else "cpu")


def clear_l2_cache() -> None:
    """Writes more bytes than any cache keeps."""
    torch = _torch()
    torch.empty(_CACHE_BYTES, dtype=torch.uint8, device=get_device()).fill_(1)


def verbose_allclose(
    received: Any, expected: Any, rtol: float = 1e-05, atol: float = 1e-08, max_print: int = 5
) -> Judged:
    """Whether |received - expected| <= atol + rtol * |expected| everywhere, and where it is not.

    NaN matches NaN alone, an infinity matches itself alone. Errors: none; a shape is a reason too.
    """
    if reason := _shape_reason(received, expected):
        return False, [reason]
    got, want = _wide(received), _wide(expected)
    close = _torch().isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    return _judged(~close, received, expected, max_print)


def verbose_allequal(received: Any, expected: Any, max_print: int = 5) -> Judged:
    """Whether two tensors are equal everywhere, and where they are not."""
    if reason := _shape_reason(received, expected):
        return False, [reason]
    return _judged(received != expected, received, expected, max_print)


def match_reference(
    data: Any,
    output: Any,
    reference: Callable[[Any], Any],
    rtol: float = 1e-05,
    atol: float = 1e-08,
) -> tuple[bool, str]:
    """Whether an output, or every part of a nested one, is close to the reference's."""
    reasons = _reasons(output, reference(data), (rtol, atol))
    return not reasons, "\n".join(reasons)


def make_match_reference(
    reference: Callable[[Any], Any], **tolerances: float
) -> Callable[[Any, Any], tuple[bool, str]]:
    """A check_implementation that compares with a reference under these tolerances."""

    def check(data: Any, output: Any) -> tuple[bool, str]:
        return match_reference(data, output, reference, **tolerances)

    return check


class DeterministicContext:
    """Within it torch uses deterministic algorithms and full precision."""

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

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _at: TracebackType | None,
    ) -> None:
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


def _shape_reason(received: Any, expected: Any) -> str:
    if received.shape == expected.shape:
        return ""
    return f"the shape is {list(received.shape)}, expected {list(expected.shape)}"


def _judged(wrong: Any, received: Any, expected: Any, max_print: int) -> Judged:
    count = int(wrong.sum())
    if count == 0:
        return True, []
    places = wrong.nonzero()[:max_print].tolist()
    shown = [
        f"at {place}: got {received[tuple(place)].item()}, expected {expected[tuple(place)].item()}"
        for place in places
    ]
    return False, [f"{count} of {wrong.numel()} values differ", *shown]


def _wide(tensor: Any) -> Any:
    return tensor if tensor.is_complex() else tensor.double()


def _torch() -> Any:
    return importlib.import_module("torch")
