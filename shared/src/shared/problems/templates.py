"""Starter code for submissions: the author's template of a language, or a generated one.

A generated template imports without error, describes the expected result, and fails the tests until
it is filled in. That of a model keeps its constructor, because parameters must be created in the
same order as in the model.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from string import Template
from typing import Any

from shared.errors import Refused
from shared.problems.single_file import KERNELBENCH, REFERENCE_CODE, TYPES
from shared.problems.sources import CODE_BYTES_MAX, NATIVE, REFERENCE, TASK
from shared.problems.submission_file import PLAIN, SUFFIXES, suffix, suffixes

MODEL, FORWARD = "Model", "forward"
MODEL_UNWRITTEN = "forward is still to be written"

# A half-open range of lines, and its replacement.
Edit = tuple[tuple[int, int], list[str]]

_HELPER_FUNCTIONS = ("get_inputs", "get_init_inputs")
_MODEL_CLASS_NAME = re.compile(r"\b(class |super\()Model\b")
_FALLBACK_TEMPLATE = f"""\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, *arguments):
        super().__init__()

    def forward(self, *inputs):
        # Gives what the forward of Model gives.
        raise NotImplementedError("{MODEL_UNWRITTEN}")
"""


def parse_or_empty(data: bytes) -> ast.Module:
    """Parse a file; return an empty module if it cannot be parsed."""
    try:
        return ast.parse(data if len(data) <= CODE_BYTES_MAX else b"")
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        return ast.Module([], [])


def write_model_template(reference: bytes) -> str:
    r"""Return the model's file with the class renamed to ModelNew and its forward to implement.

    >>> model = b"class Model(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    >>> print(write_model_template(model))
    class ModelNew(nn.Module):
        def forward(self, x):
            # return x + 1
            raise NotImplementedError("forward is still to be written")
    <BLANKLINE>
    """
    tree = parse_or_empty(reference)
    models = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == MODEL]
    members = models[-1].body if models else []
    forwards = [
        node for node in members if isinstance(node, ast.FunctionDef) and node.name == FORWARD
    ]
    if not forwards:
        return _FALLBACK_TEMPLATE
    # Split as the syntax tree counts lines: it takes no other character as a line break.
    lines = re.split(r"\r\n|\r|\n", reference.decode("utf-8-sig", errors="replace"))
    edits: list[Edit] = [_comment_out_body(lines, forwards[-1])]
    for node in tree.body:
        # What serves only the problem, or only running the file as a program.
        is_program = isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        if is_program or (isinstance(node, ast.FunctionDef) and node.name in _HELPER_FUNCTIONS):
            decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
            first, last = min([node.lineno, *decorators]) - 1, node.end_lineno or node.lineno
            edits.append(((first, last), []))
    for (first, last), replacement in sorted(edits, reverse=True):
        lines[first:last] = replacement
    return _MODEL_CLASS_NAME.sub(
        r"\1ModelNew", re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines).rstrip() + "\n")
    )


def _comment_out_body(lines: Sequence[str], forward: ast.FunctionDef) -> Edit:
    first, last = forward.body[0].lineno - 1, forward.end_lineno or forward.lineno
    column = forward.body[0].col_offset
    if lines[first].encode()[:column].strip():
        # The body begins on the line of the `def`.
        first, indent = forward.lineno - 1, " " * (forward.col_offset + 4)
        head = [f"{' ' * forward.col_offset}def forward({ast.unparse(forward.args)}):"]
        body = [line for node in forward.body for line in ast.unparse(node).splitlines()]
    else:
        head, indent = [], " " * column
        body = [line.removeprefix(indent) for line in lines[first:last]]
    comments = [f"{indent}# {line}".rstrip() for line in body]
    raise_line = f'{indent}raise NotImplementedError("{MODEL_UNWRITTEN}")'
    return (first, last), [*head, *comments, raise_line]


UNWRITTEN = "custom_kernel is still to be written"

_LANGUAGE_ALIASES: Mapping[str, str] = {"c++": "cpp", "py": "python", "cu": "cuda"}
_HOST_ARRAYS_TEMPLATE = f"""\
#include "task.h"

#include <stdexcept>

$types// Gives what ref_kernel(data) of $reference gives.
output_t custom_kernel(input_t data) {{
    throw std::runtime_error("{UNWRITTEN}");
}}
"""
_DEVICE_ARRAYS_TEMPLATE = f"""\
#include "task.h"
#include "wb_device.h"

#include <stdexcept>

$types// Writes what ref_kernel(data) of $reference gives into output. Both are views of what is on
// the device.
void custom_kernel(wb::device<input_t> data, wb::device<output_t> output) {{
    throw std::runtime_error("{UNWRITTEN}");
}}
"""
# How a header defines the types of data and answer, on up to a few lines.
_TYPE_DEFINITION = re.compile(
    r"^[ \t]*(?:using|typedef)\b[^;{}]{0,300}\b(?:input_t|output_t)\b[^;{}]{0,300};", re.MULTILINE
)
_C_INTERFACE_TEMPLATE = f"""\
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
class StarterTemplate:
    """A language that a submission can start in.

    `file` names the author's template; it is empty if the template is generated. `suffix` is the
    suffix of a submission's file name in this language.
    """

    language: str
    suffix: str
    file: str = ""


@dataclass(frozen=True)
class TemplateHeader:
    """The facts shown above a template; the user plans to use the `planned_gpus`."""

    slug: str
    title: str
    gpus: Sequence[str]
    deadline_at: datetime | None = None
    planned_gpus: Sequence[str] = ()


def starter_templates(manifest: Mapping[str, Any]) -> tuple[StarterTemplate, ...]:
    """Return the languages that a submission to a problem version can start in, Python first.

    >>> manifest = {"languages": ["python", "cuda"], "templates": {"Triton": "blocks.py"}}
    >>> templates = starter_templates(manifest)
    >>> [(template.language, template.suffix, template.file) for template in templates]
    [('triton', '.py', 'blocks.py'), ('cuda', '.cu', '')]
    """
    languages = manifest["languages"] or ["python"]
    allowed_suffixes = suffixes(languages)
    from_author = [
        StarterTemplate(language.lower(), suffix(file), file)
        for language, file in manifest["templates"].items()
    ]
    templates = [template for template in from_author if template.suffix in allowed_suffixes]
    covered_suffixes = {template.suffix for template in templates}
    templates += [
        StarterTemplate(language, SUFFIXES[language])
        for language in languages
        if SUFFIXES[language] not in covered_suffixes
    ]
    return tuple(
        sorted(
            templates,
            key=lambda template: (template.suffix != ".py", template.language != "python"),
        )
    )


def normalize_language(name: str) -> str:
    """Return Warpboard's name of a language, given any common name of it.

    >>> normalize_language("C++"), normalize_language("Triton")
    ('cpp', 'triton')
    """
    return _LANGUAGE_ALIASES.get(name.lower(), name.lower())


def find_starter_template(manifest: Mapping[str, Any], language: str) -> StarterTemplate:
    """Return the starter template of a language, ignoring case. Errors: Refused `not_found`.

    >>> find_starter_template({"languages": ["cpp"], "templates": {}}, "C++").suffix
    '.cpp'
    """
    templates = starter_templates(manifest)
    name = normalize_language(language)
    matches = [template for template in templates if template.language == name] or [
        template for template in templates if template.suffix == SUFFIXES.get(name)
    ]
    if matches:
        return matches[0]
    names = ", ".join(template.language for template in templates)
    raise Refused("not_found", f"no template for {language!r}: available are {names}", "language")


def template_sources(manifest: Mapping[str, Any], template: StarterTemplate) -> tuple[str, ...]:
    """Return the names of the problem files that a template is made from."""
    names = (template.file,) if template.file else (TASK, REFERENCE, NATIVE[0], REFERENCE_CODE)
    return tuple(name for name in names if name in manifest["files"])


def render_template(
    manifest: Mapping[str, Any], template: StarterTemplate, files: Mapping[str, bytes]
) -> str:
    """Return the template's text; `files` holds the files named by `template_sources`."""
    if template.file:
        return files[template.file].decode("utf-8-sig", errors="replace")
    if template.suffix != ".py":
        if manifest.get("lang") != "cu":
            return _C_INTERFACE_TEMPLATE
        return _native_template(files, is_device=manifest["native"].get("arrays") == "device")
    if manifest.get("form") == KERNELBENCH:
        return write_model_template(files.get(REFERENCE, b""))
    return _kernel_template(files)


def add_template_header(head: TemplateHeader, file_suffix: str, body: str) -> str:
    r"""Put directives, title, deadline and GPU types above a template, as comments.

    >>> head = TemplateHeader("p", "P", ["CPU", "H100"])
    >>> print(add_template_header(head, ".cu", "//!POPCORN gpus T4\nint x;\n"), end="")
    //!POPCORN leaderboard p
    // P
    // No deadline
    // GPU types: CPU, H100
    <BLANKLINE>
    int x;
    """
    comment_mark = "#" if file_suffix == PLAIN else "//"
    lines = [f"{comment_mark}!POPCORN leaderboard {head.slug}"]
    lines += (
        [f"{comment_mark}!POPCORN gpu {' '.join(head.planned_gpus)}"] if head.planned_gpus else []
    )
    title = " ".join(head.title.split()) or head.slug
    deadline = "No deadline"
    if head.deadline_at is not None:
        deadline = f"Deadline: {head.deadline_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    lines += [f"{comment_mark} {title}", f"{comment_mark} {deadline}"]
    lines += [f"{comment_mark} GPU types: {', '.join(head.gpus)}", ""]
    # Split where compilers end a line: other Unicode line breaks do not end a comment for them.
    code_lines = [line for line in re.split(r"\r\n|\r|\n", body) if "!POPCORN" not in line.upper()]
    text = "\n".join(code_lines).strip("\n") + "\n"
    lines += [""] if text.startswith(("def ", "class ", "@")) else []
    return "\n".join(lines) + "\n" + text


def _kernel_template(files: Mapping[str, bytes]) -> str:
    """Return a custom_kernel that unpacks its data as the reference does, and returns nothing."""
    task, reference = (
        parse_or_empty(files.get(TASK, b"")),
        parse_or_empty(files.get(REFERENCE, b"")),
    )
    is_typed = set(TYPES) <= set(_assigned_names(task))
    lines = [f"from task import {', '.join(TYPES)}", "", ""] if is_typed else []
    functions = (node for node in reference.body if isinstance(node, ast.FunctionDef))
    ref_kernel = next((node for node in functions if node.name == "ref_kernel"), None)
    name, names = _argument_names(ref_kernel)
    lines += [f"def custom_kernel({name}{': input_t) -> output_t' if is_typed else ')'}:"]
    lines += [f"    {', '.join(names)}{',' if len(names) == 1 else ''} = {name}"] if names else []
    lines += [f"    # Gives what ref_kernel({name}) of {REFERENCE} gives."]
    return "\n".join([*lines, f'    raise NotImplementedError("{UNWRITTEN}")', ""])


def _native_template(files: Mapping[str, bytes], *, is_device: bool) -> str:
    """Return a custom_kernel in C++ below the definitions of its types, as comments."""
    reference = REFERENCE_CODE if REFERENCE_CODE in files else NATIVE[1]
    header = REFERENCE_CODE if REFERENCE_CODE in files else NATIVE[0]
    text = files.get(header, b"").decode("utf-8-sig", errors="replace")
    definitions = [" ".join(match[0].split()) for match in _TYPE_DEFINITION.finditer(text)]
    types = "".join(f"// {definition}\n" for definition in definitions)
    page = Template(_DEVICE_ARRAYS_TEMPLATE if is_device else _HOST_ARRAYS_TEMPLATE)
    return page.substitute(types=types and f"{types}\n", reference=reference)


def _argument_names(function: ast.FunctionDef | None) -> tuple[str, list[str]]:
    """Return the name of a function's only argument, and the names it is first unpacked into."""
    if function is None or len(function.args.args) != 1:
        return "data", []
    name = function.args.args[0].arg
    for node in function.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets), *_], value=ast.Name(id=value)) if (
                value == name
            ):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                return name, names if len(names) == len(targets) else []
    return name, []


def _assigned_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=alias):
                yield alias or name
