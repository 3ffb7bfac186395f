"""The new root of a box: a small read-only file system with what a worker needs, and no more."""

import os
from pathlib import Path

from harness.sandbox import interpreter, linux
from harness.sandbox.spec import SCRATCH, SUBMISSION, Spec

SYSTEM = ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
# Links into /usr on a merged system, folders elsewhere.
TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
LINKS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
# Switches of the whole machine, which the user root may turn even without a capability.
# They tell of a user's keys outside of the box.
MASKED = ("/proc/keys", "/proc/key-users")
NOTHING = "/dev/null"
_OF_THE_MACHINE = ("sys", "sysrq-trigger", "irq", "bus", "fs")

# Any folder will do to hang the new root at, unless something below it is to be shown.
_HOOKS = ("/mnt", "/media", "/srv", "/run", "/opt", "/tmp", "/dev/shm", "/var")  # noqa: S108
_FILES_MAX = 65536
_NOT_HERE = linux.MS_NOSUID | linux.MS_NODEV


def enter(spec: Spec) -> None:
    """Builds the root in this mount namespace, which must be new, and moves into it.

    Errors: OSError, with the mount that was refused.
    """
    if not Path(spec.submission).is_dir():
        raise OSError(f"{spec.submission} is no folder")
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    over = shown(spec)
    root = _Root(_hook([*over, *spec.devices, spec.submission]))
    root.show_system(over)
    root.show_devices(spec)
    root.make_scratch("/dev/shm", spec.limits.scratch_bytes)  # noqa: S108
    root.make_scratch(SCRATCH, spec.limits.scratch_bytes)
    root.shut("/dev")
    if not root.has("/tmp"):  # noqa: S108
        root.link("/tmp", SCRATCH.lstrip("/"))  # noqa: S108
    root.bind(spec.submission, SUBMISSION)
    root.hide(interpreter.package())
    root.make_proc()
    linux.move_into(root.point)
    flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _NOT_HERE
    linux.mount("none", "/", flags=flags)


def shown(spec: Spec) -> list[str]:
    """What a box shows read-only at its own path, besides the system's links."""
    return interpreter.outermost([*SYSTEM, *interpreter.folders(), *spec.read_only])


def _hook(shown: list[str]) -> str:
    for hook in _HOOKS:
        if Path(hook).is_dir() and not any(interpreter.is_below(path, hook) for path in shown):
            return hook
    raise OSError(f"no folder of {', '.join(_HOOKS)} is free to hang the new root at")


class _Root:
    """A new root while it is furnished, mounted at `point`."""

    def __init__(self, point: str) -> None:
        self.point = point
        linux.mount("tmpfs", point, "tmpfs", _NOT_HERE, "mode=0755,size=1m")

    def show_system(self, shown: list[str]) -> None:
        """Programs, libraries and the interpreter, read-only at their own paths."""
        linked = []
        for name in TOP:
            top = Path("/", name)
            if top.is_symlink():
                self.link(str(top), str(top.readlink()))
                linked.append(str(top))
            elif top.is_dir():
                self.bind(str(top))
        for path in shown:
            if not any(interpreter.is_below(path, link) for link in linked):
                self.bind(path)

    def show_devices(self, spec: Spec) -> None:
        """A /dev of its own with the harmless nodes, and those that were asked for."""
        self._folder("/dev")
        linux.mount("tmpfs", self._at("/dev"), "tmpfs", linux.MS_NOSUID, "mode=0755,size=64k")
        for path in (*DEVICES, *spec.devices):
            self.bind(path, is_device=True)
        for name, target in LINKS.items():
            self.link(f"/dev/{name}", f"/proc/self/{target}")

    def make_scratch(self, path: str, size: int) -> None:
        """A folder in memory that anybody may write to."""
        self._folder(path)
        options = f"mode=1777,size={size},nr_inodes={_FILES_MAX}"
        linux.mount("tmpfs", self._at(path), "tmpfs", _NOT_HERE, options)

    def shut(self, path: str) -> None:
        """Lets nobody add to a folder that is furnished, not even the user who made it."""
        flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID
        linux.mount("none", self._at(path), flags=flags)

    def make_proc(self) -> None:
        """The processes of this pid namespace, and no others."""
        self._folder("/proc")
        linux.mount("proc", self._at("/proc"), "proc", _NOT_HERE | linux.MS_NOEXEC)
        for name in _OF_THE_MACHINE:
            place = self._at(f"/proc/{name}")
            if Path(place).exists():
                linux.mount(place, place, flags=linux.MS_BIND | linux.MS_REC)
                linux.make_read_only(place)
        for path in MASKED:
            if Path(self._at(path)).exists():
                linux.mount(NOTHING, self._at(path), flags=linux.MS_BIND)

    def hide(self, path: str) -> None:
        """Lays an empty folder over one that came along with what is shown."""
        if Path(self._at(path)).is_dir():
            options = "mode=0755,size=4k,ro"
            linux.mount("tmpfs", self._at(path), "tmpfs", _NOT_HERE | linux.MS_RDONLY, options)

    def bind(self, path: str, target: str = "", *, is_device: bool = False) -> None:
        """Shows a file or folder of the machine, if it is there, at its own path or another."""
        if not Path(path).exists() or (Path(path).is_symlink() and not target):
            return
        place = self._at(target or path)
        if Path(path).is_dir():
            Path(place).mkdir(parents=True, exist_ok=True)
        else:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            Path(place).touch()
        linux.mount(path, place, flags=linux.MS_BIND | linux.MS_REC)
        if not is_device:
            linux.make_read_only(place)

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        Path(self._at(path)).symlink_to(target)

    def has(self, path: str) -> bool:
        """Whether anything is at a path by now."""
        return os.path.lexists(self._at(path))

    def _folder(self, path: str) -> None:
        Path(self._at(path)).mkdir(parents=True, exist_ok=True)

    def _at(self, path: str) -> str:
        return f"{self.point}/{path.lstrip('/')}"
