"""The files of a problem version, and what its Python files define: read, never run here."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.problems.document import Document, Path, bad_problem, quote_value
from shared.problems.task_yml import SUBMISSION, TaskYml

FILE_BYTES_MAX = 1_000_000
REFERENCE = "reference.py"
# The types of data and answer, which submissions may import.
TASK = "task.py"
NATIVE = ("task.h", "reference.cuh")
SUFFIXES = {"py": ".py", "cu": ".cu"}
STATEMENT = "statement.md"
MANIFEST = "manifest.json"
REFERENCE_FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")
UP = "../"

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")
_SHARED_ADVICE = (
    "list the problem in a competition file in the folder of both"
    " (name: SET, problems: [{directory: DIR, name: SLUG}]), or copy it"
)


@dataclass(frozen=True)
class Sources:
    """The files by plain name, the submission's own name, and each language's template."""

    files: Mapping[str, bytes]
    submission: str
    templates: Mapping[str, str]


def gather_sources(document: Document, task: TaskYml, files: Mapping[str, bytes]) -> Sources:
    """Collect the files that `task` lists, and the statement. Errors: Refused."""
    submission = _submission_name(document, task)
    collector = _FileCollector(document, files, submission)
    for index, entry in enumerate(task.files):
        if entry.source != SUBMISSION:
            collector.add(entry.name, entry.source, ("files", index))
    templates = {
        language: collector.add_template(source, ("templates", language))
        for language, source in task.templates.items()
    }
    if STATEMENT in files:
        collector.add_template(STATEMENT, ())
    return Sources(collector.collected, submission, templates)


class _FileCollector:
    """Collects files under their names, each name once."""

    def __init__(self, document: Document, files: Mapping[str, bytes], submission: str) -> None:
        self._document = document
        self._files = files
        self._submission = submission
        self.collected: dict[str, bytes] = {}

    def add(self, name: str, source: str, path: Path) -> None:
        _check_name(self._document, name, (*path, "name"))
        if name in self.collected or name == self._submission:
            reason = f"{quote_value(name)} is listed twice: rename one of them"
            self._document.refuse((*path, "name"), reason)
        self.collected[name] = self._read_text(source, (*path, "source"))

    def add_template(self, source: str, path: Path) -> str:
        """Add the text of `source` under its base name; equal texts are one file."""
        name = source.rpartition("/")[2]
        if name == self._submission:
            # In public problems the template often has the submission's own name.
            name = f"template_{name}"
        _check_name(self._document, name, path)
        data = self._read_text(source, path)
        if self.collected.get(name, data) != data:
            reason = f"{quote_value(name)} exists with another text: rename one of the files"
            self._document.refuse(path, reason)
        self.collected[name] = data
        return name

    def _read_text(self, source: str, path: Path) -> bytes:
        source_path = normalize_path(source) or ""
        if source_path not in self._files:
            reason = f"{quote_value(source)} is no file of the problem: add it, or fix the path"
            if source_path.startswith(UP):
                reason = f"{quote_value(source)} is outside the problem's folder: {_SHARED_ADVICE}"
            elif not source_path:
                reason = f"{quote_value(source)} is outside the problem's folder: copy it into that"
            self._document.refuse(path, reason)
        _check_text(source, self._files[source_path])
        return self._files[source_path]


def _submission_name(document: Document, task: TaskYml) -> str:
    """Return the name of the one entry that stands for the participant's file."""
    indexes = [index for index, entry in enumerate(task.files) if entry.source == SUBMISSION]
    if len(indexes) != 1:
        path: tuple[Any, ...] = ("files", indexes[1]) if indexes else ("files",)
        reason = f"{len(indexes)} entries have source {quote_value(SUBMISSION)}: write exactly one"
        document.refuse(path, reason)
    name = task.files[indexes[0]].name
    _check_name(document, name, ("files", indexes[0], "name"))
    suffix = SUFFIXES[task.lang]
    if not name.endswith(suffix):
        reason = f"the submission {quote_value(name)} is not of lang {task.lang}"
        path = ("files", indexes[0], "name")
        document.refuse(path, f"{reason}: its name must end in {suffix}")
    return name


def _check_name(document: Document, name: str, path: Path) -> None:
    if not _PLAIN_NAME.match(name) or name == MANIFEST:
        reason = f"{quote_value(name)} is not a valid file name: write a plain name such as task.py"
        document.refuse(path, reason)


def _check_text(name: str, data: bytes) -> None:
    if len(data) > FILE_BYTES_MAX:
        raise bad_problem(f"{name} has {len(data)} bytes: at most {FILE_BYTES_MAX}", name)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        reason = f"{name} is not UTF-8 at byte {error.start}: save it as UTF-8"
        raise bad_problem(reason, name) from error


def normalize_path(source: str) -> str | None:
    r"""Normalize a path relative to the problem's directory; it may go up. None if invalid.

    >>> normalize_path("./code/../task.py"), normalize_path("a/../../utils.py")
    ('task.py', '../utils.py')
    >>> normalize_path("/etc/x") is normalize_path("a\\b") is None
    True
    """
    parts: list[str] = []
    for part in source.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    is_foreign = source.startswith("/") or "\\" in source or source[1:2] == ":" or "\0" in source
    return None if is_foreign or not parts else "/".join(parts)


def paths_above(task: Document) -> list[str]:
    """Return the source paths above the problem's directory, for whoever reads the files.

    An invalid task has none: the compiler explains what is wrong with it.
    """
    value = task.value if isinstance(task.value, dict) else {}
    files, templates = value.get("files"), value.get("templates")
    entries = files if isinstance(files, list) else []
    sources = [entry.get("source") for entry in entries if isinstance(entry, dict)]
    sources += list(templates.values()) if isinstance(templates, dict) else []
    paths = {normalize_path(source) for source in sources if isinstance(source, str)}
    return sorted(path for path in paths if path and path.startswith(UP))


# The gap before the brace is bounded: otherwise a long text of such names takes minutes to search.
_ARGUMENT_NAMES = re.compile(r"\bArgumentNames\b[^{};]{0,200}?\{((?:[^{}]|\{[^{}]*\})*)\}")
_ARGUMENT_NAME = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')


def native_argument_names(header: str) -> tuple[str, ...] | None:
    """Return the arguments of a C++ problem's generator; None if its task.h does not name them.

    >>> native_argument_names('constexpr std::array ArgumentNames = {"size", "seed"};')
    ('size', 'seed')
    """
    match = _ARGUMENT_NAMES.search(header)
    return tuple(_ARGUMENT_NAME.findall(match[1])) if match else None


# Parsing a file of this size takes half a second; authors' code is far shorter.
CODE_BYTES_MAX = 256 * 1024
ANY = "*"


@dataclass(frozen=True)
class Signature:
    """How a function can be called; `takes_any` if its source does not tell."""

    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    takes_any: bool = False

    def complaint(self, arguments: Mapping[str, object]) -> str:
        """Return what is wrong with these keyword arguments; "" if nothing is.

        >>> Signature(("size", "seed"), ("size",)).complaint({"sise": 4})
        "has no 'size'"
        """
        for name in self.needs:
            if name not in arguments:
                return f"has no {name!r}"
        for name in arguments:
            if not self.takes_any and name not in self.takes:
                return f"has {name!r}, which it does not take"
        return ""


@dataclass(frozen=True)
class Module:
    """The top-level names of a file, each with its signature, and the parsed file."""

    names: Mapping[str, Signature]
    tree: ast.Module = field(repr=False)

    def has(self, name: str) -> bool:
        """Return whether the file defines a name, as far as its source tells."""
        return name in self.names or ANY in self.names

    def signature(self, name: str) -> Signature:
        """Return how a name can be called."""
        return self.names.get(name, Signature(takes_any=True))


def read_module(name: str, data: bytes) -> Module:
    """Read what a file defines. Errors: Refused if it is not Python.

    >>> read_module("reference.py", b"def f(a, b=1): ...").names["f"]
    Signature(takes=('a', 'b'), needs=('a',), takes_any=False)
    """
    if len(data) > CODE_BYTES_MAX:
        reason = f"code has at most {CODE_BYTES_MAX}, so move data to another file"
        raise bad_problem(f"{name} has {len(data)} bytes: {reason}", name)
    try:
        tree = ast.parse(data)
        names = dict(pair for node in tree.body for pair in _defined_names(node))
    except SyntaxError as error:
        place = f", line {error.lineno}" if error.lineno else ""
        raise bad_problem(f"{name}{place}: not Python: {error.msg}", name) from error
    except ValueError as error:
        # NUL bytes, which raise a SyntaxError from Python 3.11.4 on.
        raise bad_problem(f"{name}: not Python: {error}", name) from error
    except (MemoryError, RecursionError) as error:
        reason = "too deeply nested to be parsed: use fewer levels"
        raise bad_problem(f"{name}: {reason}", name) from error
    return Module(names, tree)


def _defined_names(node: ast.stmt) -> Iterator[tuple[str, Signature]]:
    """Yield the names that a statement defines, in all branches of an `if` or `try`."""
    unknown = Signature(takes_any=True)
    if isinstance(node, ast.FunctionDef):
        yield node.name, unknown if node.decorator_list else _read_signature(node.args)
    elif isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
        yield node.name, unknown
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name, unknown) for alias in node.names)
    else:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                yield inner.id, unknown
            elif isinstance(inner, ast.stmt | ast.ExceptHandler):
                yield from _defined_names(inner)  # type: ignore[arg-type]  # a handler contains statements


def _read_signature(args: ast.arguments) -> Signature:
    positional = [argument.arg for argument in (*args.posonlyargs, *args.args)]
    required = positional[: len(positional) - len(args.defaults)]
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    required += [argument.arg for argument, default in pairs if default is None]
    by_keyword = [argument.arg for argument in (*args.args, *args.kwonlyargs)]
    return Signature(tuple(by_keyword), tuple(required), takes_any=args.kwarg is not None)
