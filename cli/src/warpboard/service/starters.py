"""Write new folders: a starter for a participant, and a draft for an author of a problem."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import msgspec

from shared.api.problems import FullProblem, ProblemCase, Start
from shared.errors import Refused
from shared.presentation.units import one_line
from shared.problems.submission_file import SUFFIXES, suffix
from shared.problems.templates import normalize_language
from warpboard.domain.exit_codes import OK
from warpboard.domain.names import SLUG_LENGTH_MAX
from warpboard.service.ports import Api, Disk, Screen

FILES_MAX = 64
AGENTS = "AGENTS.md"
# The folder of the problem's own files, which are there to be read, not changed.
READ_FOLDER = "problem"
SEED = 4242
STATEMENT = "statement.md"
TASK, EXTRAS = "task.yml", "warpboard.yml"
SINGLE = ("input_output", "outputs", "kernelbench")
TIMEOUTS = ("test", "benchmark", "ranked")
DRAFT_SLUG = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{SLUG_LENGTH_MAX - 1}}}\Z")
# The folder of the page templates, one folder per form, and their suffix.
TEMPLATE_FOLDER, DRAFT_SUFFIX = "problem", ".txt"
_TASK_FILES = ("task.yml", "warpboard.yml", "statement.md")
DRAFT_FILES: Mapping[str, Sequence[str]] = {
    "python": (
        *_TASK_FILES,
        *("task.py", "reference.py", "template.py", "baselines/plain.py"),
        *("solutions/correct/plain.py", "solutions/correct/in_place.py"),
        *("solutions/wrong/float16.py", "solutions/wrong/nan.py", "solutions/wrong/no_tail.py"),
    ),
    "cpp": (
        *_TASK_FILES,
        *("task.h", "reference.cuh", "template.cu"),
        *("solutions/correct/plain.cpp", "solutions/correct/by_tanh.cpp"),
        *("solutions/wrong/nan.cpp", "solutions/wrong/no_tail.cpp", "solutions/wrong/rounded.cpp"),
    ),
    "single": (
        *("reference.py", "warpboard.yml", "statement.md"),
        *("solutions/correct/plain.py", "solutions/correct/in_place.py"),
        *("solutions/wrong/float16.py", "solutions/wrong/nan.py"),
    ),
}


@dataclass(frozen=True)
class StarterOptions:
    """Which problem, folder, GPU types and language, and whether to overwrite."""

    problem: str
    folder: Path
    gpus: Sequence[str]
    language: str | None
    is_forced: bool
    as_json: bool


async def write_starter(
    api: Api, disk: Disk, screen: Screen, url: str, options: StarterOptions
) -> int:
    """Write the folder; nothing is written if a file exists already, unless forced.

    Raises Refused and Failed.
    """
    problem = (await api.get(FullProblem, "problems", options.problem)).value
    gpus = choose_gpus(problem, options.gpus)
    starter = choose_starter(problem, options.language)
    text = await api.file("problems", problem.slug, "templates", starter.language, gpu=gpus)
    problem_files = starter_files(problem, await _fetch_files(api, problem), gpus)
    page = agents_page(disk.page("agents.md"), problem, starter.name, gpus, url)
    files = {starter.name: text, AGENTS: page.encode()}
    files |= {f"{READ_FOLDER}/{name}": data for name, data in problem_files.items()}
    _write_files(disk, options, files)
    if options.as_json:
        screen.json({"folder": str(options.folder), "kernel": starter.name, "files": sorted(files)})
        return OK
    for name in sorted(files):
        screen.say(f"{options.folder / name}")
    screen.note(f"next: warpboard submit {options.folder / starter.name} --mode test")
    return OK


async def _fetch_files(api: Api, problem: FullProblem) -> dict[str, bytes]:
    """Return the files of the problem that participants may read, by name."""
    names = [file.name for file in problem.files if _is_inside(file.name)][:FILES_MAX]
    files = {name: await api.file("problems", problem.slug, "files", name) for name in names}
    if "statement.md" not in files:
        files["statement.md"] = (problem.statement or problem.description or problem.title).encode()
    return files


def _is_inside(name: str) -> bool:
    """Return whether a name from the platform stays inside the folder."""
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts


def _write_files(disk: Disk, options: StarterOptions, files: Mapping[str, bytes]) -> None:
    existing = [name for name in sorted(files) if disk.exists(options.folder / name)]
    if existing and not options.is_forced:
        names = ", ".join(existing[:4])
        reason = f"{options.folder} has {names} already: --force overwrites them"
        raise Refused("exists", reason, "--force")
    disk.lay_out(options.folder, files)


def choose_starter(problem: FullProblem, language: str | None) -> Start:
    """Return the starter file for a language; without one, the problem's first.

    Raises Refused for a language that the problem does not take.
    """
    if language is None and problem.starts:
        return problem.starts[0]
    name = normalize_language(language or "")
    exact_matches = [starter for starter in problem.starts if starter.language == name]
    same_suffix = [
        starter for starter in problem.starts if suffix(starter.name) == SUFFIXES.get(name)
    ]
    if starter := next(iter(exact_matches or same_suffix), None):
        return starter
    known = ", ".join(starter.language for starter in problem.starts) or "none"
    raise Refused("bad_language", f"no file to begin with in {language!r}: {known}", "--language")


def choose_gpus(problem: FullProblem, requested: Sequence[str]) -> list[str]:
    """Return the requested GPU types, else all of the problem's.

    Raises Refused for a GPU type that the problem does not have.
    """
    known = {gpu.lower(): gpu for gpu in problem.gpus}
    for gpu in requested:
        if gpu.lower() not in known:
            reason = f"{problem.slug} has no GPU type {gpu!r}: {', '.join(problem.gpus)}"
            raise Refused("unknown_gpu", reason, "--gpu")
    return [known[gpu.lower()] for gpu in requested] or list(problem.gpus)


def starter_files(
    problem: FullProblem, files: Mapping[str, bytes], gpus: Sequence[str]
) -> dict[str, bytes]:
    """Return the problem's files as a folder that compiles here, with seeds of its own.

    Templates are left out.
    """
    problem_files = {
        name: data for name, data in files.items() if name not in problem.templates.values()
    }
    if problem.form in SINGLE:
        # The file is a complete problem except for its GPU types.
        return problem_files | {EXTRAS: _encode_yaml(_extra_fields(problem) | {"gpus": list(gpus)})}
    return problem_files | {
        TASK: _encode_yaml(_task_fields(problem, problem_files)),
        EXTRAS: _encode_yaml(_extra_fields(problem)),
    }


def _encode_yaml(fields: Mapping[str, object]) -> bytes:
    """Write one key per line, so that users can add some; JSON is YAML too."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in fields.items()).encode()


def _task_fields(problem: FullProblem, files: Mapping[str, bytes]) -> dict[str, object]:
    others = (STATEMENT, TASK, EXTRAS, problem.rules.consent)
    names = [name for name in sorted(files) if name not in others]
    return {
        "files": [
            {"name": problem.submission, "source": "@SUBMISSION@"},
            *({"name": name, "source": name} for name in names),
        ],
        "lang": problem.lang,
        "config": _config_fields(problem),
        "description": problem.description or problem.title,
        "tests": _seed_cases(problem.rules.cases.tests),
        "benchmarks": _seed_cases(problem.rules.cases.benchmarks),
        "ranking_by": problem.ranking_by or "last",
        "multi_gpu": problem.is_multi_gpu,
        "gpus": list(problem.gpus),
    } | {
        f"{key}_timeout": round(problem.budgets_s[key])
        for key in TIMEOUTS
        if key in problem.budgets_s
    }


def _config_fields(problem: FullProblem) -> dict[str, object]:
    """Return how the code is called; for a problem in C++, how it is compiled."""
    if problem.form != "native":
        return {"main": problem.main or "eval.py"}
    return {
        "sources": [problem.submission, *problem.native.sources],
        "defines": problem.native.defines,
        "compile_flags": problem.native.flags,
    }


def _extra_fields(problem: FullProblem) -> dict[str, object]:
    settings: dict[str, object] = {"title": one_line(problem.title, 100) or problem.slug}
    if problem.form == "task" and problem.languages:
        settings["languages"] = problem.languages
    if problem.main:
        settings["harness"] = "popcorn"
    if problem.native.arrays:
        settings["arrays"] = problem.native.arrays
    if problem.form == "task" or problem.answers:
        # The default would compare with files that participants do not get.
        settings["answers"] = problem.answers or "strict"
    if problem.memory_mib:
        settings["limits"] = {"memory_mib": problem.memory_mib}
    if formulas := msgspec.to_builtins(problem.rules.roofline):
        settings["roofline"] = formulas
    if "build" in problem.budgets_s:
        settings["budget_s"] = {"build": round(problem.budgets_s["build"])}
    return settings


def _seed_cases(cases: Sequence[ProblemCase]) -> list[dict[str, Any]]:
    """Return the arguments of cases, with seeds of our own for those that take one."""
    return [
        case.args | ({"seed": SEED + index} if case.is_seeded else {})
        for index, case in enumerate(cases)
    ]


def agents_page(page: str, problem: FullProblem, kernel: str, gpus: Sequence[str], url: str) -> str:
    """Return AGENTS.md: how a program that writes kernels works on this problem."""
    values: Mapping[str, str] = {
        "slug": problem.slug,
        "title": one_line(problem.title, 100) or problem.slug,
        "version": str(problem.problem_version),
        "kernel": kernel,
        "gpu": gpus[0] if gpus else "GPU",
        "gpus": ", ".join(gpus),
        "url": url,
        "bytes_max": f"{problem.source_bytes_max:,}" if problem.source_bytes_max else "1,000,000",
    }
    return Template(page).substitute(values)


@dataclass(frozen=True)
class DraftOptions:
    """The folder, whose name becomes the problem's, and the form of the draft."""

    folder: Path
    form: str
    as_json: bool


async def write_draft(disk: Disk, screen: Screen, options: DraftOptions) -> int:
    """Write the folder, unless it exists. Raises Refused."""
    slug = checked_slug(options.folder.name)
    if disk.exists(options.folder):
        reason = f"{options.folder} is there already: take another name, or remove it first"
        raise Refused("exists", reason, "NAME")
    names = DRAFT_FILES[options.form]
    pages = {name: disk.page(page_name(options.form, name)) for name in names}
    disk.lay_out(options.folder, {name: fill_page(pages[name], slug) for name in names})
    if options.as_json:
        screen.json({"folder": str(options.folder), "slug": slug, "files": sorted(names)})
        return OK
    for name in names:
        screen.say(str(options.folder / name))
    screen.note(f"next: warpboard problem check {options.folder}")
    return OK


def checked_slug(name: str) -> str:
    """Return a folder's name as a slug. Raises Refused and suggests a valid one.

    >>> checked_slug("fast-silu")
    'fast-silu'
    """
    if DRAFT_SLUG.match(name):
        return name
    words = re.findall(r"[a-z0-9_]+", name.lower())
    suggestion = "-".join(words).lstrip("_-")[:SLUG_LENGTH_MAX]
    hint = f": {suggestion} would do" if suggestion else ""
    reason = f"{name!r} names no problem: a-z 0-9 _ -, at most {SLUG_LENGTH_MAX}{hint}"
    raise Refused("bad_problem", reason, "NAME")


def page_name(form: str, file: str) -> str:
    """Return the name of the template from which a file is made.

    >>> page_name("single", "reference.py")
    'problem/single/reference.py.txt'
    """
    return f"{TEMPLATE_FOLDER}/{form}/{file}{DRAFT_SUFFIX}"


def fill_page(text: str, slug: str) -> bytes:
    """Fill in a template for the problem of this name."""
    title = slug.replace("-", " ").replace("_", " ").strip().capitalize()
    return Template(text).substitute(title=title or slug).encode()
