"""Landlock: files, TCP, abstract sockets and signals, for where there are no namespaces."""

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from harness.sandbox import linux

# The first version that also holds back abstract sockets and signals.
ABI_MIN = 6

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_WANTED = 1
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

# A rule on a file may carry no right that only a folder has: EINVAL.
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_LIST = _READ_DIR
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICE = _READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEV
_WRITE = _ALL_FILES & ~_MAKE_CHAR & ~_MAKE_BLOCK


@dataclass(frozen=True)
class Paths:
    """What stays within reach: to list, to read and execute, to write below, and as devices."""

    listed: Sequence[str] = ()
    read: Sequence[str] = ()
    written: Sequence[str] = ()
    devices: Sequence[str] = ()


def abi() -> int:
    """The kernel's Landlock version; 0 where it has none."""
    try:
        return linux.system_call(
            "landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_WANTED)
        )
    except OSError:
        return 0


def restrict(paths: Paths) -> None:
    """Denies this process all files but these, TCP, and signals to the outside, irrevocably.

    Errors: OSError, if the kernel's Landlock is older than ABI_MIN or a path is out of reach.
    """
    if abi() < ABI_MIN:
        raise OSError(f"Landlock {abi()} is too old, at least {ABI_MIN} is needed")
    wish = struct.pack("QQQ", _ALL_FILES, _TCP, _SCOPES)
    ruleset = linux.system_call(
        "landlock ruleset", _CREATE_RULESET, wish, ctypes.c_size_t(len(wish)), ctypes.c_uint32(0)
    )
    for some, rights in (
        (paths.listed, _LIST),
        (paths.read, _READ),
        (paths.written, _WRITE),
        (paths.devices, _DEVICE),
    ):
        for path in some:
            with contextlib.suppress(FileNotFoundError):
                _allow(ruleset, path, rights)
    linux.forbid_new_privileges()
    linux.system_call("landlock", _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_A_FILE
        linux.system_call(
            f"landlock rule for {path}",
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            struct.pack("<Qi", rights, place),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(place)
