"""The keeper of one box: outside of it, it makes it, waits for its end and removes its traces.

What it tells its client on the channel: `group` with the freezer's descriptors, `built` from each
worker, `fault`, `status`, and at the end `over`. What it is told: `end`, `usage`, or nothing more,
which means that the client is gone and the box with it.
"""

import contextlib
import os
import resource
import select
import shutil
import signal
import socket
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from harness.sandbox import channel, linux, processes
from harness.sandbox.cgroup import Group
from harness.sandbox.cgroup_places import Places
from harness.sandbox.spec import WORKER_UID, Spec


class Way(Protocol):
    """A way into a box. `kept` are the descriptors that the keeper needs for `fault`."""

    kept: Sequence[int]

    def prepare(self) -> None:
        """In the keeper, before the first process inside is forked. Errors: OSError."""

    def begin(self) -> NoReturn:
        """In the first process inside, which tells a status or leaves with one."""

    def fault(self, code: int) -> str:
        """In the keeper, once the first process left: why the box never was one; "" if it was."""


def keep(spec: Spec, client: socket.socket, places: Places, way: Way) -> NoReturn:
    """A keeper's whole life, in a fork made for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper = _Keeper(spec, client, way)
    # An end of the launcher comes as SIGTERM too.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: keeper.stop())
    try:
        keeper.build(places)
        keeper.watch()
    except Exception as error:  # noqa: BLE001  (whatever it was, the client must hear it)
        keeper.tell({"fault": channel.worded(error)})
    keeper.leave()


class _Keeper:
    def __init__(self, spec: Spec, client: socket.socket, way: Way) -> None:
        self._spec = spec
        self._way = way
        self._client = client
        self._group: Group | None = None
        self._child = 0
        self._scratch = -1

    def tell(self, message: dict[str, Any]) -> None:
        """Says it, whether or not the client is still there to hear it."""
        with contextlib.suppress(OSError):
            channel.tell(self._client, message)

    def build(self, places: Places) -> None:
        """Makes the groups and starts the first process inside them. Errors: OSError."""
        linux.become_reaper()
        self._group = Group(places, self._spec)
        self._show_switch(self._group)
        self._lend_scratch()
        self._way.prepare()
        keeper = os.pidfd_open(os.getpid())
        self._child = os.fork()
        if self._child == 0:
            self._begin(keeper)
        self._forget()

    def watch(self) -> None:
        """Returns when the first process inside has ended."""
        child = os.pidfd_open(self._child)
        poll = select.poll()
        poll.register(child, select.POLLIN)
        poll.register(self._client, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if child in ready:
                os.close(child)
                return
            if not self._answer():
                poll.unregister(self._client)

    def empty(self) -> None:
        """Kills all that is inside; those without a pid namespace are found once it is dead."""
        if self._group is not None:
            self._group.kill()
        if self._child:
            processes.kill([self._child])

    def stop(self) -> None:
        """An end from outside, which is no fault of what runs inside."""
        self.tell({"fault": "the box was ended from outside"})
        self.empty()

    def leave(self) -> NoReturn:
        """Waits until nothing is left, removes the groups, says how it was, and ends."""
        code = 0
        if self._child:
            _, ended = os.waitpid(self._child, 0)
            self._child = 0
            code = os.waitstatus_to_exitcode(ended)
        is_empty = processes.end_descendants()
        facts = self._facts()
        if self._group is not None:
            is_empty = self._group.remove() and is_empty
        self._clean_scratch()
        if fault := self._way.fault(code):
            facts["fault"] = fault
        self.tell({"over": True, "is_empty": is_empty, "code": code, **facts})
        os._exit(0)

    def _forget(self) -> None:
        """Lets go of what the box was given: a socket held here would not close with its worker."""
        linux.silence_streams()
        linux.keep_descriptors([self._client.fileno(), self._scratch, *self._way.kept])

    def _begin(self, keeper: int) -> NoReturn:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            linux.die_with(keeper)
            if self._group is not None:
                self._group.join()
            self._way.begin()
        except Exception as error:  # noqa: BLE001  (whatever it was, the client must hear it)
            self.tell({"fault": channel.worded(error)})
        finally:
            os._exit(1)

    def _show_switch(self, group: Group) -> None:
        switch = group.switch()
        if switch is None:
            channel.tell(self._client, {"group": 0})
            return
        channel.tell(self._client, {"group": switch.version}, switch.descriptors)
        switch.close()

    def _answer(self) -> bool:
        """One message of the client; False when it is gone, and the box with it."""
        heard = channel.hear(self._client)
        if heard is None:
            self.empty()
            return False
        message, descriptors = heard
        channel.close_all(descriptors)
        if "end" in message:
            self.empty()
        elif "usage" in message:
            self.tell(self._facts())
        return True

    def _facts(self) -> dict[str, Any]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        usage = {"cpu_s": used.ru_utime + used.ru_stime, "peak_memory_mib": used.ru_maxrss / 1024}
        memory_kill = ""
        if self._group is not None:
            usage |= self._group.usage()
            memory_kill = self._group.memory_kill()
        return {"usage": usage, "memory_kill": memory_kill}

    def _lend_scratch(self) -> None:
        """Errors: OSError, unless it is an empty folder: nothing else is ours to give or clear."""
        if self._spec.has_namespaces:
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        self._scratch = os.open(self._spec.scratch, flags)
        if _names(self._scratch):
            raise OSError(f"{self._spec.scratch} is not empty")
        if "uid" in self._spec.walls:
            os.fchown(self._scratch, WORKER_UID, WORKER_UID)

    def _clean_scratch(self) -> None:
        """Leaves it to its maker empty: another user's files would not be theirs to remove."""
        if self._scratch < 0:
            return
        for name in _names(self._scratch):
            with contextlib.suppress(NotADirectoryError):
                shutil.rmtree(name, ignore_errors=True, dir_fd=self._scratch)
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._scratch)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]
