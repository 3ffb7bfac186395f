"""The keeper of one box: it runs outside, creates the box, waits for its end and cleans up.

It sends its client on the channel: `group` with the freezer's descriptors, `built` for each worker,
`fault`, `status`, and at the end `over`. It receives `end`, `usage`, or the end of the channel,
which means that the client is gone, and ends the box.
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

from harness.sandbox import linux
from harness.sandbox.box import (
    WORKER_UID,
    BoxSpec,
    close_descriptors,
    describe_error,
    receive_message,
    send_message,
)
from harness.sandbox.cgroup import ControlGroup
from harness.sandbox.host import CgroupParents


class BoxEntry(Protocol):
    """How the first process enters a box. `fault_files` are descriptors that `fault` needs."""

    fault_files: Sequence[int]

    def prepare(self) -> None:
        """Prepare in the keeper, before the first process inside is forked. Raises OSError."""

    def begin(self) -> NoReturn:
        """Run the first process inside, which reports a status or exits with one."""

    def fault(self, code: int) -> str:
        """Return, once the first process has ended, why there never was a box; "" if there was."""


def run_keeper(
    spec: BoxSpec, client: socket.socket, places: CgroupParents, entry: BoxEntry
) -> NoReturn:
    """Run a keeper's whole life, in a fork made for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper = _Keeper(spec, client, entry)
    # The end of the launcher also arrives as SIGTERM.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: keeper.stop())
    try:
        keeper.build(places)
        keeper.watch()
    except Exception as error:  # noqa: BLE001  (whatever it was, the client must hear it)
        keeper.tell({"fault": describe_error(error)})
    keeper.leave()


class _Keeper:
    def __init__(self, spec: BoxSpec, client: socket.socket, entry: BoxEntry) -> None:
        self._spec = spec
        self._entry = entry
        self._client = client
        self._group: ControlGroup | None = None
        self._child = 0
        self._scratch = -1

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message, even if the client may be gone."""
        with contextlib.suppress(OSError):
            send_message(self._client, message)

    def build(self, places: CgroupParents) -> None:
        """Create the groups and start the first process inside them. Raises OSError."""
        linux.become_reaper()
        self._group = ControlGroup(places, self._spec)
        self._send_freezer(self._group)
        self._prepare_scratch()
        self._entry.prepare()
        keeper = os.pidfd_open(os.getpid())
        self._child = os.fork()
        if self._child == 0:
            self._run_first_process(keeper)
        # A socket of the box that is held here would not close with its worker.
        linux.silence_streams()
        linux.keep_descriptors([self._client.fileno(), self._scratch, *self._entry.fault_files])

    def watch(self) -> None:
        """Return when the first process inside has ended."""
        child = os.pidfd_open(self._child)
        poll = select.poll()
        poll.register(child, select.POLLIN)
        poll.register(self._client, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if child in ready:
                os.close(child)
                return
            if not self._handle_message():
                poll.unregister(self._client)

    def empty(self) -> None:
        """Kill everything inside; without a pid namespace, the rest is found after its end."""
        if self._group is not None:
            self._group.kill()
        if self._child:
            linux.kill([self._child])

    def stop(self) -> None:
        """End the box from outside, which is no fault of what runs inside."""
        self.tell({"fault": "the box was ended from outside"})
        self.empty()

    def leave(self) -> NoReturn:
        """Wait until nothing is left, remove the groups, send how it ended, and exit."""
        code = 0
        if self._child:
            _, wait_status = os.waitpid(self._child, 0)
            self._child = 0
            code = os.waitstatus_to_exitcode(wait_status)
        is_empty = linux.end_descendants()
        facts = self._usage_facts()
        if self._group is not None:
            is_empty = self._group.remove() and is_empty
        self._clean_scratch()
        if fault := self._entry.fault(code):
            facts["fault"] = fault
        self.tell({"over": True, "is_empty": is_empty, "code": code, **facts})
        os._exit(0)

    def _run_first_process(self, keeper: int) -> NoReturn:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            linux.die_with_parent(keeper)
            if self._group is not None:
                self._group.join()
            self._entry.begin()
        except Exception as error:  # noqa: BLE001  (whatever it was, the client must hear it)
            self.tell({"fault": describe_error(error)})
        finally:
            os._exit(1)

    def _send_freezer(self, group: ControlGroup) -> None:
        freezer = group.switch()
        if freezer is None:
            send_message(self._client, {"group": 0})
            return
        send_message(self._client, {"group": freezer.version}, freezer.descriptors)
        freezer.close()

    def _handle_message(self) -> bool:
        """Handle one message of the client; False when it is gone, and the box with it."""
        received = receive_message(self._client)
        if received is None:
            self.empty()
            return False
        message, descriptors = received
        close_descriptors(descriptors)
        if "end" in message:
            self.empty()
        elif "usage" in message:
            self.tell(self._usage_facts())
        return True

    def _usage_facts(self) -> dict[str, Any]:
        rusage = resource.getrusage(resource.RUSAGE_CHILDREN)
        usage = {
            "cpu_s": rusage.ru_utime + rusage.ru_stime,
            "peak_memory_mib": rusage.ru_maxrss / 1024,
        }
        memory_kill = ""
        if self._group is not None:
            usage |= self._group.usage()
            memory_kill = self._group.memory_kill()
        return {"usage": usage, "memory_kill": memory_kill}

    def _prepare_scratch(self) -> None:
        """Give the worker its folder. Raises OSError unless it is an empty folder."""
        if self._spec.has_namespaces:
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        self._scratch = os.open(self._spec.scratch, flags)
        if os.listdir(self._scratch):  # noqa: PTH208  (a descriptor, not a path)
            raise OSError(f"{self._spec.scratch} is not empty")
        if "uid" in self._spec.walls:
            os.fchown(self._scratch, WORKER_UID, WORKER_UID)

    def _clean_scratch(self) -> None:
        """Leave the folder empty for its owner, who could not remove another user's files."""
        if self._scratch < 0:
            return
        for name in os.listdir(self._scratch):  # noqa: PTH208  (a descriptor, not a path)
            with contextlib.suppress(NotADirectoryError):
                shutil.rmtree(name, ignore_errors=True, dir_fd=self._scratch)
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._scratch)
