"""The files of a submission: their names, their limits, and their bytes as one blob.

A submission is a list of files, of which the first one is its entry: the file that defines the
kernel. The blob of a single file is that file. Several files are packed: a line with a list of
[name, length], then their bytes. It begins with a NUL byte, which no accepted file contains, so a
blob tells by itself which of the two it is. The entry comes first and the others are sorted, so
equal files have equal bytes, whatever order they were sent in.
"""

import io
import json
import re
import sys
import zipfile
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from harness.vocabulary import BOX_FILES
from shared.errors import Failed, Refused

# With the entry.
SOURCE_FILES_MAX: Final = 16
NAME_LENGTH_MAX: Final = 128
FOLDERS_MAX: Final = 3
# What the files beside the entry may end in: code, headers, and data in text.
HEADER_SUFFIXES: Final = (".c", ".h", ".hh", ".hpp", ".cuh", ".inl", ".inc")
OTHER_SUFFIXES: Final = (*(".py", ".cpp", ".cu", ".hip"), *HEADER_SUFFIXES, ".ptx", ".json", ".txt")
PACKED_MEDIA: Final = "application/vnd.warpboard.files"
ARCHIVES: Final = (".zip", ".tgz", ".tar.gz", ".tar", ".whl")

# The entry's name in a run, without its suffix, if a problem takes several files.
ENTRY_STEM: Final = "submission"
# What the entry of a folder is called, without its suffix, and the suffixes that it may have.
ENTRY_STEMS: Final = (ENTRY_STEM, "kernel")
ENTRY_SUFFIXES: Final = (".py", ".cpp", ".cu", ".hip")

_MARK = b"\0files "
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\Z")
# Modules that a file beside the entry must not hide: ours, those of Python, and those that every
# agent or a toolchain has.
_MODULES = sys.stdlib_module_names | {
    *("harness", "warpboard", "task", "utils", "reference", "eval", ENTRY_STEM),
    *("sitecustomize", "usercustomize", "warpboard_reference", "warpboard_processor"),
    *("torch", "triton", "numpy", "numba", "cupy", "cupyx", "jax", "jaxlib", "cutlass", "cuda"),
}


class SourceFile(msgspec.Struct, frozen=True):
    """A file by its name, a path relative to the entry's folder with /, and its bytes."""

    name: str
    data: bytes

    @property
    def text(self) -> str:
        """The file as text, whatever its bytes."""
        return self.data.decode("utf-8", "replace")


def pack_files(files: Sequence[SourceFile]) -> bytes:
    r"""Return the blob of files, the entry first.

    >>> pack_files([SourceFile("k.py", b"import h")])
    b'import h'
    >>> pack_files([SourceFile("k.py", b"import h"), SourceFile("h.py", b"x = 1")])
    b'\x00files [["k.py", 8], ["h.py", 5]]\nimport hx = 1'
    """
    entry, *others = files
    if not others:
        return entry.data
    ordered = [entry, *sorted(others, key=lambda file: file.name)]
    head = json.dumps([[file.name, len(file.data)] for file in ordered]).encode()
    return b"".join([_MARK, head, b"\n", *(file.data for file in ordered)])


def unpack_files(name: str, blob: bytes) -> tuple[SourceFile, ...]:
    r"""Return the files of a blob, the entry first; `name` is that of the entry.

    Raises Failed if the blob is damaged.

    >>> [file.name for file in unpack_files("k.py", b"\0files [[\"k.py\", 1], [\"h.py\", 2]]\nabc")]
    ['k.py', 'h.py']
    >>> unpack_files("k.py", b"import h")
    (SourceFile(name='k.py', data=b'import h'),)
    """
    if not blob.startswith(_MARK):
        return (SourceFile(name, blob),)
    head, _, body = blob.removeprefix(_MARK).partition(b"\n")
    try:
        entries = msgspec.json.decode(head, type=list[tuple[str, int]])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Failed(f"the files of a submission cannot be read: {error}") from error
    if (
        not entries
        or sum(size for _, size in entries) != len(body)
        or min(it[1] for it in entries) < 0
    ):
        raise Failed("the files of a submission do not have the lengths that they claim")
    if not all(_PART.match(part) for name, _ in entries for part in name.split("/")):
        raise Failed("the files of a submission have names that lead elsewhere")
    return tuple(_split(entries, body))


def _split(entries: Sequence[tuple[str, int]], body: bytes) -> Iterator[SourceFile]:
    start = 0
    for name, size in entries:
        yield SourceFile(name, body[start : start + size])
        start += size


def choose_entry(folder: str, names: Sequence[str]) -> str:
    """Return which file of a folder is the entry, of names relative to it. Raises Refused.

    >>> choose_entry("tiled", ["lib/a.py", "helper.py", "kernel.py"])
    'kernel.py'
    """
    own = [name for name in names if "/" not in name and name.endswith(ENTRY_SUFFIXES)]
    entries = [name for name in own if name.rpartition(".")[0] in ENTRY_STEMS] or own
    if len(entries) != 1:
        candidates, stems = " and ".join(entries) or "none", " or ".join(ENTRY_STEMS)
        reason = f"the entry file of {folder} could be {candidates}: call one {stems}"
        raise Refused("bad_file", reason, "files")
    return entries[0]


def code_language(name: str) -> str:
    """Return the language of a file beside an entry: `python`, `cpp`, or `text` for data.

    >>> code_language("helper.py"), code_language("tile.cuh"), code_language("sizes.json")
    ('python', 'cpp', 'text')
    """
    if name.endswith((".json", ".txt")):
        return "text"
    return "python" if name.endswith(".py") else "cpp"


def join_texts(files: Sequence[SourceFile]) -> str:
    """Return all files as one text, for what reads words and not code.

    >>> join_texts([SourceFile("k.py", b"a"), SourceFile("h.py", b"b")])
    'a\\nb'
    """
    return "\n".join(file.text for file in files)


def zip_files(files: Sequence[SourceFile]) -> bytes:
    """Return files as a ZIP archive, to download them at once; no submission is sent as one."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name), file.data)
    return buffer.getvalue()


def check_files(
    entry: str, others: Sequence[SourceFile], files_max: int, reserved: Collection[str]
) -> None:
    """Refuse the files beside an entry for their number or their names, naming the file.

    `reserved` are the names of the problem's files. Two names that differ only in case are equal.
    """
    count = 1 + len(others)
    if count > files_max:
        allowed = "one file" if files_max == 1 else f"at most {files_max} files"
        message = f"{count} files; this problem takes {allowed}: send fewer, or join them"
        raise Refused("too_many_files", message, "files")
    taken = {entry.lower(): entry}
    forbidden = {name.lower() for name in (*reserved, *BOX_FILES)}
    for file in others:
        _check_name(file.name)
        _check_free(file.name, forbidden)
        _check_distinct(file.name, taken)


def _check_name(name: str) -> None:
    """Refuse a name that is no plain relative path of a text file."""
    parts = name.split("/")
    if name.lower().endswith(ARCHIVES):
        message = f"{name!r:.200} is an archive: send its files one by one"
        raise Refused("archive_not_supported", message, "files")
    if not all(map(_PART.match, parts)) or len(name) > NAME_LENGTH_MAX:
        message = (
            f"{name!r:.200} is not a valid file name: write a path relative to the entry such as "
            "helper.cu or lib/tile.cuh, of A-Z a-z 0-9 . _ -, with no part that begins with a dot "
            f"or a hyphen, at most {NAME_LENGTH_MAX} characters"
        )
        raise Refused("bad_file_name", message, "files")
    if len(parts) > FOLDERS_MAX + 1:
        message = f"{name!r} is {len(parts) - 1} folders deep: use at most {FOLDERS_MAX}"
        raise Refused("bad_file_name", message, "files")
    if not name.endswith(OTHER_SUFFIXES):
        message = (
            f"{name!r} does not end in {', '.join(OTHER_SUFFIXES)}: rename it, or leave it out"
        )
        raise Refused("bad_extension", message, "files")


def _check_free(name: str, forbidden: Collection[str]) -> None:
    """Refuse the name of a file that a run puts beside the entry, or of a module of others."""
    first = name.partition("/")[0].lower()
    if first in forbidden:
        message = f"{name!r} has the name of a file of the problem or of the harness: rename it"
        raise Refused("bad_file_name", message, "files")
    stem, _, suffix = first.partition(".")
    if suffix in ("", "py") and stem in _MODULES:
        message = f"{name!r} would hide the module {stem}: rename it"
        raise Refused("bad_file_name", message, "files")
    if stem == ENTRY_STEM and "/" not in name:
        message = f"{name!r} has the name that the entry gets in a run: rename it"
        raise Refused("bad_file_name", message, "files")


def _check_distinct(name: str, taken: dict[str, str]) -> None:
    """Refuse a name that another file has, or that is a folder of another one."""
    own = name.lower()
    for other, spelled in taken.items():
        if own == other or own.startswith(f"{other}/") or other.startswith(f"{own}/"):
            message = f"{name!r} and {spelled!r} cannot be in one folder: rename one of them"
            raise Refused("bad_file_name", message, "files")
    taken[own] = name
