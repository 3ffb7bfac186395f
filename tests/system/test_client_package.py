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


def run(*command: str | Path, cwd: Path = ROOT, expected_code: int = 0) -> str:
    """Run a command and return what it prints; a refusal is printed to stderr."""
    done = subprocess.run(
        command,
        env=ENVIRON,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == expected_code, done.stdout + done.stderr
    return done.stdout if expected_code == 0 else done.stderr


@pytest.mark.timeout(300)
def test_the_platforms_own_package_installs_small_and_works(
    platform: Running, tmp_path: Path
) -> None:
    page = httpx.get(f"{platform.url}/cli").text
    url = page.partition("<code>pip install ")[2].partition("<")[0]
    assert url.startswith(f"{platform.url}/cli/warpboard_cli-")
    # A pip of its own would take longer than all the rest.
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", programs / "python")
    options = ("-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    run(*pip, "install", "--no-compile", *options, url)
    version = url.partition("warpboard_cli-")[2].partition("-")[0].replace("%2B", "+")
    assert run(programs / "warpboard", "--version").startswith(f"warpboard {version} ")
    command = (programs / "warpboard", "problem", "list", "--json", "--url", platform.url)
    problems = json.loads(run(*command, cwd=tmp_path))
    assert "identity" in [problem["slug"] for problem in problems["items"]]
    installed = {
        package["name"].lower() for package in json.loads(run(*pip, "list", "--format", "json"))
    }
    assert {"warpboard-cli", "click"} <= installed
    assert not installed & {"torch", "nats-py", "psycopg", "fastapi", "uvicorn"}
    refusal = run(programs / "warpboard", "up", cwd=tmp_path, expected_code=2)
    assert "only the client is installed here" in refusal
    identity = ROOT / "problems" / "identity"
    local_run = (programs / "warpboard", "run", identity / "template.py", "--problem", identity)
    assert "pip install torch" in run(*local_run, cwd=tmp_path, expected_code=2)
    # By its name, with the platform as a package index of pip.
    found = run(
        *(*pip, "download", "--no-deps", *options),
        *("--find-links", f"{platform.url}/cli", "--dest", tmp_path / "wheels", "warpboard-cli"),
    )
    assert not found.strip()
    assert [file.name for file in (tmp_path / "wheels").iterdir()] == [
        f"warpboard_cli-{version}-py3-none-any.whl"
    ]
