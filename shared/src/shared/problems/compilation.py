"""From the files of a `task.yml` directory to a problem version, or a sentence why not."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from shared.problems.answers import of_answers
from shared.problems.cases import Case, read_cases
from shared.problems.consent import consented, of_consent
from shared.problems.contract import check_native, check_reference
from shared.problems.document import Document, bad_problem, read_document, shown
from shared.problems.goals import Goals, goals
from shared.problems.native import of_native
from shared.problems.popcorn import WARNING, as_text, own_program, textual
from shared.problems.release import AFTER_CLOSE, of_release
from shared.problems.roofline import of_roofline, works
from shared.problems.single_file import CALLS, KERNELBENCH, Single, read_single
from shared.problems.sources import Sources, gathered
from shared.problems.task_yml import (
    NAMES,
    NativeYml,
    TaskYml,
    gpus_count,
    read_task,
    task_warnings,
)
from shared.problems.version import Needs, ProblemVersion
from shared.problems.warpboard_yml import (
    NAME,
    Requires,
    WarpboardYml,
    read_warpboard,
    warpboard_warnings,
)

RUN_CASES_MAX = 200

_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,94}\Z")


def compile_problem(slug: str, files: Mapping[str, bytes]) -> ProblemVersion:
    """The version that these files are: an equal slug and equal files give an equal digest.

    Shapes: `files` maps paths relative to the directory of task.yml, with /, to bytes.
    Errors: Refused `bad_problem`, whose sentence names file, line, field and the mend.
    """
    if not _SLUG.match(slug):
        raise bad_problem(f"the slug {shown(slug)} is none: a-z 0-9 _ -, at most 95", "slug")
    document, single = _task_document(files)
    form = single.form if single else ""
    beside = read_document(NAME, files[NAME]) if NAME in files else None
    extras = read_warpboard(beside)
    task = _ranked_by(read_task(document), extras)
    cases = {key: read_cases(document, key) for key in ("tests", "benchmarks")}
    if not cases["benchmarks"]:
        document.refuse(("benchmarks",), "no benchmarks: a ranking needs at least one timed case")
    if 2 * len(cases["tests"]) + len(cases["benchmarks"]) > RUN_CASES_MAX:
        # A ranked run reports its tests twice, and all of it in one event.
        what = f"twice the tests and the benchmarks are over {RUN_CASES_MAX} cases: write fewer"
        document.refuse(("tests",), what)
    sources = consented(gathered(document, task, files), extras, files)
    main = "" if single else own_program(document, task, extras, sources.files)
    if main:
        cases = {key: _textual(document, found, key, extras) for key, found in cases.items()}
    elif isinstance(task, NativeYml):
        check_native(document, task, sources.files, cases)
    elif not form:
        check_reference(document, sources.files, cases, is_ranked=task.multi_gpu)
    content = (
        {"slug": slug, "title": extras.title or slug.replace("-", " ").replace("_", " ").title()}
        | _of_task(task, cases)
        | _of_sources(sources)
        | _of_extras(extras)
        | of_consent(extras)
        | of_release(extras)
        | of_roofline(beside, extras.roofline, cases["benchmarks"])
        | _of_machine(task, extras)
        | ({} if main else of_answers(document, task, extras, form, sources.files))
        | {"budgets_s": _budgets_s(task, extras), "gpus": _gpus(document, task, extras)}
        | (_of_form(form) if single else of_native(document, task, extras, main))
        | _of_program(task, main)
    )
    # A file has one case, and all its generators are seeded before each call.
    warnings = (*(() if single else task_warnings(task)), *warpboard_warnings(extras))
    warnings += (WARNING.format(main=main),) if main else ()
    return _version(content, sources, goals(extras, content, files), warnings)


def _task_document(files: Mapping[str, bytes]) -> tuple[Document, Single | None]:
    """What a problem begins with; where that is a file of Python, what it is a problem of, too."""
    found = [name for name in NAMES if name in files]
    if not found and (single := read_single(files)):
        return single.document, single
    if len(found) != 1:
        what = "both are there: keep one" if found else "neither is there: a problem begins with it"
        raise bad_problem(f"{' or '.join(NAMES)}: {what}", NAMES[0])
    return read_document(found[0], files[found[0]]), None


def _ranked_by(task: TaskYml, extras: WarpboardYml) -> TaskYml:
    """The task, ranked by what warpboard.yml says if it does."""
    if extras.ranking_by is None:
        return task
    return task.model_copy(update={"ranking_by": extras.ranking_by})


def _textual(document: Document, cases: list[Case], key: str, extras: WarpboardYml) -> list[Case]:
    textual(document, cases, key, extras)
    return [Case(case.name, as_text(case.args)) for case in cases]


def _of_program(task: TaskYml, main: str) -> dict[str, Any]:
    """The program of its own that runs a problem; nothing of any other."""
    languages = {} if isinstance(task, NativeYml) else {"languages": ["python"]}
    return {"main": main} | languages if main else {}


def _of_form(form: str) -> dict[str, Any]:
    """What the harness must know of a problem in one file; absent from every other."""
    known = {"calls": CALLS} | ({"form": form} if form else {})
    # A model is a class of Python.
    return known | ({"languages": ["python"]} if form == KERNELBENCH else {})


def _of_task(task: TaskYml, cases: Mapping[str, list[Case]]) -> dict[str, Any]:
    return {
        "description": task.description,
        "lang": task.lang,
        "ranking_by": task.ranking_by,
        "seed": task.seed,
    } | {
        key: [{"name": case.name, "args": case.args} for case in found]
        for key, found in cases.items()
    }


def _of_sources(sources: Sources) -> dict[str, Any]:
    return {
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sources.files.items()},
        "submission": sources.submission,
        "templates": sources.templates,
    }


def _of_extras(extras: WarpboardYml) -> dict[str, Any]:
    return {
        "authors": extras.authors,
        "difficulty": extras.difficulty,
        "languages": list(dict.fromkeys(extras.languages)),
        "source_bytes_max": extras.limits.source_bytes,
        "tags": extras.tags,
    }


def _of_machine(task: TaskYml, extras: WarpboardYml) -> dict[str, Any]:
    """What asks for more than one GPU of any kind; absent where nothing is asked.

    So the digest of a problem that asks for nothing is what it was before one could ask.
    """
    count = max(extras.requires.count, gpus_count(task))
    asked = extras.requires.model_dump() | {"count": count}
    asked["toolchains"] = list(dict.fromkeys(extras.requires.toolchains))
    found: dict[str, Any] = {"multi_gpu": True} if task.multi_gpu else {}
    return found | ({} if asked == Requires().model_dump() else {"requires": asked})


def _budgets_s(task: TaskYml, extras: WarpboardYml) -> dict[str, int]:
    return {
        "build": extras.budget_s.build,
        "test": task.test_timeout,
        "benchmark": task.benchmark_timeout,
        "ranked": task.ranked_timeout,
    }


def _gpus(document: Document, task: TaskYml, extras: WarpboardYml) -> list[str]:
    """Those of warpboard.yml, else those of task.yml: the public system has no GPU type CPU."""
    gpus = extras.gpus or task.gpus
    if gpus is None:
        where = "begin it with #!POPCORN gpus CPU, or " if document.name.endswith(".py") else ""
        what = f"no gpus, nor in {NAME}: {where}list the GPU types, such as [CPU]"
        document.refuse(("gpus",), what)
    if len(set(gpus)) < len(gpus):
        name = NAME if extras.gpus else document.name
        raise bad_problem(f"{name}: gpus {', '.join(gpus)}: name each once", "gpus")
    return gpus


def _version(
    content: Mapping[str, Any], sources: Sources, held: Goals, warnings: tuple[str, ...]
) -> ProblemVersion:
    text = json.dumps(
        {**content, **held.said},
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
        requires=_needs(content),
        consent=content.get("consent", ""),
        source_visible=content.get("source_visible", AFTER_CLOSE),
        publish=content.get("publish", AFTER_CLOSE),
        baselines=held.baselines,
        milestones=held.milestones,
        works=works(content),
        warnings=warnings,
    )


def _needs(content: Mapping[str, Any]) -> Needs:
    asked: Mapping[str, Any] = content.get("requires", {"toolchains": ()})
    sandbox = {"sandbox_memory_mib": content.get("memory_mib", 0)}
    return Needs(**{**asked, **sandbox, "toolchains": tuple(asked["toolchains"])})
