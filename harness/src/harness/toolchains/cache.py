"""What was compiled, kept for the very source that compiled it: opaque bytes by key.

Nothing here reads what it keeps but to see that it is whole. The first to write a key wins; the
least recently used entries go when the folder holds more than its bound.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping

ENTRY_BYTES_MAX = 64 * 1024**2
TOTAL_BYTES_MAX = 4 * 1024**3
ENTRIES_MAX = 4096
_DIGEST_BYTES = 32
_HALF_DONE = ".new"

# Where compilers and their like keep what they made; all of it is packed together.
VARIABLES = (
    "XDG_CACHE_HOME",
    "NUMBA_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "CUPY_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "CUTE_DSL_CACHE_DIR",
    "JAX_COMPILATION_CACHE_DIR",
)


def key_of(
    source: bytes, flags: Iterable[str], tools: Mapping[str, str], architecture: str, harness: str
) -> str:
    """The name of what this source is built to by these tools: 64 hexadecimal digits.

    `harness` stands for our own headers and command lines, and changes with them.
    """
    parts = [list(flags), sorted(tools.items()), architecture, harness]
    head = json.dumps(parts).encode()
    return hashlib.sha256(len(head).to_bytes(8) + head + source).hexdigest()


def sealed(data: bytes) -> int:
    """A memory with these bytes that nobody can change any more; its descriptor is the caller's."""
    descriptor = os.memfd_create("built", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def taken(descriptor: int, bytes_max: int = ENTRY_BYTES_MAX) -> bytes:
    """All that a guest wrote into a memory of ours, b"" where it wrote too much.

    The memory is read at once and from its beginning, whatever position the guest left it at.
    """
    size = os.fstat(descriptor).st_size
    if size > bytes_max:
        return b""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read(bytes_max)


class Cache:
    """Entries in a `folder`, reached by its open descriptor: its path may be out of sight."""

    def __init__(self, folder: int, total_bytes_max: int = TOTAL_BYTES_MAX) -> None:
        self.folder = folder
        self._total_bytes_max = total_bytes_max

    def get(self, key: str) -> bytes | None:
        """What is kept under a key, if it is there and whole."""
        try:
            with open(_name(key), "rb", opener=self._open) as file:
                digest, data = file.read(_DIGEST_BYTES), file.read(ENTRY_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).digest() != digest:
            self._remove(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(key, dir_fd=self.folder)
        return data

    def put(self, key: str, data: bytes) -> bool:
        """Keeps bytes under a key; False if they are too many, or the key has some already."""
        if not 0 < len(data) <= ENTRY_BYTES_MAX:
            return False
        new = f"{_name(key)}.{secrets.token_hex(4)}{_HALF_DONE}"
        with open(new, "xb", opener=self._open) as file:
            file.write(hashlib.sha256(data).digest() + data)
        try:
            os.link(new, key, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except FileExistsError:
            return False
        finally:
            self._remove(new)
        self._forget(keep=key)
        return True

    def close(self) -> None:
        """Lets go of the folder, for good: whoever's code runs here next leaves nothing in it."""
        if self.folder >= 0:
            os.close(self.folder)
        self.folder = -1

    def sweep(self) -> None:
        """Removes what a writer that was killed left half done; for the start, before any run."""
        for name in self._names():
            if name.endswith(_HALF_DONE):
                self._remove(name)

    def _forget(self, keep: str) -> None:
        """Removes the entries unused for longest, until the rest fits; others may do the same."""
        found = []
        for name in self._names():
            with contextlib.suppress(FileNotFoundError):
                seen = os.stat(name, dir_fd=self.folder)
                found.append((name == keep, seen.st_mtime_ns, seen.st_size, name))
        total, count = sum(size for _, _, size, _ in found), len(found)
        for is_kept, _, size, name in sorted(found):
            if is_kept or (total <= self._total_bytes_max and count <= ENTRIES_MAX):
                return
            self._remove(name)
            total, count = total - size, count - 1

    def _names(self) -> list[str]:
        return os.listdir(self.folder)  # noqa: PTH208  (a descriptor, not a path)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=self.folder)


def _name(key: str) -> str:
    """The key itself, seen to be no path."""
    assert len(key) == 64
    assert set(key) <= set("0123456789abcdef")
    return key
