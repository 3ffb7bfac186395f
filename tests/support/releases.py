"""The code of the last release, extracted from git, which runs beside that of the tree."""

import subprocess
import sys
import tarfile
import tomllib
import venv
from io import BytesIO
from pathlib import Path
from site import getsitepackages
from typing import NamedTuple

import pytest

from ranker.export.encrypted import extract_all

ROOT = Path(__file__).parent.parent.parent
GIT_S_MAX = 60
SOURCES = ("*/src", "services/*/src")


class Release(NamedTuple):
    """A released version and its commit."""

    version: str
    commit: str


def last_release() -> Release:
    """Return the newest release of `deploy/releases.toml`."""
    document = tomllib.loads((ROOT / "deploy" / "releases.toml").read_text(encoding="utf-8"))
    return Release(**document["release"][0])


def read_release(release: Release, *paths: str) -> tarfile.TarFile:
    """Return files of a release; skip the test where the clone lacks its commit."""
    archive = subprocess.run(
        ["git", "archive", release.commit, *paths],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        timeout=GIT_S_MAX,
        check=False,
    )
    if archive.returncode:
        lack = f"this clone lacks {release.commit}, the commit of version {release.version}"
        pytest.skip(f"NOT RUN: {lack}; git fetch --unshallow")
    return tarfile.open(fileobj=BytesIO(archive.stdout))


def install_release(release: Release, folder: Path) -> Path:
    """Return a Python that imports the release's code and the packages of this environment.

    The harness starts processes without our environment, so no variable could choose the code.
    """
    with read_release(release) as files:
        extract_all(files, folder / "tree")
    venv.create(folder / "venv", symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("*/site-packages")
    sources = [source for pattern in SOURCES for source in (folder / "tree").glob(pattern)]
    # Its .pth files, which lead to the tree's own code, are not read this way.
    lines = [*map(str, sources), *getsitepackages()]
    (packages / "release.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert sys.prefix != sys.base_prefix, "expected a virtual environment"
    return folder / "venv" / "bin" / "python"
