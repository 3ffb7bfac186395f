"""Submissions of several files on a whole platform: over HTTP, from a terminal and on its pages."""

import html
import io
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.clock import new_id
from tests.cli.command_runner import run_warpboard
from tests.support.browser import PASSWORD
from tests.support.people import Person, add_problem
from tests.support.platform import ROOT, Running

pytestmark = pytest.mark.server

SLUG, NAME = "several", "pair"
ENTRY = """\
from copying import copy_vector


def custom_kernel(data):
    source, output = data[0], data[-1]
    copy_vector(source, output)
    return output
"""
HELPER = """\
def copy_vector(source, output):
    output.copy_(source)
"""
OTHER_HELPER = HELPER.replace("output.copy_(source)", "output[:] = source")
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@pytest.fixture(scope="module")
def problem(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A problem that allows two files."""
    folder = tmp_path_factory.mktemp("problems") / SLUG
    shutil.copytree(ROOT / "problems" / "identity", folder)
    with (folder / "warpboard.yml").open("a", encoding="utf-8") as settings:
        settings.write("limits: {files: 2}\n")
    add_problem(platform.url, folder)
    return SLUG


def register(browser: httpx.Client) -> None:
    """Register on the web site, whose cookies the browser keeps."""
    csrf = CSRF.search(browser.get("/register").text)
    assert csrf
    form = {"name": NAME, "password": PASSWORD, "csrf": html.unescape(csrf[1])}
    assert browser.post("/register", data=form).status_code == 303


def submit_over_http(person: Person, problem: str, helper: str) -> dict[str, Any]:
    """Submit an entry and the file beside it; return the submission once it is over."""
    answer = person.http.post(
        "/v1/submissions",
        data={"problem": problem, "mode": "test", "gpu": "CPU"},
        files=[("file", ("kernel.py", ENTRY)), ("files", ("copying.py", helper))],
        headers={"Idempotency-Key": new_id()},
    )
    assert answer.status_code == 202, answer.text
    return person.end(answer.json()["submissions"][0]["number"])


@pytest.mark.feature("N7")
def test_two_files_are_run_shown_compared_and_saved(
    platform: Running, problem: str, tmp_path: Path
) -> None:
    where = ("--url", platform.url, "--as", NAME)
    with (
        httpx.Client(base_url=platform.url, timeout=30) as browser,
        Person(platform.url, NAME) as person,
    ):
        register(browser)
        first = submit_over_http(person, problem, HELPER)
        assert first["outcome"] == "passed", first
        # The entry runs with the files that were sent with it, and no others.
        assert submit_over_http(person, problem, "X = 1\n")["outcome"] == "failed"

        for name, text in (("kernel.py", ENTRY), ("copying.py", OTHER_HELPER)):
            (tmp_path / name).write_text(text, encoding="utf-8")
        target = ("--leaderboard", problem, "--gpu", "CPU", "--mode", "test")
        result = run_warpboard("submit", tmp_path, *target, *where)
        assert result.exit_code == 0, result.output
        newest = person.http.get(f"/v1/submissions?problem={problem}&limit=1").json()
        number = newest["items"][0]["number"]
        saved = tmp_path / "saved"
        result = run_warpboard("submission", "source", number, "--save", saved, *where)
        assert result.exit_code == 0, result.output
        texts = {path.name: path.read_text(encoding="utf-8") for path in saved.iterdir()}
        assert texts == {"kernel.py": ENTRY, "copying.py": OTHER_HELPER}

        page = browser.get(f"/submissions/{number}").text
        for text in ("kernel.py</h3>", "copying.py</h3>", "Download all files"):
            assert text in page
        archive = browser.get(f"/submissions/{number}/source")
        assert archive.headers["content-type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(archive.content)) as files:
            assert {name: files.read(name).decode() for name in files.namelist()} == texts
        page = browser.get(f"/submissions/{first['number']}/compare?with={number}").text
        assert 'copying.py <span class="tag">changed</span>' in page
        assert '<span class="added">+    output[:] = source</span>' in page
        assert "Equal in both: kernel.py" in page
    assert httpx.get(f"{platform.url}/submissions/{number}/source").status_code == 404
