"""A cache of build results, by a key of the exact source: opaque bytes.

Entries are only read to check that they are complete. The first writer of a key wins; the least
recently used entries are removed when the folder exceeds its limit.
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
_TEMPORARY_SUFFIX = ".new"

# The cache folders of compilers and similar tools; all are packed together.
CACHE_VARIABLES = (
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


def build_key(
    source: bytes, flags: Iterable[str], tools: Mapping[str, str], architecture: str, harness: str
) -> str:
    """Return the name of what this source is built to by these tools: 64 hexadecimal digits.

    `harness` stands for our own headers and command lines, and changes with them.
    """
    parts = [list(flags), sorted(tools.items()), architecture, harness]
    head = json.dumps(parts).encode()
    return hashlib.sha256(len(head).to_bytes(8) + head + source).hexdigest()


def seal_memory(data: bytes) -> int:
    """Return a memory with these bytes that cannot be changed; the caller owns its descriptor."""
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


def read_memory(descriptor: int, bytes_max: int = ENTRY_BYTES_MAX) -> bytes:
    """Return everything that a worker wrote into our memory, b"" if it wrote too much.

    The memory is read at once from its beginning, at whatever position the worker left it.
    """
    size = os.fstat(descriptor).st_size
    if size > bytes_max:
        return b""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read(bytes_max)


class BuildCache:
    """Entries in a `folder`, given by its open descriptor, because its path may be hidden."""

    def __init__(self, folder: int, total_bytes_max: int = TOTAL_BYTES_MAX) -> None:
        self.folder = folder
        self._total_bytes_max = total_bytes_max

    def get(self, key: str) -> bytes | None:
        """Return what is stored under a key, if it exists and is complete."""
        try:
            with open(_check_key(key), "rb", opener=self._open_file) as file:
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
        """Store bytes under a key; False if they are too many, or the key exists already."""
        if not 0 < len(data) <= ENTRY_BYTES_MAX:
            return False
        new = f"{_check_key(key)}.{secrets.token_hex(4)}{_TEMPORARY_SUFFIX}"
        with open(new, "xb", opener=self._open_file) as file:
            file.write(hashlib.sha256(data).digest() + data)
        try:
            os.link(new, key, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except FileExistsError:
            return False
        finally:
            self._remove(new)
        self._evict(keep=key)
        return True

    def close(self) -> None:
        """Close the folder for good, so that code that runs later cannot change it."""
        if self.folder >= 0:
            os.close(self.folder)
        self.folder = -1

    def sweep(self) -> None:
        """Remove incomplete files of killed writers; call it before any run."""
        for name in self._names():
            if name.endswith(_TEMPORARY_SUFFIX):
                self._remove(name)

    def _evict(self, keep: str) -> None:
        """Remove the least recently used entries until the rest fits; other runs may do so too."""
        entries = []
        for name in self._names():
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=self.folder)
                entries.append((name == keep, status.st_mtime_ns, status.st_size, name))
        total, count = sum(size for _, _, size, _ in entries), len(entries)
        for is_kept, _, size, name in sorted(entries):
            if is_kept or (total <= self._total_bytes_max and count <= ENTRIES_MAX):
                return
            self._remove(name)
            total, count = total - size, count - 1

    def _names(self) -> list[str]:
        return os.listdir(self.folder)  # noqa: PTH208  (a descriptor, not a path)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)

    def _open_file(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=self.folder)


def _check_key(key: str) -> str:
    """Return the key after checking that it is not a path."""
    assert len(key) == 64
    assert set(key) <= set("0123456789abcdef")
    return key
