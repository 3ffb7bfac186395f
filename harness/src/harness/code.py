"""The harness code: this package's own files as one reproducible zip."""

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

HARNESS_FOLDER = Path(__file__).parent
# The earliest time in a zip; modification times are ignored.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX, _PLAIN_FILE = 3, 0o100644


def pack_harness(folder: Path = HARNESS_FOLDER) -> bytes:
    """Return a package's files as an uncompressed zip, in order, under the package's name.

    Equal files give equal bytes, whoever packs them, where and when. Files that Python or an editor
    created (`__pycache__`, names that begin with a dot) are left out; all others are in it.
    """
    paths = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    names = {
        f"{folder.name}/{relative.as_posix()}": path
        for relative, path in paths.items()
        if not any(part == "__pycache__" or part.startswith(".") for part in relative.parts)
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, path in sorted(names.items()):
            entry = zipfile.ZipInfo(name, _ZIP_TIME)
            entry.create_system, entry.external_attr = _UNIX, _PLAIN_FILE << 16
            archive.writestr(entry, path.read_bytes())
    return buffer.getvalue()


@cache
def digest() -> str:
    """Return the SHA-256 of the harness code as it was at the first call in this process."""
    return hashlib.sha256(pack_harness()).hexdigest()
