"""What a run gives up before it meets the author's code: root, the network, most files."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.devices.cuda import mps
from harness.sandbox import interpreter, jail, landlock, linux, seccomp
from harness.supervisor.home import RUN_UID

_READ = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/etc/ld.so.cache", "/etc/alternatives")
# A device's driver writes to its nodes, below /proc and /sys, and to the pipes of its service.
_WRITTEN = ("/proc", "/dev", "/sys", mps.PIPES)


def give_up(folders: Sequence[int], *, leaves_network: bool, has_gpu: bool) -> None:
    """Irrevocable for this process; `folders` are descriptors of those that it will write to.

    With `leaves_network` it enters an empty network: the worker gets a socket that is made here,
    and a socket tells the addresses of the network namespace that it was made in. With `has_gpu` it
    can connect to unix sockets in the machine's folders, as a GPU's driver and its service do.

    Where it is root it becomes an account that owns nothing. Such an account may still be unable
    to import: an interpreter below a closed home is read with one capability kept, to read files;
    Landlock, where the kernel has it, leaves it no files to read but an interpreter's.
    """
    if leaves_network:
        jail.leave_network_namespace()
    if landlock.abi() >= landlock.ABI_MIN:
        landlock.restrict(_paths(folders))
    if os.getuid() == 0:
        # An environment may be open to all while the interpreter beneath it is not.
        is_open = all(_is_reachable(Path(one)) for one in (sys.prefix, sys.base_prefix))
        linux.become(RUN_UID, keep_reading=not is_open)
    else:
        linux.empty_bounding_set()
        linux.drop_capabilities()
    linux.become_unreadable()
    seccomp.install(seccomp.families_for(1, has_unix=has_gpu))


def _paths(folders: Sequence[int]) -> landlock.Paths:
    read = [*_READ, *interpreter.folders(), interpreter.package()]
    return landlock.Paths(
        read=[path for path in read if Path(path).exists()],
        written=[*_WRITTEN, *(f"/proc/self/fd/{folder}" for folder in folders)],
    )


def _is_reachable(folder: Path) -> bool:
    """Whether everybody may pass to a folder and read it."""
    places = (folder.resolve(), *folder.resolve().parents)
    return all(place.stat().st_mode & 0o005 == 0o005 for place in places)
