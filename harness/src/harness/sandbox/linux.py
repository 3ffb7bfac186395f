"""Kernel calls that the standard library lacks, and the processes beneath this one.

Each call raises OSError naming what it tried. Landlock limits files, TCP, abstract sockets and
signals where there are no namespaces.
"""

import contextlib
import ctypes
import fcntl
import functools
import os
import select
import signal
import socket
import stat
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# A killed process ends after its memory is freed: 2 s for 1 GiB of page tables (2026-11).
END_S_MAX = 45.0
# Pauses grow, because each look reads all of /proc.
_PAUSE_S, _PAUSE_S_MAX = 0.001, 0.05
# Also children that send no SIGCHLD (linux/wait.h).
_WALL = 0x4000_0000


def end_descendants(within_s: float = END_S_MAX) -> bool:
    """Kill and reap all descendants of this process, a reaper; True when none is left."""
    ends_at, pause_s = time.monotonic() + within_s, _PAUSE_S
    while True:
        try:
            # Reap those that ended, until others alone are left.
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return True
        if time.monotonic() > ends_at:
            return False
        kill(descendants(os.getpid()))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)


def end_others(known: Collection[int], within_s: float = END_S_MAX) -> bool:
    """Kill and reap descendants of this process, a reaper, except known ones and theirs."""
    ends_at, pause_s = time.monotonic() + within_s, _PAUSE_S
    # Without children it has no descendants, because it is their reaper: no need to read /proc.
    while _has_children() and (others := set(descendants(os.getpid(), known))):
        if time.monotonic() > ends_at:
            return False
        kill(others)
        for pid in others:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
    return True


def _has_children() -> bool:
    """Return whether this process has children of any kind, also ended ones."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL)
        return True
    return False


def kill(pids: Iterable[int]) -> None:
    """Send SIGKILL to each process that still exists and may be killed."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def descendants(ancestor: int, but: Collection[int] = ()) -> list[int]:
    """Return the processes beneath one, parents first, without those in `but` and theirs."""
    return _descendants(ancestor, {pid: fields for pid, fields in _read_stats() if pid not in but})


def _descendants(ancestor: int, stats: Mapping[int, list[str]]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    pids, index = list(children.get(ancestor, [])), 0
    while index < len(pids):
        pids += children.get(pids[index], [])
        index += 1
    return pids


@dataclass(frozen=True)
class Activity:
    """What some processes do: the CPU seconds that they and their ended children used so far.

    `is_running` if one of them runs or waits for a core.
    """

    cpu_s: float
    is_running: bool


def activity(ancestor: int) -> Activity:
    """Return what the processes beneath one do."""
    stats = _read_listed_stats(ancestor) if _lists_children() else _read_stats_beneath(ancestor)
    # User and system time, of the process itself and of the children that it reaped.
    ticks = sum(sum(map(int, fields[11:15])) for fields in stats.values())
    is_running = any(fields[0] == "R" for fields in stats.values())
    is_running = is_running or any(map(_has_running_thread, stats))
    return Activity(ticks / os.sysconf("SC_CLK_TCK"), is_running)


def _has_running_thread(pid: int) -> bool:
    """Return whether a thread of a process runs; its own state is that of its first thread."""
    with contextlib.suppress(OSError):
        threads = map(int, os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 as in `_read_stats`
        return any(_read_fields(thread)[0] == "R" for thread in threads)
    return False


def is_any_running(ancestor: int, but: int) -> bool:
    """Return whether a process beneath one, except another, is running or waits for a core."""
    pids = set(descendants(ancestor)) - {but}
    return any(fields[0] == "R" for pid, fields in _read_stats() if pid in pids)


def parent_of(pid: int) -> int:
    """Return the pid of a process's parent; 0 if there is none."""
    try:
        return int(_read_fields(pid)[1])
    except OSError:
        return 0


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its threads; 0 if it does not exist."""
    try:
        fields = _read_fields(pid)
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started_at(pid: int) -> str:
    """Return when a process started, in kernel ticks; "" if there is none. Unique with the pid."""
    try:
        return _read_fields(pid)[19]
    except OSError:
        return ""


def _read_stats() -> Iterator[tuple[int, list[str]]]:
    for name in os.listdir("/proc"):  # noqa: PTH208 A `Path` per process takes half of the time.
        if name.isdecimal():
            with contextlib.suppress(OSError):
                yield int(name), _read_fields(int(name))


def _read_stats_beneath(ancestor: int) -> dict[int, list[str]]:
    stats = dict(_read_stats())
    return {pid: stats[pid] for pid in _descendants(ancestor, stats)}


@functools.cache
def _lists_children() -> bool:
    """Return whether this kernel lists the children of a thread (CONFIG_PROC_CHILDREN)."""
    return os.access("/proc/thread-self/children", os.R_OK)


def _read_listed_stats(ancestor: int) -> dict[int, list[str]]:
    """Return the same as `_read_stats_beneath`, without reading the stats of all processes.

    A list may lack a child while others end (proc_pid_children(5)), so this must not be used to
    find what has to be killed.
    """
    stats: dict[int, list[str]] = {}
    parents = [ancestor]
    while parents:
        tasks = f"/proc/{parents.pop()}/task"
        with contextlib.suppress(OSError):
            for thread in os.listdir(tasks):  # noqa: PTH208 as in `_read_stats`
                for pid in _read_children(f"{tasks}/{thread}/children"):
                    with contextlib.suppress(OSError):
                        stats[pid] = _read_fields(pid)
                        parents.append(pid)
    return stats


def _read_children(path: str) -> list[int]:
    with contextlib.suppress(OSError), open(path, "rb") as children:  # noqa: PTH123 as above
        return [int(pid) for pid in children.read().split()]
    return []


def _read_fields(pid: int) -> list[str]:
    """Return what follows the name, which may contain anything, even parentheses."""
    stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(stat, 4096).rpartition(b")")[2].decode("ascii").split()
    finally:
        os.close(stat)


CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000

_MNT_DETACH = 2
_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_MOUNT_ATTR_NOSUID = 2
_MOUNT_ATTR_NODEV = 4

_PR_SET_PDEATHSIG = 1
_PR_GET_PDEATHSIG = 2
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_KEEPCAPS = 8
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2

_HUGE_BYTES = 2 << 20
_MADV_COLLAPSE = 25

_CAPABILITY_VERSION_3 = 0x2008_0522
_CAPABILITIES = 64
CAP_DAC_READ_SEARCH = 2
CAP_SYS_NICE = 23

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1

# The first version of Landlock that also restricts abstract sockets and signals.
LANDLOCK_VERSION_MIN = 6

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_GET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_MAKE_CHAR = 1 << 6
_MAKE_BLOCK = 1 << 11
_TRUNCATE = 1 << 14
_IOCTL_DEV = 1 << 15
_ALL_FILES = (1 << 16) - 1
_TCP = 0b11  # bind, connect; UDP is not covered
_SCOPES = 0b11  # abstract unix sockets, signals

# A rule on a file must not contain rights that only folders have (EINVAL).
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TO_LIST = _READ_DIR
_TO_READ = _EXECUTE | _READ_FILE | _READ_DIR
_TO_USE_DEVICE = _READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEV
_TO_WRITE = _ALL_FILES & ~_MAKE_CHAR & ~_MAKE_BLOCK


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check_result(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def system_call(what: str, number: int, *arguments: object) -> int:
    """Make a system call by its number, for which libc has no name."""
    return _check_result(_libc().syscall(ctypes.c_long(number), *arguments), what)


def unshare(flags: int, what: str) -> None:
    """Leave the namespaces of the flags for new ones."""
    _check_result(_libc().unshare(flags), f"unshare {what}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount, bind or remount, as the flags say."""
    data = options.encode() or None
    result = _libc().mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data
    )
    _check_result(result, f"mount {kind or source} at {target}")


def make_read_only(target: str) -> None:
    """Make a mount, and all mounts below it, read-only, without setuid and without devices."""
    attributes = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV
    request = struct.pack("QQQQ", attributes, 0, 0, 0)
    system_call(
        f"make {target} read-only (Linux 5.12 or later)",
        _MOUNT_SETATTR,
        _AT_FDCWD,
        target.encode(),
        _AT_RECURSIVE,
        request,
        ctypes.c_size_t(len(request)),
    )


def move_into(root: str) -> None:
    """Make a mount the root of this mount namespace and unmount the old root."""
    os.chdir(root)
    # With the same folder twice, the old root is stacked on the new one; no other folder is needed.
    _check_result(_libc().pivot_root(b".", b"."), "pivot_root")
    _check_result(_libc().umount2(b".", _MNT_DETACH), "umount the old root")
    os.chdir("/")


def set_hostname(name: str) -> None:
    """Set the host name of this namespace."""
    _check_result(_libc().sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def raise_loopback() -> None:
    """Bring up `lo`, the only interface of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", 0)
        response = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("h", response, 16)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))


def keep_descriptors(kept: Sequence[int]) -> None:
    """Close all descriptors except the standard streams and these."""
    low = 3
    for descriptor in (
        *sorted(descriptor for descriptor in kept if descriptor >= low),
        os.sysconf("SC_OPEN_MAX"),
    ):
        os.closerange(low, descriptor)
        low = descriptor + 1


def silence_streams() -> None:
    """Connect standard input, output and error to /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def die_with_parent(parent: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
    """Make this process get the signal when its parent ends, or exit now if it already has.

    `parent` is a pidfd, because a pid means nothing across pid namespaces.
    """
    _prctl(_PR_SET_PDEATHSIG, signal_number, what="PDEATHSIG")
    if select.select([parent], [], [], 0)[0]:
        os._exit(1)


def use_huge_pages() -> None:
    """Move this process's own memory to huge pages, as far as the kernel can.

    A fork copies an entry for each page, and its end frees each. With torch imported, this takes
    two thirds off the cost of a fork.
    """
    mappings = Path("/proc/self/maps").read_bytes().splitlines()
    for bounds, rights, _, _, _, *name in (mapping.split(maxsplit=5) for mapping in mappings):
        if not rights.startswith(b"rw") or name not in ([], [b"[heap]"]):
            continue
        begin, end = (int(bound, 16) for bound in bounds.split(b"-"))
        for page in range(-(-begin // _HUGE_BYTES) * _HUGE_BYTES, end, _HUGE_BYTES):
            if page + _HUGE_BYTES <= end:
                # It fails for pages without content, and before Linux 6.1: they stay small.
                _libc().madvise(ctypes.c_void_p(page), ctypes.c_size_t(_HUGE_BYTES), _MADV_COLLAPSE)


def become_reaper() -> None:
    """Make this process the parent of descendants whose own parents end."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, what="CHILD_SUBREAPER")


def become_unreadable() -> None:
    """Forbid other processes of this user to read this one's memory or descriptors."""
    _prctl(_PR_SET_DUMPABLE, 0, what="DUMPABLE")


def become_readable() -> None:
    """Give /proc/self back to its user, who loses it with a change of uid."""
    _prctl(_PR_SET_DUMPABLE, 1, what="DUMPABLE")


def name() -> str:
    """Return the name of this process in lists of processes."""
    return Path("/proc/self/comm").read_text(encoding="ascii").strip()


def set_name(new_name: str) -> None:
    """Set the name of this process in lists of processes, at most 15 characters."""
    _libc().prctl(_PR_SET_NAME, new_name.encode(), 0, 0, 0)


def forbid_new_privileges() -> None:
    """Make setuid bits and file capabilities ineffective for later execs."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, what="NO_NEW_PRIVS")


def install_filter(program: bytes) -> None:
    """Load a seccomp filter, irrevocably, for this thread and everything it starts."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    header_buffer = ctypes.create_string_buffer(header, len(header))
    result = _libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header_buffer, 0, 0)
    _check_result(result, "load the seccomp filter")


def become_user(uid: int, kept: int = 0) -> None:
    """Become another user irrevocably, without other groups; `kept` is a mask of capabilities."""
    # A change of user clears the parent death signal, so it is set again.
    death_signal = ctypes.c_int()
    _libc().prctl(_PR_GET_PDEATHSIG, ctypes.byref(death_signal), 0, 0, 0)
    _prctl(_PR_SET_KEEPCAPS, int(kept != 0), what="KEEPCAPS")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    drop_capabilities(kept)
    _prctl(_PR_SET_PDEATHSIG, death_signal.value, what="PDEATHSIG")


def empty_bounding_set() -> None:
    """Make capabilities unobtainable for every program that this process starts."""
    for capability in range(_CAPABILITIES):
        # Fails without CAP_SETPCAP and beyond the last capability; NO_NEW_PRIVS applies anyway.
        if _libc().prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            return


def drop_capabilities(kept: int = 0) -> None:
    """Give up every capability except those in the mask, and verify it."""
    _libc().prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Effective, permitted, inheritable; the low half of each, then the high half.
    requested = [kept, kept, 0, 0, 0, 0]
    result = _libc().capset(header, (ctypes.c_uint32 * 6)(*requested))
    _check_result(result, "give up capabilities")
    if (actual := _read_capabilities()) != requested:
        raise OSError(f"some capabilities could not be dropped: {[hex(half) for half in actual]}")


def has_capability(capability: int) -> bool:
    """Return whether a capability of the first 32 is in effect for this thread."""
    return bool(_read_capabilities()[0] & 1 << capability)


def _read_capabilities() -> list[int]:
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _check_result(_libc().capget(header, sets), "read capabilities")
    return list(sets)


def _prctl(option: int, value: int, *, what: str) -> None:
    _check_result(_libc().prctl(option, value, 0, 0, 0), f"prctl {what}")


@dataclass(frozen=True)
class AllowedPaths:
    """Paths that stay accessible: to list, to read and execute, to write below, as devices."""

    list_only: Sequence[str] = ()
    read: Sequence[str] = ()
    written: Sequence[str] = ()
    devices: Sequence[str] = ()


def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    try:
        return system_call(
            "landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_GET_VERSION)
        )
    except OSError:
        return 0


def restrict_paths(paths: AllowedPaths) -> None:
    """Deny this process all other files, TCP, and signals to the outside, irrevocably.

    Raises OSError if the kernel's Landlock is older than LANDLOCK_VERSION_MIN or a path cannot be
    opened.
    """
    if (version := landlock_version()) < LANDLOCK_VERSION_MIN:
        raise OSError(f"Landlock {version} is too old, at least {LANDLOCK_VERSION_MIN} is needed")
    attributes = struct.pack("QQQ", _ALL_FILES, _TCP, _SCOPES)
    ruleset = system_call(
        "landlock ruleset",
        _CREATE_RULESET,
        attributes,
        ctypes.c_size_t(len(attributes)),
        ctypes.c_uint32(0),
    )
    for group, rights in (
        (paths.list_only, _TO_LIST),
        (paths.read, _TO_READ),
        (paths.written, _TO_WRITE),
        (paths.devices, _TO_USE_DEVICE),
    ):
        for path in group:
            with contextlib.suppress(FileNotFoundError):
                _allow_path(ruleset, path, rights)
    forbid_new_privileges()
    system_call("landlock", _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        system_call(
            f"landlock rule for {path}",
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            struct.pack("<Qi", rights, descriptor),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(descriptor)
