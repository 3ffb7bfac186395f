"""What somebody begins with: the files of a fresh folder for a problem."""

import json
import re
from collections.abc import Mapping, Sequence
from string import Template

from shared.errors import Refused
from shared.problems.languages import SUFFIXES, suffix
from shared.problems.single_file import KERNELBENCH, read_single
from warpboard.domain.answers import Answer
from warpboard.domain.problems import Problem
from warpboard.domain.units import one_line

MARKS = {".py": "#!POPCORN", ".cpp": "//!POPCORN", ".cu": "//!POPCORN"}
# The folder in which the problem's own files lie, to be read and not to be changed.
READ = "problem"
SEED = 4242
EMPTY = {
    ".py": "def custom_kernel(data):\n    raise NotImplementedError\n",
    ".cpp": "// custom_kernel goes here: see problem/statement.md\n",
    ".cu": "// custom_kernel goes here: see problem/statement.md\n",
}


def template_name(found: Problem, language: str | None) -> str | None:
    """The file that a submission begins as, by its language; None if the author gives none.

    Errors: Refused for a language that the problem has no file for.
    """
    named = {name.lower(): file for name, file in found.templates.items()}
    if language is None:
        python = [file for file in named.values() if suffix(file) == ".py"]
        return next(iter([*python, *named.values()]), None)
    if language.lower() in named:
        return named[language.lower()]
    if language.lower() in found.languages and not named:
        return None
    known = ", ".join(sorted(named)) or "none"
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


def is_model(reference: bytes) -> bool:
    """Whether a problem's reference is a KernelBench model."""
    try:
        single = read_single({"reference.py": reference})
    except Refused:
        return False
    return single is not None and single.form == KERNELBENCH


def model(reference: bytes) -> str:
    r"""The start of a submission to a model: the model itself, under the name that it must have.

    >>> model(b"class Model(nn.Module):\n    def __init__(self): super(Model, self).__init__()\n")
    'class ModelNew(nn.Module):\n    def __init__(self): super(ModelNew, self).__init__()\n'
    """
    return re.sub(r"\b(class |super\()Model\b", r"\1ModelNew", reference.decode(errors="replace"))


def extras(types: Sequence[str]) -> str:
    """A warpboard.yml for a problem that says no GPU types of its own."""
    return f"gpus: {json.dumps(list(types))}\n"


def starter(found: Problem, types: Sequence[str], name: str | None, text: str) -> tuple[str, str]:
    r"""The file that is to be made faster: its name, and its text with what it is for on top.

    >>> one = Problem(slug="p", number=1, title="P", gpus=["CPU"])
    >>> starter(one, ["CPU"], "template.py", "import torch\n")
    ('kernel.py', '#!POPCORN leaderboard p\n#!POPCORN gpu CPU\n\nimport torch\n')
    """
    end = suffix(name) if name else SUFFIXES.get(next(iter(found.languages), ""), ".py")
    mark, kept = MARKS[end], text or EMPTY[end]
    lines = [one for one in kept.splitlines() if "!POPCORN" not in one.upper()]
    body = "\n".join(lines).strip("\n") + "\n"
    return (
        f"kernel{end}",
        f"{mark} leaderboard {found.slug}\n{mark} gpu {' '.join(types)}\n\n{body}",
    )


def task(found: Problem, names: Sequence[str], is_seeded: bool) -> str:
    """A task.yml by which the problem can be run here; its seeds are others than the platform's.

    JSON is YAML too.
    """
    cases = found.rules.cases if found.rules else {}
    code = [name for name in names if name.endswith(".py")]
    said = {
        "files": [
            {"name": found.submission, "source": "@SUBMISSION@"},
            *({"name": name, "source": name} for name in code),
        ],
        "lang": found.lang,
        "config": {"main": "eval.py"},
        "description": found.description or found.title,
        "tests": _seeded(cases.get("tests", []), is_seeded),
        "benchmarks": _seeded(cases.get("benchmarks", []), is_seeded),
        "ranking_by": found.ranking_by or "last",
        "gpus": list(found.gpus),
    }
    return json.dumps(said, indent=2) + "\n"


def _seeded(cases: Sequence[Answer], is_seeded: bool) -> list[Answer]:
    """The arguments of cases, with seeds of our own where the reference takes one."""
    seeds = (({"seed": SEED + index} if is_seeded else {}) for index in range(len(cases)))
    return [dict(case.get("args", {})) | seed for case, seed in zip(cases, seeds, strict=False)]


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
