"""Kernel calls that the standard library lacks; each raises OSError with what it tried."""

import ctypes
import fcntl
import functools
import os
import select
import signal
import socket
import struct
from collections.abc import Sequence

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
_PR_SET_KEEPCAPS = 8
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2

_CAPABILITY_VERSION_3 = 0x2008_0522
_CAPABILITIES = 64
CAP_DAC_READ_SEARCH = 2

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def system_call(what: str, number: int, *arguments: object) -> int:
    """A system call by its number, for which libc has no name."""
    return _checked(_libc().syscall(ctypes.c_long(number), *arguments), what)


def unshare(flags: int, what: str) -> None:
    """Leaves the namespaces of the flags for new ones."""
    _checked(_libc().unshare(flags), f"unshare {what}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mounts, binds or remounts, as the flags say."""
    data = options.encode() or None
    result = _libc().mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data
    )
    _checked(result, f"mount {kind or source} at {target}")


def make_read_only(target: str) -> None:
    """Read-only, no setuid and no devices, for a mount and, unlike a remount, for all below it."""
    attributes = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV
    wish = struct.pack("QQQQ", attributes, 0, 0, 0)
    system_call(
        f"make {target} read-only (Linux 5.12 or later)",
        _MOUNT_SETATTR,
        _AT_FDCWD,
        target.encode(),
        _AT_RECURSIVE,
        wish,
        ctypes.c_size_t(len(wish)),
    )


def move_into(root: str) -> None:
    """Makes a mount the root of this mount namespace and lets go of the old one."""
    os.chdir(root)
    # With the same folder twice the old root lies on top of the new one, so no place is needed.
    _checked(_libc().pivot_root(b".", b"."), "pivot_root")
    _checked(_libc().umount2(b".", _MNT_DETACH), "umount the old root")
    os.chdir("/")


def set_hostname(name: str) -> None:
    """The name that uname tells in this namespace."""
    _checked(_libc().sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def raise_loopback() -> None:
    """Brings up `lo`, the one interface of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", 0)
        found = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("h", found, 16)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))


def keep_descriptors(kept: Sequence[int]) -> None:
    """Closes all descriptors but the standard streams and these."""
    low = 3
    for descriptor in (*sorted(one for one in kept if one >= low), os.sysconf("SC_OPEN_MAX")):
        os.closerange(low, descriptor)
        low = descriptor + 1


def silence_streams() -> None:
    """Standard input, output and error lead nowhere from here on."""
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def die_with(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """This process gets the signal when its parent ends, and ends now if that came first.

    `parent` is a pidfd, since a pid means nothing across pid namespaces.
    """
    _prctl(_PR_SET_PDEATHSIG, by, what="PDEATHSIG")
    if select.select([parent], [], [], 0)[0]:
        os._exit(1)


def become_reaper() -> None:
    """Descendants whose parents end become children of this process, however they hid."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, what="CHILD_SUBREAPER")


def become_unreadable() -> None:
    """Other processes of this user can no longer read this one's memory or descriptors."""
    _prctl(_PR_SET_DUMPABLE, 0, what="DUMPABLE")


def become_readable() -> None:
    """Gives /proc/self back to its own user, who loses it with a change of uid."""
    _prctl(_PR_SET_DUMPABLE, 1, what="DUMPABLE")


def forbid_new_privileges() -> None:
    """No exec after this gains anything by setuid bits or file capabilities."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, what="NO_NEW_PRIVS")


def install_filter(program: bytes) -> None:
    """Loads a seccomp filter, irrevocably, for this thread and all that it starts."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    where = ctypes.create_string_buffer(header, len(header))
    result = _libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, where, 0, 0)
    _checked(result, "load the seccomp filter")


def become(uid: int, *, keep_reading: bool = False) -> None:
    """Irrevocably another user, in no other group, without capabilities.

    `keep_reading` keeps one capability, to read and pass everything, which a fork needs that must
    still import from below a folder closed to its new user.
    """
    kept = 1 << CAP_DAC_READ_SEARCH if keep_reading else 0
    # A change of user clears what this process is to get when its parent ends.
    at_the_end = ctypes.c_int()
    _libc().prctl(_PR_GET_PDEATHSIG, ctypes.byref(at_the_end), 0, 0, 0)
    _prctl(_PR_SET_KEEPCAPS, int(keep_reading), what="KEEPCAPS")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    drop_capabilities(kept)
    _prctl(_PR_SET_PDEATHSIG, at_the_end.value, what="PDEATHSIG")


def empty_bounding_set() -> None:
    """No program that this process starts can ever have a capability."""
    for capability in range(_CAPABILITIES):
        # Refused without CAP_SETPCAP and beyond the last one; NO_NEW_PRIVS holds in any case.
        if _libc().prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            return


def drop_capabilities(kept: int = 0) -> None:
    """Gives up every capability but those in the mask, and makes sure of it."""
    _libc().prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Effective, permitted, inheritable; the low half of each, then the high half.
    wish = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    _checked(_libc().capset(header, wish), "give up capabilities")
    found = (ctypes.c_uint32 * 6)()
    _checked(_libc().capget(header, found), "read capabilities")
    if list(found) != list(wish):
        raise OSError(f"capabilities are left: {[hex(half) for half in found]}")


def _prctl(option: int, value: int, *, what: str) -> None:
    _checked(_libc().prctl(option, value, 0, 0, 0), f"prctl {what}")
