"""The command line as one wheel, and the pages under /cli that offer it.

The wheel is built from the packages that are installed beside ingest, so it needs neither a network
nor a build tool, and it is of the platform's own version. It contains `shared` and `harness`:
their names belong to strangers on the public index, so pip must not look for them there.
"""

import asyncio
import base64
import hashlib
import importlib.util
import io
import logging
import re
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from ingest.identity.login.web import Web
from shared.agent_guide import render_agent_guide
from shared.errors import Refused
from shared.version import VERSION

PROJECT = "warpboard-cli"
# What the command line consists of: the import packages, and the distributions that have them.
PARTS = {"warpboard": PROJECT, "shared": "warpboard-shared", "harness": "warpboard-harness"}
# The extras that need no package of ours.
EXTRAS = ("mcp", "plots")
REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)[^;]*(;.*extra == ['\"](?P<extra>[^'\"]+)['\"])?"
)
CHECKOUT_COMMAND = "pip install ./shared ./harness ./cli"
# The first part of /llms.txt, the index for programs (llmstxt.org).
LLMS_TEXT = Template("""\
# Warpboard

> Write a GPU kernel for a problem and submit it. The platform checks every output, times the kernel
> on the GPU type that you choose, and ranks it on a leaderboard.

This page has everything that an LLM agent needs. Times are in microseconds per call. A person must
log in once, or give you a token in `WARPBOARD_TOKEN`.

## Start

```
$install
export WARPBOARD_URL=$url
warpboard login
warpboard problem list --json
warpboard init PROBLEM
```

`init` writes a folder with the file to improve, the statement, the reference and an `AGENTS.md`:
this page with the values of the problem. `warpboard COMMAND --help` describes every command.

""")
# A file name has the digest of its contents.
WHEEL_S = 31_536_000
# A wheel of the same code has the same bytes.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
WHEEL_FILE = "Wheel-Version: 1.0\nGenerator: warpboard\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

_log = logging.getLogger(__name__)


class Wheel(NamedTuple):
    """A wheel: its file name, and its bytes with their SHA-256."""

    name: str
    data: bytes
    digest: str

    @property
    def path(self) -> str:
        """Return the path of its URL."""
        return f"/cli/{quote(self.name)}"


@cache
def build_wheel() -> Wheel | None:
    """Return the wheel; None if the command line is not installed here."""
    try:
        distributions = [metadata.distribution(name) for name in PARTS.values()]
        contents = {path: file.read_bytes() for path, file in _package_files()}
    except (metadata.PackageNotFoundError, OSError) as error:
        _log.warning("cannot offer the command line under /cli: %s", error)
        return None
    code = hashlib.sha256()
    for path, data in contents.items():
        code.update(f"{path} {len(data)}\n".encode() + data)
    project = distributions[0]
    version = f"{VERSION}+g{code.hexdigest()[:12]}"
    info = f"warpboard_cli-{version}.dist-info"
    contents |= {
        f"{info}/METADATA": _metadata_text(project, distributions, version).encode(),
        f"{info}/WHEEL": WHEEL_FILE.encode(),
        f"{info}/entry_points.txt": (project.read_text("entry_points.txt") or "").encode(),
    }
    data = _zip_wheel(contents, f"{info}/RECORD")
    name = f"warpboard_cli-{version}-py3-none-any.whl"
    return Wheel(name, data, hashlib.sha256(data).hexdigest())


def _package_files() -> Iterator[tuple[str, Path]]:
    """Yield the files of the packages, in order, with their paths in the wheel."""
    for package in PARTS:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise metadata.PackageNotFoundError(package)
        folder = Path(spec.submodule_search_locations[0])
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield f"{package}/{file.relative_to(folder).as_posix()}", file


def _metadata_text(
    project: metadata.Distribution, distributions: list[metadata.Distribution], version: str
) -> str:
    """Return the metadata: requirements are those of all parts, except the parts themselves."""
    requirements = {
        line
        for distribution in distributions
        for line in distribution.requires or ()
        if _is_required(line, is_project=distribution is project)
    }
    headers = [
        ("Metadata-Version", "2.1"),
        ("Name", PROJECT),
        ("Version", version),
        ("Summary", project.metadata["Summary"]),
        ("Requires-Python", project.metadata["Requires-Python"]),
        *(("Requires-Dist", line) for line in sorted(requirements)),
        *(("Provides-Extra", extra) for extra in EXTRAS),
    ]
    return "".join(f"{key}: {value}\n" for key, value in headers)


def _is_required(line: str, *, is_project: bool) -> bool:
    """Return whether a requirement of a part is one of the wheel.

    >>> _is_required("click", is_project=True), _is_required("warpboard-shared", is_project=True)
    (True, False)
    >>> _is_required("mcp; extra == 'mcp'", is_project=True)
    True
    >>> _is_required('nats-py>=2.16; extra == "services"', is_project=False)
    False
    """
    match = REQUIREMENT.match(line)
    assert match is not None, f"{line!r} is not a requirement"
    extra = match["extra"]
    is_wanted = extra is None or (is_project and extra in EXTRAS)
    return is_wanted and not match["name"].startswith("warpboard-")


def _zip_wheel(contents: Mapping[str, bytes], record_path: str) -> bytes:
    """Return the bytes of a wheel with these files. Source: PEP 427."""
    lines = []
    for path, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    record = "".join([*lines, f"{record_path},,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in [*contents.items(), (record_path, record)]:
            entry = zipfile.ZipInfo(path, ZIP_TIME)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def install_command(public_url: str, wheel: Wheel | None) -> str:
    """Return the command that installs the command line."""
    return CHECKOUT_COMMAND if wheel is None else f"pip install {public_url}{wheel.path}"


def add_client_pages(router: APIRouter, web: Web) -> None:
    """Add the page of the command line, also a package index, the wheel, and /llms.txt."""
    public_url = web.logins.public_url

    # pip reads the links of either: `--find-links URL/cli`, and `--extra-index-url URL/cli`.
    @router.get("/cli")
    @router.get(f"/cli/{PROJECT}")
    async def index(request: Request) -> Response:
        """How to install the command line."""
        session, wheel = await web.session(request), await asyncio.to_thread(build_wheel)
        command = install_command(public_url, wheel)
        return web.public_page(request, "cli.html", session, wheel=wheel, install_command=command)

    @router.get("/llms.txt")
    async def llms() -> Response:
        """Everything that a program needs to submit kernels, as Markdown."""
        command = install_command(public_url, await asyncio.to_thread(build_wheel))
        text = LLMS_TEXT.substitute(install=command, url=public_url)
        return Response(text + render_agent_guide(public_url), media_type="text/plain")

    @router.get("/cli/{name}")
    async def download(name: str) -> Response:
        """The wheel."""
        wheel = await asyncio.to_thread(build_wheel)
        if wheel is None or name != wheel.name:
            message = f"there is no package {name[:100]!r}: {public_url}/cli shows the current one"
            raise Refused("not_found", message)
        headers = {"Cache-Control": f"public, max-age={WHEEL_S}, immutable"}
        return Response(wheel.data, media_type="application/octet-stream", headers=headers)
