"""The ranks of an author's code at once, so that its collectives find each other.

A run has no network, not even a loopback: its system calls make no sockets. So the ranks are
threads of one process, and their default process group is the one by which torch tests its own
distributed code. A submission's ranks are processes in a box with a loopback, and use gloo or NCCL.
"""

import importlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from harness.problem import Problem

T = TypeVar("T")

_GROUPS = "torch.testing._internal.distributed.multi_threaded_pg"


def speaks(problem: Problem) -> bool:
    """Whether the author's code may speak to its other ranks; all other code runs rank by rank."""
    names = [name for name in problem.files if name.endswith(".py")]
    found = (Path(problem.folder, name).read_bytes() for name in names if name != "eval.py")
    return any(b"torch.distributed" in text for text in found)


def each(ranks: int, work: Callable[[int], T]) -> list[T]:
    """What the work of each rank gives, all of them in one process group.

    Errors: the first of the lowest rank that failed by itself; the others are told to stop.
    """
    torch: Any = importlib.import_module("torch")
    groups: Any = importlib.import_module(_GROUPS)
    store = torch.distributed.HashStore()
    found: dict[int, T] = {}
    failed: dict[int, BaseException] = {}
    local = groups.ProcessLocalGroup

    def serve(rank: int) -> None:
        distributed = torch.distributed
        try:
            distributed.init_process_group("threaded", rank=rank, world_size=ranks, store=store)
            found[rank] = work(rank)
        except BaseException as error:  # noqa: BLE001  (raised again, by who started the threads)
            failed[rank] = error
            local.exception_handle(error)

    groups._install_threaded_pg()  # noqa: SLF001  (torch has no public name for it)
    local.reset()
    try:
        threads = [
            threading.Thread(target=serve, args=(rank,), daemon=True) for rank in range(ranks)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        groups._uninstall_threaded_pg()  # noqa: SLF001
    _raise(failed)
    return [found[rank] for rank in range(ranks)]


def _raise(failed: dict[int, BaseException]) -> None:
    """The first that failed by itself: who is told to stop by another ends with SystemExit."""
    own = [one for _, one in sorted(failed.items()) if not isinstance(_cause(one), SystemExit)]
    for error in own or failed.values():
        raise error


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ or error
