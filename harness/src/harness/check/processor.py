"""On the cpu device, `device='cuda'` means the processor in the author's code.

Mapped are devices by name or number in every torch function that takes one, `.cuda()`,
torch.Generator, and functions that wait for a GPU, which do nothing. Not mapped are streams,
events, properties of a GPU, and Triton. Submissions get none of this: they run in another process.
Only a yardstick that is the reference gets a copy of this file.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_IGNORED_FUNCTIONS = ("synchronize", "empty_cache", "reset_peak_memory_stats", "set_device")


def map_cuda_to_cpu() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return a factory of contexts within which CUDA means the processor."""
    torch: Any = importlib.import_module("torch")
    mode = _make_mode(torch)

    class Generator(torch.Generator):  # type: ignore[misc]  # looked up
        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, device=_map_device(torch, device))

    @contextlib.contextmanager
    def within() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_replace_attribute(torch, "Generator", Generator))
            for name in _IGNORED_FUNCTIONS:
                # A new function each time, because torch identifies its functions by identity.
                stack.enter_context(
                    _replace_attribute(torch.cuda, name, lambda *_args, **_named: None)
                )
            stack.enter_context(mode())
            yield

    return within


def _make_mode(torch: Any) -> Any:
    """Return a torch mode through which all torch functions are called."""

    class OnProcessor(torch.overrides.TorchFunctionMode):  # type: ignore[misc]  # looked up
        def __torch_function__(
            self,
            function: Any,
            _types: Any,
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            if function is torch.Tensor.cuda:
                return args[0].clone()
            mapped_args = [_map_device(torch, arg) for arg in args]
            mapped_kwargs = {
                key: _map_device(torch, value) for key, value in (kwargs or {}).items()
            }
            mapped_kwargs.pop("pin_memory", None)
            answer = function(*mapped_args, **mapped_kwargs)
            # A move to another device makes a copy, which the caller may change.
            is_unmoved = function is torch.Tensor.to and answer is args[0]
            values = (*args[1:], *(kwargs or {}).values())
            has_cuda = any(_map_device(torch, value) is not value for value in values)
            return answer.clone() if is_unmoved and has_cuda else answer

    return OnProcessor


def _map_device(torch: Any, value: Any) -> Any:
    if type(value) is str:
        return "cpu" if value == "cuda" or value.startswith("cuda:") else value
    is_cuda = isinstance(value, torch.device) and value.type == "cuda"
    return torch.device("cpu") if is_cuda else value


@contextlib.contextmanager
def _replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
