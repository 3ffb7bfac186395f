"""The harness code: this package's own files as one zip, always of the same bytes."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
# The first moment that a zip can say; when a file was written says nothing of what runs.
_AT = (1980, 1, 1, 0, 0, 0)
_UNIX, _PLAIN_FILE = 3, 0o100644


def packed(folder: Path = HERE) -> bytes:
    """A package's files under its name, in order, none of them compressed.

    Equal files give equal bytes, whoever packs them, where and when: what Python or an editor left
    beside them (`__pycache__`, names that begin with a dot) is not in it, all else is.
    """
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_STORED) as made:
        for name, path in sorted(_files(folder)):
            one = zipfile.ZipInfo(name, _AT)
            one.create_system, one.external_attr = _UNIX, _PLAIN_FILE << 16
            made.writestr(one, path.read_bytes())
    return kept.getvalue()


@cache
def digest() -> str:
    """The SHA-256 of the harness code as it lay here when this process first asked."""
    return hashlib.sha256(packed()).hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every file that may matter, each with its name in the zip."""
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.is_file() and not any(_is_left_over(part) for part in inside.parts):
            yield f"{folder.name}/{inside.as_posix()}", path


def _is_left_over(name: str) -> bool:
    return name == "__pycache__" or name.startswith(".")
