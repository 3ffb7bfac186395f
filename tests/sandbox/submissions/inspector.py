"""A submission that tries everything a worker must not do, and prints the results."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

WANTED: dict[str, Any] = json.loads(os.environ["WANTED"])
CLONE_NEWUSER_AND_SIGCHLD = 0x1000_0011
TIOCSTI = 0x5412
LIBC = ctypes.CDLL(None, use_errno=True)


def tried(step: Callable[[], object]) -> str:
    """Return the result of a step: "done", or the name of its error."""
    try:
        step()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


def called(number: int, *arguments: int) -> str:
    """Return the result of a system call."""

    def step() -> None:
        longs = [ctypes.c_long(one) for one in (*arguments, *[0] * (6 - len(arguments)))]
        ctypes.set_errno(0)
        if LIBC.syscall(ctypes.c_long(number), *longs) < 0:
            raise OSError(ctypes.get_errno(), "")

    return tried(step)


def read(path: str) -> str:
    """Return the result of reading a file or listing a folder."""
    place = Path(path)
    return tried(lambda: list(place.iterdir()) if place.is_dir() else place.read_bytes())


def written(path: str) -> str:
    """Return the result of writing to a file, or into a folder."""
    place = Path(path) / "mark" if Path(path).is_dir() else Path(path)
    return tried(lambda: place.open("a").close())


def connected(name: str) -> str:
    """Return the result of connecting to an abstract socket of the machine."""

    def step() -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(f"\0{name}")

    return tried(step)


def reached(path: str) -> dict[str, str]:
    """Return the results of every way to reach a socket in a folder of the machine."""

    def streamed() -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(f"{path}.stream")

    def sent() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.sendto(b"x", f"{path}.packets")

    def sent_by_a_pair(kind: int) -> None:
        first, second = socket.socketpair(socket.AF_UNIX, kind)
        with first, second:
            first.sendto(b"x", f"{path}.packets")

    def connected_by_a_pair(kind: int) -> None:
        first, second = socket.socketpair(socket.AF_UNIX, kind)
        second.close()
        with first:
            first.connect(f"{path}.stream")

    stream, packets, whole = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET
    return {
        "connect": tried(streamed),
        "sendto": tried(sent),
        "sendto from a pair of packets": tried(partial(sent_by_a_pair, packets)),
        "sendto from a pair, raw": tried(partial(sent_by_a_pair, socket.SOCK_RAW)),
        "connect from a pair of streams": tried(partial(connected_by_a_pair, stream)),
        "connect from a pair of messages": tried(partial(connected_by_a_pair, whole)),
    }


def opened(family: int) -> str:
    """Return the result of creating a socket of an address family."""
    return tried(lambda: socket.socket(family, socket.SOCK_RAW).close())


def status() -> dict[str, str]:
    """Return the kernel's status of this process."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {}


def descriptors() -> list[int]:
    """Return the open descriptors."""
    return [one for one in range(4096) if tried(partial(os.fstat, one)) == "done"]


def processes() -> list[int]:
    """Return all visible processes."""
    with contextlib.suppress(OSError):
        return sorted(int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal())
    return []


def works() -> bool:
    """Return whether an honest worker's threads and programs work."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join(5.0)
    said = subprocess.run(["/bin/echo", "ok"], capture_output=True, check=False, timeout=5)
    return said.stdout == b"ok\n"


def custom_kernel(data: object) -> object:
    """An honest submission."""
    return data


FACTS = {
    "argv": sys.argv,
    "cwd": str(Path.cwd()),
    "uids": [*os.getresuid(), *os.getresgid()],
    "groups": os.getgroups(),
    "pid": os.getpid(),
    "hostname": os.uname().nodename,
    "descriptors": descriptors(),
    "environment": dict(os.environ),
    "status": status(),
    "read": {path: read(path) for path in WANTED["read"]},
    "written": {path: written(path) for path in WANTED["written"]},
    "scratch": tried(lambda: Path("mine").write_text("mine")),
    "sockets": {
        str(family): opened(family)
        for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 40)
    },
    "abstract": connected(WANTED["abstract"]),
    "in a folder": reached(WANTED["socket"]),
    "calls": {name: called(number) for name, number in WANTED["calls"].items()},
    "clone": called(WANTED["clone"], CLONE_NEWUSER_AND_SIGCHLD),
    "clone3": called(435),
    "typing": tried(lambda: fcntl.ioctl(0, TIOCSTI, b"x")),
    "signalled": {pid: tried(partial(os.kill, int(pid), 0)) for pid in WANTED["pids"]},
    "processes": processes(),
    "works": works(),
    "core": tried(lambda: Path("/proc/sys/kernel/core_pattern").open("a").close()),
}
sys.stdout.write(json.dumps(FACTS))
