"""The walls of a box as options of bubblewrap, in the order in which they are built."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.sandbox import interpreter, ranks, root, seccomp
from harness.sandbox.spec import SCRATCH, SUBMISSION, WORKER_UID, Spec

_NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
# As root: a uid that is only mapped would still be root to the kernel, so setpriv leaves it.
_TO_LEAVE_ROOT = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


def command(spec: Spec, inside: Sequence[str], record: int) -> list[str]:
    """The command that runs a program in the box; it opens the filter's descriptor itself.

    `record` is where bubblewrap notes how the program ended. Errors: OSError.
    """
    return [
        _tool("bwrap"),
        *("--json-status-fd", str(record)),
        *_apart(spec),
        *_system(spec),
        *_devices(spec),
        *_scratch(spec),
        *_guest(),
        *("--ro-bind", spec.submission, SUBMISSION, "--chdir", SCRATCH, "--remount-ro", "/"),
        *_filter(spec),
        "--",
        *_leave_root(spec),
        *inside,
    ]


def require(spec: Spec) -> None:
    """Errors: OSError, if a program that builds such a box is not installed."""
    _tool("bwrap")
    if "uid" in spec.walls:
        _tool("setpriv")


def _tool(name: str) -> str:
    path = shutil.which(name, path=f"{os.defpath}:/usr/local/bin")
    if path is None:
        raise OSError(f"{name} is not installed")
    return path


def _apart(spec: Spec) -> Iterator[str]:
    yield from _NAMESPACES
    yield from ("--unshare-cgroup-try", "--hostname", "box", "--die-with-parent")
    if os.geteuid() != 0:
        # Bubblewrap's own pid 1 would be this user's too, and outside of the filter.
        yield from ("--unshare-user", "--disable-userns", "--as-pid-1")
        return
    yield from ("--cap-drop", "ALL")
    if "uid" in spec.walls:
        for capability in _TO_LEAVE_ROOT:
            yield from ("--cap-add", capability)


def _system(spec: Spec) -> Iterator[str]:
    linked = []
    for name in root.TOP:
        top = Path("/", name)
        if top.is_symlink():
            yield from ("--symlink", str(top.readlink()), str(top))
            linked.append(str(top))
        elif top.is_dir():
            yield from ("--ro-bind", str(top), str(top))
    for path in root.shown(spec):
        if not any(interpreter.is_below(path, link) for link in linked) and Path(path).exists():
            yield from _parents(path)
            yield from ("--ro-bind", path, path)
    yield from ("--proc", "/proc")
    for path in root.MASKED:
        if Path(path).exists():
            yield from ("--dev-bind", root.NOTHING, path)


def _parents(path: str) -> Iterator[str]:
    """Bubblewrap would make them for itself alone, and the worker could not pass."""
    for folder in reversed(Path(path).parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(folder))


def _devices(spec: Spec) -> Iterator[str]:
    yield from ("--perms", "0755", "--size", "65536", "--tmpfs", "/dev")
    for path in (*root.DEVICES, *spec.devices):
        yield from _parents(path)
        yield from ("--dev-bind-try", path, path)
    for name, target in root.LINKS.items():
        yield from ("--symlink", f"/proc/self/{target}", f"/dev/{name}")


def _scratch(spec: Spec) -> Iterator[str]:
    for path in ("/dev/shm", SCRATCH):  # noqa: S108
        size = str(spec.limits.scratch_bytes)
        yield from ("--perms", "1777", "--size", size, "--tmpfs", path)
    # The same user made it, where there is no other.
    yield from ("--remount-ro", "/dev")
    # An interpreter may lie there, and has been shown by now.
    there = (*root.shown(spec), interpreter.package(), *spec.devices)
    if not any(interpreter.is_below(path, "/tmp") for path in there):  # noqa: S108
        yield from ("--symlink", SCRATCH.lstrip("/"), "/tmp")  # noqa: S108


def _guest() -> Iterator[str]:
    """Nothing of the harness but what the worker imports, wherever it is installed."""
    package = interpreter.package()
    yield from _parents(package)
    yield from ("--perms", "0755", "--tmpfs", package)
    for path in (*interpreter.guest_files(), ranks.__file__):
        yield from _parents(path)
        yield from ("--ro-bind", path, path)
    yield from ("--remount-ro", package)


def _filter(spec: Spec) -> Iterator[str]:
    if "seccomp" not in spec.walls:
        return
    descriptor = os.memfd_create("filter", 0)
    families = seccomp.families_for(spec.ranks)
    os.write(descriptor, seccomp.program(families, keeps_cores=not spec.devices))
    os.lseek(descriptor, 0, os.SEEK_SET)
    yield from ("--seccomp", str(descriptor))


def _leave_root(spec: Spec) -> Iterator[str]:
    if "uid" not in spec.walls:
        return
    yield _tool("setpriv")
    yield from (f"--reuid={WORKER_UID}", f"--regid={WORKER_UID}", "--clear-groups")
    yield from ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--")
