"""Compile the files of a problem to a problem version, or explain why that is not possible.

The version is everything that scheduler, agents and leaderboards know about a problem.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.problems.cases import Case, read_cases
from shared.problems.contract import (
    WARNING,
    arguments_text,
    check_native,
    check_reference,
    check_textual_cases,
    find_own_program,
    native_manifest,
)
from shared.problems.document import Document, bad_problem, quote_value, read_document
from shared.problems.goals import (
    Baseline,
    MilestoneMetrics,
    SourceLimits,
    baselines_manifest,
    milestones_manifest,
    read_baselines,
    read_milestones,
)
from shared.problems.roofline import Work, read_works, roofline_manifest
from shared.problems.single_file import CALLS, KERNELBENCH, SingleFileTask, read_single_file
from shared.problems.sources import REFERENCE, Sources, gather_sources
from shared.problems.task_yml import NAMES, NativeYml, TaskYml, gpus_count, read_task, task_warnings
from shared.problems.values import Milestone, Requires
from shared.problems.warpboard_yml import (
    AFTER_CLOSE,
    NAME,
    RequiresYml,
    WarpboardYml,
    add_consent_text,
    consent_manifest,
    read_warpboard,
    release_manifest,
    warpboard_warnings,
)


@dataclass(frozen=True)
class Goals:
    """The baselines and the milestones of a problem version."""

    baselines: tuple[Baseline, ...] = ()
    milestones: tuple[Milestone, ...] = ()

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest's entries, each absent if there is none."""
        return baselines_manifest(self.baselines) | milestones_manifest(self.milestones)


def read_goals(
    extras: WarpboardYml, content: Mapping[str, Any], files: Mapping[str, bytes]
) -> Goals:
    """Read the goals in a `warpboard.yml` for a problem with this manifest. Errors: Refused."""
    if not extras.baselines and not extras.milestones:
        return Goals()
    # Parsed again to get the line numbers for error messages.
    document = read_document(NAME, files[NAME])
    limits = SourceLimits(content["languages"], content["source_bytes_max"])
    problem_baselines = read_baselines(document, extras.baselines, files, limits)
    metrics = MilestoneMetrics(
        baselines=[baseline.name for baseline in problem_baselines],
        gpus=content["gpus"],
        tests_count=len(content["tests"]),
        has_roofline="roofline" in content,
    )
    return Goals(problem_baselines, read_milestones(document, extras.milestones, metrics))


@dataclass(frozen=True)
class ProblemVersion:
    """A compiled problem; `digest` is the SHA-256 of `manifest`, which names all files by digest.

    `files` holds all files in the manifest by plain name, without the submission. `consent` names
    the file whose text a participant accepts before they submit, "" for none; `source_visible` and
    `publish` say who reads the submitted sources, and when. `baselines` are not in `files`: only
    the platform runs them. `works` is the minimum work of each timed case, if the author gave it.
    Units: budgets in seconds, `source_bytes_max` in bytes.
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


RUN_CASES_MAX = 200
CHECKED = "checked"

_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,94}\Z")


def compile_problem(slug: str, files: Mapping[str, bytes]) -> ProblemVersion:
    """Compile files to a version: an equal slug and equal files give an equal digest.

    Shapes: `files` maps paths relative to the directory of task.yml, with /, to bytes.
    Errors: Refused `bad_problem`, whose message names file, line, field and the fix.
    """
    if not _SLUG.match(slug):
        reason = f"{quote_value(slug)} is not a slug: use a-z 0-9 _ -, at most 95 characters"
        raise bad_problem(reason, "slug")
    document, single = _task_document(files)
    form = single.form if single else ""
    extras_document = read_document(NAME, files[NAME]) if NAME in files else None
    extras = read_warpboard(extras_document)
    task = read_task(document)
    if extras.ranking_by is not None:
        task = task.model_copy(update={"ranking_by": extras.ranking_by})
    cases = {key: read_cases(document, key) for key in ("tests", "benchmarks")}
    _check_case_counts(document, cases)
    sources = add_consent_text(gather_sources(document, task, files), extras, files)
    main = "" if single else find_own_program(document, task, extras, sources.files)
    if main:
        for key, group in cases.items():
            check_textual_cases(document, group, key, extras)
        cases = {
            key: [Case(case.name, arguments_text(case.args)) for case in group]
            for key, group in cases.items()
        }
    elif isinstance(task, NativeYml):
        check_native(document, task, sources.files, cases)
    elif not form:
        check_reference(document, sources.files, cases, is_ranked=task.multi_gpu)
    content = (
        {"slug": slug, "title": extras.title or slug.replace("-", " ").replace("_", " ").title()}
        | _problem_manifest(task, extras, sources, cases)
        | consent_manifest(extras)
        | release_manifest(extras)
        | roofline_manifest(extras_document, extras.roofline, cases["benchmarks"])
        | _hardware_manifest(task, extras)
        | ({} if main else _run_options_manifest(document, task, extras, form, sources.files))
        | {
            "budgets_s": {
                "build": extras.budget_s.build,
                "test": task.test_timeout,
                "benchmark": task.benchmark_timeout,
                "ranked": task.ranked_timeout,
            },
            "gpus": _gpu_types(document, task, extras),
        }
        | (_form_manifest(form) if single else native_manifest(document, task, extras, main))
        | _program_manifest(task, main)
    )
    # A single file has one case, and all its generators are seeded before each call.
    warnings = (*(() if single else task_warnings(task)), *warpboard_warnings(extras))
    warnings += (WARNING.format(main=main),) if main else ()
    return _build_version(content, sources, read_goals(extras, content, files), warnings)


def _task_document(files: Mapping[str, bytes]) -> tuple[Document, SingleFileTask | None]:
    """Return the task document and, for a problem in one Python file, that file's task."""
    names = [name for name in NAMES if name in files]
    if not names and (single := read_single_file(files)):
        return single.document, single
    if len(names) != 1:
        reason = "both exist: keep one" if names else "neither exists: a problem needs one of them"
        raise bad_problem(f"{' or '.join(NAMES)}: {reason}", NAMES[0])
    return read_document(names[0], files[names[0]]), None


def _check_case_counts(document: Document, cases: Mapping[str, list[Case]]) -> None:
    if not cases["benchmarks"]:
        document.refuse(("benchmarks",), "no benchmarks: a ranking needs at least one timed case")
    if 2 * len(cases["tests"]) + len(cases["benchmarks"]) > RUN_CASES_MAX:
        # A ranked run reports its tests twice, all in one event.
        reason = f"twice the tests plus the benchmarks exceed {RUN_CASES_MAX} cases: write fewer"
        document.refuse(("tests",), reason)


def _problem_manifest(
    task: TaskYml, extras: WarpboardYml, sources: Sources, cases: Mapping[str, list[Case]]
) -> dict[str, Any]:
    """Return the entries that every problem has."""
    return {
        "description": task.description,
        "lang": task.lang,
        "ranking_by": task.ranking_by,
        "seed": task.seed,
        **{
            key: [{"name": case.name, "args": case.args} for case in group]
            for key, group in cases.items()
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sources.files.items()},
        "submission": sources.submission,
        "templates": sources.templates,
        "authors": extras.authors,
        "difficulty": extras.difficulty,
        "languages": list(dict.fromkeys(extras.languages)),
        "source_bytes_max": extras.limits.source_bytes,
        "tags": extras.tags,
    }


def _program_manifest(task: TaskYml, main: str) -> dict[str, Any]:
    """Return the entries of a problem that is run by its own program, none for other problems."""
    languages = {} if isinstance(task, NativeYml) else {"languages": ["python"]}
    return {"main": main} | languages if main else {}


def _form_manifest(form: str) -> dict[str, Any]:
    """Return the entries that the harness needs for a single-file problem."""
    entries = {"calls": CALLS} | ({"form": form} if form else {})
    # A model is a Python class.
    return entries | ({"languages": ["python"]} if form == KERNELBENCH else {})


def _hardware_manifest(task: TaskYml, extras: WarpboardYml) -> dict[str, Any]:
    """Return the entries that ask for more than one GPU of any type, absent if nothing is asked.

    So the digest of a problem without requirements is the same as before there were any.
    """
    count = max(extras.requires.count, gpus_count(task))
    requires = extras.requires.model_dump() | {"count": count}
    requires["toolchains"] = list(dict.fromkeys(extras.requires.toolchains))
    entries: dict[str, Any] = {"multi_gpu": True} if task.multi_gpu else {}
    return entries | ({} if requires == RequiresYml().model_dump() else {"requires": requires})


def _gpu_types(document: Document, task: TaskYml, extras: WarpboardYml) -> list[str]:
    """Return the GPU types of warpboard.yml, else of task.yml (where `CPU` cannot be written)."""
    gpus = extras.gpus or task.gpus
    if gpus is None:
        hint = "begin it with #!POPCORN gpus CPU, or " if document.name.endswith(".py") else ""
        reason = f"no gpus here or in {NAME}: {hint}list the GPU types, such as [CPU]"
        document.refuse(("gpus",), reason)
    if len(set(gpus)) < len(gpus):
        name = NAME if extras.gpus else document.name
        raise bad_problem(f"{name}: gpus {', '.join(gpus)}: name each once", "gpus")
    return gpus


def _build_version(
    content: Mapping[str, Any], sources: Sources, problem_goals: Goals, warnings: tuple[str, ...]
) -> ProblemVersion:
    text = json.dumps(
        {**content, **problem_goals.manifest},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    manifest = text.encode()
    return ProblemVersion(
        slug=content["slug"],
        title=content["title"],
        manifest=manifest,
        digest=hashlib.sha256(manifest).hexdigest(),
        files=sources.files,
        gpus=tuple(content["gpus"]),
        budgets_s=content["budgets_s"],
        ranking_by=content["ranking_by"],
        cases_count={key: len(content[key]) for key in ("tests", "benchmarks")},
        source_bytes_max=content["source_bytes_max"],
        languages=tuple(content["languages"]),
        requires=Requires(
            **content.get("requires", {}), sandbox_memory_mib=content.get("memory_mib", 0)
        ),
        consent=content.get("consent", ""),
        source_visible=content.get("source_visible", AFTER_CLOSE),
        publish=content.get("publish", AFTER_CLOSE),
        baselines=problem_goals.baselines,
        milestones=problem_goals.milestones,
        works=read_works(content),
        warnings=warnings,
    )


def _run_options_manifest(
    document: Document, task: TaskYml, extras: WarpboardYml, form: str, names: Collection[str]
) -> dict[str, Any]:
    """Return the manifest's entries, each absent if not set. Errors: Refused.

    A problem with its own program for the public system was written for a judge that uses the
    problem's check alone; we do the same unless warpboard.yml says otherwise.
    """
    memory = extras.limits.memory_mib
    options: dict[str, Any] = {"memory_mib": memory} if memory else {}
    if isinstance(task, NativeYml) or form == KERNELBENCH:
        if extras.answers == CHECKED:
            reason = f"{NAME} sets answers: checked, but this problem has no check of its own"
            document.refuse((), f"{reason}: remove it")
        return options
    # In a single-file problem that file is also named as the program.
    is_public = task.config.main in names and task.config.main != REFERENCE
    is_checked = is_public if extras.answers is None else extras.answers == CHECKED
    return options | ({"answers": CHECKED} if is_checked else {})
