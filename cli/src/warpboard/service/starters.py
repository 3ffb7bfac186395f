"""The files from which a participant starts: the starter of a language, and the problem's own."""

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec

from shared.api.problems import FullProblem, ProblemCase, Start
from shared.errors import Refused
from shared.presentation.units import one_line
from shared.problems.submission_file import SUFFIXES, suffix
from shared.problems.templates import normalize_language

SEED = 4242
STATEMENT = "statement.md"
TASK, EXTRAS = "task.yml", "warpboard.yml"
SINGLE = ("input_output", "outputs", "kernelbench")
TIMEOUTS = ("test", "benchmark", "ranked")


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


def choose_gpus(
    problem: FullProblem, requested: Sequence[str], offered: Container[str]
) -> list[str]:
    """Return the requested GPU types, else those of the problem's that are offered, else all.

    Raises Refused for a GPU type that the problem does not have.
    """
    known = {gpu.lower(): gpu for gpu in problem.gpus}
    for gpu in requested:
        if gpu.lower() not in known:
            reason = f"{problem.slug} has no GPU type {gpu!r}: {', '.join(problem.gpus)}"
            raise Refused("unknown_gpu", reason, "--gpu")
    if requested:
        return [known[gpu.lower()] for gpu in requested]
    return [gpu for gpu in problem.gpus if gpu in offered] or list(problem.gpus)


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
