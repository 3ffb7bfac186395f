"""Compile the files of a problem to a problem version, or explain why that is not possible.

The version is everything that scheduler, agents and leaderboards know about a problem. Its own code
must define what we call: Python, C++, or its own program. Files are parsed, not run: names created
while a file is imported are unknown until a run.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.problems.document import Document, bad_problem, quote_value, read_document
from shared.problems.flashinfer import read_definition
from shared.problems.goals import (
    Baseline,
    add_yardstick,
    baselines_manifest,
    milestones_manifest,
    read_baselines,
    read_milestones,
)
from shared.problems.hidden_sizes import corner_cases, hidden_manifest, read_families
from shared.problems.kernelbench import BUILD_S
from shared.problems.reference_form import INPUT_OUTPUT, SEED, find_check_form
from shared.problems.roofline import Work, read_works, roofline_manifest
from shared.problems.single_file import KERNELBENCH, ProblemSource, read_single_file
from shared.problems.sources import (
    NATIVE,
    REFERENCE,
    REFERENCE_FUNCTIONS,
    TASK,
    UP,
    Signature,
    Sources,
    gather_sources,
    native_argument_names,
    normalize_path,
    read_module,
)
from shared.problems.task_types import write_task_module
from shared.problems.task_yml import (
    NAMES,
    Case,
    NativeYml,
    TaskYml,
    gpus_count,
    read_cases,
    read_task,
    task_warnings,
)
from shared.problems.values import Milestone, Requires
from shared.problems.warpboard_yml import (
    AFTER_CLOSE,
    NAME,
    RequiresYml,
    WarpboardYml,
    add_consent_text,
    policies_manifest,
    read_warpboard,
    warpboard_warnings,
)
from shared.source_files import ENTRY_STEM


@dataclass(frozen=True)
class ProblemVersion:
    """A compiled problem; `digest` is the SHA-256 of `manifest`, which names all files by digest.

    `files` holds all files in the manifest by plain name, without the submission. `consent` names
    the file whose text a participant accepts before they submit, "" for none; `source_visible` and
    `publish` say who reads the submitted sources, and when. `baselines` are not in `files`: only
    the platform runs them. `works` is the least work of each timed case. Units: seconds, bytes.
    """

    slug: str
    title: str
    manifest: bytes
    digest: str
    files: Mapping[str, bytes]
    gpus: tuple[str, ...]
    budgets_s: Mapping[str, int]
    ranking_by: str
    cases_count: Mapping[str, int]
    source_bytes_max: int
    languages: tuple[str, ...]
    requires: Requires = field(default_factory=Requires)
    consent: str = ""
    source_visible: str = "after_close"
    publish: str = "after_close"
    baselines: tuple[Baseline, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    works: tuple[Work, ...] = ()
    warnings: tuple[str, ...] = ()
    lang: str = "py"
    source_files_max: int = 1


RUN_CASES_MAX = 200
CHECKED = "checked"
PYTHON_ONLY = {"languages": ["python"]}

_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,94}\Z")


def compile_problem(
    slug: str, files: Mapping[str, bytes], gpus: Sequence[str] = ()
) -> ProblemVersion:
    """Compile files to a version: an equal slug and equal files give an equal digest.

    `gpus` are the GPU types of a problem whose files name none; `files` maps paths relative to the
    directory of task.yml, with /, to bytes.
    Errors: Refused `bad_problem`, whose message names file, line, field and the fix.
    """
    if not _SLUG.match(slug):
        reason = f"{quote_value(slug)} is not a slug: use a-z 0-9 _ -, at most 95 characters"
        raise bad_problem(reason, "slug")
    source = _find_source(files)
    document, files = source.document, {**files, **source.files}
    extras_document = read_document(NAME, files[NAME]) if NAME in files else None
    extras = read_warpboard(extras_document)
    task = read_task(document)
    if extras.ranking_by is not None:
        task = task.model_copy(update={"ranking_by": extras.ranking_by})
    cases = _read_case_groups(document)
    sources = add_consent_text(gather_sources(document, task, files), extras, files)
    main = _find_own_program(document, task, extras, sources) if source.is_directory else ""
    hidden = hidden_manifest(
        extras_document,
        extras.hidden,
        cases,
        ranking_by=task.ranking_by,
        needs_harness=_why_only_public_cases(source, task, main),
    )
    if main:
        cases = _convert_textual_cases(document, cases, extras)
    else:
        _check_code(source, task, sources, cases)
        if extras_document is not None and hidden:
            _check_hidden_arguments(extras_document, task, sources, corner_cases(hidden))
        source = _with_check_form(source, task, sources)
    sources = _with_task_module(task, sources)
    content = (
        _problem_manifest(slug, task, extras, sources, cases)
        | policies_manifest(extras_document, extras)
        | {"benchmarks": _weighted_benchmarks(extras_document, task, extras, cases["benchmarks"])}
        | hidden
        | _metrics_manifest(extras_document, extras, main)
        | roofline_manifest(extras_document, extras.roofline, cases["benchmarks"])
        | _hardware_manifest(task, extras)
        | _files_manifest(extras, sources)
        | ({} if main else _run_options_manifest(source, task, extras, sources.files))
        | {"gpus": _gpu_types(document, task, extras, gpus)}
        | _native_manifest(document, task, extras, sources, main)
        | _form_manifest(source)
    )
    if source.form == KERNELBENCH and "budget_s" not in extras.model_fields_set:
        content["budgets_s"]["build"] = BUILD_S
    # A single file has one case, and all its generators are seeded before each call.
    warnings = [*(task_warnings(task) if source.is_directory else ()), *warpboard_warnings(extras)]
    if main:
        content |= {"main": main} | ({} if isinstance(task, NativeYml) else PYTHON_ONLY)
        warnings.append(WARNING.format(main=main))
    goals_document = extras_document or document
    names = [entry.name for entry in extras.baselines]
    added = [entry for entry in source.baselines if entry.name not in names]
    baselines = read_baselines(goals_document, [*extras.baselines, *added], content, files)
    milestones = read_milestones(goals_document, extras.milestones, content, baselines)
    sources = add_yardstick(goals_document, extras.yardstick, content, sources, files)
    return _build_version(content, sources, baselines, milestones, tuple(warnings))


def _find_source(files: Mapping[str, bytes]) -> ProblemSource:
    """Return the document of a problem: its task.yml, or that of a single file or a definition."""
    names = [name for name in NAMES if name in files]
    if not names and (source := read_definition(files) or read_single_file(files)):
        return source
    if len(names) != 1:
        reason = "both exist: keep one" if names else "neither exists: a problem needs one of them"
        raise bad_problem(f"{' or '.join(NAMES)}: {reason}", NAMES[0])
    document = read_document(names[0], files[names[0]])
    return ProblemSource(document, calls=0, is_directory=True)


def _check_code(
    source: ProblemSource, task: TaskYml, sources: Sources, cases: Mapping[str, Sequence[Case]]
) -> None:
    """Check that the problem's files define what the harness calls. Errors: Refused."""
    if not isinstance(task, NativeYml):
        if source.is_directory or not source.form:
            _check_reference(source.document, sources.files, cases, is_ranked=task.multi_gpu)
    elif source.is_directory:
        _check_native(source.document, task, sources, cases)


def _with_check_form(source: ProblemSource, task: TaskYml, sources: Sources) -> ProblemSource:
    """Return the source of a directory with the form that its check's parameters tell.

    A directory's check takes the input and the output unless they clearly tell something else.
    """
    if not source.is_directory or isinstance(task, NativeYml):
        return source
    form = find_check_form(read_module(REFERENCE, sources.files[REFERENCE]).tree)
    return replace(source, form=form or INPUT_OUTPUT)


def _with_task_module(task: TaskYml, sources: Sources) -> Sources:
    """Add the `task.py` that submissions may import, unless the author gave one."""
    if isinstance(task, NativeYml) or TASK in sources.files:
        return sources
    module = write_task_module(sources.files.get(REFERENCE, b""))
    return replace(sources, files={**sources.files, TASK: module})


def _read_case_groups(document: Document) -> dict[str, list[Case]]:
    cases = {key: read_cases(document, key) for key in ("tests", "benchmarks")}
    if not cases["benchmarks"]:
        document.refuse(("benchmarks",), "no benchmarks: a ranking needs at least one timed case")
    if 2 * len(cases["tests"]) + len(cases["benchmarks"]) > RUN_CASES_MAX:
        # A ranked run reports its tests twice, all in one event.
        reason = f"twice the tests plus the benchmarks exceed {RUN_CASES_MAX} cases: write fewer"
        document.refuse(("tests",), reason)
    return cases


def _problem_manifest(
    slug: str,
    task: TaskYml,
    extras: WarpboardYml,
    sources: Sources,
    cases: Mapping[str, list[Case]],
) -> dict[str, Any]:
    """Return the entries that every problem has, without its GPU types."""
    groups = {
        key: [{"name": case.name, "args": case.args} for case in group]
        for key, group in cases.items()
    }
    return groups | {
        "slug": slug,
        "title": extras.title or slug,
        "description": task.description,
        "lang": task.lang,
        "ranking_by": task.ranking_by,
        "seed": task.seed,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sources.files.items()},
        "submission": sources.submission,
        "templates": sources.templates,
        "authors": extras.authors,
        "difficulty": extras.difficulty,
        "languages": list(dict.fromkeys(extras.languages)),
        "source_bytes_max": extras.limits.source_bytes,
        "tags": extras.tags,
        "budgets_s": {
            "build": extras.budget_s.build,
            "test": task.test_timeout,
            "benchmark": task.benchmark_timeout,
            "ranked": task.ranked_timeout,
        },
    }


def _weighted_benchmarks(
    document: Document | None, task: TaskYml, extras: WarpboardYml, cases: Sequence[Case]
) -> list[dict[str, Any]]:
    """Return the manifest's benchmarks, with weights if they are not equal. Errors: Refused."""
    entries: list[dict[str, Any]] = [{"name": case.name, "args": case.args} for case in cases]
    if document is None or not extras.weights:
        return entries
    if task.ranking_by == "last":
        reason = "weights with ranking_by: last, which takes one case: rank by mean or geom"
        document.refuse(("weights",), reason)
    if len(extras.weights) != len(cases):
        reason = f"{len(extras.weights)} weights for {len(cases)} benchmarks"
        document.refuse(("weights",), f"{reason}: write one for each, in their order")
    if len(set(extras.weights)) == 1:
        return entries
    pairs = zip(entries, extras.weights, strict=True)
    return [entry | {"weight": weight} for entry, weight in pairs]


def _metrics_manifest(document: Document | None, extras: WarpboardYml, main: str) -> dict[str, Any]:
    """Return the manifest's metrics, absent if there are none. Errors: Refused."""
    if document is None or not extras.metrics:
        return {}
    names = [entry.metric for entry in extras.metrics]
    for index, entry in enumerate(extras.metrics):
        where = ("metrics", index)
        if main:
            document.refuse(where, "a program of the problem's own measures no metrics: remove it")
        if entry.metric in names[:index]:
            document.refuse(where, f"{entry.metric} is declared twice: keep one")
        if entry.min is not None and entry.max is not None and entry.min > entry.max:
            document.refuse(where, f"min {entry.min:g} is above max {entry.max:g}")
    return {"metrics": [entry.model_dump(exclude_none=True) for entry in extras.metrics]}


def _form_manifest(source: ProblemSource) -> dict[str, Any]:
    """Return how the harness calls the functions of a problem without a task.yml."""
    entries: dict[str, Any] = {"calls": source.calls} if source.calls else {}
    entries |= {"form": source.form} if source.form else {}
    # A model is a Python class.
    return entries | (PYTHON_ONLY if source.form == KERNELBENCH else {})


def _hardware_manifest(task: TaskYml, extras: WarpboardYml) -> dict[str, Any]:
    """Return the entries that ask for more than one GPU of any type, absent if nothing is asked.

    So the digest of a problem without requirements is the same as before there were any.
    """
    count = max(extras.requires.count, gpus_count(task))
    requires = extras.requires.model_dump() | {"count": count}
    requires["toolchains"] = list(dict.fromkeys(extras.requires.toolchains))
    entries: dict[str, Any] = {"multi_gpu": True} if task.multi_gpu else {}
    return entries | ({} if requires == RequiresYml().model_dump() else {"requires": requires})


def _files_manifest(extras: WarpboardYml, sources: Sources) -> dict[str, Any]:
    """Return how many files a submission may have, absent if it is one. Errors: Refused.

    So the digest of a problem whose submissions are one file is the same as before.
    """
    if extras.limits.files == 1:
        return {}
    stem, _, suffix = sources.submission.rpartition(".")
    if stem != ENTRY_STEM:
        reason = f"{NAME}: limits.files: {extras.limits.files} with the submission {stem}.{suffix}"
        fix = f"name the file with source @SUBMISSION@ {ENTRY_STEM}.{suffix}, or leave files out"
        raise bad_problem(f"{reason}, a name that another of its files could have: {fix}", "limits")
    return {"source_files_max": extras.limits.files}


def _gpu_types(
    document: Document, task: TaskYml, extras: WarpboardYml, default: Sequence[str]
) -> list[str]:
    """Return the GPU types of warpboard.yml, else of task.yml (where `CPU` cannot be written)."""
    gpus = extras.gpus or task.gpus or list(default)
    if not gpus:
        mark = "#" if document.name.endswith(".py") else "//"
        hint = "" if document.name in NAMES else f"begin it with {mark}!POPCORN gpus CPU, or "
        reason = f"no gpus here or in {NAME}: {hint}list the GPU types, such as [CPU]"
        document.refuse(("gpus",), reason)
    if len(set(gpus)) < len(gpus):
        name = NAME if extras.gpus else document.name
        raise bad_problem(f"{name}: gpus {', '.join(gpus)}: name each once", "gpus")
    return gpus


def _needed_release(content: Mapping[str, Any]) -> str:
    """Return the first release whose agents know all options of a manifest, "" for any.

    >>> _needed_release({"benchmarks": [{"weight": 2.0}]}), _needed_release({"benchmarks": [{}]})
    ('0.3.0', '')
    """
    has_weights = any("weight" in entry for entry in content["benchmarks"])
    is_new = has_weights or not {"source_files_max", "hidden", "metrics"}.isdisjoint(content)
    return "0.3.0" if is_new else ""


def _build_version(
    content: Mapping[str, Any],
    sources: Sources,
    baselines: tuple[Baseline, ...],
    milestones: tuple[Milestone, ...],
    warnings: tuple[str, ...],
) -> ProblemVersion:
    manifest = json.dumps(
        {**content, **baselines_manifest(baselines), **milestones_manifest(milestones)},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    ).encode()
    requires = {"sandbox_memory_mib": content.get("memory_mib", 0)} | content.get("requires", {})
    requires["release"] = _needed_release(content)
    return ProblemVersion(
        slug=content["slug"],
        title=content["title"],
        manifest=manifest,
        digest=hashlib.sha256(manifest).hexdigest(),
        files=sources.files,
        gpus=tuple(content["gpus"]),
        budgets_s=content["budgets_s"],
        ranking_by=content["ranking_by"],
        cases_count={key: len(content[key]) for key in ("tests", "benchmarks")}
        | {f"hidden_{family.group}": family.count for family in read_families(content)},
        source_bytes_max=content["source_bytes_max"],
        languages=tuple(content["languages"]),
        requires=Requires(**requires),
        consent=content.get("consent", ""),
        source_visible=content.get("source_visible", AFTER_CLOSE),
        publish=content.get("publish", AFTER_CLOSE),
        baselines=baselines,
        milestones=milestones,
        works=read_works(content),
        warnings=warnings,
        lang=content["lang"],
        source_files_max=content.get("source_files_max", 1),
    )


def _run_options_manifest(
    source: ProblemSource, task: TaskYml, extras: WarpboardYml, names: Collection[str]
) -> dict[str, Any]:
    """Return the manifest's entries, each absent if not set. Errors: Refused.

    A problem with its own program for the public system was written for a judge that uses the
    problem's check alone; we do the same unless warpboard.yml says otherwise.
    """
    memory = extras.limits.memory_mib
    options: dict[str, Any] = {"memory_mib": memory} if memory else {}
    if isinstance(task, NativeYml) or source.form == KERNELBENCH:
        if extras.answers == CHECKED:
            reason = f"{NAME} sets answers: checked, but this problem has no check of its own"
            source.document.refuse((), f"{reason}: remove it")
        return options
    # In a single-file problem that file is also named as the program.
    is_public = task.config.main in names and task.config.main != REFERENCE
    is_checked = is_public if extras.answers is None else extras.answers == CHECKED
    return options | ({"answers": CHECKED} if is_checked else {})


SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")
# The public system's drivers, which ours replace.
_DRIVERS = ("eval.cu", "eval.cpp")


def _check_native_sources(document: Document, task: NativeYml, sources: Sources) -> None:
    for index, name in enumerate(task.config.sources):
        where = ("config", "sources", index)
        if name not in (sources.submission, *sources.files, *_DRIVERS):
            reason = f"{quote_value(name)} is not one of the files: list it under files"
            document.refuse(where, reason)
        if not name.endswith(SUFFIXES):
            reason = f"{quote_value(name)} is not a source file: headers are included, not compiled"
            document.refuse(where, f"{reason}; sources end in {', '.join(SUFFIXES)}")
    for index, folder in enumerate(task.config.include_dirs):
        inside = folder in (".", "./") or normalize_path(folder)
        if not inside or str(inside).startswith(UP) or inside == "..":
            reason = f"{quote_value(folder)} is not a folder of the problem"
            fix = "remove it; libraries installed on the agent are found automatically"
            document.refuse(("config", "include_dirs", index), f"{reason}: {fix}")
    if task.multi_gpu:
        document.refuse(("multi_gpu",), "a C++ problem runs on one GPU: remove multi_gpu")


def _native_manifest(
    document: Document, task: TaskYml, extras: WarpboardYml, sources: Sources, main: str
) -> dict[str, Any]:
    if not isinstance(task, NativeYml):
        if extras.arrays is not None:
            document.refuse((), f"{NAME} sets arrays, which only C++ problems use: remove it")
        return {}
    config: dict[str, Any] = {"defines": task.config.defines, "flags": task.config.compile_flags}
    excluded = (sources.submission, *(() if main else _DRIVERS))
    if names := [name for name in task.config.sources if name not in excluded]:
        config["sources"] = names
    if extras.arrays == "device":
        config["arrays"] = extras.arrays
    return {"native": config, "languages": ["cpp", "cuda"]}


def _why_only_public_cases(source: ProblemSource, task: TaskYml, main: str) -> str:
    if main:
        return "in a problem that its own program runs"
    if task.multi_gpu:
        return "on several GPUs"
    return "" if source.is_directory else "without a task.yml"


_FUNCTION = r"\b{}\s*\("


def _check_reference(
    document: Document,
    files: Mapping[str, bytes],
    cases: Mapping[str, Sequence[Case]],
    *,
    is_ranked: bool,
) -> None:
    """Check the functions of reference.py and their arguments.

    `is_ranked`: each case is also run on every rank, whose number is passed as `rank`.
    Errors: Refused, naming the missing function or the case that cannot be generated.
    """
    _require_files(document, files, (REFERENCE,))
    module = read_module(REFERENCE, files[REFERENCE])
    missing = [name for name in REFERENCE_FUNCTIONS if not module.has(name)]
    if missing:
        reason = f"does not define {', '.join(missing)}: define {', '.join(REFERENCE_FUNCTIONS)}"
        raise bad_problem(f"{REFERENCE} {reason}", REFERENCE)
    generator = module.signature(REFERENCE_FUNCTIONS[0])
    for key, group in cases.items():
        for index, case in enumerate(group):
            args = {**case.args, "rank": 0} if is_ranked else case.args
            if complaint := generator.complaint(args):
                reason = f"this case {complaint}: {REFERENCE_FUNCTIONS[0]} in {REFERENCE} takes "
                document.refuse((key, index), reason + (", ".join(generator.takes) or "nothing"))


def _check_hidden_arguments(
    document: Document, task: TaskYml, sources: Sources, corners: Mapping[str, Sequence[Case]]
) -> None:
    """Check that generate_input takes what the families draw. Errors: Refused."""
    if isinstance(task, NativeYml):
        header = sources.files[NATIVE[0]].decode()
        names = native_argument_names(header) or ()
        generator = Signature(names, names)
    else:
        module = read_module(REFERENCE, sources.files[REFERENCE])
        generator = module.signature(REFERENCE_FUNCTIONS[0])
    for group, cases in corners.items():
        if complaint := generator.complaint(cases[0].args):
            takes = ", ".join(name for name in generator.takes if name != SEED) or "nothing"
            reason = f"a hidden case {complaint}: {REFERENCE_FUNCTIONS[0]} takes {takes}"
            document.refuse(("hidden", group, "args"), reason)


def _check_native(
    document: Document, task: NativeYml, sources: Sources, cases: Mapping[str, Sequence[Case]]
) -> None:
    _require_files(document, sources.files, NATIVE)
    header, reference = (sources.files[name].decode() for name in NATIVE)
    missing = [
        name for name in REFERENCE_FUNCTIONS if not re.search(_FUNCTION.format(name), reference)
    ]
    if missing:
        raise bad_problem(f"{NATIVE[1]} does not define {', '.join(missing)}", NATIVE[1])
    if (names := native_argument_names(header)) is None:
        reason = 'names no arguments: write constexpr std::array ArgumentNames = {"size", "seed"};'
        raise bad_problem(f"{NATIVE[0]} {reason}", NATIVE[0])
    generator = Signature(names, names)
    for key, group in cases.items():
        for index, case in enumerate(group):
            if complaint := generator.complaint(case.args):
                known = f"ArgumentNames in {NATIVE[0]} has {', '.join(names)}"
                document.refuse((key, index), f"this case {complaint}: {known}")
            for name, value in case.args.items():
                if not isinstance(value, bool | int | float | str):
                    document.refuse((key, index, name), "C++ takes a bool, int, float or str here")
    _check_native_sources(document, task, sources)


def _require_files(document: Document, files: Mapping[str, bytes], names: Sequence[str]) -> None:
    for name in names:
        if name not in files:
            document.refuse(
                ("files",), f"file {quote_value(name)} is missing: add it, with its source"
            )


POPCORN = "popcorn"
WARNING = (
    "it is run by its own {main}, whose clock and check share the submission's process:"
    " its times are of tier G0, which ranks nowhere but where an operator says so"
)

_PROTOCOL = b"POPCORN_FD"
_WORD = re.compile(r"[A-Za-z]+\Z")


def _find_own_program(
    document: Document, task: TaskYml | NativeYml, extras: WarpboardYml, sources: Sources
) -> str:
    """Return the problem's own program, "" if our harness runs the problem.

    Its own program runs it if warpboard.yml asks for that, or if reference.py lacks the functions
    our harness calls and the program exists. Errors: Refused.
    """
    files, is_requested = sources.files, extras.harness == POPCORN
    if isinstance(task, NativeYml):
        return _find_native_program(document, task, sources) if is_requested else ""
    main = task.config.main
    if is_requested and main not in files:
        reason = f"{quote_value(main)} must run the problem but is not one of its files"
        document.refuse(("config", "main"), f"{reason}: add it to files")
    if extras.harness is not None:
        return main if is_requested else ""
    if REFERENCE not in files or _PROTOCOL not in files.get(main, b""):
        return ""
    module = read_module(REFERENCE, files[REFERENCE])
    return "" if any(module.has(name) for name in REFERENCE_FUNCTIONS) else main


def _find_native_program(document: Document, task: NativeYml, sources: Sources) -> str:
    _check_native_sources(document, task, sources)
    programs = [name for name in task.config.sources if _PROTOCOL in sources.files.get(name, b"")]
    if not programs:
        reason = f"{NAME} asks for popcorn, but no source uses its protocol: add the program"
        document.refuse(("config", "sources"), f"{reason}, eval.cu")
    return programs[0]


def _convert_textual_cases(
    document: Document, cases: Mapping[str, Sequence[Case]], extras: WarpboardYml
) -> dict[str, list[Case]]:
    """Return the cases as the public text form writes them: a bool is 1 or 0.

    Errors: Refused for values that the public readers of cases misread or cannot read.
    """
    for key, group in cases.items():
        for index, case in enumerate(group):
            for name, value in case.args.items():
                fix = "write an integer, or a word of letters"
                if isinstance(value, bool):
                    is_read, fix = (
                        extras.bool_as == "int",
                        f"write bool_as: int in {NAME}, or 1 or 0",
                    )
                else:
                    is_read = isinstance(value, int) or (
                        isinstance(value, str) and _WORD.match(value) is not None
                    )
                if not is_read:
                    reason = f"the program's reader does not read {quote_value(value)} as written"
                    document.refuse((key, index, name), f"{reason}: {fix}")
    textual_cases: dict[str, list[Case]] = {}
    for key, group in cases.items():
        textual_cases[key] = []
        for case in group:
            args = {
                name: int(value) if isinstance(value, bool) else value
                for name, value in case.args.items()
            }
            textual_cases[key].append(Case(case.name, args))
    return textual_cases
