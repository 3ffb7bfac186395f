"""Images: the folders that boxes show, as names and attributes without content.

A box mounts an image through overlayfs. Each file of an image names the file of the machine that
has the content, so boxes share its content in memory, but nothing else of the folder: each box has
its own mount, which ends with it, and an image is in a tmpfs, which does not remember the names
that were looked for and do not exist.

An image is made once, and used by all supervisors of an account until its folder changes.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import select
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.sandbox import linux
from harness.sandbox.box import describe_error

# Must be a tmpfs.
PARENT = "/dev/shm"  # noqa: S108
# What no worker needs from there would be a quarter of all names.
LEFT_OUT = tuple(f"/usr/share/{name}" for name in ("doc", "icons", "locale", "man"))

# 100,000 files take about 2.5 s and 120 MB to make, and 0.3 s to compare (2026-11).
_MAKE_S_MAX = 100.0
_PAUSE_S = 0.01
_UNUSED_S_MAX = 2 * 3600.0
_ANSWER_BYTES = 65536
_KEY_CHARS = 16
_FILES = "files"
_COMPLETE = "complete"
# Compiled Python files come and go, and none of them must be there.
_COMPILED = "__pycache__"
_OWNER_WRITES = 0o600
_OWNER_ENTERS = 0o700
_MODE = 0o777
_CLOSED = 0o077


@dataclass(frozen=True)
class Image:
    """The image of a folder: where its names are, and the mounts below the folder.

    `is_trusted` if the attributes of its files are of a kind that only root can change.
    """

    source: str
    files: str
    mounts: tuple[str, ...]
    is_trusted: bool

    def show(self, place: str) -> None:
        """Mount it read-only at a folder, in a mount namespace of its own.

        Raises OSError if the kernel cannot.
        """
        options = f"lowerdir={_escape(self.files)}::{_escape(self.source)}"
        options += ",metacopy=on" if self.is_trusted else ",userxattr"
        flags = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
        linux.mount("overlay", place, "overlay", flags, options)
        for path in self.mounts:
            inner = f"{place}{path.removeprefix(self.source)}"
            linux.mount(path, inner, flags=linux.MS_BIND | linux.MS_REC)
            linux.make_read_only(inner)


class ImageStore:
    """The images that one process uses: it keeps them from being removed.

    `left_out` are folders that images show empty. `loaded` are files that the processes in boxes
    have loaded already: boxes show these themselves, or a second copy of them would be loaded.
    """

    def __init__(self, folder: str = "", left_out: Collection[str] = LEFT_OUT) -> None:
        self._folder = folder or f"{PARENT}/warpboard-images-{os.geteuid()}"
        self._left_out = frozenset(left_out)
        self.loaded: Sequence[str] = ()
        self._images: dict[str, Image] = {}
        self._preparing = -1

    def begin(self, sources: Sequence[str]) -> None:
        """Start to find or make the images of these folders, in another process."""
        read_end, self._preparing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            answer: dict[str, object] = {}
            try:
                answer = {"images": _Maker(self._folder, self._left_out).run(sources)}
            except Exception as error:  # noqa: BLE001  (whatever it was, the parent must hear it)
                answer = {"fault": describe_error(error)}
            finally:
                with open(self._preparing, "w", encoding="utf-8") as out:  # noqa: PTH123
                    json.dump(answer, out)
                os._exit(0)
        os.close(self._preparing)
        self._preparing = read_end

    def find(self, sources: Sequence[str]) -> dict[str, Image]:
        """Return the images of folders, which are made if there are none yet. Raises OSError."""
        if self._preparing >= 0:
            # What ends all processes of this one's ends that one, too: then it is begun again.
            self._finish()
        if missing := [source for source in sources if source not in self._images]:
            self.begin(missing)
            self._finish()
        if any(source not in self._images for source in sources):
            raise OSError("an image could not be made: the process that makes it ended")
        return {source: self._images[source] for source in sources}

    def _finish(self) -> None:
        """Take what the other process found; nothing if it ended before. Raises OSError."""
        descriptor, self._preparing = self._preparing, -1
        try:
            content = _read_all(descriptor, time.monotonic() + _MAKE_S_MAX)
        finally:
            os.close(descriptor)
        if not content:
            return
        answer = json.loads(content)
        if "fault" in answer:
            raise OSError(f"an image could not be made: {answer['fault']}")
        for source, (folder, mounts, is_trusted) in answer["images"].items():
            # Held until this process ends, and all boxes that it forks.
            fcntl.flock(os.open(folder, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH | fcntl.LOCK_NB)
            if not Path(folder, _COMPLETE).exists():
                raise OSError(f"the image {folder} was removed")
            files = f"{folder}/{_FILES}"
            loaded = [path for path in self.loaded if path.startswith(f"{source}/")]
            self._images[source] = Image(source, files, (*mounts, *loaded), is_trusted)


def mounts_below(folder: str) -> list[str]:
    """Return the paths below a folder at which something else is mounted."""
    below = f"{folder.rstrip('/')}/"
    return sorted({point for point, _ in _read_mounts() if point.startswith(below)})


def _read_mounts() -> Iterator[tuple[str, str]]:
    """Yield where each file system is mounted, and its kind."""
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        location, _, details = line.partition(b" - ")
        point = location.split()[4].decode("unicode_escape").encode("latin-1")
        yield os.fsdecode(point), os.fsdecode(details.split()[0])


def _kind_of(path: str) -> str:
    """Return the kind of the file system that a path is in."""
    holding = [
        (len(point), kind)
        for point, kind in _read_mounts()
        if f"{path}/".startswith(f"{point.rstrip('/')}/")
    ]
    longest = max(length for length, _ in holding)
    # The last of several mounts at one place hides the others.
    return [kind for length, kind in holding if length == longest][-1]


def _read_all(descriptor: int, ends_at: float) -> bytes:
    content = b""
    while select.select([descriptor], [], [], max(0.0, ends_at - time.monotonic()))[0]:
        if not (chunk := os.read(descriptor, _ANSWER_BYTES)):
            return content
        content += chunk
    return b'{"fault": "it took too long"}'


def _escape(path: str) -> str:
    """Return a path as overlayfs wants it among its options."""
    return "".join(f"\\{character}" if character in "\\:," else character for character in path)


class _Entry(NamedTuple):
    """What a folder holds by a name."""

    name: str
    mode: int
    size: int
    mtime_ns: int


@dataclass
class _Folder:
    """A folder that was read: its path below the source, its attributes, and what it holds."""

    path: str
    mode: int
    mtime_ns: int
    entries: list[_Entry] = field(default_factory=list)


class _Maker:
    """Finds or makes images, in a process of its own: it changes folder and umask."""

    def __init__(self, store: str, left_out: Collection[str]) -> None:
        self._store = store
        self._left_out = left_out
        self._is_trusted = True

    def run(self, sources: Sequence[str]) -> dict[str, tuple[str, list[str], bool]]:
        """Return the folder of each source's image, and what `Image` says of it."""
        os.umask(0)
        self._open_store()
        images = {}
        for source in sources:
            mounts = mounts_below(source)
            folders, digest = self._read(source, mounts)
            image = f"{self._store}/{_hash(source)}-{digest}"
            if not Path(image, _COMPLETE).exists():
                shutil.rmtree(image, ignore_errors=True)
                self._write(source, folders, image)
            os.utime(image)
            images[source] = (image, mounts, self._is_trusted)
        self._remove_unused([image for image, _, _ in images.values()])
        return images

    def _open_store(self) -> None:
        """Make the folder of all images, and wait until no other process changes it."""
        if (kind := _kind_of(str(Path(self._store).parent))) != "tmpfs":
            raise OSError(f"{PARENT} is not a tmpfs but {kind}")
        with contextlib.suppress(FileExistsError):
            Path(self._store).mkdir(mode=_OWNER_ENTERS)
        status = os.lstat(self._store)
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        if not is_own or status.st_mode & _CLOSED:
            raise OSError(f"{self._store} belongs to another user")
        _lock(os.open(self._store, os.O_RDONLY | os.O_CLOEXEC), time.monotonic() + _MAKE_S_MAX)
        try:
            os.setxattr(self._store, "trusted.warpboard", b"")
        except PermissionError:
            self._is_trusted = False

    def _read(self, source: str, mounts: Sequence[str]) -> tuple[list[_Folder], str]:
        """Return a folder's names and attributes, and a digest that changes with any of them."""
        closed, top = {*self._left_out, *mounts}, Path(source).stat()
        below = [path for path in sorted(closed) if path.startswith(f"{source}/")]
        digest = hashlib.sha256("\0".join(below).encode(errors="surrogateescape"))
        folders = [_Folder("", top.st_mode, top.st_mtime_ns)]
        for folder in folders:
            lines = [f"{folder.path} {folder.mode}"]
            for entry in _list(f"{source}{folder.path}"):
                status = entry.stat(follow_symlinks=False)
                mode, size, mtime_ns = status.st_mode, status.st_size, status.st_mtime_ns
                if not stat.S_ISDIR(mode):
                    folder.entries.append(_Entry(entry.name, mode, size, mtime_ns))
                    lines.append(f"{entry.name} {mode} {size} {mtime_ns}")
                elif entry.path in closed:
                    folder.entries.append(_Entry(entry.name, mode, 0, mtime_ns))
                    lines.append(f"{entry.name} {mode}")
                else:
                    folders.append(_Folder(f"{folder.path}/{entry.name}", mode, mtime_ns))
            if not folder.path.endswith(_COMPILED):
                digest.update("\n".join([*lines, ""]).encode(errors="surrogateescape"))
        return folders, digest.hexdigest()[:_KEY_CHARS]

    def _write(self, source: str, folders: Sequence[_Folder], image: str) -> None:
        """Make an image of what was read. Attributes that forbid its owner to write come last."""
        files = f"{image}/{_FILES}"
        Path(image).mkdir(mode=_OWNER_ENTERS)
        for folder in folders:
            os.mkdir(f"{files}{folder.path}", _OWNER_ENTERS)  # noqa: PTH102  (once per folder)
            # Names alone are found faster than paths, and there are five calls for each file.
            os.chdir(f"{files}{folder.path}")
            for entry in folder.entries:
                self._write_entry(f"{source}{folder.path}", folder.path, entry)
        for folder in reversed(folders):
            os.chmod(f"{files}{folder.path}", folder.mode & _MODE)  # noqa: PTH101
            os.utime(f"{files}{folder.path}", ns=(folder.mtime_ns, folder.mtime_ns))
        Path(image, _COMPLETE).touch()

    def _write_entry(self, place: str, below: str, entry: _Entry) -> None:
        name, mode = entry.name, entry.mode & _MODE
        if stat.S_ISLNK(entry.mode):
            os.symlink(os.readlink(f"{place}/{name}"), name)  # noqa: PTH115, PTH211
        elif stat.S_ISDIR(entry.mode):
            os.mkdir(name, mode)  # noqa: PTH102
        elif stat.S_ISREG(entry.mode):
            prefix = "trusted" if self._is_trusted else "user"
            os.mknod(name, stat.S_IFREG | mode | _OWNER_WRITES)
            os.truncate(name, entry.size)
            os.setxattr(name, f"{prefix}.overlay.redirect", os.fsencode(f"{below}/{name}"))
            os.setxattr(name, f"{prefix}.overlay.metacopy", b"")
            if mode & _OWNER_WRITES != _OWNER_WRITES:
                os.chmod(name, mode)  # noqa: PTH101
        else:
            return
        os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)

    def _remove_unused(self, used: Collection[str]) -> None:
        """Remove what nobody holds: images of changed folders, old ones, and halves."""
        changed = {image.rpartition("-")[0] for image in used}
        for path in {entry.path for entry in os.scandir(self._store)} - set(used):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            age_s = time.time() - os.fstat(descriptor).st_mtime
            is_complete = Path(path, _COMPLETE).exists()
            is_unwanted = path.rpartition("-")[0] in changed or age_s > _UNUSED_S_MAX
            if is_unwanted or not is_complete:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    Path(path, _COMPLETE).unlink(missing_ok=True)
                    shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _list(folder: str) -> list["os.DirEntry[str]"]:
    """Return what a folder holds, by name; nothing if it may not be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        return []


def _hash(source: str) -> str:
    return hashlib.sha256(os.fsencode(source)).hexdigest()[:_KEY_CHARS]


def _lock(descriptor: int, ends_at: float) -> None:
    """Lock a file for this process alone. Raises BlockingIOError if that takes too long."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends_at:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
