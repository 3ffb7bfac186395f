"""The command line, installed from a running platform into an empty environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.platform import ROOT, Running

pytestmark = pytest.mark.long

# Tests trust no authority, but pip asks the public index.
ENVIRON = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        command,
        env=ENVIRON,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_the_platforms_own_package_installs_small_and_works(
    platform: Running, tmp_path: Path
) -> None:
    page = httpx.get(f"{platform.url}/cli").text
    url = page.partition("<code>pip install ")[2].partition("<")[0]
    assert url.startswith(f"{platform.url}/cli/warpboard_cli-")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    constraints = ("--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    run(programs / "pip", "install", "-q", *constraints, url)
    version = url.partition("warpboard_cli-")[2].partition("-")[0].replace("%2B", "+")
    assert run(programs / "warpboard", "--version").split() == ["warpboard", version]
    command = (programs / "warpboard", "problem", "list", "--json", "--url", platform.url)
    problems = json.loads(run(*command, cwd=tmp_path))
    assert "identity" in [problem["slug"] for problem in problems["items"]]
    installed = {
        package["name"].lower()
        for package in json.loads(run(programs / "pip", "list", "--format", "json"))
    }
    assert {"warpboard-cli", "click"} <= installed
    assert not installed & {"torch", "nats-py", "psycopg", "fastapi", "uvicorn"}
    # By its name, with the platform as a package index of pip.
    found = run(
        *(programs / "pip", "download", "-q", "--no-deps", *constraints),
        *("--find-links", f"{platform.url}/cli", "--dest", tmp_path / "wheels", "warpboard-cli"),
    )
    assert not found.strip()
    assert [file.name for file in (tmp_path / "wheels").iterdir()] == [
        f"warpboard_cli-{version}-py3-none-any.whl"
    ]
