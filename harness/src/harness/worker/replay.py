"""The program that ncu runs in a box: a submission, and one call of it between two marks.

Its argument is a file with the order that `run_capture` wrote. It is a separate process because ncu
must start what it profiles; its inputs are copies, so it needs no gate and no clock.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.worker.explanations import explain_exception
from harness.worker.memory import AnswerMismatch, SharedCase
from harness.worker.protocol import PROBE_ROLE, SubmissionFailure
from harness.worker.submission import load_submission

_PROBE_FLOATS = 4096

Mark = Callable[[], object]


class CopiedCase(SharedCase):
    """A case whose tensors lie on a device of this process, as copies of the shared memories."""

    def __init__(self, layout: bytes, descriptors: list[int], device: str) -> None:
        self._device = device
        self._pairs: list[tuple[Any, Any]] = []
        super().__init__(layout, descriptors)

    def renew(self) -> None:
        """Restore the memory to its content before the first call."""
        for memory, original in self._pairs:
            memory.copy_(original)

    def _map(self, descriptor: int) -> Any:
        original = super()._map(descriptor)
        self._pairs.append((original.to(self._device, copy=True), original))
        return self._pairs[-1][0]


def replay_call(order: dict[str, Any], begin: Mark, end: Mark) -> None:
    """Call the submission twice: the first call compiles and tunes, the second is marked.

    Raises SubmissionFailure, AnswerMismatch, or whatever the call raises.
    """
    inputs, outputs, *build_results = (os.open(path, os.O_RDWR) for path in order["memories"])
    load = load_submission(Path(order["path"]), order["role"], build_results, order["home"])
    case = CopiedCase(order["layout"].encode(), [inputs, outputs], order["device"])
    call, scalars = load(case), order["scalars"].encode()
    call(scalars)
    case.renew()
    begin()
    call(scalars)
    end()


def launch_probe(torch: Any, device: str, begin: Mark, end: Mark) -> None:
    """Launch a kernel of the platform between the marks, to show whether ncu counts here."""
    values = torch.ones(_PROBE_FLOATS, device=device)
    begin()
    values.add_(1)
    end()


def main() -> None:
    """Replay the call; exit with a message if it fails."""
    order = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    begin, end = _marks(torch, is_cuda=order["device"].startswith("cuda"))
    try:
        if order["role"] == PROBE_ROLE:
            launch_probe(torch, order["device"], begin, end)
        else:
            replay_call(order, begin, end)
    except (AnswerMismatch, SubmissionFailure) as reason:
        sys.exit(str(reason))
    except BaseException as error:  # noqa: BLE001  (the author must be told of any error)
        sys.exit(explain_exception(error, Path(order["path"]), "exception").text)


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
