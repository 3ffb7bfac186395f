"""The documentation at /guide and the reference of the HTTP API at /docs, as people open them."""

import re
from collections.abc import AsyncIterator
from html import unescape

import httpx
import pytest

from ingest.site.guide import Guide, guide_root, page_address
from tests.ingest.logins import LoginHarness, open_site_without_ranker
from tests.ingest.ways import Ways
from tests.support.platform import ROOT
from warpboard.terminal.commands import COMMANDS

GUIDE = Guide(ROOT)
BYTES_MAX = 200_000


@pytest.fixture
async def site(doorway: LoginHarness) -> AsyncIterator[httpx.AsyncClient]:
    """A browser on a platform whose ranker is down."""
    async with open_site_without_ranker(doorway.logins) as browser:
        yield browser


def test_the_list_names_each_page_once_and_a_reader_can_reach_every_page() -> None:
    assert guide_root() == ROOT
    paths = [entry.path for entry in GUIDE.entries]
    assert len(paths) == len(set(paths)) > 50
    assert {"docs/timing.md", "docs/cli.md"} <= set(paths)
    assert set(paths) <= GUIDE.paths.keys()
    reached, waiting = set(), ["README.md", *paths]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            links = re.findall(r'href="(/guide[^"#]*)', GUIDE.page(name).content)
            waiting += [GUIDE.by_address[link] for link in links if link in GUIDE.by_address]
    assert reached == GUIDE.paths.keys(), GUIDE.paths.keys() - reached


@pytest.mark.parametrize("name", sorted(GUIDE.paths))
def test_each_link_of_a_page_is_served_and_each_formula_is_mathml(name: str) -> None:
    page = GUIDE.page(name)
    anchors = {
        path: {heading.anchor for heading in GUIDE.page(path).headings} for path in GUIDE.paths
    }
    for link in re.findall(r'(?:href|src)="(/[^"]*)"', page.content):
        address, _, anchor = unescape(link).partition("#")
        if not address.startswith("/guide"):
            continue
        target = GUIDE.by_address.get(address)
        assert target or address.removeprefix("/guide/") in GUIDE.files, link
        assert not (target and anchor) or anchor in {*anchors[target], "mps"}, link
    assert 'class="formula"' not in page.content, "a formula is not readable"
    assert "<script" not in page.content


def test_a_button_copies_commands_without_prompts_comments_and_output() -> None:
    copied = [
        unescape(text)
        for text in re.findall(r'data-copied="([^"]*)"', GUIDE.page("README.md").content)
    ]
    commands = [line for text in copied for line in text.splitlines()]
    assert "make install && source .venv/bin/activate" in commands
    assert "warpboard problem publish problems/matmul" in commands
    assert not [line for line in commands if line.startswith(("$", "…"))]


@pytest.mark.server
async def test_the_guide_is_served_with_the_header_of_the_site(site: httpx.AsyncClient) -> None:
    page = await site.get("/guide")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert 'aria-label="Site"' in page.text
    assert "Warpboard is" in page.text
    timing = await site.get("/guide/docs/timing")
    assert '<a href="/guide/docs/timing" aria-current="page">Timing</a>' in timing.text
    raw = await site.get("/guide/docs/timing.md")
    assert raw.headers["content-type"].startswith("text/markdown")
    assert raw.text == (ROOT / "docs/timing.md").read_text(encoding="utf-8")
    picture = await site.get("/guide/docs/images/timing.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    task = await site.get("/guide/problems/axpy/task.yml")
    assert task.headers["content-type"].startswith("text/plain")


@pytest.mark.server
@pytest.mark.parametrize(
    "path", ["docs/nothing", "docs/../Makefile", "Makefile", "..%2f..%2fetc/passwd", "docs/site"]
)
async def test_only_pages_and_what_they_link_to_are_served(
    site: httpx.AsyncClient, path: str
) -> None:
    page = await site.get(f"/guide/{path}", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert "here is no page" in page.text


@pytest.mark.server
async def test_a_search_finds_sections_by_all_words(site: httpx.AsyncClient) -> None:
    page = await site.get("/guide", params={"q": "fencing token"})
    assert "/guide/ARCHITECTURE#the-life-of-a-submission" in page.text
    page = await site.get("/guide", params={"q": "<script> nothing-like-this"})
    assert "0 sections with" in page.text
    assert "<script> nothing" not in page.text


def test_every_page_has_an_address_of_its_own() -> None:
    assert len({page_address(name) for name in GUIDE.paths}) == len(GUIDE.paths)


@pytest.mark.server
async def test_the_reference_shows_every_route_and_loads_nothing_from_elsewhere(
    ways: Ways,
) -> None:
    async with ways.browser("nobody", {}) as browser:
        page = await browser.get("/docs")
        assert page.status_code == 200
        assert "'unsafe-inline'" not in page.headers["content-security-policy"]
        assert len(page.content) < BYTES_MAX
        document = (await browser.get("/v1/openapi.json")).json()
    for path, item in document["paths"].items():
        for method in item:
            assert f"<b>{method.upper()}</b> <code>{path}</code>" in page.text


@pytest.mark.feature("P26")
@pytest.mark.server
async def test_the_page_for_agents_names_only_what_exists(ways: Ways) -> None:
    async with ways.browser("nobody", {}) as browser:
        page = await browser.get("/llms.txt")
        assert (page.status_code, page.headers["content-type"]) == (
            200,
            "text/plain; charset=utf-8",
        )
        assert page.text.startswith("# Warpboard\n\n> ")
        assert "$" not in page.text.replace("$WARPBOARD_TOKEN", "")
        # What an agent needs: to install, log in, find a problem, submit by each way, and read on.
        for part in (
            "pip install ",
            "warpboard login",
            "warpboard problem list --json",
            "--mode ranked",
            "| 5 |",
            "warpboard mcp --json",
            "Authorization: Bearer",
            "Idempotency-Key",
        ):
            assert part in page.text, part
        commands = set(re.findall(r"warpboard ((?:[a-z]+ ?)+)", page.text))
        assert len(commands) > 10
        for words in (command.split() for command in commands):
            assert any(" ".join(words[:count]) in COMMANDS for count in (1, 2, 3)), words
        openapi = (await browser.get("/v1/openapi.json")).json()["paths"]
        links = set(re.findall(r"http://[^/\s]+(/[^\s)`;]*)", page.text))
        assert len(links) > 8
        for path in links - {"/v1/submissions/NUMBER"}:
            is_route = path in openapi
            assert is_route or (await browser.get(path)).status_code == 200, path
        assert "/v1/submissions/{number}" in openapi
