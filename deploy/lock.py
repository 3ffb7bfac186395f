"""Write the locks of the images: `python deploy/lock.py`; needs pip-tools and the package index.

A lock has every package of an image at its version in constraints.txt, with the hashes of all its
files. `--check` only says whether a lock lacks a requirement or has another version. torch is left
out: which build an agent needs depends on its GPU, so the Dockerfile pins its version alone.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The parts in each image, with their extras. hatchling builds them.
IMAGES = {
    "platform": (
        *("shared[http,services,tracing]", "harness", "services/ingest", "services/ranker"),
        *("services/scheduler[modal]", "services/discord-edge", "cli"),
    ),
    "agent": ("shared[services,tracing]", "harness[torch]", "services/gpu-agent"),
}
BUILD = "hatchling"
CHOSEN_LATER = "torch"
CHOSEN_BLOCK = re.compile(rf"^{CHOSEN_LATER}==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
PART = re.compile(r"(?P<folder>[^\[]+)(\[(?P<extras>.+)\])?")
NAME = re.compile(r"[A-Za-z0-9._-]+")
LOCK_S_MAX = 600


def lock_path(image: str) -> Path:
    """Return the path of an image's lock."""
    return ROOT / "deploy" / f"{image}.lock"


def requirements(image: str) -> list[str]:
    """Return what the parts of an image require of others."""
    found = {BUILD}
    for part in IMAGES[image]:
        match = PART.fullmatch(part)
        assert match is not None
        project = tomllib.loads((ROOT / match["folder"] / "pyproject.toml").read_text())["project"]
        extras = project.get("optional-dependencies", {})
        chosen = [extras[extra] for extra in (match["extras"] or "").split(",") if extra]
        for requirement in (
            *project["dependencies"],
            *(line for group in chosen for line in group),
        ):
            if not requirement.startswith("warpboard-"):
                found.add(requirement)
    return sorted(found)


def normal_name(name: str) -> str:
    """Return a package's name as the index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, str]:
    """Return the versions of a lock or of constraints.txt."""
    return {normal_name(name): version for name, version in PINNED.findall(path.read_text())}


def find_stale(image: str) -> Iterator[str]:
    """Yield what is wrong with a lock, without asking the index."""
    locked, constraints = pins(lock_path(image)), pins(ROOT / "constraints.txt")
    for requirement in requirements(image):
        match = NAME.match(requirement)
        assert match is not None
        if normal_name(match[0]) not in {*locked, CHOSEN_LATER}:
            yield f"{image}.lock lacks {match[0]}"
    for name, version in locked.items():
        if constraints.get(name, version) != version:
            yield f"{image}.lock has {name} {version}, constraints.txt {constraints[name]}"


def write_lock(image: str) -> None:
    """Resolve an image's packages, and write them with their hashes."""
    command = [sys.executable, "-m", "piptools", "compile", "--quiet", "--generate-hashes"]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    command += ["--no-emit-trusted-host", "--strip-extras", "--allow-unsafe"]
    command += ["--constraint", "constraints.txt", "--output-file", str(lock_path(image)), "-"]
    lines = "\n".join(requirements(image))
    subprocess.run(command, input=lines, text=True, cwd=ROOT, check=True, timeout=LOCK_S_MAX)
    path = lock_path(image)
    path.write_text(CHOSEN_BLOCK.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> int:
    """Write the locks, or with `--check` say what is stale; return the exit code."""
    if sys.argv[1:] != ["--check"]:
        for image in IMAGES:
            write_lock(image)
        return 0
    stale = [problem for image in IMAGES for problem in find_stale(image)]
    sys.stdout.write("".join(f"{problem}: run python deploy/lock.py\n" for problem in stale))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
