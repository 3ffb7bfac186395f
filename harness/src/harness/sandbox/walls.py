"""Two walls of a box: its own root, and the system calls that it may use.

The root is a small read-only file system with only what a worker needs. That includes the running
interpreter, from which a worker imports modules.

The seccomp filter refuses system calls a worker has no use for. It is assembled by hand, and a deny
list: a worker needs hundreds of calls (CUDA, compilers, threads), and an allow list would be
widened until it prevented nothing.
"""

import functools
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.sandbox import linux
from harness.sandbox.box import SCRATCH, SUBMISSION, BoxSpec

_PACKAGE = Path(__file__).parent.parent

SYSTEM_PATHS = ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
# Links into /usr on a merged system, folders elsewhere.
TOP_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
LINKS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
# These list a user's keys outside of the box.
MASKED = ("/proc/keys", "/proc/key-users")
NULL_DEVICE = "/dev/null"
# Settings of the whole machine, which the user root may change even without a capability.
_MACHINE_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs")

# Any folder can be the mount point of the new root, unless something below it is to be shown.
_MOUNT_POINTS = ("/mnt", "/media", "/srv", "/run", "/opt", "/tmp", "/dev/shm", "/var")  # noqa: S108
_FILES_MAX = 65536
_NO_SUID_OR_DEVICES = linux.MS_NOSUID | linux.MS_NODEV


@functools.cache
def interpreter_folders() -> tuple[str, ...]:
    """Return every folder that the interpreter imports from, except our editable source."""
    paths = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib")}
    paths |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    paths |= {os.path.realpath(path) for path in paths}
    return tuple(sorted(path for path in paths if Path(path).is_dir() and path != "/"))


def package_folder() -> str:
    """Return the harness's own folder, which workers must not see."""
    return str(_PACKAGE)


def worker_files() -> list[str]:
    """Return the part of the harness that a worker started by exec imports."""
    return [f"{_PACKAGE}/__init__.py", f"{_PACKAGE}/worker"]


def outermost(paths: list[str]) -> list[str]:
    """Return the paths that lie below no other, shortest first.

    >>> outermost(["/usr/lib", "/usr", "/usrx"])
    ['/usr', '/usrx']
    """
    outer: list[str] = []
    for path in sorted(set(paths), key=lambda item: (len(item), item)):
        if not any(is_below(path, other) for other in outer):
            outer.append(path)
    return outer


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is the folder or lies in it.

    >>> is_below("/usr/lib", "/usr"), is_below("/usrx", "/usr")
    (True, False)
    """
    return path == folder or path.startswith(f"{folder}/")


def list_around(folder: str, hidden: str) -> list[str]:
    """Return the paths of everything in a folder except a hidden path deep inside it."""
    paths: list[str] = []
    for entry in sorted(os.scandir(folder), key=lambda item: item.name):
        if not is_below(hidden, entry.path):
            paths.append(entry.path)
        elif entry.path != hidden:
            paths += list_around(entry.path, hidden)
    return paths


def enter_root(spec: BoxSpec) -> None:
    """Build the root in this mount namespace, which must be new, and move into it.

    Raises OSError with the mount that failed.
    """
    if not Path(spec.submission).is_dir():
        raise OSError(f"{spec.submission} is not a folder")
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    visible_paths = shown_paths(spec)
    mounted = [*visible_paths, *spec.devices, spec.submission]
    free_folders = [
        folder
        for folder in _MOUNT_POINTS
        if Path(folder).is_dir() and not any(is_below(path, folder) for path in mounted)
    ]
    if not free_folders:
        raise OSError(f"no folder of {', '.join(_MOUNT_POINTS)} is free to mount the new root at")
    root = _Root(free_folders[0])
    root.show_system(visible_paths)
    root.show_devices(spec)
    root.make_scratch("/dev/shm", spec.limits.scratch_bytes)  # noqa: S108
    root.make_scratch(SCRATCH, spec.limits.scratch_bytes)
    root.shut("/dev")
    if not root.has("/tmp"):  # noqa: S108
        root.link("/tmp", SCRATCH.lstrip("/"))  # noqa: S108
    root.bind(spec.submission, SUBMISSION)
    root.hide(package_folder())
    root.make_proc()
    linux.move_into(root.point)
    flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _NO_SUID_OR_DEVICES
    linux.mount("none", "/", flags=flags)


def shown_paths(spec: BoxSpec) -> list[str]:
    """Return what a box shows read-only at its own path, besides the system's links."""
    return outermost([*SYSTEM_PATHS, *interpreter_folders(), *spec.read_only])


class _Root:
    """A new root that is being built, mounted at `point`."""

    def __init__(self, point: str) -> None:
        self.point = point
        linux.mount("tmpfs", point, "tmpfs", _NO_SUID_OR_DEVICES, "mode=0755,size=1m")

    def show_system(self, shown: list[str]) -> None:
        """Show programs, libraries and the interpreter, read-only at their own paths."""
        linked = []
        for name in TOP_FOLDERS:
            top = Path("/", name)
            if top.is_symlink():
                self.link(str(top), str(top.readlink()))
                linked.append(str(top))
            elif top.is_dir():
                self.bind(str(top))
        for path in shown:
            if not any(is_below(path, link) for link in linked):
                self.bind(path)

    def show_devices(self, spec: BoxSpec) -> None:
        """Create a /dev with the harmless nodes and the requested ones."""
        self._mount_new("tmpfs", "/dev", linux.MS_NOSUID, "mode=0755,size=64k")
        for path in (*DEVICES, *spec.devices):
            self.bind(path, is_device=True)
        for name, target in LINKS.items():
            self.link(f"/dev/{name}", f"/proc/self/{target}")

    def make_scratch(self, path: str, size: int) -> None:
        """Create a folder in memory that everybody may write to."""
        options = f"mode=1777,size={size},nr_inodes={_FILES_MAX}"
        self._mount_new("tmpfs", path, _NO_SUID_OR_DEVICES, options)

    def shut(self, path: str) -> None:
        """Make a completed folder read-only, even for the user who created it."""
        flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID
        linux.mount("none", self._inner_path(path), flags=flags)

    def make_proc(self) -> None:
        """Show the processes of this pid namespace alone."""
        self._mount_new("proc", "/proc", _NO_SUID_OR_DEVICES | linux.MS_NOEXEC)
        for name in _MACHINE_SETTINGS:
            place = self._inner_path(f"/proc/{name}")
            if Path(place).exists():
                linux.mount(place, place, flags=linux.MS_BIND | linux.MS_REC)
                linux.make_read_only(place)
        for path in MASKED:
            if Path(self._inner_path(path)).exists():
                linux.mount(NULL_DEVICE, self._inner_path(path), flags=linux.MS_BIND)

    def hide(self, path: str) -> None:
        """Mount an empty folder over one that is shown but must be hidden."""
        if Path(self._inner_path(path)).is_dir():
            flags = _NO_SUID_OR_DEVICES | linux.MS_RDONLY
            self._mount_new("tmpfs", path, flags, "mode=0755,size=4k,ro")

    def bind(self, path: str, target: str = "", *, is_device: bool = False) -> None:
        """Show a file or folder of the machine, if it exists, at its own path or another."""
        if not Path(path).exists() or (Path(path).is_symlink() and not target):
            return
        place = self._inner_path(target or path)
        if Path(path).is_dir():
            Path(place).mkdir(parents=True, exist_ok=True)
        else:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            Path(place).touch()
        linux.mount(path, place, flags=linux.MS_BIND | linux.MS_REC)
        if not is_device:
            linux.make_read_only(place)

    def link(self, path: str, target: str) -> None:
        """Create a symbolic link."""
        Path(self._inner_path(path)).symlink_to(target)

    def has(self, path: str) -> bool:
        """Return whether something is at a path by now."""
        return os.path.lexists(self._inner_path(path))

    def _mount_new(self, kind: str, path: str, flags: int, options: str = "") -> None:
        place = self._inner_path(path)
        Path(place).mkdir(parents=True, exist_ok=True)
        linux.mount(kind, place, kind, flags, options)

    def _inner_path(self, path: str) -> str:
        return f"{self.point}/{path.lstrip('/')}"


AF_UNIX = 1
AF_INET = 2
AF_INET6 = 10
AF_NETLINK = 16
FAMILIES_ALONE = (AF_UNIX,)
# Ranks connect by TCP over their own loopback. Never AF_VSOCK, which leaves the machine whatever
# the network namespace.
FAMILIES_OF_RANKS = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)

# Each fails with EPERM; by name, its number on x86-64 and on aarch64 (-1: does not exist).
REFUSED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    # These wait for the disks of the whole machine, and a waiting process cannot be frozen.
    "sync": (162, 81),
    "syncfs": (306, 267),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Fails with ENOSYS, so libraries that test addresses use msync instead. One call over all
# addresses takes 10 s, and no signal ends it.
UNAVAILABLE = {"mincore": (27, 232)}
_PINNING = {"sched_setaffinity": (203, 122)}
_X86_64 = 0xC000_003E
_AARCH64 = 0xC000_00B7
_MACHINES = {"x86_64": (0, _X86_64), "aarch64": (1, _AARCH64)}
_CLONE = {_X86_64: 56, _AARCH64: 220}
_SOCKET = {_X86_64: 41, _AARCH64: 198}
_SOCKETPAIR_NUMBERS = {_X86_64: 53, _AARCH64: 199}
# The kinds of socket pairs that can never be reconnected; a SOCK_DGRAM pair can.
_BOUND_KINDS = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET
_KIND_MASK = 0xF  # the rest of the argument are flags
_IOCTL = {_X86_64: 16, _AARCH64: 29}
_CLONE3 = 435
_X32 = 0x4000_0000
_CLONE_NEW_ANY = 0x7E02_0000
_TERMINAL_COMMANDS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into another terminal

_EPERM = 0x0005_0001
_ENOSYS = 0x0005_0026
_EAFNOSUPPORT = 0x0005_0061
_ALLOW = 0x7FFF_0000
_KILL_PROCESS = 0x8000_0000

_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_ANY_BIT = 0x45
_RETURN = 0x06
_AND = 0x54

# Offsets in struct seccomp_data; both machines are little-endian.
_AT_NUMBER = 0
_AT_MACHINE = 4
_AT_FIRST = 16
_AT_SECOND = 24

Instruction = tuple[int, int, int, int]


def socket_families(ranks: int, *, has_unix: bool = True) -> tuple[int, ...]:
    """Return the socket families that a box with this many workers needs.

    Without `has_unix`, unix sockets can only be created as connected pairs: for a box that sees
    folders of the machine, with sockets that are open to everybody.
    """
    families = FAMILIES_OF_RANKS if ranks > 1 else FAMILIES_ALONE
    return tuple(family for family in families if has_unix or family != AF_UNIX)


def build_filter(
    families: Sequence[int] = FAMILIES_ALONE, machine: str = "", *, keeps_cores: bool = False
) -> bytes:
    """Return the filter for a machine (by default this one) that allows these socket families.

    With `keeps_cores`, a process cannot change its cores: a GPU's driver must choose them for its
    threads, but a submission on a processor must not.

    Raises OSError on a machine whose system call numbers are unknown.
    """
    name = machine or platform.machine()
    if name not in _MACHINES:
        raise OSError(f"no seccomp filter for {name}: only {', '.join(_MACHINES)}")
    column, audit = _MACHINES[name]
    refused = REFUSED | (_PINNING if keeps_cores else {})
    numbers = [numbers_by_machine[column] for numbers_by_machine in refused.values()]
    code = [
        *_check_machine(audit),
        *_answer_call(_CLONE3, _ENOSYS),  # libc falls back to clone, whose flags can be seen
        *(step for number in numbers if number >= 0 for step in _answer_call(number, _EPERM)),
        *_check_clone(_CLONE[audit]),
        *(step for call in UNAVAILABLE.values() for step in _answer_call(call[column], _ENOSYS)),
        *_check_socket(_SOCKET[audit], families),
        *_check_socketpair(_SOCKETPAIR_NUMBERS[audit], is_bound=AF_UNIX not in families),
        *_check_ioctl(_IOCTL[audit]),
        _return(_ALLOW),
    ]
    return assemble_filter(code)


def install_worker_filter(
    families: Sequence[int] = FAMILIES_ALONE, *, keeps_cores: bool = False
) -> None:
    """Confine this thread and everything it starts; needs no privilege, irrevocable."""
    linux.forbid_new_privileges()
    linux.install_filter(build_filter(families, keeps_cores=keeps_cores))


def assemble_filter(code: Sequence[Instruction]) -> bytes:
    """Encode instructions (operation, constant, jump if true, jump if false) for the kernel."""
    return b"".join(struct.pack("<HBBI", step[0], step[2], step[3], step[1]) for step in code)


def _return(value: int) -> Instruction:
    return _RETURN, value, 0, 0


def _answer_call(number: int, value: int) -> Iterator[Instruction]:
    yield _EQUAL, number, 0, 1
    yield _return(value)


def _check_machine(audit: int) -> Iterator[Instruction]:
    """Reject other ABIs, whose numbers mean other calls: kill 32-bit, ENOSYS for x32."""
    yield _LOAD, _AT_MACHINE, 0, 0
    yield _EQUAL, audit, 1, 0
    yield _return(_KILL_PROCESS)
    yield _LOAD, _AT_NUMBER, 0, 0
    if audit == _X86_64:
        yield _AT_LEAST, _X32, 0, 1
        yield _return(_ENOSYS)


def _check_clone(number: int) -> Iterator[Instruction]:
    """Allow threads and processes, but no new namespace."""
    yield _EQUAL, number, 0, 4
    yield _LOAD, _AT_FIRST, 0, 0
    yield _ANY_BIT, _CLONE_NEW_ANY, 0, 1
    yield _return(_EPERM)
    yield _return(_ALLOW)


def _check_socket(number: int, families: Sequence[int]) -> Iterator[Instruction]:
    count = len(families)
    yield _EQUAL, number, 0, count + 3
    yield _LOAD, _AT_FIRST, 0, 0
    for index, family in enumerate(families):
        yield _EQUAL, family, count - index, 0
    yield _return(_EAFNOSUPPORT)
    yield _return(_ALLOW)


def _check_socketpair(number: int, *, is_bound: bool) -> Iterator[Instruction]:
    """Allow pairs of unix sockets; if they must stay connected, only certain kinds."""
    kinds = _BOUND_KINDS if is_bound else ()
    extra_steps = len(kinds) + 3 if is_bound else 0
    yield _EQUAL, number, 0, extra_steps + 4
    yield _LOAD, _AT_FIRST, 0, 0
    yield _EQUAL, AF_UNIX, 1, 0
    yield _return(_EAFNOSUPPORT)
    if is_bound:
        yield _LOAD, _AT_SECOND, 0, 0
        yield _AND, _KIND_MASK, 0, 0
        for index, kind in enumerate(kinds):
            yield _EQUAL, kind, len(kinds) - index, 0
        yield _return(_EPERM)
    yield _return(_ALLOW)


def _check_ioctl(number: int) -> Iterator[Instruction]:
    first, second = _TERMINAL_COMMANDS
    yield _EQUAL, number, 0, 5
    yield _LOAD, _AT_SECOND, 0, 0
    yield _EQUAL, first, 1, 0
    yield _EQUAL, second, 0, 1
    yield _return(_EPERM)
    yield _return(_ALLOW)
