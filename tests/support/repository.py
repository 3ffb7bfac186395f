"""Folders and a git repository from which the public client's admin publishes problems."""

import shutil
import subprocess
from pathlib import Path

from tests.support.people import QUICKER, change_text
from tests.support.platform import ROOT

REPOSITORY = "ada/kernels"


def repository_settings(home: Path) -> dict[str, str]:
    """Settings by which problems may come from folders and from a repository, made in `home`."""
    roots = home / "roots"
    shutil.copytree(ROOT / "problems", roots)
    # As identity is elsewhere in these tests: quick to time. They have no baselines, which an agent
    # would run beside all later tests.
    for name in ("late", "left"):
        shutil.copytree(roots / "identity", roots / name)
        task = roots / name / "task.yml"
        task.write_bytes(change_text(task.read_bytes(), QUICKER))
    (roots / "broken").mkdir()
    (roots / "broken" / "task.yml").write_text("files: []\n")
    address = f"file://{made_repository(home / 'repository')}"
    return {
        "WARPBOARD_INGEST_PROBLEM_ROOTS": str(roots),
        "WARPBOARD_INGEST_POPCORN_UNCHECKED": "the set is checked elsewhere",
        "WARPBOARD_INGEST_REPOSITORIES": f"{REPOSITORY}={address}",
    }


def made_repository(folder: Path) -> str:
    """A repository with three contests: one is whole, one lacks a problem, one is long over."""
    problem = folder / "problems" / "good" / "copy"
    problem.mkdir(parents=True)
    for path in (ROOT / "problems" / "identity").iterdir():
        if path.is_file():
            (problem / path.name).write_bytes(path.read_bytes())
    entry = (
        "problems:\n  - {{directory: good/{0}, name: {1}, deadline: '2099-01-01', gpus: [CPU]}}\n"
    )
    head = "name: Set\ndescription: a set\n"
    (folder / "problems" / "good.yaml").write_text(head + entry.format("copy", "from-a-set"))
    two = entry.format("copy", "held-back") + entry.format("nope", "not-there").partition("\n")[2]
    (folder / "problems" / "bad.yaml").write_text(head + two)
    over = entry.format("copy", "long-over").replace("2099", "2020")
    (folder / "problems" / "over.yaml").write_text(head + over)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "a set"]):
        subprocess.run([*git, *command], check=True, timeout=30, capture_output=True)
    return str(folder)
