"""Which files a problem version holds, and under which names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.problems.document import Document, Path, bad_problem, shown
from shared.problems.task_yml import SUBMISSION, TaskYml

FILE_BYTES_MAX = 1_000_000
REFERENCE = "reference.py"
STATEMENT = "statement.md"
MANIFEST = "manifest.json"

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")


@dataclass(frozen=True)
class Sources:
    """The files by plain name, the submission's own name, and the template of each language."""

    files: Mapping[str, bytes]
    submission: str
    templates: Mapping[str, str]


def gathered(document: Document, task: TaskYml, files: Mapping[str, bytes]) -> Sources:
    """What `task` asks of `files`, and the statement. Errors: Refused."""
    submission = _submission(document, task)
    shelf = _Shelf(document, files, submission)
    for index, entry in enumerate(task.files):
        if entry.source != SUBMISSION:
            shelf.put(entry.name, entry.source, ("files", index))
    if REFERENCE not in shelf.kept:
        document.refuse(("files",), f"no file {shown(REFERENCE)}: add it, with its source")
    templates = {
        language: shelf.put_template(source, ("templates", language))
        for language, source in task.templates.items()
    }
    if STATEMENT in files:
        shelf.put_template(STATEMENT, ())
    return Sources(shelf.kept, submission, templates)


class _Shelf:
    """Takes files in by name, each once."""

    def __init__(self, document: Document, files: Mapping[str, bytes], submission: str) -> None:
        self._document = document
        self._files = files
        self._submission = submission
        self.kept: dict[str, bytes] = {}

    def put(self, name: str, source: str, path: Path) -> None:
        """Keeps the text of `source` under `name`, which must be free."""
        _check_name(self._document, name, (*path, "name"))
        if name in self.kept or name == self._submission:
            what = f"{shown(name)} is there twice: give one of them another name"
            self._document.refuse((*path, "name"), what)
        self.kept[name] = self._text(source, (*path, "source"))

    def put_template(self, source: str, path: Path) -> str:
        """Keeps the text of `source` under its own last name; the same text twice is one file."""
        name = source.rpartition("/")[2]
        _check_name(self._document, name, path)
        data = self._text(source, path)
        if name == self._submission or self.kept.get(name, data) != data:
            what = f"{shown(name)} is there with another text: rename it or the other file"
            self._document.refuse(path, what)
        self.kept[name] = data
        return name

    def _text(self, source: str, path: Path) -> bytes:
        inside = _inside(source)
        if inside is None:
            what = f"{shown(source)} leads out of the problem's directory: copy the file into it"
            self._document.refuse(path, what)
        if inside not in self._files:
            what = f"{shown(source)} is no file of the problem: add it, or mend the path"
            self._document.refuse(path, what)
        _check_text(inside, self._files[inside])
        return self._files[inside]


def _submission(document: Document, task: TaskYml) -> str:
    """The name of the one entry that stands for the participant's file."""
    found = [i for i, entry in enumerate(task.files) if entry.source == SUBMISSION]
    if len(found) != 1:
        path: tuple[Any, ...] = ("files", found[1]) if found else ("files",)
        what = f"{len(found)} entries have source {shown(SUBMISSION)}: write exactly one"
        document.refuse(path, what)
    name = task.files[found[0]].name
    _check_name(document, name, ("files", found[0], "name"))
    if not name.endswith(".py"):
        what = f"the submission {shown(name)} is no Python file: end its name in .py"
        document.refuse(("files", found[0], "name"), what)
    return name


def _check_name(document: Document, name: str, path: Path) -> None:
    if not _PLAIN_NAME.match(name) or name == MANIFEST:
        what = f"{shown(name)} cannot name a file here: write a plain name such as task.py"
        document.refuse(path, what)


def _check_text(name: str, data: bytes) -> None:
    if len(data) > FILE_BYTES_MAX:
        raise bad_problem(f"{name} has {len(data)} bytes: at most {FILE_BYTES_MAX}", name)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise bad_problem(f"{name} is not UTF-8 at byte {error.start}: save it so", name) from error


def _inside(source: str) -> str | None:
    r"""The source relative to the problem's directory; None if it leads out of it.

    >>> _inside("./code/../task.py"), _inside("../task.py"), _inside("/etc/passwd"), _inside("a\\b")
    ('task.py', None, None, None)
    """
    parts: list[str] = []
    for part in source.split("/"):
        if part == ".." and not parts:
            return None
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    is_foreign = source.startswith("/") or "\\" in source or source[1:2] == ":"
    return None if is_foreign or not parts else "/".join(parts)
