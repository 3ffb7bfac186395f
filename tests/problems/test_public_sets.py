"""Every problem of a public set loads, or is refused with its reason; it lies outside of here."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.folders import contest_files, task_folders
from warpboard.local_run import LocalDisk

PAGES = Path(__file__).parents[2] / "docs"
KERNELS, BENCH = "WARPBOARD_REFERENCE_KERNELS", "WARPBOARD_KERNELBENCH"


def checkout(variable: str) -> Path:
    """The checkout that a variable names; a skip that says which, if it names none."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no checkout of its public set")
    return Path(folder)


def levels(root: Path) -> list[Path]:
    return [path for level in range(1, 5) for path in LocalDisk().level(root, level)]


def looked(root: Path, paths: list[Path]) -> dict[str, str]:
    """Why each problem does not load, "" where it does."""
    found = {}
    for path in paths:
        try:
            LocalDisk().problem(path, None, ("CPU",))
            reason = ""
        except Refused as refused:
            reason = refused.reason
        found[path.relative_to(root).as_posix()] = reason
    return found


@pytest.mark.parametrize(
    ("variable", "title", "paths"),
    [(KERNELS, "Reference kernels", task_folders), (BENCH, "KernelBench", levels)],
)
def test_a_public_set_is_on_the_page_as_it_loads(
    variable: str, title: str, paths: Callable[[Path], list[Path]]
) -> None:
    root = checkout(variable)
    found = looked(root, paths(root))
    assert not any("\n" in reason for reason in found.values())
    listed = json.loads((PAGES / "public-sets.json").read_text())[title]
    mend = "python -m docs.sets writes the page anew"
    assert {name: row["loads"] for name, row in listed.items()} == found, mend


def test_every_contest_of_the_set_names_problems_that_load() -> None:
    root = checkout(KERNELS)
    files = contest_files(root / "problems")
    assert files
    for file in files:
        for one in LocalDisk().contest(file):
            assert LocalDisk().problem(Path(one.directory), None).slug
