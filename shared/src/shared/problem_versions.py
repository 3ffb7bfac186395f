"""Compiles problems of every form from disk, and writes versions as the harness reads them."""

import re
from pathlib import Path

from shared.checks.problem_files import ProblemFiles, compile_files

SLUG_LENGTH_MAX = 64
# A folder of KernelBench, and the names of its files.
LEVEL, LEVEL_FILES = re.compile(r"level([1-9])\Z"), "[0-9]*_*.py"


def write_version(problem: ProblemFiles, folder: Path) -> None:
    """Write a compiled version to a folder."""
    for name, data in {**problem.version_files, "manifest.json": problem.manifest}.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def load_problem(folder: Path, slug: str | None, gpus: tuple[str, ...] = ()) -> ProblemFiles:
    """Compile a problem without its solutions: a directory, or a file that is one.

    Without a slug, it is that of its competition file, or its own name. Raises Refused.
    """
    from shared.problem_folders import find_competition_problem, read_problem_files

    # They import pydantic, which most commands do without.
    from shared.problems.competition import add_competition_gpus

    files, entry = read_problem_files(folder), find_competition_problem(folder)
    files = add_competition_gpus(files, gpus or (entry.gpus if entry else ()))
    return compile_files(slug or (entry.slug if entry else own_slug(folder.resolve())), files)


def own_slug(path: Path) -> str:
    """Return the slug of a problem that nothing else names."""
    level = LEVEL.match(path.parent.name)
    if level and path.match(LEVEL_FILES) and path.is_file():
        return kernelbench_slug(int(level[1]), path.stem)
    return slug_of(path.stem[:SLUG_LENGTH_MAX] if path.is_file() else path.name)


def slug_of(folder: str) -> str:
    """Return the slug that a problem's folder suggests.

    >>> slug_of("Vector Add"), slug_of("softmax_v2")
    ('vector-add', 'softmax_v2')
    """
    return "-".join(folder.lower().split())


def kernelbench_slug(level: int, stem: str) -> str:
    """Return the slug of a KernelBench problem from its level and its file's name.

    >>> kernelbench_slug(1, "19_ReLU"), kernelbench_slug(2, "7_Conv2d_Bias__Add+ReLU")
    ('kernelbench-1-19-relu', 'kernelbench-2-7-conv2d-bias-add-relu')
    """
    words = re.findall("[a-z0-9]+", stem.lower())
    return "-".join(["kernelbench", str(level), *words])[:SLUG_LENGTH_MAX].rstrip("-")
