"""Landlock: limits files, TCP, abstract sockets and signals where there are no namespaces."""

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from harness.sandbox import linux

# The first version that also restricts abstract sockets and signals.
ABI_MIN = 6

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
_LIST = _READ_DIR
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICE = _READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEV
_WRITE = _ALL_FILES & ~_MAKE_CHAR & ~_MAKE_BLOCK


@dataclass(frozen=True)
class AllowedPaths:
    """Paths that stay accessible: to list, to read and execute, to write below, as devices."""

    list_only: Sequence[str] = ()
    read: Sequence[str] = ()
    written: Sequence[str] = ()
    devices: Sequence[str] = ()


def abi_version() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    try:
        return linux.system_call(
            "landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_GET_VERSION)
        )
    except OSError:
        return 0


def restrict_paths(paths: AllowedPaths) -> None:
    """Deny this process all other files, TCP, and signals to the outside, irrevocably.

    Raises OSError if the kernel's Landlock is older than ABI_MIN or a path cannot be opened.
    """
    if abi_version() < ABI_MIN:
        raise OSError(f"Landlock {abi_version()} is too old, at least {ABI_MIN} is needed")
    attributes = struct.pack("QQQ", _ALL_FILES, _TCP, _SCOPES)
    ruleset = linux.system_call(
        "landlock ruleset",
        _CREATE_RULESET,
        attributes,
        ctypes.c_size_t(len(attributes)),
        ctypes.c_uint32(0),
    )
    for group, rights in (
        (paths.list_only, _LIST),
        (paths.read, _READ),
        (paths.written, _WRITE),
        (paths.devices, _DEVICE),
    ):
        for path in group:
            with contextlib.suppress(FileNotFoundError):
                _allow(ruleset, path, rights)
    linux.forbid_new_privileges()
    linux.system_call("landlock", _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        linux.system_call(
            f"landlock rule for {path}",
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            struct.pack("<Qi", rights, descriptor),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(descriptor)
