"""The author's code of a problem: trusted, run in the supervisor, and blamed when it fails."""

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from harness.problem import Case, MemoryShortage, Problem, ProblemFault
from harness.sandbox import host_memory
from harness.supervisor import compare, forms, shim, together
from harness.supervisor.mark import Mark

T = TypeVar("T")

_REFERENCE = "reference"
# What torch and the C++ library say of an allocation that failed.
_SHORTAGE = ("can't allocate memory", "Cannot allocate memory", "bad_alloc", "out of memory")
_ASKED = re.compile(r"tried to allocate (\d+) bytes")


class Author:
    """A problem's generate_input, ref_kernel and check_implementation.

    Errors of each: ProblemFault; MemoryShortage, where an allocation fails.
    """

    def __init__(
        self, problem: Problem, mark: Mark, device: str, native: Callable[[], forms.Functions]
    ) -> None:
        """`mark` says what of the author's code runs, should that be its end or never end.

        On the cpu device code that was written for CUDA computes on the processor. What is written
        in C++ is made by `native`.
        """
        self._mark = mark
        is_moved = device == "cpu" and shim.means_cuda(problem)
        self._within = shim.here() if is_moved else contextlib.nullcontext
        name = "reference.py" if problem.lang == "py" else "reference.cuh"
        with mark.over(name), self._within():
            is_native = problem.lang == "cu"
            made = native() if is_native else forms.functions(problem.form, _load(problem))
        self._functions = made
        self._are_together = together.speaks(problem)

    def data(self, case: Case, seed: int, rank: int = 0) -> Any:
        """A rank's data of a case under a seed, which also sets the global generators."""
        forms.seed(seed)
        args = case.args | {"seed": seed} if "seed" in case.args else case.args
        if case.ranks > 1:
            args = args | {"rank": rank}
        return self._blamed("generate_input", case, lambda: self._functions.generate(**args))

    def answer(self, case: Case, data: Any) -> Any:
        """The reference's answer; it may write to the data."""
        return self._blamed("ref_kernel", case, lambda: self._functions.answer(data))

    def complaint(self, case: Case, data: Any, output: Any) -> str | None:
        """What the problem's own check says of an output, None if nothing is wrong."""
        check = self._functions.check
        said = self._blamed("check_implementation", case, lambda: check(data, output))
        return compare.complaint(said)

    def is_together(self, case: Case) -> bool:
        """Whether the ranks of a case may speak to each other, so that all must do alike."""
        return case.ranks > 1 and self._are_together

    def each(self, case: Case, count: int, work: Callable[[int], T]) -> list[T]:
        """What the work of each rank of a case gives, or of so many of one rank.

        Ranks that speak to each other do it at once. Errors: of the lowest rank that failed.
        """
        if not self.is_together(case):
            return [work(rank) for rank in range(count)]
        # All ranks are one part of the author's code to who looks at how long it takes.
        mark, self._mark = self._mark, Mark()
        try:
            with mark.over(f"the ranks of {case.name}"), self._within():
                return together.each(case.ranks, work)
        finally:
            self._mark = mark

    def _blamed(self, name: str, case: Case, call: Callable[[], Any]) -> Any:
        try:
            with self._mark.over(f"{name} on {case.name}"), self._within():
                return call()
        except BaseException as error:
            if is_shortage(error):
                raise MemoryShortage(f"{name} on {case.name} {_shortage(error)}") from error
            raise ProblemFault(f"{name} failed on {case.name}: {_told(error)}") from error


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that there was no memory left."""
    return isinstance(error, MemoryError | MemoryShortage) or any(
        one in _told(error) for one in _SHORTAGE
    )


def _shortage(error: BaseException) -> str:
    """What was asked for by the allocation that failed, where torch says it, and what there is."""
    asked = _ASKED.search(_told(error))
    size = host_memory.gib_text(int(asked[1]), is_need=True) if asked else "some"
    limit = host_memory.private_bytes_max()
    if limit is None:
        return f"needs {size} of memory more than this machine offers"
    used = host_memory.gib_text(host_memory.private_bytes(), is_need=False)
    offered = host_memory.gib_text(limit, is_need=False)
    return f"needs {size} of memory more, beside {used} of the {offered} that its process may use"


@contextlib.contextmanager
def at(place: str) -> Iterator[None]:
    """Within it `get_device()` stands for the device at this place."""
    if place == "cpu":
        yield
        return
    torch: Any = importlib.import_module("torch")
    with torch.cuda.device(place):
        yield


def _load(problem: Problem) -> ModuleType:
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(problem.folder))
    if "utils.py" not in problem.files:
        sys.modules["utils"] = importlib.import_module("harness.supervisor.utilities")
    try:
        return importlib.import_module(_REFERENCE)
    except BaseException as error:
        raise ProblemFault(f"reference.py cannot be imported: {_told(error)}") from error


def _told(error: BaseException) -> str:
    """An error as text, which may be of a class of the author's."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  (whatever it was, the error is still to be told)
        return type(error).__name__
