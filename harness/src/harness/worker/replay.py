"""The program that ncu runs in a box: a submission, and one call of it between two marks.

Its argument is a file with the order that `capture` wrote. It is a process of its own because ncu
must start what it profiles; its inputs are copied, so no gate and no clock is in its way.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.worker.build import Unusable, failure
from harness.worker.loading import loaded
from harness.worker.memory import Mismatch, SharedCase

Mark = Callable[[], object]


class CopiedCase(SharedCase):
    """A case whose tensors lie on a device of this process, as copies of the shared memories."""

    def __init__(self, layout: bytes, descriptors: list[int], device: str) -> None:
        self._device = device
        self._pairs: list[tuple[Any, Any]] = []
        super().__init__(layout, descriptors)

    def renew(self) -> None:
        """Everything is as it was before the first call, in the same memory."""
        for memory, kept in self._pairs:
            memory.copy_(kept)

    def _map(self, descriptor: int) -> Any:
        kept = super()._map(descriptor)
        self._pairs.append((kept.to(self._device, copy=True), kept))
        return self._pairs[-1][0]


def replay(order: dict[str, Any], begin: Mark, end: Mark) -> None:
    """Calls the submission twice: the first call compiles and tunes, the second is marked.

    Errors: Unusable, Mismatch, or whatever the call raises.
    """
    inputs, outputs, *built = (os.open(path, os.O_RDWR) for path in order["memories"])
    load = loaded(Path(order["path"]), order["wish"], built, order["cache"])
    case = CopiedCase(order["layout"].encode(), [inputs, outputs], order["device"])
    call, scalars = load(case), order["scalars"].encode()
    call(scalars)
    case.renew()
    begin()
    call(scalars)
    end()


def main() -> None:
    """Exits with a sentence if the call fails."""
    order = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    begin, end = _marks(torch, is_cuda=order["device"].startswith("cuda"))
    try:
        replay(order, begin, end)
    except (Mismatch, Unusable) as reason:
        sys.exit(str(reason))
    except BaseException as error:  # noqa: BLE001  (whatever it was, its author must hear it)
        sys.exit(failure(error, Path(order["path"]), "exception").text)


def _marks(torch: Any, *, is_cuda: bool) -> tuple[Mark, Mark]:
    if not is_cuda:
        return lambda: None, lambda: None

    def begin() -> None:
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()

    def end() -> None:
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()

    return begin, end


if __name__ == "__main__":
    main()
