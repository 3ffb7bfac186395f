"""Which files a problem version holds, and under which names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.problems.document import Document, Path, bad_problem, shown
from shared.problems.task_yml import SUBMISSION, TaskYml

FILE_BYTES_MAX = 1_000_000
REFERENCE = "reference.py"
NATIVE = ("task.h", "reference.cuh")
SUFFIXES = {"py": ".py", "cu": ".cu"}
STATEMENT = "statement.md"
MANIFEST = "manifest.json"
SUBMISSION_NAME = "submission.py"
UP = "../"

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
        if name == self._submission:
            # Public problems begin a submission under the submission's own name.
            name = f"template_{name}"
        _check_name(self._document, name, path)
        data = self._text(source, path)
        if self.kept.get(name, data) != data:
            what = f"{shown(name)} is there with another text: rename it or the other file"
            self._document.refuse(path, what)
        self.kept[name] = data
        return name

    def _text(self, source: str, path: Path) -> bytes:
        found = normal(source) or ""
        if found not in self._files:
            what = f"{shown(source)} is no file of the problem: add it, or mend the path"
            if not found or found.startswith(UP):
                what = f"{shown(source)} leads out of the problem's root: copy the file into it"
            self._document.refuse(path, what)
        _check_text(source, self._files[found])
        return self._files[found]


def _submission(document: Document, task: TaskYml) -> str:
    """The name of the one entry that stands for the participant's file."""
    found = [i for i, entry in enumerate(task.files) if entry.source == SUBMISSION]
    if len(found) != 1:
        path: tuple[Any, ...] = ("files", found[1]) if found else ("files",)
        what = f"{len(found)} entries have source {shown(SUBMISSION)}: write exactly one"
        document.refuse(path, what)
    name = task.files[found[0]].name
    _check_name(document, name, ("files", found[0], "name"))
    end = SUFFIXES[task.lang]
    if not name.endswith(end):
        what = f"the submission {shown(name)} is not of lang {task.lang}: end its name in {end}"
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


def normal(source: str) -> str | None:
    r"""A source's plain path from the problem's directory, which may go up; None for any other.

    >>> normal("./code/../task.py"), normal("a/../../utils.py"), normal("/etc/x"), normal("a\\b")
    ('task.py', '../utils.py', None, None)
    """
    parts: list[str] = []
    for part in source.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    is_foreign = source.startswith("/") or "\\" in source or source[1:2] == ":" or "\0" in source
    return None if is_foreign or not parts else "/".join(parts)


def above(task: Document) -> list[str]:
    """The paths above its directory that a problem takes files from, for who reads them.

    Of a task that says it in another form there are none: who compiles it says what is wrong.
    """
    value = task.value if isinstance(task.value, dict) else {}
    files, templates = value.get("files"), value.get("templates")
    entries = files if isinstance(files, list) else []
    sources = [one.get("source") for one in entries if isinstance(one, dict)]
    sources += list(templates.values()) if isinstance(templates, dict) else []
    found = {normal(one) for one in sources if isinstance(one, str)}
    return sorted(one for one in found if one and one.startswith(UP))
