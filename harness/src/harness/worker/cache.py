"""The compile caches of a box, carried from one worker of a source to the next.

A pack is 8 bytes, the length of a list; the list as JSON, of [name, bytes, mode, mtime_ns] a file;
then the files' bytes. Times are kept to the nanosecond, for ninja compares them. Links, devices and
empty folders are left out.
"""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

PACK_BYTES_MAX = 64 * 1024**2
FILES_MAX = 10_000
LIST_BYTES_MAX = 4 * 1024**2
_LENGTH_BYTES = 8
_CHUNK_BYTES = 1024**2

# Files that only a compiler makes. Without one, a folder holds nothing worth keeping.
_COMPILED = (".so", ".o", ".cubin", ".fatbin", ".ptx", ".hsaco", ".nbc", ".gch", ".pch")


class Unpackable(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A pack is not one, or names what it may not."""


def pack(folder: str, descriptor: int) -> bool:
    """Writes a folder into a memory; False, with nothing written, if nothing was compiled in it.

    Nothing is written either where it holds more than a pack may.
    """
    root = Path(folder)
    found = sorted(_files(root))[: FILES_MAX + 1]
    if not any(path.suffix in _COMPILED for path in found):
        return False
    names = [_entry(root, path) for path in found]
    head = json.dumps(names).encode()
    size = _LENGTH_BYTES + len(head) + sum(entry[1] for entry in names)
    if size > PACK_BYTES_MAX or len(found) > FILES_MAX or len(head) > LIST_BYTES_MAX:
        return False
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(len(head).to_bytes(_LENGTH_BYTES) + head)
        for path, entry in zip(found, names, strict=True):
            memory.write(_exactly(path, entry[1]))
    return True


def unpack(descriptor: int, folder: str) -> int:
    """Lays the files of a pack into a folder; how many they were. Errors: Unpackable, OSError.

    A name that leads out of the folder, or to where something is already, ends it.
    """
    root = Path(folder)
    with os.fdopen(os.dup(descriptor), "rb") as memory:
        memory.seek(0)
        names = _list(memory)
        for name, size, mode, mtime_ns in names:
            data = memory.read(size)
            if len(data) != size:
                raise Unpackable(f"the pack ends within {name!r}")
            _lay(root / name, data, mode, mtime_ns)
    return len(names)


def _files(root: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(root, followlinks=False):
        folders.sort()
        for name in names:
            path = Path(parent, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _entry(root: Path, path: Path) -> tuple[str, int, int, int]:
    seen = path.lstat()
    name = path.relative_to(root).as_posix()
    return name, seen.st_size, stat.S_IMODE(seen.st_mode) & 0o777, seen.st_mtime_ns


def _exactly(path: Path, size: int) -> bytes:
    """A file's first bytes, with zeros where it has shrunk since it was listed."""
    with path.open("rb") as file:
        return file.read(size).ljust(size, b"\0")


def _list(memory: Any) -> list[tuple[str, int, int, int]]:
    length = int.from_bytes(memory.read(_LENGTH_BYTES))
    if length > LIST_BYTES_MAX:
        raise Unpackable(f"the list of a pack has {length} bytes, at most {LIST_BYTES_MAX} may be")
    try:
        names = [_checked(*entry) for entry in json.loads(memory.read(length))]
    except (RecursionError, TypeError, ValueError) as error:
        raise Unpackable(f"the list of a pack cannot be read: {error!r}") from error
    if len(names) > FILES_MAX or sum(size for _, size, _, _ in names) > PACK_BYTES_MAX:
        raise Unpackable("a pack holds more than it may")
    return names


def _checked(name: str, size: int, mode: int, mtime_ns: int) -> tuple[str, int, int, int]:
    path = PurePosixPath(name)
    is_plain = bool(path.parts) and ".." not in path.parts and not path.is_absolute()
    if not is_plain or "\0" in name or min(size, mode, mtime_ns) < 0:
        raise Unpackable(f"a pack names {name!r}")
    return str(path), size, mode & 0o777, mtime_ns


def _lay(path: Path, data: bytes, mode: int, mtime_ns: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.utime(file.fileno(), ns=(mtime_ns, mtime_ns))
