"""The public form of a problem's description, `task.yml`, and its cases."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from harness.ranking_rules import RankingRule
from shared.problems.document import Document, Path, StrictModel, quote_value, validate_document

NAMES = ("task.yml", "task.yaml")
SUBMISSION = "@SUBMISSION@"
FILES_MAX = 64
CASES_MAX = 500
WEIGHT_MAX = 1000
GPUS_MAX = 32
TIMEOUT_S_MAX = 3600
HOST_GPUS_MAX = 16
LANGUAGES = ("CUDA", "Python", "Triton", "HIP", "CuteDSL")

Timeout = Annotated[int, Field(ge=1, le=TIMEOUT_S_MAX)]
GpuName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
Gpus = Annotated[list[GpuName], Field(min_length=1, max_length=GPUS_MAX)]
DefineName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,59}$")]
DefineValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+-]{0,60}$")]
# Not `\w`: repeated so often it takes 75 ms to compile, in each process that reads problems.
Flag = Annotated[
    str,
    Field(
        pattern=r"^(-O([0-3gsz]|fast)?|--?std=(c|gnu)\+\+(11|14|17|20|23|2a|2b)"
        r"|-[DU][A-Za-z_][A-Za-z0-9_]{0,59}|-D[A-Za-z_][A-Za-z0-9_]{0,59}=[A-Za-z0-9_.+-]{0,60}"
        r"|--?use_fast_math|--?maxrregcount=[0-9]{1,3})$"
    ),
]
Cases = Annotated[list[dict[str, Any]], Field(max_length=CASES_MAX)]


class FileEntry(StrictModel):
    """A file of the run: its name there, and the path of its text."""

    name: str
    source: str


class PythonConfig(StrictModel):
    """The program that the public system starts; our harness is a library and starts none."""

    main: str


class NativeConfig(StrictModel):
    """What the public system compiles; our harness replaces its driver and keeps the rest."""

    sources: Annotated[list[str], Field(min_length=1, max_length=FILES_MAX)]
    include_dirs: Annotated[list[str], Field(max_length=16)] = Field(default_factory=list)
    defines: Annotated[dict[DefineName, DefineValue], Field(max_length=32)] = Field(
        default_factory=dict
    )
    compile_flags: Annotated[list[Flag], Field(max_length=16)] = Field(default_factory=list)


class TaskYml(StrictModel):
    """The contents of a `task.yml`. Units: seconds."""

    files: list[FileEntry] = Field(
        min_length=1,
        max_length=FILES_MAX,
        description="The files of a run; the source of the submission is `@SUBMISSION@`.",
    )
    lang: Literal["py"] = Field(description="`py`, or `cu` for C++ and CUDA.")
    config: PythonConfig = Field(description="How the public system runs the problem.")
    description: str = Field(description="What to compute, as Markdown.")
    tests: Cases = Field(
        default_factory=list, description="The checked cases: arguments of `generate_input`."
    )
    benchmarks: Cases = Field(
        default_factory=list, description="The timed cases: arguments of `generate_input`."
    )
    test_timeout: Timeout = Field(default=180, description="Seconds for the checked cases.")
    benchmark_timeout: Timeout = Field(default=180, description="Seconds for the timed cases.")
    ranked_timeout: Timeout = Field(
        default=180, description="Seconds for the cases of a ranked run."
    )
    ranking_by: RankingRule = Field(
        default="last", description="How the times of the benchmarks make one score."
    )
    templates: dict[str, str] = Field(
        default_factory=dict, description="The file to start from in each language."
    )
    libraries: list[str] = Field(default_factory=list, description="Not checked yet.")
    seed: int | None = Field(default=None, description="Read for the public form, and not used.")
    multi_gpu: bool = Field(default=False, description="Whether each rank has its own GPU.")
    gpus: Gpus | None = Field(default=None, description="The GPU types, each with a leaderboard.")


class NativeYml(TaskYml):
    """The contents of a C++ problem's `task.yml`."""

    lang: Literal["cu"]  # type: ignore[assignment]  # narrows the base's literal
    config: NativeConfig  # type: ignore[assignment]


def read_task(document: Document) -> TaskYml | NativeYml:
    """Validate a `task.yml`. Errors: Refused."""
    value = document.value if isinstance(document.value, dict) else {}
    task = validate_document(document, NativeYml if value.get("lang") == "cu" else TaskYml)
    if task.multi_gpu:
        for key, cases in (("tests", task.tests), ("benchmarks", task.benchmarks)):
            for index, case in enumerate(cases):
                _check_world_size(document, (key, index, "world_size"), case.get("world_size"))
    return task


def gpus_count(task: TaskYml) -> int:
    """Return how many GPUs of one host a job needs: the ranks of the widest case."""
    if not task.multi_gpu:
        return 1
    return max((case["world_size"] for case in [*task.tests, *task.benchmarks]), default=1)


def _check_world_size(document: Document, path: Path, value: object) -> None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if not (is_count and 1 <= cast("int", value) <= HOST_GPUS_MAX):
        actual = "no world_size" if value is None else f"the world_size {quote_value(value)}"
        reason = f"multi_gpu is true, but this case has {actual}: write 1 to {HOST_GPUS_MAX}"
        document.refuse(path, reason)


def task_warnings(task: TaskYml) -> list[str]:
    """Return warnings about settings that are legal and probably not intended.

    >>> entry = FileEntry(name="submission.py", source="@SUBMISSION@")
    >>> task = TaskYml(files=[entry], lang="py", config=PythonConfig(main="eval.py"),
    ...                description="", tests=[{"seed": 1}], benchmarks=[{"seed": 1}, {"seed": 2}])
    >>> task_warnings(task)
    ["ranking_by is 'last': of 2 benchmarks only the last one is timed"]
    """
    warnings, cases = [], [*task.tests, *task.benchmarks]
    if task.ranking_by == "last" and len(task.benchmarks) > 1:
        count = len(task.benchmarks)
        warnings.append(f"ranking_by is 'last': of {count} benchmarks only the last one is timed")
    if not task.multi_gpu and any("world_size" in case for case in cases):
        warnings.append("world_size without 'multi_gpu: true': all ranks share one GPU")
    if not task.tests:
        warnings.append("there are no tests: the benchmarks are checked instead")
    if any("seed" not in case for case in cases):
        is_native = isinstance(task, NativeYml)
        how = "has one input for all calls" if is_native else "varies by global generators only"
        warnings.append(f"a case without 'seed' {how}: take a seed, and draw the input from it")
    warnings += [
        f"templates: {quote_value(language)} is not one of {', '.join(LANGUAGES)}"
        for language in task.templates
        if language not in LANGUAGES
    ]
    if task.libraries:
        warnings.append("libraries are not checked yet against those on the agents")
    return warnings


INT_MAX = 2**63 - 1
ARGUMENTS_MAX = 64
NAME_CHARS_MAX = 300
LISTS_DEPTH_MAX = 4
NAMELESS = "case"

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}\Z")
_JSON_WORDS = ("true", "false", "null")


@dataclass(frozen=True)
class Case:
    """One input of a problem: ordered keyword arguments, and the name built from them."""

    name: str
    args: Mapping[str, Any]


def read_cases(document: Document, key: str) -> list[Case]:
    """Read the cases under `tests` or `benchmarks`. Errors: Refused for unsupported types."""
    items = document.value.get(key) or []
    return [_read_case(document, (key, index), args) for index, args in enumerate(items)]


def case_name(args: Mapping[str, Any]) -> str:
    """Return a case's display name: words are bare, other values are JSON, no arguments are `case`.

    >>> case_name({"size": 64, "shape": [2, 3], "mode": "flat", "on": False, "seed": 7})
    'size=64 shape=[2,3] mode=flat on=false seed=7'
    """
    return " ".join(f"{key}={_value_text(value)}" for key, value in args.items()) or NAMELESS


def _value_text(value: object) -> str:
    if isinstance(value, str) and _BARE.match(value) and value not in _JSON_WORDS:
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _read_case(document: Document, path: Path, args: dict[str, Any]) -> Case:
    if len(args) > ARGUMENTS_MAX:
        document.refuse(path, f"a case with {len(args)} arguments: at most {ARGUMENTS_MAX}")
    for key, value in args.items():
        if not _ARGUMENT.match(key):
            reason = f"{quote_value(key)} is not an argument name: use letters, digits and _"
            document.refuse((*path, key), reason)
        check_value(document, (*path, key), value)
    seed = args.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        reason = f"{quote_value(seed)} is not a seed: write a non-negative integer"
        document.refuse((*path, "seed"), reason)
    name = case_name(args)
    if len(name) > NAME_CHARS_MAX:
        reason = f"the case's name has {len(name)} characters, at most {NAME_CHARS_MAX} are allowed"
        document.refuse(path, f"{reason}: write shorter values")
    return Case(name, args)


def check_value(document: Document, path: Path, value: object, depth: int = 0) -> None:
    """Check that a value can be an argument of a case. Errors: Refused."""
    if isinstance(value, list):
        if depth == LISTS_DEPTH_MAX:
            document.refuse(path, f"lists nested deeper than {LISTS_DEPTH_MAX}: use fewer levels")
        for index, item in enumerate(value):
            check_value(document, (*path, index), item, depth + 1)
    elif isinstance(value, dict):
        document.refuse(path, "an argument is a bool, int, float, str, null or list, not a map")
    elif isinstance(value, int) and not -INT_MAX - 1 <= value <= INT_MAX:
        document.refuse(
            path, f"{quote_value(value)} does not fit in 64 bits: write a smaller number"
        )
    elif isinstance(value, float) and not isfinite(value):
        document.refuse(path, f"{quote_value(value)} is not finite: write a finite number")
