"""A box's own root: a small read-only file system with only what a worker needs.

That includes the running interpreter, from which a worker imports modules.
"""

import functools
import os
import stat
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.sandbox import image, linux
from harness.sandbox.box import SCRATCH, SUBMISSION, BoxSpec
from harness.sandbox.image import Image

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
_PACKAGES = ("site-packages", "dist-packages")
_NO_SUID_OR_DEVICES = linux.MS_NOSUID | linux.MS_NODEV


@functools.cache
def interpreter_folders() -> tuple[str, ...]:
    """Return every folder that the interpreter imports from, except our editable source."""
    paths = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib")}
    paths |= {path for path in sys.path if Path(path).name in _PACKAGES}
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


def enter_root(spec: BoxSpec, images: Mapping[str, Image]) -> None:
    """Build the root in this mount namespace, which must be new, and move into it.

    Of the folders that it shows, it shows the images that there are. A box without a submission
    gets an empty folder for it, which `show_submission` fills. Raises OSError with the mount that
    failed.
    """
    if spec.submission and not Path(spec.submission).is_dir():
        raise OSError(f"{spec.submission} is not a folder")
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    root = _Root(find_mount_point(spec), images)
    root.show_system(shown_paths(spec))
    root.show_devices(spec)
    root.make_scratch("/dev/shm", spec.limits.scratch_bytes)  # noqa: S108
    root.make_scratch(SCRATCH, spec.limits.scratch_bytes)
    root.shut("/dev")
    if not root.has("/tmp"):  # noqa: S108
        root.link("/tmp", SCRATCH.lstrip("/"))  # noqa: S108
    if spec.submission:
        root.bind(spec.submission, SUBMISSION)
    else:
        root.make_scratch(SUBMISSION, spec.limits.scratch_bytes)
    root.hide(package_folder())
    root.make_proc()
    linux.move_into(root.point)
    flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _NO_SUID_OR_DEVICES
    linux.mount("none", "/", flags=flags)


def show_submission(folder: int) -> None:
    """Copy an open folder to the empty one of a submission, in this root, and make it read-only.

    The mount of a folder of the machine could not be added to the root later. Raises OSError.
    """
    _copy_files(folder, SUBMISSION)
    linux.make_read_only(SUBMISSION)


def _copy_files(folder: int, target: str) -> None:
    """Copy the files and folders of an open folder with their modes and times, without links."""
    for name in os.listdir(folder):
        path, status = f"{target}/{name}", os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            continue
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            if stat.S_ISDIR(status.st_mode):
                Path(path).mkdir()
                _copy_files(source, path)
            else:
                with open(source, "rb", closefd=False) as file:
                    Path(path).write_bytes(file.read())
        finally:
            os.close(source)
        Path(path).chmod(stat.S_IMODE(status.st_mode))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def find_mount_point(spec: BoxSpec) -> str:
    """Return a folder that nothing is needed of, to mount a new root at. Raises OSError."""
    needed = [*shown_paths(spec), *spec.devices, spec.submission, image.PARENT]
    for folder in _MOUNT_POINTS:
        if Path(folder).is_dir() and not any(is_below(path, folder) for path in needed):
            return folder
    raise OSError(f"no folder of {', '.join(_MOUNT_POINTS)} is free to mount the new root at")


def mount_images(spec: BoxSpec, images: Mapping[str, Image]) -> dict[str, str]:
    """Mount images in this mount namespace, which must be new; return where each folder's is."""
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    root = _Root(find_mount_point(spec), images)
    for path in images:
        root.bind(path)
    return {path: f"{root.point}{path}" for path in images}


def shown_paths(spec: BoxSpec) -> list[str]:
    """Return what a box shows read-only at its own path, besides the system's links."""
    return outermost([*SYSTEM_PATHS, *interpreter_folders(), *spec.read_only])


def shown_folders(read_only: Sequence[str] = ()) -> list[str]:
    """Return the folders of the machine that a box shows, with those of its `read_only`."""
    tops = [f"/{name}" for name in TOP_FOLDERS]
    paths = outermost([*tops, *SYSTEM_PATHS, *interpreter_folders(), *read_only])
    return [path for path in paths if Path(path).is_dir() and not Path(path).is_symlink()]


def left_out() -> tuple[str, ...]:
    """Return the folders that images show empty: no worker needs what is in them."""
    packages = [f"{sysconfig.get_path('stdlib')}/{name}" for name in _PACKAGES]
    return (*image.LEFT_OUT, *(path for path in packages if path not in sys.path))


class _Root:
    """A new root that is being built, mounted at `point`."""

    def __init__(self, point: str, images: Mapping[str, Image]) -> None:
        self.point = point
        self._images = images
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
        if not target and path in self._images:
            Path(place).mkdir(parents=True, exist_ok=True)
            self._images[path].show(place)
            return
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
