"""FlashInfer-Trace: a Solution as a submission, and the results of a submission as Traces.

Source: the documents of the public package flashinfer-bench.
"""

import json
import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from shared.api.submissions import FullSubmission
from shared.errors import Refused
from shared.problems.document import Document, bad_problem, quote_value, validate_document
from shared.problems.sources import UP, normalize_path

# The baseline of every definition: its reference.
BASELINE = "reference"
# The languages of Python files, and those that torch compiles.
_PYTHON, _NATIVE = ("python", "triton", "tilelang"), ("cpp", "cuda")
_PYTHON_SUFFIXES, _NATIVE_SUFFIXES = (".py",), (".cu", ".cpp", ".cc", ".cxx", ".c")
# The bindings of a solution in C++ or CUDA; without one it has the second.
_TORCH, _TVM_FFI = "torch", "tvm-ffi"
_SLUG = re.compile(r"[^a-z0-9_-]+")

Name = Annotated[str, Field(min_length=1, max_length=200)]


class ForeignModel(BaseModel):
    """A map of the public format, which may have more keys than we read."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class BuildSpec(ForeignModel):
    """How a solution is called."""

    language: str
    entry_point: Annotated[str, Field(pattern=r"^[^:]+::[A-Za-z_][A-Za-z0-9_]*$")]
    destination_passing_style: bool = True
    binding: str | None = None


class SourceFile(ForeignModel):
    """A file of a solution."""

    path: Name
    content: str


class Solution(ForeignModel):
    """An implementation of a definition."""

    name: Name
    definition: Name
    spec: BuildSpec
    sources: Annotated[list[SourceFile], Field(min_length=1, max_length=64)]


def parse_json(name: str, data: bytes) -> Document:
    """Parse a file in JSON. Errors: Refused `bad_problem`."""
    try:
        return Document(name, json.loads(data), {})
    except (ValueError, RecursionError) as error:
        raise bad_problem(f"{name}: not JSON: {error}", name) from error


VALUE_STYLE = '''


def custom_kernel(data):
    """Call the solution, and write its results into the buffers."""
    results = {run}(*data["inputs"].values())
    if isinstance(results, dict):
        results = tuple(results.values())
    if not isinstance(results, (tuple, list)):
        results = (results,)
    for buffer, result in zip(data["outputs"].values(), results, strict=True):
        buffer.copy_(result)
    return data["outputs"]
'''
_DESTINATION_STYLE = '''


def custom_kernel(data):
    """Call the solution with the buffers of its results."""
    {run}(*data["inputs"].values(), *data["outputs"].values())
    return data["outputs"]
'''
_SEVERAL_FILES = '''\
"""The files of a FlashInfer-Trace solution, written into a folder of the run."""

import importlib
import pathlib
import sys
import tempfile

SOURCES = {sources!r}
FOLDER = pathlib.Path(tempfile.mkdtemp())
for path, text in SOURCES.items():
    file = FOLDER / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
sys.path.insert(0, str(FOLDER))
{run} = importlib.import_module({module!r}).{run}
'''


_EXTENSION = '''\
"""A FlashInfer-Trace solution in C++ or CUDA, which torch compiles."""

import os
import pathlib
import tempfile

from torch.utils.cpp_extension import load

NAME = "flashinfer_solution"
FILES = {files!r}
{kind}_sources = {sources!r}
# Where torch builds it: a later process finds all files unchanged, and compiles nothing.
FOLDER = pathlib.Path(os.environ.get("TORCH_EXTENSIONS_DIR") or tempfile.mkdtemp()) / NAME
for path, text in FILES.items():
    file = FOLDER / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
{run} = load(
    NAME,
    [str(FOLDER / path) for path in {kind}_sources],
    extra_include_paths=[str(FOLDER)],
    build_directory=str(FOLDER),
    with_cuda={is_cuda},
).{run}
'''


def convert_solution(data: bytes) -> bytes:
    """Return a Solution in JSON as a submission in Python.

    Errors: Refused `bad_file` for other JSON, and for languages and bindings that we do not have.
    """
    try:
        solution = validate_document(parse_json("the solution", data), Solution)
    except Refused as refused:
        raise Refused("bad_file", f"not a FlashInfer-Trace solution: {refused.reason}") from refused
    spec, is_native = solution.spec, _is_native(solution.spec)
    path, _, run = spec.entry_point.partition("::")
    texts = {normalize_path(source.path) or "": source.content for source in solution.sources}
    if "" in texts or any(name.startswith(UP) for name in texts):
        raise Refused("bad_file", "the solution has a source outside its folder")
    suffixes = _NATIVE_SUFFIXES if is_native else _PYTHON_SUFFIXES
    if (normal := normalize_path(path) or "") not in texts or not normal.endswith(suffixes):
        names, kind = ", ".join(texts), "C++ or CUDA" if is_native else "Python"
        reason = f"the entry point {quote_value(path)} is not one of the sources {names}"
        raise Refused("bad_file", f"{reason} in {kind}")
    head = f"#!POPCORN leaderboard {definition_slug(solution.definition)}\n"
    style = _DESTINATION_STYLE if spec.destination_passing_style else VALUE_STYLE
    code = texts[normal]
    if is_native:
        sources = [name for name in texts if name.endswith(_NATIVE_SUFFIXES)]
        kind, is_cuda = spec.language, spec.language == "cuda"
        code = _EXTENSION.format(files=texts, kind=kind, sources=sources, run=run, is_cuda=is_cuda)
    elif len(texts) > 1:
        module = normal.removesuffix(".py").replace("/", ".")
        code = _SEVERAL_FILES.format(sources=texts, run=run, module=module)
    return (head + code + style.format(run=run)).encode()


def _is_native(spec: BuildSpec) -> bool:
    """Return whether a solution is compiled. Errors: Refused `bad_file` if it is not possible."""
    if spec.language in _PYTHON:
        return False
    language = spec.language
    if language in _NATIVE:
        binding = spec.binding or _TVM_FFI
        if binding == _TORCH:
            return True
        language = f"{language} with the binding {binding}"
    possible = f"{', '.join(_PYTHON)}, and {' or '.join(_NATIVE)} with the binding {_TORCH}"
    raise Refused("bad_file", f"the solution is in {language}: possible are {possible}")


def definition_slug(name: str) -> str:
    """Return the slug of a definition's problem.

    >>> definition_slug("gemm_n128_k2048"), definition_slug("MoE fp8")
    ('gemm_n128_k2048', 'moe-fp8')
    """
    return _SLUG.sub("-", name.lower()).strip("-_")


_PASSED, _FAILED = "PASSED", "RUNTIME_ERROR"
# How the verdicts of cases are called in a trace; all others are RUNTIME_ERROR.
_STATUSES = {
    "passed": _PASSED,
    "wrong_answer": "INCORRECT_NUMERICAL",
    "compile_error": "COMPILE_ERROR",
    "import_error": "COMPILE_ERROR",
    "timed_out": "TIMEOUT",
}


def make_traces(
    definition: bytes, workloads: bytes, submission: FullSubmission
) -> list[dict[str, Any]]:
    """Return a Trace for each workload, with the result of a submission on it.

    We judge errors by a bound and do not report the largest, so both are NaN, as the format writes
    it. A speed-up is over the definition's reference, and 0 as long as that has no time.
    """
    name = json.loads(definition)["name"]
    libs = {key: text for key, text in submission.environment.items() if text}
    return [
        {
            "definition": name,
            "workload": json.loads(line)["workload"],
            "solution": submission.name.rpartition(".")[0] or submission.name or None,
            "evaluation": {
                "environment": {"hardware": submission.gpu, "libs": libs},
                "timestamp": (submission.finished_at or submission.received_at).isoformat(),
                "log": submission.log_tail,
            }
            | _evaluate(json.loads(line)["workload"]["uuid"], submission),
        }
        for line in workloads.splitlines()
        if line.strip()
    ]


def _evaluate(uuid: str, submission: FullSubmission) -> dict[str, Any]:
    """Return how a workload ended; one that was not reached ended as the submission did."""
    cases = [case for case in submission.cases if uuid in case.name]
    failed = [case for case in cases if case.verdict not in ("passed", "skipped")]
    timed = [case for case in cases if case.time_us is not None and not failed]
    verdict = failed[0].verdict if failed else "passed" if timed else submission.verdict or ""
    status = _STATUSES.get(verdict, _FAILED)
    if status == _PASSED and not timed:
        # In mode test nothing is timed, and the format has no word for that.
        status = _FAILED
    performance = None
    if status == _PASSED:
        latency_ms = (timed[-1].time_us or 0.0) / 1000
        speedup = timed[-1].vs_baseline.get(BASELINE, 0.0)
        performance = {
            "latency_ms": latency_ms,
            "reference_latency_ms": speedup * latency_ms,
            "speedup_factor": speedup,
        }
    errors = {"max_relative_error": "NaN", "max_absolute_error": "NaN"}
    is_judged = status in (_PASSED, _STATUSES["wrong_answer"])
    return {
        "status": status,
        "correctness": errors if is_judged else None,
        "performance": performance,
    }
