"""The problem author's code: trusted, run by the supervisor's fork, and blamed when it fails.

Ranks run at once, so that collectives find each other. A run has no network, not even a loopback,
and its system call filter creates no sockets. So the ranks are threads of one process, with the
process group that torch uses to test its own distributed code. A submission's ranks are processes
in a box with a loopback, and use gloo or NCCL.
"""

import contextlib
import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from harness.check import forms
from harness.check.processor import map_cuda_to_cpu
from harness.problem import (
    AuthorActivity,
    Case,
    MemoryShortage,
    Problem,
    ProblemFault,
    uses_collectives,
)
from harness.sandbox import host

T = TypeVar("T")

_REFERENCE = "reference"
# How torch and the C++ library report a failed allocation.
_SHORTAGE = ("can't allocate memory", "Cannot allocate memory", "bad_alloc", "out of memory")
_ALLOCATION_SIZE = re.compile(r"tried to allocate (\d+) bytes")

_JOIN_S = 0.05
_THREADED_GROUP_MODULE = "torch.testing._internal.distributed.multi_threaded_pg"


class AuthorCode:
    """A problem's generate_input, ref_kernel and check_implementation.

    Every call raises ProblemFault if the code fails, MemoryShortage if an allocation fails.
    """

    def __init__(
        self,
        problem: Problem,
        mark: AuthorActivity,
        device: str,
        native: Callable[[], forms.ProblemFunctions],
    ) -> None:
        """Load the author's code; `mark` records which part of it is running.

        On the cpu device, code written for CUDA computes on the processor. `native` builds the
        functions of a problem written in C++.
        """
        self._mark = mark
        is_moved = device == "cpu" and mentions_cuda(problem)
        self._context = map_cuda_to_cpu() if is_moved else contextlib.nullcontext
        is_native = problem.lang == "cu"
        with mark.over("reference.cuh" if is_native else "reference.py"), self._context():
            self._functions = (
                native()
                if is_native
                else forms.load_functions(problem.form, _load_reference(problem))
            )
        self._uses_collectives = uses_collectives(problem)

    def data(self, case: Case, seed: int, rank: int = 0) -> Any:
        """Generate the data of a case for one rank; also seed the global generators."""
        forms.seed_generators(seed)
        args = case.args | {"seed": seed} if "seed" in case.args else case.args
        if case.ranks > 1:
            args = args | {"rank": rank}
        generate = self._functions.generate
        return self._call_author_code("generate_input", case, lambda: generate(**args))

    def answer(self, case: Case, data: Any) -> Any:
        """Return the reference's answer; the reference may write to the data."""
        return self._call_author_code("ref_kernel", case, lambda: self._functions.answer(data))

    def complaint(self, case: Case, data: Any, output: Any) -> str | None:
        """Return what the problem's check says is wrong with an output, None if it is right."""
        check = self._functions.check
        result = self._call_author_code("check_implementation", case, lambda: check(data, output))
        return parse_check_result(result)

    def is_together(self, case: Case) -> bool:
        """Return whether the ranks of a case communicate, so that all must run at once."""
        return case.ranks > 1 and self._uses_collectives

    def each(self, case: Case, count: int, work: Callable[[int], T]) -> list[T]:
        """Run `work` for each of `count` ranks and return the results.

        Ranks that communicate run at the same time. Raises the error of the lowest failed rank.
        """
        if not self.is_together(case):
            return [work(rank) for rank in range(count)]
        # The time limit treats all ranks as one part of the author's code.
        mark, self._mark = self._mark, AuthorActivity()
        try:
            with mark.over(f"the ranks of {case.name}"), self._context():
                return run_ranks(case.ranks, work)
        finally:
            self._mark = mark

    def _call_author_code(self, name: str, case: Case, call: Callable[[], Any]) -> Any:
        try:
            with self._mark.over(f"{name} on {case.name}"), self._context():
                return call()
        except BaseException as error:
            if is_memory_shortage(error):
                reason = f"{name} on {case.name} {_describe_shortage(error)}"
                raise MemoryShortage(reason) from error
            raise ProblemFault(f"{name} failed on {case.name}: {_error_text(error)}") from error


def is_memory_shortage(error: BaseException) -> bool:
    """Return whether an error means that no memory was left."""
    return isinstance(error, MemoryError | MemoryShortage) or any(
        phrase in _error_text(error) for phrase in _SHORTAGE
    )


def _describe_shortage(error: BaseException) -> str:
    """Describe the failed allocation: its size, if torch tells it, and what is available."""
    allocation = _ALLOCATION_SIZE.search(_error_text(error))
    size = host.format_gib(int(allocation[1]), is_need=True) if allocation else "some"
    limit = host.private_bytes_max()
    if limit is None:
        return f"needs {size} more memory than this machine offers"
    used = host.format_gib(host.private_bytes(), is_need=False)
    offered = host.format_gib(limit, is_need=False)
    return f"needs {size} more memory; its process already uses {used} of {offered}"


@contextlib.contextmanager
def on_device(place: str) -> Iterator[None]:
    """Make `get_device()` return the device at this place within the context."""
    if place == "cpu":
        yield
        return
    torch: Any = importlib.import_module("torch")
    with torch.cuda.device(place):
        yield


def _load_reference(problem: Problem) -> ModuleType:
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(problem.folder))
    if "utils.py" not in problem.files:
        sys.modules["utils"] = importlib.import_module("harness.check.utilities")
    try:
        return importlib.import_module(_REFERENCE)
    except BaseException as error:
        raise ProblemFault(f"reference.py cannot be imported: {_error_text(error)}") from error


def _error_text(error: BaseException) -> str:
    """Return an error as text; its class may be the author's own."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  (a failing __repr__ must not hide the error)
        return type(error).__name__


def parse_check_result(result: Any) -> str | None:
    """Return the message of a check_implementation result, None if the output is right.

    Accepts the forms that public problems use. Raises ProblemFault for anything but a bool, also
    torch's or numpy's, a string, a list of strings, or (bool, string).
    """
    is_pair = isinstance(result, tuple) and len(result) == 2
    verdict = _as_bool(result[0] if is_pair else result)
    if verdict is None:
        return _check_result_text(result) or None
    if verdict:
        return None
    return (_check_result_text(result[1]) if is_pair else "") or "the output is wrong"


def _as_bool(value: Any) -> bool | None:
    """Return a bool, also if it is a tensor or a numpy scalar; None for anything else."""
    if isinstance(value, bool):
        return value
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return None
    item = value.item()
    return item if isinstance(item, bool) else None


def _check_result_text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, list) and all(isinstance(line, str) for line in result):
        return "\n".join(result)
    form = "a bool, a string, a list of strings, or a pair of bool and string"
    raise ProblemFault(f"check_implementation returned {result!r:.200}, expected {form}")


def run_ranks(ranks: int, work: Callable[[int], T]) -> list[T]:
    """Run `work` for each rank, all in one process group, and return the results.

    Raises the error of the lowest rank that failed by itself; the others are stopped, and so are
    ranks that wait for one that has ended.
    """
    group = _RankThreads(ranks)
    threads = [
        threading.Thread(target=group.serve, args=(rank, work), daemon=True)
        for rank in range(ranks)
    ]
    with group:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_JOIN_S)
                group.end_stuck()
    _raise_first(group.errors)
    return [group.results[rank] for rank in range(ranks)]


class _RankThreads:
    """Threads that are ranks, with the result of each, or its error."""

    def __init__(self, ranks: int) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._groups: Any = importlib.import_module(_THREADED_GROUP_MODULE)
        self._core: Any = importlib.import_module("torch._C._distributed_c10d")
        self._store = self._torch.distributed.HashStore()
        self._ranks = ranks
        self._ended = 0
        self._lock = threading.Lock()
        self.results: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}

    def __enter__(self) -> None:
        # Torch has no public names for these.
        self._core._set_thread_isolation_mode(True)  # noqa: SLF001
        self._groups._install_threaded_pg()  # noqa: SLF001
        self._groups.ProcessLocalGroup.reset()

    def __exit__(self, *_: object) -> None:
        self._groups._uninstall_threaded_pg()  # noqa: SLF001
        self._core._set_thread_isolation_mode(False)  # noqa: SLF001

    def end_stuck(self) -> None:
        """End ranks that wait for each other, or for one that has ended."""
        groups = self._groups.ProcessLocalGroup
        if groups._terminate.is_set():  # noqa: SLF001
            return
        with self._lock, groups._coll_lock:  # noqa: SLF001
            collectives = list(groups._cur_coll_on_pgs.values())  # noqa: SLF001
            counts = [(collective._count, collective._world_size) for collective in collectives]  # noqa: SLF001
            living = self._ranks - self._ended
        waiting = sum(count for count, expected in counts if count < expected)
        if living and waiting == living:
            groups.exception_handle(None)

    def serve(self, rank: int, work: Callable[[int], Any]) -> None:
        """Run one rank."""
        distributed = self._torch.distributed
        group_options = {"rank": rank, "world_size": self._ranks, "store": self._store}
        try:
            distributed.init_process_group("threaded", **group_options)
            self.results[rank] = work(rank)
        except BaseException as error:  # noqa: BLE001  (raised by run_ranks)
            self.errors[rank] = error
            self._groups.ProcessLocalGroup.exception_handle(error)
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()
            with self._lock:
                self._ended += 1


def _raise_first(errors: dict[int, BaseException]) -> None:
    """Raise the first error that is a rank's own; a rank that is stopped ends with SystemExit."""
    for _, error in sorted(errors.items()):
        if not isinstance(error.__cause__ or error, SystemExit):
            raise error
    for error in errors.values():
        reason = "its ranks wait for each other, or for one that has ended"
        raise ProblemFault(f"{error}: {reason}") from error


def mentions_cuda(problem: Problem) -> bool:
    """Return whether the author's code mentions CUDA; other code runs unchanged."""
    return any(b"cuda" in path.read_bytes() for path in problem.modules)
