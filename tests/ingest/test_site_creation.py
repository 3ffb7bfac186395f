"""The pages on which a creator sends a reference, as a browser without scripts sees them."""

import html
import re
from typing import Any

import httpx
import pytest

from shared.events import ProblemCheckRequested
from tests.ingest.test_site_pages import page_of
from tests.ingest.ways import Ways

pytestmark = pytest.mark.server

REFERENCE = b"""\
def generate_input(size: int = 4, seed: int = 0):
    return [seed] * size


def ref_kernel(data):
    return data


def check_implementation(user_output, reference_output) -> bool:
    return user_output == reference_output
"""
NEEDS_SIZES = REFERENCE.replace(b"size: int = 4, seed: int = 0", b"size, seed")
FIELDS = {
    "name": "Sums",
    "gpu": ["CPU"],
    "more_gpus": "H100, B200",
    "deadline": "2100-01-01T12:00",
    "visibility": "closed",
    "description": "Return *it*.",
}


async def send(
    ways: Ways,
    file: bytes = REFERENCE,
    file_name: str = "reference.py",
    **more: Any,
) -> httpx.Response:
    """Send the form from the browser of the author."""
    headers, token = ways.browser_credentials("author")
    parts = {"file": (file_name, file, "text/x-python")}
    async with ways.browser("author", headers) as browser:
        return await browser.post("/create", data={"csrf": token} | FIELDS | more, files=parts)


async def read(ways: Ways, path: str) -> str:
    """Open a page in the browser of the author."""
    headers, _ = ways.browser_credentials("author")
    async with ways.browser("author", headers) as browser:
        answer = await browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def requested(ways: Ways) -> list[ProblemCheckRequested]:
    """Return the checks that were asked for."""
    facts = [event.fact for event in ways.reads.log.since(0)]
    return [fact for fact in facts if isinstance(fact, ProblemCheckRequested)]


async def test_a_form_becomes_a_check_whose_page_keeps_the_settings(ways: Ways) -> None:
    before = len(requested(ways))
    answer = await send(ways)
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"]
    check = requested(ways)[before]
    assert path.startswith(f"/create/{check.check}?")
    assert (check.problem, check.gpus) == ("sums", ["CPU", "H100", "B200"])
    assert sorted(check.files) == ["reference.py", "statement.md"]
    # The same form again is the same check.
    assert (await send(ways)).headers["location"] == path
    assert len(requested(ways)) == before + 1
    text = await read(ways, path)
    assert "Check of sums" in text
    assert re.search(r'<noscript><meta http-equiv="refresh" content="\d+"></noscript>', text)
    # Of its types, a GPU is waited for first.
    assert re.search(r"Waiting(:| for) .*H100", text)
    # Nothing can be published before the check is over, not even by a form of one's own.
    assert "Publish</button>" not in text
    headers, token = ways.browser_credentials("author")
    async with ways.browser("author", headers) as browser:
        answer = await browser.post(path.partition("?")[0], data={"csrf": token})
    assert answer.status_code == 409, answer.text
    assert 'role="alert"' in answer.text


# Each wrong field, the file, and what the page says.
WRONG: tuple[tuple[dict[str, Any], bytes, str], ...] = (
    ({"name": "no name"}, REFERENCE, "Name: 'no name' is not a slug: use a-z"),
    ({"gpu": [], "more_gpus": " "}, REFERENCE, "GPU types: choose at least one"),
    ({"more_gpus": "H-100!"}, REFERENCE, "GPU types: 'H-100!' is not one"),
    ({"deadline": "soon"}, REFERENCE, "is not a date and time in UTC"),
    ({}, b"", "Reference: choose a file that is not empty"),
    ({}, b"def (", "Reference: reference.py, line 1: not Python"),
    ({}, NEEDS_SIZES, "tests:\n  - {size: 1024, seed: 42}"),
    ({"csrf": "0" * 64}, REFERENCE, "This page was out of date"),
)


async def test_a_wrong_form_is_shown_again_with_its_values(ways: Ways) -> None:
    before = len(requested(ways))
    for fields, file, message in WRONG:
        answer = await send(ways, file=file, **fields)
        assert 400 <= answer.status_code < 500
        errors = re.findall(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)
        assert [message in html.unescape(error) for error in errors] == [True], (message, errors)
        assert "Return *it*.</textarea>" in answer.text
        assert 'value="closed" selected' in answer.text
        assert "Choose it again: a browser does not keep it" in answer.text
    assert len(requested(ways)) == before


async def test_another_ending_and_a_name_of_another_author_are_refused(ways: Ways) -> None:
    answer = await send(ways, file_name="reference.txt")
    assert "is not one of .py, .cu, .cuh, .cpp" in answer.text.replace("&#39;", "'")
    headers, token = ways.browser_credentials("creator")
    parts = {"file": ("reference.py", REFERENCE)}
    async with ways.browser("creator", headers) as browser:
        data = {"csrf": token} | FIELDS | {"name": "copy"}
        answer = await browser.post("/create", data=data, files=parts)
    assert answer.status_code == 403
    assert "belongs to another author" in answer.text


async def test_only_creators_are_offered_the_form(ways: Ways) -> None:
    link = '<a href="/create">Create</a>'
    assert link in await read(ways, "/")
    assert link not in await page_of(ways, "/")
    headers, _ = ways.browser_credentials("owner")
    async with ways.browser("owner", headers) as browser:
        answer = await browser.get("/create")
    assert answer.status_code == 403
    assert "Only creators make leaderboards: ask an admin for the role creator" in answer.text
    # A link to the form fills it in.
    text = await read(ways, "/create?name=sums&gpu=H100&visibility=closed")
    assert 'name="name" value="sums"' in text
    assert 'name="more_gpus" value="H100"' in text
