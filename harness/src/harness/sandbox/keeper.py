"""The keeper of one box: it runs outside, creates the box, waits for its end and cleans up.

It sends its client on the channel: `group` with the freezer's descriptors, `built` for each worker,
`fault`, `status`, and at the end `over`. It receives `end`, `usage`, or the end of the channel,
which means that the client is gone, and ends the box.

The box's control groups give it limits, a freezer, resource usage and a reliable kill. The freezer
works through files that are already open, in microseconds.
"""

import contextlib
import os
import resource
import select
import shutil
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol

from harness.sandbox import linux
from harness.sandbox.box import (
    WORKER_UID,
    BoxSpec,
    Limits,
    close_descriptors,
    describe_error,
    receive_message,
    send_message,
    spec_from_json,
)
from harness.sandbox.host import PREFIX, CgroupParents

FREEZE_S_MAX = 5.0

# What lists of processes call the keeper of a spare box.
SPARE_NAME = "spare-box"
_STATE_BYTES_MAX = 128

_REMOVE_S_MAX = 5.0
_PAUSE_S = 0.001
_FREEZE_SPIN_S, _FREEZE_PAUSE_S = 0.0001, 0.00005
_MIB = 1024**2
# Memory is charged to a group several pages at a time.
_CHARGE_BYTES = _MIB
MemoryKill = Literal["", "box", "machine"]
# v1 counts in shares; the default is 1024.
_SHARES_OF_WEIGHT = 10


# By version: what freezes and thaws, and what a freezer reports when everything is frozen.
_FREEZER_WORDS = {1: (b"FROZEN", b"THAWED", b"FROZEN\n"), 2: (b"1", b"0", b"frozen 1")}


@dataclass(frozen=True)
class Freezer:
    """The open files of a freezer of control groups v1 or v2: one to write, one to read.

    `spent` is the file of the group's CPU time, in v2 only. A group that no longer exists holds
    nothing that could run, so it counts as frozen.
    """

    version: int
    write: int
    read: int
    spent: int = -1

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open files, in the order of the fields."""
        return tuple(file for file in (self.write, self.read, self.spent) if file >= 0)

    def freeze(self) -> bool:
        """Freeze everything in the group; False if something still runs."""
        command, _, frozen = _FREEZER_WORDS[self.version]
        try:
            os.pwrite(self.write, command, 0)
        except OSError:
            return True
        ends_at = 0.0
        with contextlib.suppress(OSError):
            while frozen not in os.pread(self.read, _STATE_BYTES_MAX, 0):
                now = time.monotonic()
                ends_at = ends_at or now + FREEZE_S_MAX
                if now > ends_at:
                    return False
                # A process that waits for a core freezes once it has one, perhaps this one.
                if now > ends_at - FREEZE_S_MAX + _FREEZE_SPIN_S:
                    time.sleep(_FREEZE_PAUSE_S)
        return True

    def thaw(self) -> None:
        """Let everything in the group run again."""
        _, command, _ = _FREEZER_WORDS[self.version]
        with contextlib.suppress(OSError):
            os.pwrite(self.write, command, 0)

    def close(self) -> None:
        """Close the files without changing the group."""
        for descriptor in self.descriptors:
            os.close(descriptor)

    def cpu_us(self) -> int | None:
        """Return the CPU microseconds of the group, if they are counted."""
        if self.spent < 0:
            return None
        try:
            return int(os.pread(self.spent, _STATE_BYTES_MAX, 0).split(maxsplit=2)[1])
        except (IndexError, OSError, ValueError):
            return None


class ControlGroup:
    """A box's groups, one folder per hierarchy; the process that creates it is its owner.

    Those of a spare box limit no memory and no processes before `limit` is called.
    """

    def __init__(self, places: CgroupParents, spec: BoxSpec, *, is_spare: bool = False) -> None:
        """Raises OSError if a group cannot be created or limited."""
        self._walls = spec.walls
        self._places = places
        name = f"{_prefix()}{os.getpid()}-{linux.started_at(os.getpid())}"
        self._folders = {"": Path(places.unified) / name} if places.unified else {}
        for controller, parent in places.separate.items():
            if controller in spec.walls or (controller in ("cpu", "cpuset") and self._has_limits):
                self._folders[controller] = Path(parent) / name
        try:
            for folder in self._folders.values():
                folder.mkdir()
            if self._has_limits:
                self._set_cpu_share(places, spec)
            if not is_spare:
                self.limit(spec.limits)
        except OSError:
            self.remove()
            raise

    @property
    def _has_limits(self) -> bool:
        return "memory" in self._walls or "pids" in self._walls

    def switch(self) -> Freezer | None:
        """Open the freezer's files, for a process that may not open them itself."""
        if "freezer" not in self._walls:
            return None
        read, write = os.O_RDONLY | os.O_CLOEXEC, os.O_WRONLY | os.O_CLOEXEC
        if folder := self._folders.get(""):
            freeze = os.open(folder / "cgroup.freeze", write)
            cpu_stat = os.open(folder / "cpu.stat", read)
            return Freezer(2, freeze, os.open(folder / "cgroup.events", read), cpu_stat)
        state = self._folders["freezer"] / "freezer.state"
        return Freezer(1, os.open(state, write), os.open(state, read))

    def limit(self, limits: Limits) -> None:
        """Set the limits of the groups. Raises OSError."""
        self._set_limits(self._places, limits)

    def join(self) -> None:
        """Put this process, and everything it starts, into the groups."""
        for folder in self._folders.values():
            (folder / "cgroup.procs").write_text("0")

    def kill(self) -> None:
        """Kill everything inside, frozen or not, as far as this kernel can."""
        for folder in self._folders.values():
            kill_members(folder)

    def memory_kill(self) -> MemoryKill:
        """Return whether the kernel killed a process for memory, and whose limit was reached."""
        folder = self._folders.get("memory") or self._folders.get("")
        if folder is None:
            return ""
        files = ("memory.events", "memory.oom_control")
        if not any(_read_number(folder / file, "oom_kill") for file in files):
            return ""
        if (folder / files[0]).exists():
            return "box" if _read_number(folder / files[0], "oom") else "machine"
        # v1 does not count how often a group reached its limit.
        peak = _read_number(folder / "memory.max_usage_in_bytes", "")
        limit = _read_number(folder / "memory.limit_in_bytes", "")
        return "box" if peak + _CHARGE_BYTES >= limit else "machine"

    def usage(self) -> dict[str, float]:
        """Return CPU seconds and peak memory, where the kernel counts them."""
        usage = {}
        if "" in self._folders:
            usage["cpu_s"] = _read_number(self._folders[""] / "cpu.stat", "usage_usec") / 1e6
        memory = self._folders.get("memory") or self._folders.get("")
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            if memory is not None and (bytes_max := _read_number(memory / file, "")):
                usage["peak_memory_mib"] = bytes_max / _MIB
        return usage

    def forget_files(self) -> None:
        """Free the kernel's memory of files that only the processes inside have used.

        That is what nobody else had read or looked for before; a later box could find out what it
        was from how long it takes. The kernel charges it to the memory of the group.
        """
        folder = self._folders.get("memory") or self._folders.get("")
        if folder is None:
            return
        # v1 frees what it can. v2 frees what it is asked for, and fails if there is less to free.
        used = _read_number(folder / "memory.current", "")
        for file, value in (("memory.force_empty", 0), ("memory.reclaim", used)):
            if (folder / file).exists():
                with contextlib.suppress(OSError):
                    (folder / file).write_text(str(value))

    def remove(self) -> bool:
        """Remove the folders; False if a process is still inside."""
        ends_at = time.monotonic() + _REMOVE_S_MAX
        removed = [_remove_folder(folder, ends_at) for folder in self._folders.values()]
        return all(removed)

    def _set_limits(self, places: CgroupParents, limits: Limits) -> None:
        if "memory" in self._walls:
            if "memory" in places.controllers:
                self._write("", "memory.max", limits.memory_bytes)
                self._write("", "memory.swap.max", 0, is_optional=True)
                self._write("", "memory.oom.group", 1, is_optional=True)
            else:
                self._write("memory", "memory.limit_in_bytes", limits.memory_bytes)
                # Counts memory and swap together, where swap is counted.
                name = "memory.memsw.limit_in_bytes"
                self._write("memory", name, limits.memory_bytes, is_optional=True)
        if "pids" in self._walls:
            controller = "" if "pids" in places.controllers else "pids"
            self._write(controller, "pids.max", limits.processes_max)

    def _set_cpu_share(self, places: CgroupParents, spec: BoxSpec) -> None:
        """Restrict the box to its cores, and to its share of cores that it shares."""
        weight, cores = spec.limits.cpu_weight, ",".join(map(str, spec.cores))
        if "cpu" in places.controllers:
            self._write("", "cpu.weight", weight)
        elif "cpu" in self._folders:
            self._write("cpu", "cpu.shares", weight * _SHARES_OF_WEIGHT)
        if "cpuset" in places.controllers and cores:
            self._write("", "cpuset.cpus", cores)
        elif "cpuset" in self._folders:
            # In v1 both are empty in a new group, and then nothing may join it.
            parent = self._folders["cpuset"].parent
            for file, value in (("cpuset.cpus", cores), ("cpuset.mems", "")):
                self._write("cpuset", file, value or (parent / file).read_text().strip())

    def _write(
        self, controller: str, file: str, value: int | str, *, is_optional: bool = False
    ) -> None:
        if controller not in self._folders:
            raise OSError(f"no control group can limit {file}")
        path = self._folders[controller] / file
        if is_optional and not path.exists():
            return
        path.write_text(str(value))


def sweep_orphans(places: CgroupParents) -> None:
    """Kill and remove groups whose owners are gone."""
    for parent in {places.unified, *places.separate.values()} - {""}:
        for folder in Path(parent).glob(f"{_prefix()}*"):
            pid, _, started = folder.name.removeprefix(_prefix()).partition("-")
            if not pid.isdecimal() or linux.started_at(int(pid)) != started:
                kill_members(folder)
                _remove_folder(folder, time.monotonic() + _REMOVE_S_MAX)


def kill_members(folder: Path) -> None:
    """Kill everything in one group. What v1 froze must be thawed to die."""
    for file, value in (("cgroup.kill", "1"), ("freezer.state", "THAWED")):
        if (folder / file).exists():
            with contextlib.suppress(OSError):
                (folder / file).write_text(value)
    if not (folder / "cgroup.kill").exists():
        with contextlib.suppress(OSError):
            linux.kill(map(int, (folder / "cgroup.procs").read_text().split()))


def _prefix() -> str:
    """Return the prefix of groups whose owners' pids are valid in this pid namespace."""
    return f"{PREFIX}{Path('/proc/self/ns/pid').stat().st_ino}-"


def _remove_folder(folder: Path, ends_at: float) -> bool:
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            # Killed processes leave their group a moment after their parent was notified.
            if time.monotonic() > ends_at:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True


def _read_number(file: Path, key: str) -> int:
    """Return the number after a key, or the only one, in a file; 0 if there is none."""
    try:
        for line in file.read_text().splitlines():
            name, _, value = line.rpartition(" ")
            if name == key:
                return int(value)
    except (OSError, ValueError):
        pass
    return 0


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
    spec: BoxSpec,
    client: socket.socket,
    places: CgroupParents,
    entry: BoxEntry,
    attendant: socket.socket | None = None,
) -> NoReturn:
    """Run a keeper's whole life, in a fork made for it.

    With a channel to its `attendant`, the box is a spare one, which `client` assigns.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper = _Keeper(spec, client, entry, attendant)
    # The end of the launcher also arrives as SIGTERM.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: keeper.stop())
    try:
        keeper.build(places)
        keeper.watch()
    except Exception as error:  # noqa: BLE001  (whatever it was, the client must hear it)
        keeper.tell({"fault": describe_error(error)})
        keeper.empty()
    keeper.leave()


class _Keeper:
    def __init__(
        self,
        spec: BoxSpec,
        client: socket.socket,
        entry: BoxEntry,
        attendant: socket.socket | None = None,
    ) -> None:
        self._spec = spec
        self._entry = entry
        self._client = client
        self._attendant = attendant
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
        self._group = ControlGroup(places, self._spec, is_spare=self._attendant is not None)
        if self._attendant is None:
            self._send_freezer(self._group)
        self._prepare_scratch()
        self._entry.prepare()
        keeper = os.pidfd_open(os.getpid())
        self._child = os.fork()
        if self._child == 0:
            self._run_first_process(keeper)
        # A socket of the box that is held here would not close with its worker.
        linux.silence_streams()
        descriptors = [self._client.fileno(), self._scratch, *self._entry.fault_files]
        descriptors += [self._attendant.fileno()] if self._attendant is not None else []
        linux.keep_descriptors(descriptors)

    def watch(self) -> None:
        """Return when the first process inside has ended."""
        child = os.pidfd_open(self._child)
        poll = select.poll()
        poll.register(child, select.POLLIN)
        if self._attendant is not None and not self._wait_for_use(self._attendant, child):
            return
        poll.register(self._client, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if child in ready:
                os.close(child)
                return
            if not self._handle_message():
                poll.unregister(self._client)

    def _wait_for_use(self, attendant: socket.socket, child: int) -> bool:
        """Keep a spare box frozen until it is assigned; False once its first process has ended."""
        assert self._group is not None
        freezer = self._group.switch()
        usual_name = linux.name()
        linux.set_name(SPARE_NAME)
        watched = {child: "child", attendant.fileno(): "built", self._client.fileno(): "assigned"}
        while True:
            news = {watched[ready] for ready in select.select([*watched], [], [])[0]}
            if "child" in news:
                return False
            if "built" in news:
                # It says this once: now all its workers are within their walls.
                del watched[attendant.fileno()]
                if receive_message(attendant) is None or not (freezer is None or freezer.freeze()):
                    self.empty()
                else:
                    self.tell({"built": True})
            if "assigned" in news:
                received = receive_message(self._client)
                if received is None:
                    self.empty()
                    del watched[self._client.fileno()]
                    continue
                linux.set_name(usual_name)
                self._assign(attendant, freezer, *received)
                return True

    def _assign(
        self,
        attendant: socket.socket,
        freezer: Freezer | None,
        message: dict[str, Any],
        descriptors: list[int],
    ) -> None:
        """Give a spare box its limits, its client and its submission. Raises OSError."""
        assert self._group is not None
        self._spec = spec_from_json(message["assign"])
        self._client.close()
        self._client = socket.socket(fileno=os.dup(descriptors[0]))
        self._group.limit(self._spec.limits)
        self._send_freezer(self._group)
        if freezer is not None:
            freezer.thaw()
            freezer.close()
        with attendant:
            send_message(attendant, message, descriptors)
        close_descriptors(descriptors)

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
            self._group.forget_files()
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
