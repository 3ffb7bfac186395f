"""What somebody begins with: the files of a fresh folder for a problem."""

import json
from collections.abc import Mapping, Sequence
from string import Template

from shared.errors import Refused
from shared.problems.languages import SUFFIXES, suffix
from shared.problems.templates import plain_language
from warpboard.domain.answers import Answer
from warpboard.domain.problems import Problem, Start
from warpboard.domain.units import one_line

# The folder in which the problem's own files lie, to be read and not to be changed.
READ = "problem"
SEED = 4242
STATEMENT = "statement.md"
TASK, EXTRAS = "task.yml", "warpboard.yml"
SINGLE = ("input_output", "outputs", "kernelbench")
TIMEOUTS = ("test", "benchmark", "ranked")


def begun(found: Problem, language: str | None) -> Start:
    """The language that a submission begins in, and its file's name; without one the likeliest.

    Errors: Refused for a language that the problem does not take.
    """
    if language is None and found.starts:
        return found.starts[0]
    name = plain_language(language or "")
    exact = [one for one in found.starts if one.language == name]
    alike = [one for one in found.starts if suffix(one.name) == SUFFIXES.get(name)]
    if one := next(iter(exact or alike), None):
        return one
    known = ", ".join(one.language for one in found.starts) or "none"
    raise Refused("bad_language", f"no file to begin with in {language!r}: {known}", "--language")


def gpus(found: Problem, asked: Sequence[str]) -> list[str]:
    """The GPU types that a submission is for: those asked for, else all of the problem's.

    Errors: Refused for one that it has not.
    """
    known = {one.lower(): one for one in found.gpus}
    for one in asked:
        if one.lower() not in known:
            what = f"{found.slug} has no GPU type {one!r}: {', '.join(found.gpus)}"
            raise Refused("unknown_gpu", what, "--gpu")
    return [known[one.lower()] for one in asked] or list(found.gpus)


def folder(found: Problem, given: Mapping[str, bytes], types: Sequence[str]) -> dict[str, bytes]:
    """The problem's files as a folder that compiles here; its seeds are others than the platform's.

    What a submission begins as is no part of it.
    """
    kept = {name: data for name, data in given.items() if name not in found.templates.values()}
    if found.form in SINGLE:
        # The file is a problem by itself, but for where it is to run.
        return kept | {EXTRAS: _document(_extras(found) | {"gpus": list(types)})}
    return kept | {TASK: _document(_task(found, kept)), EXTRAS: _document(_extras(found))}


def _document(said: Mapping[str, object]) -> bytes:
    """A key a line, so that others may add some; JSON is YAML too."""
    return "".join(f"{key}: {json.dumps(one)}\n" for key, one in said.items()).encode()


def _task(found: Problem, given: Mapping[str, bytes]) -> dict[str, object]:
    consent = found.rules.consent if found.rules else ""
    names = [name for name in sorted(given) if name not in (STATEMENT, TASK, EXTRAS, consent)]
    cases = found.rules.cases if found.rules else {}
    return {
        "files": [
            {"name": found.submission, "source": "@SUBMISSION@"},
            *({"name": name, "source": name} for name in names),
        ],
        "lang": found.lang,
        "config": _config(found),
        "description": found.description or found.title,
        "tests": _seeded(cases.get("tests", [])),
        "benchmarks": _seeded(cases.get("benchmarks", [])),
        "ranking_by": found.ranking_by or "last",
        "multi_gpu": found.is_multi_gpu,
        "gpus": list(found.gpus),
    } | {
        f"{key}_timeout": round(found.budgets_s[key]) for key in TIMEOUTS if key in found.budgets_s
    }


def _config(found: Problem) -> dict[str, object]:
    """How the code is called, of a problem in C++ how it is compiled."""
    if found.form != "native":
        return {"main": found.main or "eval.py"}
    return {
        "sources": [found.submission, *found.native.sources],
        "defines": found.native.defines,
        "compile_flags": found.native.flags,
    }


def _extras(found: Problem) -> dict[str, object]:
    said: dict[str, object] = {"title": one_line(found.title, 100) or found.slug}
    if found.form == "task" and found.languages:
        said["languages"] = found.languages
    if found.main:
        said["harness"] = "popcorn"
    if found.native.arrays:
        said["arrays"] = found.native.arrays
    if found.form == "task" or found.answers:
        # Where nothing is said, files that are not given out would decide.
        said["answers"] = found.answers or "strict"
    if found.memory_mib:
        said["limits"] = {"memory_mib": found.memory_mib}
    if found.rules is not None and found.rules.roofline:
        said["roofline"] = found.rules.roofline
    if "build" in found.budgets_s:
        said["budget_s"] = {"build": round(found.budgets_s["build"])}
    return said


def _seeded(cases: Sequence[Answer]) -> list[Answer]:
    """The arguments of cases, with seeds of our own for those that take one."""
    return [
        dict(case.get("args", {})) | ({"seed": SEED + index} if case.get("is_seeded") else {})
        for index, case in enumerate(cases)
    ]


def agents_page(page: str, found: Problem, kernel: str, types: Sequence[str], url: str) -> str:
    """AGENTS.md: how a program that writes kernels goes about this problem."""
    said: Mapping[str, str] = {
        "slug": found.slug,
        "title": one_line(found.title, 100) or found.slug,
        "version": str(found.number),
        "kernel": kernel,
        "gpu": types[0] if types else "GPU",
        "gpus": ", ".join(types),
        "url": url,
        "bytes_max": f"{found.source_bytes_max:,}" if found.source_bytes_max else "1,000,000",
    }
    return Template(page).substitute(said)
