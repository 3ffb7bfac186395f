"""Tensors that nobody wrote to, with a known content: so it shows what depends on that content."""

import contextlib
import importlib
import sys
from collections.abc import Mapping
from typing import Any

# Small numbers and large ones, neither of which is NaN in any dtype.
ZEROS, ONES = 0x00, 0x3F

_NAMES = (
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
)


def filled(byte: int) -> contextlib.AbstractContextManager[Any]:
    """Within it torch fills with this byte what it would leave uninitialised.

    A bool holds the lowest bit. Memory from elsewhere, such as numpy's, is left as it is.
    """
    torch: Any = importlib.import_module("torch")
    modes: Any = importlib.import_module("torch.utils._python_dispatch")
    functions = [getattr(torch.ops.aten, name) for name in _NAMES]

    class Filled(modes.TorchDispatchMode):  # type: ignore[misc]  # looked up
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Otherwise torch loads its compiler with 800 modules, 0.8 s in each fork."""
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(
            self,
            function: Any,
            _types: Any,
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            answer = function(*args, **(kwargs or {}))
            if function.overloadpacket in functions and answer.layout is torch.strided:
                is_bool = answer.dtype is torch.bool
                memory = torch.empty(0, dtype=torch.uint8, device=answer.device)
                memory.set_(answer.untyped_storage())
                memory.fill_(byte & 1 if is_bool else byte)
            return answer

    mode: contextlib.AbstractContextManager[Any] = Filled()
    return mode
