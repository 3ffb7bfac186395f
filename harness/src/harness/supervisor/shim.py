"""The author's code of a GPU problem on the cpu device: `device='cuda'` means the processor there.

What is mapped: devices by name or number in every function of torch that takes one, `.cuda()`,
torch.Generator, and waiting for a GPU, which is nothing. What is not: streams, events, properties
of a GPU, Triton. Submissions get none of this: theirs is another process.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.problem import Problem

_WAITS = ("synchronize", "empty_cache", "reset_peak_memory_stats", "set_device")


def means_cuda(problem: Problem) -> bool:
    """Whether the author's code may speak of CUDA; all other code runs as it is."""
    names = [name for name in problem.files if name.endswith(".py")]
    return any(b"cuda" in Path(problem.folder, name).read_bytes() for name in names)


def here() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """What makes contexts within which CUDA is the processor."""
    torch: Any = importlib.import_module("torch")
    mode = _mode(torch)
    generator = _generator(torch)

    @contextlib.contextmanager
    def within() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_replaced(torch, "Generator", generator))
            for name in _WAITS:
                stack.enter_context(_replaced(torch.cuda, name, _nothing()))
            stack.enter_context(mode())
            yield

    return within


def _mode(torch: Any) -> Any:
    """A mode of torch, through which all its functions are called."""

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
            given = [_here(torch, one) for one in args]
            named = {key: _here(torch, one) for key, one in (kwargs or {}).items()}
            named.pop("pin_memory", None)
            answer = function(*given, **named)
            # A move makes a copy, which may be written to alone.
            moved = function is torch.Tensor.to and answer is args[0]
            return answer.clone() if moved and _speaks(torch, args, kwargs) else answer

    return OnProcessor


def _speaks(torch: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> bool:
    """Whether a CUDA device is among the arguments."""
    return any(_here(torch, one) is not one for one in (*args[1:], *(kwargs or {}).values()))


def _here(torch: Any, value: Any) -> Any:
    """An argument, the processor if it is a CUDA device."""
    if type(value) is str:
        return "cpu" if value == "cuda" or value.startswith("cuda:") else value
    is_cuda = isinstance(value, torch.device) and value.type == "cuda"
    return torch.device("cpu") if is_cuda else value


def _generator(torch: Any) -> Any:
    class Generator(torch.Generator):  # type: ignore[misc]  # looked up
        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, device=_here(torch, device))

    return Generator


def _nothing() -> Callable[..., None]:
    """A function of its own each time: torch keeps a table of its functions, by identity."""
    return lambda *_args, **_named: None


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
