"""The system calls that a worker may use.

The seccomp filter refuses system calls a worker has no use for. It is assembled by hand, and a deny
list: a worker needs hundreds of calls (CUDA, compilers, threads), and an allow list would be
widened until it prevented nothing.
"""

import platform
import struct
from collections.abc import Iterator, Sequence

from harness.sandbox import linux

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
    # Who is told of changes to a file of the machine learns what others do.
    "inotify_init": (253, -1),
    "inotify_init1": (294, 26),
    # One process could take all requests that the machine has (fs.aio-max-nr).
    "io_setup": (206, 0),
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
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Each fails with ENOSYS, so libraries that test addresses use msync instead. One call of `mincore`
# over all addresses takes 10 s, and no signal ends it; `cachestat` tells what others have read.
UNAVAILABLE = {"cachestat": (451, 451), "mincore": (27, 232)}
# Each succeeds and does nothing. They make the disks of the machine write, and a process that waits
# for them cannot be frozen. The files that a box may write are in memory, or deleted at its end.
WITHOUT_EFFECT = {
    "fdatasync": (75, 83),
    "fsync": (74, 82),
    "sync": (162, 81),
    "sync_file_range": (277, 84),
    "syncfs": (306, 267),
}
_PINNING = {"sched_setaffinity": (203, 122)}
# How a process with CAP_SYS_NICE schedules others. The first argument names the process; 0 is the
# thread that calls.
SCHEDULING = {
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
NICENESS = {"ioprio_set": (251, 30), "setpriority": (141, 140)}
_X86_64 = 0xC000_003E
_AARCH64 = 0xC000_00B7
_MACHINES = {"x86_64": (0, _X86_64), "aarch64": (1, _AARCH64)}
_CLONE = {_X86_64: 56, _AARCH64: 220}
_SOCKET = {_X86_64: 41, _AARCH64: 198}
_SOCKETPAIR_NUMBERS = {_X86_64: 53, _AARCH64: 199}
# The kinds of socket pairs that can never be reconnected; a SOCK_DGRAM pair can.
_BOUND_KINDS = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET
_KIND_MASK = 0xF  # the rest of the argument are flags
_SETRLIMIT = {_X86_64: 160, _AARCH64: 164}
_PRLIMIT = {_X86_64: 302, _AARCH64: 261}
_RLIMIT_CORE = 4
_CLONE3 = 435
_X32 = 0x4000_0000
_CLONE_NEW_ANY = 0x7E02_0000

_EPERM = 0x0005_0001
_ENOSYS = 0x0005_0026
_EAFNOSUPPORT = 0x0005_0061
_NO_EFFECT = 0x0005_0000
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
_AT_THIRD = 32
_AT_FOURTH = 40
_HIGH_HALF = 4

# By name: the numbers of a call, where one of its arguments is, and the values with another answer.
BY_ARGUMENT = {
    # POSIX_FADV_DONTNEED: drops a file of the machine from memory.
    "fadvise64": ((221, 223), _AT_FOURTH, (4,), _NO_EFFECT),
    # F_SETLEASE, F_NOTIFY, F_SETDELEG: the kernel tells who else opens a file, or makes them wait.
    "fcntl": ((72, 25), _AT_SECOND, (1024, 1026, 1040), _EPERM),
    # TIOCSTI, TIOCLINUX: typing into another terminal.
    "ioctl": ((16, 29), _AT_SECOND, (0x5412, 0x541C), _EPERM),
    # MADV_PAGEOUT: as for fadvise64.
    "madvise": ((28, 233), _AT_THIRD, (21,), _NO_EFFECT),
    # MS_SYNC, also with MS_INVALIDATE: as for fsync. MS_ASYNC, which tests an address, stays.
    "msync": ((26, 227), _AT_THIRD, (4, 6), _NO_EFFECT),
}

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
    column, audit = _find_machine(machine)
    refused = REFUSED | (_PINNING if keeps_cores else {})
    numbers = [numbers_by_machine[column] for numbers_by_machine in refused.values()]
    code = [
        *_check_machine(audit),
        *_answer_call(_CLONE3, _ENOSYS),  # libc falls back to clone, whose flags can be seen
        *(step for number in numbers if number >= 0 for step in _answer_call(number, _EPERM)),
        *_check_clone(_CLONE[audit]),
        *(step for call in UNAVAILABLE.values() for step in _answer_call(call[column], _ENOSYS)),
        *(
            step
            for call in WITHOUT_EFFECT.values()
            for step in _answer_call(call[column], _NO_EFFECT)
        ),
        *(
            step
            for call, place, values, value in BY_ARGUMENT.values()
            for step in _check_argument(call[column], place, values, value)
        ),
        *_check_core_limit(_SETRLIMIT[audit], _PRLIMIT[audit]),
        *_check_socket(_SOCKET[audit], families),
        *_check_socketpair(_SOCKETPAIR_NUMBERS[audit], is_bound=AF_UNIX not in families),
        _return(_ALLOW),
    ]
    return assemble_filter(code)


def _find_machine(machine: str) -> tuple[int, int]:
    name = machine or platform.machine()
    if name not in _MACHINES:
        raise OSError(f"no seccomp filter for {name}: only {', '.join(_MACHINES)}")
    return _MACHINES[name]


def install_worker_filter(
    families: Sequence[int] = FAMILIES_ALONE, *, keeps_cores: bool = False
) -> None:
    """Confine this thread and everything it starts; needs no privilege, irrevocable."""
    linux.forbid_new_privileges()
    linux.install_filter(build_filter(families, keeps_cores=keeps_cores))


def build_scheduling_filter(machine: str = "") -> bytes:
    """Return the filter that lets a thread change how itself is scheduled, and no other one.

    Raises OSError on a machine whose system call numbers are unknown.
    """
    column, audit = _find_machine(machine)
    return assemble_filter(
        [
            *_check_machine(audit),
            *(step for call in NICENESS.values() for step in _answer_call(call[column], _EPERM)),
            *(step for call in SCHEDULING.values() for step in _require_zero(call[column])),
            _return(_ALLOW),
        ]
    )


def forbid_foreign_scheduling() -> None:
    """Confine this thread and everything it starts to scheduling themselves, irrevocably."""
    linux.forbid_new_privileges()
    linux.install_filter(build_scheduling_filter())


def assemble_filter(code: Sequence[Instruction]) -> bytes:
    """Encode instructions (operation, constant, jump if true, jump if false) for the kernel."""
    return b"".join(struct.pack("<HBBI", step[0], step[2], step[3], step[1]) for step in code)


def _return(value: int) -> Instruction:
    return _RETURN, value, 0, 0


def _answer_call(number: int, value: int) -> Iterator[Instruction]:
    yield _EQUAL, number, 0, 1
    yield _return(value)


def _require_zero(number: int) -> Iterator[Instruction]:
    """Refuse a call whose first argument, an int, is not 0."""
    yield _EQUAL, number, 0, 4
    yield _LOAD, _AT_FIRST, 0, 0
    yield _EQUAL, 0, 1, 0
    yield _return(_EPERM)
    yield _return(_ALLOW)


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


def _check_argument(
    number: int, place: int, values: Sequence[int], value: int
) -> Iterator[Instruction]:
    """Answer a call with a value if one of its arguments has one of these values."""
    count = len(values)
    yield _EQUAL, number, 0, count + 3
    yield _LOAD, place, 0, 0
    for index, argument in enumerate(values):
        yield _EQUAL, argument, count - index, 0
    yield _return(_ALLOW)
    yield _return(value)


def _check_core_limit(setrlimit: int, prlimit: int) -> Iterator[Instruction]:
    """Keep the limit of core dumps as `fork_entry.set_limits` sets it; reading it is allowed."""
    yield from _check_argument(setrlimit, _AT_FIRST, (_RLIMIT_CORE,), _EPERM)
    yield _EQUAL, prlimit, 0, 8
    yield _LOAD, _AT_SECOND, 0, 0
    yield _EQUAL, _RLIMIT_CORE, 0, 5
    # The new limit is a pointer of two halves; a null pointer only reads the limit.
    yield _LOAD, _AT_THIRD, 0, 0
    yield _EQUAL, 0, 0, 2
    yield _LOAD, _AT_THIRD + _HIGH_HALF, 0, 0
    yield _EQUAL, 0, 1, 0
    yield _return(_EPERM)
    yield _return(_ALLOW)
