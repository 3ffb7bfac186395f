"""The filter refuses what it should, for both machines; run here as by the kernel."""

import errno
import os
import resource
import socket
import struct
import threading

import pytest

from harness.sandbox import seccomp

from .forks import in_a_fork

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
OPEN = {"x86_64": 257, "aarch64": 56}
CLONE = {"x86_64": 56, "aarch64": 220}
SOCKET = {"x86_64": 41, "aarch64": 198}
SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
SETRLIMIT = {"x86_64": 160, "aarch64": 164}
PRLIMIT = {"x86_64": 302, "aarch64": 261}
CLONE_THREAD_FLAGS = 0x3D0F00
ALLOWED = "allowed"
KILLED = "killed"
NO_EFFECT = "no effect"
machines = pytest.mark.parametrize("machine", sorted(AUDIT))


def answer(program: bytes, number: int, *arguments: int, audit: int) -> str:
    """What a filter returns for one system call."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    call = struct.pack("<IIQ6Q", number, audit, 0, *padded)
    code = list(struct.iter_unpack("<HBBI", program))
    at, value = 0, 0
    for _ in range(len(code)):
        operation, if_true, if_false, constant = code[at]
        at += 1
        if operation == 0x06:
            return _said(constant)
        if operation == 0x20:
            (value,) = struct.unpack_from("<I", call, constant)
        elif operation == 0x54:
            value &= constant
        else:
            holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}
            at += if_true if holds[operation] else if_false
    raise AssertionError("the filter ends without an answer")


def _said(constant: int) -> str:
    if constant == 0x7FFF0000:
        return ALLOWED
    if constant == 0x80000000:
        return KILLED
    if constant == 0x00050000:
        return NO_EFFECT
    return errno.errorcode[constant & 0xFFFF]


@machines
def test_a_thread_schedules_itself_alone(machine: str) -> None:
    column = ("x86_64", "aarch64").index(machine)
    program = seccomp.build_scheduling_filter(machine=machine)
    for numbers in seccomp.SCHEDULING.values():
        assert answer(program, numbers[column], 0, 1, audit=AUDIT[machine]) == ALLOWED
        assert answer(program, numbers[column], 77, 1, audit=AUDIT[machine]) == "EPERM"
    for numbers in seccomp.NICENESS.values():
        assert answer(program, numbers[column], audit=AUDIT[machine]) == "EPERM"
    assert answer(program, OPEN[machine], 77, audit=AUDIT[machine]) == ALLOWED


@machines
def test_every_name_on_the_list_is_refused(machine: str) -> None:
    column = ("x86_64", "aarch64").index(machine)
    program = seccomp.build_filter(machine=machine)
    for name, numbers in seccomp.REFUSED.items():
        if (number := numbers[column]) >= 0:
            assert answer(program, number, audit=AUDIT[machine]) == "EPERM", name


@machines
def test_calls_that_show_what_is_in_memory_are_not_there(machine: str) -> None:
    column = ("x86_64", "aarch64").index(machine)
    program = seccomp.build_filter(machine=machine)
    for name, numbers in seccomp.UNAVAILABLE.items():
        assert answer(program, numbers[column], audit=AUDIT[machine]) == "ENOSYS", name


@machines
def test_a_box_without_a_gpu_keeps_its_cores(machine: str) -> None:
    number = {"x86_64": 203, "aarch64": 122}[machine]
    kept = seccomp.build_filter(machine=machine, keeps_cores=True)
    assert answer(kept, number, audit=AUDIT[machine]) == "EPERM"
    assert answer(seccomp.build_filter(machine=machine), number, audit=AUDIT[machine]) == ALLOWED


@machines
def test_an_ordinary_call_is_allowed(machine: str) -> None:
    program = seccomp.build_filter(machine=machine)
    assert answer(program, OPEN[machine], audit=AUDIT[machine]) == ALLOWED


@machines
def test_another_architecture_is_killed(machine: str) -> None:
    assert answer(seccomp.build_filter(machine=machine), OPEN[machine], audit=I386) == KILLED


def test_the_x32_numbers_are_unknown() -> None:
    program = seccomp.build_filter(machine="x86_64")
    assert answer(program, 0x40000000 | 101, audit=AUDIT["x86_64"]) == "ENOSYS"


@machines
def test_threads_are_made_and_namespaces_are_not(machine: str) -> None:
    program, audit = seccomp.build_filter(machine=machine), AUDIT[machine]
    assert answer(program, CLONE[machine], CLONE_THREAD_FLAGS, audit=audit) == ALLOWED
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(program, CLONE[machine], bit | 17, audit=audit) == "EPERM"
    assert answer(program, 435, audit=audit) == "ENOSYS"


@machines
@pytest.mark.parametrize("family", range(46))
def test_sockets_stay_in_the_box(machine: str, family: int) -> None:
    alone = seccomp.build_filter(machine=machine)
    ranks = seccomp.build_filter(seccomp.FAMILIES_OF_RANKS, machine)
    for program, families in (
        (alone, seccomp.FAMILIES_ALONE),
        (ranks, seccomp.FAMILIES_OF_RANKS),
    ):
        wanted = ALLOWED if family in families else "EAFNOSUPPORT"
        assert answer(program, SOCKET[machine], family, audit=AUDIT[machine]) == wanted


@machines
@pytest.mark.parametrize("ranks", [1, 2])
def test_without_unix_sockets_only_bound_pairs_are_made(machine: str, ranks: int) -> None:
    families = seccomp.socket_families(ranks, has_unix=False)
    program, audit = seccomp.build_filter(families, machine), AUDIT[machine]
    assert answer(program, SOCKET[machine], socket.AF_UNIX, audit=audit) == "EAFNOSUPPORT"
    inet = answer(program, SOCKET[machine], socket.AF_INET, audit=audit)
    assert inet == (ALLOWED if ranks > 1 else "EAFNOSUPPORT")
    bound = {int(socket.SOCK_STREAM), int(socket.SOCK_SEQPACKET)}
    for kind in range(16):
        for flags in (0, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK):
            said = answer(program, SOCKETPAIR[machine], socket.AF_UNIX, kind | flags, audit=audit)
            assert said == (ALLOWED if kind in bound else "EPERM"), kind


@machines
def test_pairs_are_of_unix_sockets(machine: str) -> None:
    program, audit = seccomp.build_filter(machine=machine), AUDIT[machine]
    for family in range(46):
        wanted = ALLOWED if family == socket.AF_UNIX else "EAFNOSUPPORT"
        assert answer(program, SOCKETPAIR[machine], family, 2, audit=audit) == wanted


@machines
def test_calls_that_write_to_disks_succeed_without_effect(machine: str) -> None:
    column = ("x86_64", "aarch64").index(machine)
    program = seccomp.build_filter(machine=machine)
    for name, numbers in seccomp.WITHOUT_EFFECT.items():
        assert answer(program, numbers[column], audit=AUDIT[machine]) == NO_EFFECT, name


@machines
@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("fadvise64", (3, 0, 0, 4), NO_EFFECT),
        ("fadvise64", (3, 0, 0, 3), ALLOWED),
        ("fcntl", (3, 1024), "EPERM"),
        ("fcntl", (3, 1026), "EPERM"),
        ("fcntl", (3, 1040), "EPERM"),
        ("fcntl", (3, 1030), ALLOWED),  # F_DUPFD_CLOEXEC
        ("fcntl", (1024, 1), ALLOWED),
        ("ioctl", (0, 0x5412), "EPERM"),
        ("ioctl", (0, 0x541C), "EPERM"),
        ("ioctl", (0, 0x5413), ALLOWED),
        ("madvise", (0, 4096, 21), NO_EFFECT),
        ("madvise", (0, 4096, 4), ALLOWED),
        ("msync", (0, 4096, 4), NO_EFFECT),
        ("msync", (0, 4096, 6), NO_EFFECT),
        ("msync", (0, 4096, 1), ALLOWED),
    ],
)
def test_an_argument_decides_over_some_calls(
    machine: str, name: str, arguments: tuple[int, ...], wanted: str
) -> None:
    number = seccomp.BY_ARGUMENT[name][0][("x86_64", "aarch64").index(machine)]
    program = seccomp.build_filter(machine=machine)
    assert answer(program, number, *arguments, audit=AUDIT[machine]) == wanted


@machines
def test_the_limit_of_core_dumps_can_be_read_and_not_changed(machine: str) -> None:
    program, audit = seccomp.build_filter(machine=machine), AUDIT[machine]
    core, files = int(resource.RLIMIT_CORE), int(resource.RLIMIT_NOFILE)
    set_number, number = SETRLIMIT[machine], PRLIMIT[machine]
    assert answer(program, set_number, core, 0x1000, audit=audit) == "EPERM"
    assert answer(program, set_number, files, 0x1000, audit=audit) == ALLOWED
    for pointer in (0x1000, 1 << 32, (1 << 32) + 8):
        assert answer(program, number, 0, core, pointer, 0, audit=audit) == "EPERM"
        assert answer(program, number, 0, files, pointer, 0, audit=audit) == ALLOWED
    assert answer(program, number, 0, core, 0, 0x1000, audit=audit) == ALLOWED


def test_an_unknown_machine_is_told() -> None:
    with pytest.raises(OSError, match="no seccomp filter for vax"):
        seccomp.build_filter(machine="vax")


def test_the_kernel_takes_the_filter_and_work_goes_on() -> None:
    def step() -> list[str]:
        seccomp.install_worker_filter()
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join(5)
        os.close(os.memfd_create("cuda needs it"))
        socket.socket(socket.AF_UNIX).close()
        try:
            socket.socket(socket.AF_INET)
        except OSError as error:
            return [errno.errorcode[error.errno or 0]]
        return []

    assert in_a_fork(step) == ["EAFNOSUPPORT"]
