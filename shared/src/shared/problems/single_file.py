"""A problem in one file: Python in a public form or KernelBench's, or C++ and CUDA.

It is read as a task with one case: the defaults of its generator, and a seed if it takes one. The
form follows from the source, which is parsed and never run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from string import Template
from typing import NoReturn

from shared.errors import Refused
from shared.problems.document import Document, bad_problem
from shared.problems.goals import BaselineYml
from shared.problems.kernelbench import BASELINES, REFERENCE_CPU, baseline_files, reduce_sizes
from shared.problems.reference_form import (
    INPUT_OUTPUT,
    OUTPUTS,
    REFERENCE_OUTPUTS,
    native_check_form,
    read_case,
    require_check_form,
)
from shared.problems.sources import (
    CODE_BYTES_MAX,
    NATIVE,
    REFERENCE,
    REFERENCE_FUNCTIONS,
    TASK,
    Module,
    read_module,
)
from shared.problems.submission_file import read_directives
from shared.problems.task_yml import SUBMISSION

KERNELBENCH = "kernelbench"
CALLS = 5
CPP_SUFFIXES = (".cu", ".cuh", ".cpp")
SUFFIXES = (".py", *CPP_SUFFIXES)
# The author's file in C++, among the files of the version.
REFERENCE_CODE = "reference_code.cuh"
TYPES = ("input_t", "output_t")

_MODEL_NAMES = ("Model", "get_inputs", "get_init_inputs")
# Public sets whose tasks lack something: the file of one, and the class of the other.
ROBUST_KBENCH = "func_forward.py"
_LEETGPU_CLASS = re.compile(rb"^class \w+\((?:\w+\.)?ChallengeBase\):", re.MULTILINE)
_WEIGHTS_CALL = b"from_pretrained"
_SEED = 42
_MODEL_DESCRIPTION = "Define `ModelNew`, with the constructor and the `forward` of `Model`."
_DESCRIPTION = "Define `custom_kernel(input)`, which gives what `ref_kernel(input)` gives."
_REDUCED = f" GPU type CPU has the smaller sizes of `{REFERENCE_CPU}`."
_CPP_DESCRIPTION = (
    "Include `task.h` and define `output_t custom_kernel(input_t)`, which returns what `ref_kernel`"
    " returns."
)


@dataclass(frozen=True)
class ProblemSource:
    """The document that is or would be a problem's task.yml, and how the harness calls the problem.

    `form` is "" if it is called like a task directory. `files` are written from the author's file;
    `baselines` are among them. `calls` of each checked case, 0 for those of a task directory.
    """

    document: Document
    form: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    baselines: tuple[BaselineYml, ...] = ()
    calls: int = CALLS
    is_directory: bool = False


def read_single_file(files: Mapping[str, bytes]) -> ProblemSource | None:
    """Find the only file that is a problem by itself; None if there is none.

    Errors: Refused `bad_problem` if there are several, if the form is ambiguous, or if the only
    source file lacks something.
    """
    _refuse_other_sets(files)
    modules = {
        name: module for name, data in files.items() if (module := _read_problem(name, data))
    }
    references = [name for name in files if _is_cpp_reference(name, files[name])]
    if len(names := sorted([*modules, *references])) > 1:
        raise bad_problem(f"{', '.join(names)}: each is a problem by itself, so keep one", names[0])
    if modules:
        ((name, module),) = modules.items()
        return _read_python(name, module, files)
    sources = [name for name in files if name.endswith(SUFFIXES) and "/" not in name]
    sources = [name for name in sources if name not in (REFERENCE_CPU, TASK)]
    if not references and (len(sources) != 1 or not sources[0].endswith(CPP_SUFFIXES)):
        if len(sources) == 1:
            _refuse_incomplete_python(sources[0], files[sources[0]])
        return None
    (name,) = references or sources
    return _CppReference(name, files[name]).read()


def _refuse_other_sets(files: Mapping[str, bytes]) -> None:
    """Refuse a task of a public set in another form, with what makes it a problem here."""
    for name, data in files.items():
        if name == ROBUST_KBENCH and _lacks_init_inputs(read_module(name, data)):
            advice = (
                "a task of robust-kbench: add get_init_inputs() with the arguments of Model, as in"
                " config_forward.json, and check that file alone"
            )
            raise bad_problem(f"{name} is {advice}", name)
        if "/" not in name and name.endswith(".py") and _LEETGPU_CLASS.search(data):
            advice = (
                "a challenge of LeetGPU: write a reference.py with generate_input(seed), ref_kernel"
                " and check_implementation from its performance test, reference_impl, atol and rtol"
            )
            raise bad_problem(f"{name} is {advice}", name)


def _lacks_init_inputs(module: Module) -> bool:
    return {"forward_fn", "Model"} <= module.names.keys() and not module.has("get_init_inputs")


def _read_directive_gpus(name: str, data: bytes) -> dict[str, list[str]]:
    """Return the GPU types that a file names, as keys of a task.yml."""
    try:
        gpus = read_directives(data.decode("utf-8-sig", errors="replace")).gpus
    except Refused as refused:
        raise bad_problem(f"{name}: {refused.reason}", name) from refused
    return {"gpus": list(gpus)} if gpus else {}


def _read_python(name: str, module: Module, files: Mapping[str, bytes]) -> ProblemSource:
    data = files[name]
    is_model = all(required in module.names for required in _MODEL_NAMES)
    form = KERNELBENCH if is_model else require_check_form(name, module.tree)
    case = {} if is_model else read_case(name, module.tree)
    if is_model and _WEIGHTS_CALL in data:
        reason = (
            f"it asks for weights by {_WEIGHTS_CALL.decode()}, and no machine here has a network"
        )
        raise bad_problem(f"{name}: {reason}: make them in the file", name)
    written: dict[str, bytes] = {}
    entries = [
        {"name": "submission.py", "source": SUBMISSION},
        {"name": REFERENCE, "source": name},
    ]
    description = _DESCRIPTION
    if is_model:
        description = _MODEL_DESCRIPTION
        written = baseline_files(data)
        if (reduced := reduce_sizes(data)) != data:
            # No file of the problem has this name.
            written[f"@{REFERENCE_CPU}"] = reduced
            entries.append({"name": REFERENCE_CPU, "source": f"@{REFERENCE_CPU}"})
            description += _REDUCED
    elif TASK in files:
        entries.append({"name": TASK, "source": TASK})
    task = {
        "files": entries,
        "lang": "py",
        "config": {"main": REFERENCE},
        "description": description,
        "tests": [case],
        "benchmarks": [case],
    }
    document = Document(name, task | _read_directive_gpus(name, data), {})
    return ProblemSource(document, form, written, BASELINES if is_model else ())


def _read_problem(name: str, data: bytes) -> Module | None:
    """Read a file that is a problem; None for other files. Errors: Refused if it is not Python."""
    forms = (_MODEL_NAMES, REFERENCE_FUNCTIONS)
    may_be_problem = any(all(word.encode() in data for word in words) for words in forms)
    is_source = name.endswith(".py") and "/" not in name and name != REFERENCE_CPU
    if not is_source or not may_be_problem:
        return None
    module = read_module(name, data)
    return module if any(module.names.keys() >= set(words) for words in forms) else None


def _refuse_incomplete_python(name: str, data: bytes) -> None:
    """Refuse a file that defines only a part of a form, naming the missing part."""
    if not name.endswith(".py"):
        return
    module = read_module(name, data)
    for words in (REFERENCE_FUNCTIONS, _MODEL_NAMES):
        missing = [word for word in words if not module.has(word)]
        if len(missing) < len(words):
            reason = f"does not define {', '.join(missing)}: a problem in one file defines "
            raise bad_problem(f"{name} {reason}{', '.join(words)}", name)


# Comments, strings and characters, which may contain anything.
_TEXTS = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_LOCAL_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*\"([^\"\n]+)\"", re.MULTILINE)
_TYPE = r"\b(?:using|struct|class|define)\s+{0}\b|\btypedef\b[^;]{{0,500}}\b{0}\s*;"
_OURS = ("utils.h",)
_BODY = re.compile(r"\s{0,100}(?:noexcept\s{0,100})?(?:\{|->)")
_PARAMETERS_CHARS_MAX = 1000
_OCCURRENCES_MAX = 200
_OPENING, _CLOSING = "([{<", ")]}>"
_REPORTER = "TestReporter"

_TASK_H = """\
// Written by Warpboard: what a submission includes.
#ifndef WB_TASK_H
#define WB_TASK_H

#include <array>

#include "utils.h"

#include "reference_code.cuh"

constexpr std::array<const char *, 1> ArgumentNames = {"seed"};

#endif
"""
_REFERENCE_CUH = Template("""\
// Written by Warpboard: calls the functions of reference_code.cuh as the harness does.
#pragma once

#include <cstdlib>
#include <string>

#include "task.h"
$check$generate""")
# A check returns whether the answer is right, or what is wrong with it.
_CHECK = Template("""
static void wb_report(TestReporter &reporter, bool is_right) {
    if (is_right) reporter.pass();
    else reporter.fail() << "check_implementation returned false";
}
static void wb_report(TestReporter &reporter, const std::string &complaint) {
    if (complaint.empty()) reporter.pass();
    else reporter.fail() << complaint;
}
static void wb_report(TestReporter &reporter, const char *complaint) {
    wb_report(reporter, std::string(complaint));
}
static void check_implementation(TestReporter &reporter, input_t data, output_t output) {
    wb_report(reporter, check_implementation($arguments));
}
""")
_CHECK_ARGUMENTS: Mapping[str, str] = {
    INPUT_OUTPUT: "data, output",
    OUTPUTS: "output, ref_kernel(data)",
    REFERENCE_OUTPUTS: "ref_kernel(data), output",
}
_GENERATE_UNSEEDED = """
// generate_input() takes no seed: std::rand() gets one before each call.
static input_t wb_generate_input(unsigned int seed) {
    std::srand(seed);
    return generate_input();
}
#define generate_input wb_generate_input
"""


def _is_cpp_reference(name: str, data: bytes) -> bool:
    """Return whether a file in C++ defines all functions of a problem."""
    if not name.endswith(CPP_SUFFIXES) or "/" in name or len(data) > CODE_BYTES_MAX:
        return False
    if not all(word.encode() in data for word in REFERENCE_FUNCTIONS):
        return False
    code = _TEXTS.sub(" ", data.decode(errors="replace"))
    return all(_find_parameters(code, word) is not None for word in REFERENCE_FUNCTIONS)


class _CppReference:
    """A problem in one file in C++ or CUDA, in the older or the newer public form.

    In the older form `check_implementation(output, reference's)` returns a bool; in the newer one
    it takes a TestReporter, the input and the output. `generate_input` takes a seed or nothing.
    """

    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        if len(data) > CODE_BYTES_MAX:
            self._refuse(f"has {len(data)} bytes: code has at most {CODE_BYTES_MAX}")
        self._data = data
        self._text = data.decode(errors="replace")
        self._code = _TEXTS.sub(" ", self._text)

    def read(self) -> ProblemSource:
        """Return the problem. Errors: Refused `bad_problem`, naming what is missing."""
        self._check_includes()
        parameters = {word: _find_parameters(self._code, word) for word in REFERENCE_FUNCTIONS}
        missing = [word for word in TYPES if not re.search(_TYPE.format(word), self._code)]
        missing += [word for word in REFERENCE_FUNCTIONS if parameters[word] is None]
        if missing:
            names = ", ".join([*TYPES, *REFERENCE_FUNCTIONS])
            self._refuse(
                f"does not define {', '.join(missing)}: a problem in one file of C++ or "
                f"CUDA defines {names}"
            )
        generate, answer, check = ([*(parameters[word] or ())] for word in REFERENCE_FUNCTIONS)
        if len(generate) > 1:
            names = ", ".join(generate)
            self._refuse(
                f"has generate_input({names}): in one file it takes a seed or nothing; "
                "list the cases in a task.yml"
            )
        if len(answer) != 1:
            self._refuse(f"has ref_kernel({', '.join(answer)}): it takes an input_t")
        has_reporter = bool(check) and _REPORTER in check[0]
        needed = [parameter for parameter in check if "=" not in parameter]
        if len(needed) != (3 if has_reporter else 2):
            self._refuse(
                f"has check_implementation({', '.join(check)}): it takes (output, the "
                "reference's output), (input, output), or (TestReporter &, input, output)"
            )
        form = None if has_reporter else native_check_form(needed)
        if form is None and not has_reporter:
            self._refuse(
                f"has check_implementation({', '.join(check)}), which could take (output, the "
                "reference's output) or (input, output): write check_implementation(output_t "
                "output, output_t expected) or check_implementation(input_t data, output_t output)"
            )
        arguments = "" if form is None else _CHECK_ARGUMENTS[form]
        wrapper = _REFERENCE_CUH.substitute(
            check=_CHECK.substitute(arguments=arguments) if arguments else "",
            generate="" if generate else _GENERATE_UNSEEDED,
        )
        # No file of the problem has these names.
        written = {f"@{NATIVE[0]}": _TASK_H.encode(), f"@{NATIVE[1]}": wrapper.encode()}
        return ProblemSource(self._document([*written]), "", written)

    def _document(self, written: list[str]) -> Document:
        case = {"seed": _SEED}
        task = {
            "files": [
                {"name": "submission.cu", "source": SUBMISSION},
                {"name": REFERENCE_CODE, "source": self._name},
                *({"name": name[1:], "source": name} for name in written),
            ],
            "lang": "cu",
            "config": {"sources": ["submission.cu"]},
            "description": _CPP_DESCRIPTION,
            "tests": [case],
            "benchmarks": [case],
        }
        return Document(self._name, task | _read_directive_gpus(self._name, self._data), {})

    def _check_includes(self) -> None:
        for name in _LOCAL_INCLUDE.findall(self._text):
            if name == NATIVE[0]:
                self._refuse(
                    "includes task.h, which a problem in one file does not have: define "
                    "input_t and output_t here, or publish a directory with a task.yml"
                )
            if name not in _OURS:
                self._refuse(
                    f'includes "{name}", which is another file: put its text here, or '
                    "publish a directory with a task.yml"
                )

    def _refuse(self, reason: str) -> NoReturn:
        raise bad_problem(f"{self._name} {reason}", self._name)


def _find_parameters(code: str, name: str) -> list[str] | None:
    """Return the parameters with which code defines a function; None if it does not define it.

    >>> _find_parameters("x = f(1); T f(std::pair<int, A> a, float b = g(1, 2)) {", "f")
    ['std::pair<int, A> a', 'float b = g(1, 2)']
    >>> _find_parameters("int f();", "f")
    """
    for match in islice(re.finditer(rf"\b{name}\s*\(", code), _OCCURRENCES_MAX):
        parameters, depth, end = [""], 1, match.end()
        for mark in code[end : end + _PARAMETERS_CHARS_MAX]:
            end += 1
            depth += (mark in _OPENING) - (mark in _CLOSING)
            if not depth:
                break
            if mark == "," and depth == 1:
                parameters.append("")
            else:
                parameters[-1] += mark
        if not depth and _BODY.match(code, end):
            parameters = [" ".join(parameter.split()) for parameter in parameters]
            return [] if parameters in ([""], ["void"]) else parameters
    return None
