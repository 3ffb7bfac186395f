"""What a submission begins as: the author's template of a language, or one made of the reference.

One that is made imports, says what is wanted, and fails the tests until it is written.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared.errors import Refused
from shared.problems.languages import SUFFIXES, suffix, suffixes
from shared.problems.models import begun, parsed
from shared.problems.single_file import KERNELBENCH
from shared.problems.sources import REFERENCE

TASK = "task.py"
TYPES = ("input_t", "output_t")
UNWRITTEN = "custom_kernel is still to be written"

_COMMENTS: Mapping[str, str] = {".py": "#", ".cpp": "//", ".cu": "//"}
_OTHER_NAMES: Mapping[str, str] = {"c++": "cpp", "py": "python", "cu": "cuda"}
_HOST = f"""\
#include "task.h"

#include <stdexcept>

// Gives what ref_kernel(data) of reference.cuh gives.
output_t custom_kernel(input_t data) {{
    throw std::runtime_error("{UNWRITTEN}");
}}
"""
_VIEWED = f"""\
#include "task.h"
#include "wb_device.h"

#include <stdexcept>

// Writes what ref_kernel(data) of reference.cuh gives into output: views of what is on the device.
void custom_kernel(wb::device<input_t> data, wb::device<output_t> output) {{
    throw std::runtime_error("{UNWRITTEN}");
}}
"""
_BOUND = f"""\
#include "warpboard.h"

// Inputs are the tensors of `data` in their order; an output buffer is among the outputs alone.
// Fills the outputs with what ref_kernel(data) of reference.py gives, and returns 0.
int custom_kernel(const wb_tensor *inputs, int inputs_count, wb_tensor *outputs, int outputs_count,
                  const char *scalars_json, void *stream) {{
    return 1;
}}

// What a code other than 0 means.
const char *wb_error(void) {{ return "{UNWRITTEN}"; }}
"""


@dataclass(frozen=True)
class Start:
    """A language to begin in; `file` is the author's template, "" where one is made.

    `suffix` is the end of the name of a file in it.
    """

    language: str
    suffix: str
    file: str = ""


@dataclass(frozen=True)
class Head:
    """What stands above a template; `wanted` are the GPU types that it is to be submitted to."""

    slug: str
    title: str
    gpus: Sequence[str]
    deadline_at: datetime | None = None
    wanted: Sequence[str] = ()


def starts(manifest: Mapping[str, Any]) -> tuple[Start, ...]:
    """The languages that a submission to a problem version may begin in, the likeliest first.

    >>> known = starts({"languages": ["python", "cuda"], "templates": {"Triton": "blocks.py"}})
    >>> [(one.language, one.suffix, one.file) for one in known]
    [('triton', '.py', 'blocks.py'), ('cuda', '.cu', '')]
    """
    languages = manifest["languages"] or ["python"]
    ends = suffixes(languages)
    given = [Start(one.lower(), suffix(file), file) for one, file in manifest["templates"].items()]
    found = [one for one in given if one.suffix in ends]
    there = {one.suffix for one in found}
    found += [Start(one, SUFFIXES[one]) for one in languages if SUFFIXES[one] not in there]
    return tuple(sorted(found, key=lambda one: (one.suffix != ".py", one.language != "python")))


def plain_language(name: str) -> str:
    """How a language is called here, whatever somebody calls it.

    >>> plain_language("C++"), plain_language("Triton")
    ('cpp', 'triton')
    """
    return _OTHER_NAMES.get(name.lower(), name.lower())


def start(manifest: Mapping[str, Any], language: str) -> Start:
    """The one of a language, whatever its case. Errors: Refused `not_found`.

    >>> start({"languages": ["cpp"], "templates": {}}, "C++").suffix
    '.cpp'
    """
    known = starts(manifest)
    name = plain_language(language)
    exact = [one for one in known if one.language == name]
    if found := exact or [one for one in known if one.suffix == SUFFIXES.get(name)]:
        return found[0]
    names = ", ".join(one.language for one in known)
    raise Refused("not_found", f"no start in {language!r}: there is {names}", "language")


def sources(manifest: Mapping[str, Any], one: Start) -> tuple[str, ...]:
    """The files of a version that its start is made of."""
    names = (one.file,) if one.file else (TASK, REFERENCE)
    return tuple(name for name in names if name in manifest["files"])


def text(manifest: Mapping[str, Any], one: Start, files: Mapping[str, bytes]) -> str:
    """The text of a start; `files` has what `sources` names."""
    if one.file:
        return files[one.file].decode("utf-8-sig", errors="replace")
    if one.suffix != ".py":
        return _native(manifest)
    if manifest.get("form") == KERNELBENCH:
        return begun(files.get(REFERENCE, b""))
    return _kernel(files)


def _native(manifest: Mapping[str, Any]) -> str:
    if manifest.get("lang") != "cu":
        return _BOUND
    return _VIEWED if manifest["native"].get("arrays") == "device" else _HOST


def served(head: Head, end: str, body: str) -> str:
    r"""A template under its directives, with the title, the deadline and the GPU types as comments.

    >>> head = Head("p", "P", ["CPU", "H100"])
    >>> print(served(head, ".cu", "//!POPCORN gpus T4\nint x;\n"), end="")
    //!POPCORN leaderboard p
    // P
    // No deadline
    // GPU types: CPU, H100
    <BLANKLINE>
    int x;
    """
    mark = _COMMENTS[end]
    lines = [f"{mark}!POPCORN leaderboard {head.slug}"]
    lines += [f"{mark}!POPCORN gpu {' '.join(head.wanted)}"] if head.wanted else []
    title = " ".join(head.title.split()) or head.slug
    lines += [f"{mark} {said}" for said in (title, _deadline(head.deadline_at))]
    lines += [f"{mark} GPU types: {', '.join(head.gpus)}", ""]
    # As compilers end lines: what else ends one for people would end a comment here, and no code.
    kept = [line for line in re.split(r"\r\n|\r|\n", body) if "!POPCORN" not in line.upper()]
    text = "\n".join(kept).strip("\n") + "\n"
    lines += [""] if text.startswith(("def ", "class ", "@")) else []
    return "\n".join(lines) + "\n" + text


def _deadline(at: datetime | None) -> str:
    return "No deadline" if at is None else f"Deadline: {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _kernel(files: Mapping[str, bytes]) -> str:
    """A custom_kernel that takes its data apart as the reference does, and gives nothing."""
    task, reference = parsed(files.get(TASK, b"")), parsed(files.get(REFERENCE, b""))
    is_typed = set(TYPES) <= set(_stored(task))
    lines = [f"from task import {', '.join(TYPES)}", "", ""] if is_typed else []
    ref_kernel = next((one for one in reference.body if _is_function(one, "ref_kernel")), None)
    name, names = _taken(ref_kernel)
    lines += [f"def custom_kernel({name}{': input_t) -> output_t' if is_typed else ')'}:"]
    lines += [f"    {', '.join(names)}{',' if len(names) == 1 else ''} = {name}"] if names else []
    lines += [f"    # Gives what ref_kernel({name}) of {REFERENCE} gives."]
    return "\n".join([*lines, f'    raise NotImplementedError("{UNWRITTEN}")', ""])


def _taken(function: ast.stmt | None) -> tuple[str, list[str]]:
    """What a function calls its one argument, and the names that it first takes that apart into."""
    if not isinstance(function, ast.FunctionDef) or len(function.args.args) != 1:
        return "data", []
    name = function.args.args[0].arg
    for node in function.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Name)
            and node.value.id == name
            and isinstance(node.targets[0], ast.Tuple)
        ):
            parts = [one.id for one in node.targets[0].elts if isinstance(one, ast.Name)]
            return name, parts if len(parts) == len(node.targets[0].elts) else []
    return name, []


def _is_function(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _stored(tree: ast.Module) -> Iterator[str]:
    """The names that a module's statements make."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
