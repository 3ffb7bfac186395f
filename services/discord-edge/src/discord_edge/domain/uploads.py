"""A problem as an author attaches it: one file, or a zip of its directory, and its check."""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

from shared.errors import Refused
from shared.problems.report import CheckReport, read_report

UPLOAD_BYTES_MAX = 8 * 1024 * 1024
# All files of a problem together, however small they were made.
FILES_BYTES_MAX = 16 * 1024 * 1024
FILES_MAX = 256
ENTRIES_MAX = 2000
# What an author keeps beside a problem, and what no problem has.
LEFT_OUT = frozenset({"solutions", "__pycache__", "__MACOSX"})
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, OSError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),
)


def _bad(what: str) -> Refused:
    return Refused("bad_file", what, "reference_code")


def check_upload(name: str, size: int) -> None:
    """Refuse a problem before it is read.

    >>> check_upload("reference.py", 100)
    """
    if not name.endswith((".py", ".zip")):
        raise _bad("attach one reference as .py, or a .zip of the directory of task.yml")
    if not 0 < size <= UPLOAD_BYTES_MAX:
        raise _bad(f"the file has {size:,} bytes: 1 to {UPLOAD_BYTES_MAX:,} are taken")


def problem_files(name: str, data: bytes) -> dict[str, bytes]:
    """The files of a problem, by their paths beside its task.yml. Errors: Refused.

    >>> problem_files("reference.py", b"x")
    {'reference.py': b'x'}
    """
    if not name.endswith(".zip"):
        return {name: data}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            return _beside(_entries(opened))
    except UNREADABLE as error:
        raise _bad(f"the zip cannot be read: {error}") from error


def _entries(opened: zipfile.ZipFile) -> dict[str, bytes]:
    listed = opened.infolist()
    if len(listed) > ENTRIES_MAX:
        raise _bad(f"the zip has {len(listed)} entries: at most {ENTRIES_MAX}")
    found: dict[str, bytes] = {}
    left = FILES_BYTES_MAX
    for one in listed:
        if one.is_dir() or not _is_taken(one.filename):
            continue
        # What a zip says of its sizes is not believed.
        with opened.open(one) as file:
            data = file.read(left + 1)
        left -= len(data)
        if left < 0:
            raise _bad(f"the files have more than {FILES_BYTES_MAX:,} bytes together")
        found[one.filename] = data
    return found


def _is_taken(path: str) -> bool:
    """Errors: Refused for a path that leads elsewhere."""
    parts = path.split("/")
    if "" in parts or ".." in parts or "\\" in path:
        raise _bad(f"the zip has a file that leads out of it: {path[:80]!r}")
    return not any(one in LEFT_OUT or one.startswith(".") for one in parts)


def _beside(found: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same without the one folder that all of it may lie in. Errors: Refused."""
    tops = {one.partition("/")[0] for one in found}
    if len(tops) == 1 and all("/" in one for one in found):
        (top,) = tops
        found = {one.removeprefix(f"{top}/"): data for one, data in found.items()}
    if not 0 < len(found) <= FILES_MAX:
        raise _bad(f"the zip has {len(found)} files of a problem: 1 to {FILES_MAX} are taken")
    return dict(found)


def report_of(data: bytes, slug: str) -> CheckReport:
    """What `warpboard problem check --json` says of a problem. Errors: Refused `bad_report`."""
    try:
        said: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        what = f"the report is no JSON: {error}; attach what `problem check --json` says"
        raise Refused("bad_report", what, "report") from error
    problems = said.get("problems") if isinstance(said, dict) else None
    if isinstance(problems, list):
        named = [one for one in problems if isinstance(one, dict) and one.get("slug") == slug]
        if len(named) != 1:
            others = ", ".join(str(one.get("slug"))[:95] for one in problems[:9] if one in problems)
            what = f"the report is of {others or 'nothing'}, not of {slug}: the leaderboard has the"
            raise Refused("bad_report", f"{what} name of the problem's directory", "report")
        # Beside the report itself it says where the files were, and how long it took.
        said = {key: value for key, value in named[0].items() if key in CheckReport.model_fields}
    return read_report(json.dumps(said))
