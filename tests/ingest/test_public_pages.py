"""The pages that need no login, over a real read side."""

import hashlib
import io
import re
import zipfile

import pytest
from fastapi import Request

from ingest.http.middleware import UPLOADS
from ingest.identity.login.web import Web
from ingest.site.client_package import install_command
from tests.ingest.logins import BASE, LoginHarness, open_site_without_ranker
from tests.ingest.ways import CLOSED, OPEN, Ways
from tests.support.door import FILES, report_of
from tests.support.waits import eventually

pytestmark = pytest.mark.server

SUMMARY_MAX = 110


async def publish_titled(ways: Ways, title: str) -> None:
    """Publish a problem with a title and a deadline."""
    files = FILES | {"warpboard.yml": f"title: {title!r}\n".encode()}
    data = {
        "slug": "titled",
        "deadline": "2999-01-02T03:04:00Z",
        "report": report_of(files, "titled"),
    }
    parts = [("files", (name, text)) for name, text in files.items()]
    headers = ways.people["author"].headers
    answer = await ways.door.http.post("/v1/problems", data=data, files=parts, headers=headers)
    assert answer.status_code == 201, answer.text


async def test_the_front_page_names_the_problems_and_how_to_start(ways: Ways) -> None:
    await publish_titled(ways, "<b>Sort & count</b>")
    async with ways.browser("nobody", {}) as browser:

        async def has_read_the_log() -> str:
            page = await browser.get("/")
            return page.text if "titled" in page.text else ""

        text = await eventually(has_read_the_log)
        # It loads nothing from other servers, sets no cookie, and each link works.
        page = await browser.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "set-cookie" not in page.headers
        (script,) = re.findall("<script[^>]*>", text)
        assert script.startswith('<script src="/static/times.js?v=')
        assert "<style" not in text
        links = re.findall(r'(?:src|href)="([^"#]+)"', text)
        assert links
        for link in (link.removeprefix(BASE) for link in links):
            assert link.startswith("/"), link
            # The problem of the read side's tests has no files.
            status = 503 if link.startswith("/problems/identity") else 200
            # A visitor who wants to create a leaderboard has to log in first.
            status = 303 if link == "/create" else status
            assert (await browser.get(link)).status_code == status, link
        assert (await browser.head("/")).status_code == 200
    assert "&lt;b&gt;Sort &amp; count&lt;/b&gt;" in text
    assert "Ends <time" in text
    assert "2999-01-02 03:04 UTC" in text
    for link in (f"/problems/{OPEN}", f"/leaderboards/{OPEN}/H100", "/docs", "/login"):
        assert f'href="{link}"' in text
    assert CLOSED not in text
    assert f"warpboard login --url {BASE}" in text
    assert f"warpboard submit kernel.py --leaderboard {OPEN} --gpu CPU --url {BASE}" in text


async def test_each_route_of_the_document_has_a_tag_and_a_short_summary(ways: Ways) -> None:
    async with ways.browser("nobody", {}) as browser:
        document = (await browser.get("/v1/openapi.json")).json()
    introduction = document["info"]["description"]
    assert "Authorization: Bearer" in introduction
    assert "curl $URL/v1/problems" in introduction
    assert all(tag["description"] for tag in document["tags"])
    used, vague = set(), []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            used.update(operation["tags"])
            if len(operation["tags"]) != 1 or not 5 < len(operation["summary"]) < SUMMARY_MAX:
                vague.append(f"{method.upper()} {path}: {operation['summary']}")
    assert not vague, "\n".join(vague)
    assert used == {tag["name"] for tag in document["tags"]}
    assert document["paths"]["/v1/admin/agents"]["get"]["tags"] == ["Operators: platform"]
    assert document["paths"]["/leaderboards"]["get"]["tags"] == ["popcorn-cli"]


async def test_each_route_that_takes_files_has_room_for_them(ways: Ways) -> None:
    async with ways.browser("nobody", {}) as browser:
        document = (await browser.get("/v1/openapi.json")).json()
    with_files = {
        re.sub(r"{[^}]*}", "x", path.replace("{mode}", "test"))
        for path, operations in document["paths"].items()
        for operation in operations.values()
        if "multipart/form-data" in operation.get("requestBody", {}).get("content", {})
    }
    assert with_files >= {"/v1/submissions", "/profile", "/profile/x/x", "/x/x/test"}
    small = [path for path in with_files if not any(known.fullmatch(path) for known, _ in UPLOADS)]
    assert small == []


async def test_the_command_line_is_offered_as_one_wheel_without_server_packages(
    doorway: LoginHarness,
) -> None:
    async with open_site_without_ranker(doorway.logins) as browser:
        page = await browser.get("/cli")
        (link,) = re.findall(r'href="(/cli/[^"#]+\.whl)#sha256=', page.text)
        digest = re.findall(r"#sha256=([0-9a-f]{64})", page.text)[0]
        assert f"pip install {BASE}{link}" in page.text
        assert link in (await browser.get("/cli/warpboard-cli")).text
        wheel = await browser.get(link)
        assert (await browser.get("/cli/warpboard_cli-0-py3-none-any.whl")).status_code == 404
    page_without = Web(doorway.logins).public_page(
        Request({"type": "http", "path": "/cli", "headers": []}),
        "cli.html",
        wheel=None,
        install_command=install_command(BASE, None),
    )
    assert "pip install ./shared ./harness ./cli" in bytes(page_without.body).decode()
    assert hashlib.sha256(wheel.content).hexdigest() == digest
    archive = zipfile.ZipFile(io.BytesIO(wheel.content))
    names = archive.namelist()
    assert {name.partition("/")[0] for name in names[:-4]} == {"warpboard", "shared", "harness"}
    assert not [name for name in names if "__pycache__" in name]
    (info,) = {name.partition("/")[0] for name in names} - {"warpboard", "shared", "harness"}
    metadata = archive.read(f"{info}/METADATA").decode()
    required = set(re.findall(r"^Requires-Dist: ([A-Za-z0-9-]+)", metadata, re.MULTILINE))
    assert {"click", "httpx", "msgspec", "pyyaml"} <= required
    assert not required & {"torch", "nats-py", "psycopg", "fastapi", "warpboard-shared"}
    recorded = [line.split(",")[0] for line in archive.read(f"{info}/RECORD").decode().split()]
    assert recorded == names


async def test_the_front_page_works_while_the_read_side_is_down(doorway: LoginHarness) -> None:
    async with open_site_without_ranker(doorway.logins) as browser:
        page = await browser.get("/")
    assert page.status_code == 200
    assert "not available at the moment" in page.text
    assert "--leaderboard PROBLEM --gpu GPU" in page.text
