"""The ranks of an author's code at once, so that its collectives find each other.

A run has no network, not even a loopback: its system calls make no sockets. So the ranks are
threads of one process, and their default process group is the one by which torch tests its own
distributed code. A submission's ranks are processes in a box with a loopback, and use gloo or NCCL.
"""

import importlib
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from harness.problem import Problem, ProblemFault

T = TypeVar("T")

_SPEAKS = re.compile(rb"torch\.distributed|from torch import .*\bdistributed\b")
_TICK_S = 0.05
_GROUPS = "torch.testing._internal.distributed.multi_threaded_pg"


def speaks(problem: Problem) -> bool:
    """Whether the author's code may speak to its other ranks; all other code runs rank by rank."""
    names = [name for name in problem.files if name.endswith(".py")]
    found = (Path(problem.folder, name).read_bytes() for name in names if name != "eval.py")
    return any(_SPEAKS.search(text) for text in found)


def each(ranks: int, work: Callable[[int], T]) -> list[T]:
    """What the work of each rank gives, all of them in one process group.

    Errors: the first of the lowest rank that failed by itself; the others are told to stop, and so
    are those that wait for one that has ended.
    """
    group = _Group(ranks)
    threads = [
        threading.Thread(target=group.serve, args=(rank, work), daemon=True)
        for rank in range(ranks)
    ]
    with group:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_TICK_S)
                group.end_stuck()
    _raise(group.failed)
    return [group.found[rank] for rank in range(ranks)]


class _Group:
    """Threads that are ranks, what each gave, and why each failed that did."""

    def __init__(self, ranks: int) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._groups: Any = importlib.import_module(_GROUPS)
        self._core: Any = importlib.import_module("torch._C._distributed_c10d")
        self._store = self._torch.distributed.HashStore()
        self._ranks = ranks
        self._ended = 0
        self._lock = threading.Lock()
        self.found: dict[int, Any] = {}
        self.failed: dict[int, BaseException] = {}

    def __enter__(self) -> None:
        # Torch has no public names for any of this.
        self._core._set_thread_isolation_mode(True)  # noqa: SLF001
        self._groups._install_threaded_pg()  # noqa: SLF001
        self._groups.ProcessLocalGroup.reset()

    def __exit__(self, *_: object) -> None:
        self._groups._uninstall_threaded_pg()  # noqa: SLF001
        self._core._set_thread_isolation_mode(False)  # noqa: SLF001

    def end_stuck(self) -> None:
        """Ends ranks that wait for each other, or for one that has ended, and so for ever."""
        groups = self._groups.ProcessLocalGroup
        if groups._terminate.is_set():  # noqa: SLF001
            return
        with self._lock, groups._coll_lock:  # noqa: SLF001
            begun = list(groups._cur_coll_on_pgs.values())  # noqa: SLF001
            counts = [(one._count, one._world_size) for one in begun]  # noqa: SLF001
            living = self._ranks - self._ended
        waiting = sum(count for count, due in counts if count < due)
        if living and waiting == living:
            groups.exception_handle(None)

    def serve(self, rank: int, work: Callable[[int], Any]) -> None:
        """The life of a rank."""
        distributed = self._torch.distributed
        own = {"rank": rank, "world_size": self._ranks, "store": self._store}
        try:
            distributed.init_process_group("threaded", **own)
            self.found[rank] = work(rank)
        except BaseException as error:  # noqa: BLE001  (raised again, by who started the threads)
            self.failed[rank] = error
            self._groups.ProcessLocalGroup.exception_handle(error)
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()
            with self._lock:
                self._ended += 1


def _raise(failed: dict[int, BaseException]) -> None:
    """The first that failed by itself: who is told to stop by another ends with SystemExit."""
    for _, error in sorted(failed.items()):
        if not isinstance(_cause(error), SystemExit):
            raise error
    for error in failed.values():
        reason = "its ranks wait for each other, or for one that has ended"
        raise ProblemFault(f"{error}: {reason}") from error


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ or error
