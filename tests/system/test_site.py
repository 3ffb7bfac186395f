"""The web site in a real browser, on a whole platform."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.browser import Browser, Tab, browser, program
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, Running

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

PHONE, DESKTOP = 375, 1280
SLOW = f"import time\ntime.sleep(8)\n{HONEST}"
MAIN = "document.querySelector('main').innerText"
CURRENT_STEP = "document.querySelector('.steps [aria-current] .name').innerText"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Browser]:
    """A browser."""
    if program() is None:
        pytest.skip("NOT RUN: no browser here; apt-get install chromium")
    async with browser() as found:
        yield found


async def open_page(tab: Tab, url: str) -> None:
    """Open a page and wait until all that it loads is there."""
    await tab.call("Page.navigate", url=url)
    await tab.until(f"location.href === '{url}' && document.readyState === 'complete'")


async def faults(tab: Tab, url: str) -> list[str]:
    """What the page loads from elsewhere, and how far it is wider than its window."""
    script = """[
        ...performance.getEntriesByType('resource').map((entry) => entry.name)
            .filter((name) => !name.startsWith(location.origin)),
        ...(document.documentElement.scrollWidth > innerWidth ? ['wider than the window'] : []),
        ...(document.querySelectorAll('h1').length === 1 ? [] : ['not one h1']),
        ...[...document.querySelectorAll('input, select')]
            .filter((field) => field.type !== 'hidden' && !field.labels.length)
            .map((field) => 'no label: ' + field.name),
    ]"""
    return [f"{url}: {fault}" for fault in await tab.run(script)]


async def test_every_page_is_readable_without_scripts_at_every_size(
    platform: Running, opened: Browser
) -> None:
    add_problem(platform.url, ROOT / "problems" / "vectoradd")
    with Person(platform.url, "a-participant-with-a-long-name32") as person:
        number = person.submit(HONEST, mode="ranked")
        person.end(number)
    paths = {
        "/": "Active leaderboards",
        "/?q=vector": "Vector",
        "/leaderboards/identity/CPU": "a-participant-with-a-long-name32",
        # Both are folded from the archive, up to an instant.
        "/leaderboards/identity/CPU?as_of=2999-01-01": "a-participant-with-a-long-name32",
        "/leaderboards/identity/CPU?as_of=2020-01-01T12:00": "There was no entry at that moment",
        "/leaderboards/vectoradd/CPU": "No entry yet",
        "/problems/vectoradd": "Statement",
        f"/submissions/{number}": "Why this rank",
        f"/submissions/{number}/compare": "Write the number of a submission",
        f"/submissions/{number}/compare?with={number}": "You cannot see both sources",
        "/leaderboards/nothing/CPU": "What you can do",
        "/cli": "Install it",
        "/login": "Log in",
    }
    found: list[str] = []
    async with opened.tab("about:blank") as tab:
        for domain in ("Log", "Runtime"):
            await tab.call(f"{domain}.enable")
        await tab.call("Emulation.setScriptExecutionDisabled", value=True)
        for width in (PHONE, DESKTOP):
            await tab.size(width, 900)
            for scheme in ("light", "dark"):
                feature = {"name": "prefers-color-scheme", "value": scheme}
                await tab.call("Emulation.setEmulatedMedia", features=[feature])
                for path, text in paths.items():
                    await open_page(tab, f"{platform.url}{path}")
                    assert text in await tab.run(MAIN), path
                    found += await faults(tab, f"{path} at {width}, {scheme}")
    # The answer to a page that does not exist is an error for the browser, too.
    found += [line for line in tab.complaints if "/leaderboards/nothing/" not in line]
    assert found == []


async def test_every_open_page_of_a_submission_follows_it_to_its_end(
    platform: Running, opened: Browser
) -> None:
    with Person(platform.url, "follower") as person:
        number = person.submit(SLOW, mode="ranked")
        async with opened.tab("about:blank") as first, opened.tab("about:blank") as second:
            for tab in (first, second):
                for domain in ("Log", "Runtime"):
                    await tab.call(f"{domain}.enable")
                await open_page(tab, f"{platform.url}/submissions/{number}")
                assert await tab.run("document.getElementById('live') !== null")
                await tab.run("window.isFirstLoad = true")
            person.end(number)
            for tab in (first, second):
                await tab.until("document.getElementById('live') === null")
                assert await tab.run("window.isFirstLoad")
                assert await tab.run(CURRENT_STEP) == "ended"
                assert "Why this rank" in await tab.run(MAIN)
                assert await tab.run("document.querySelectorAll('pre.copy button').length") == 1
                assert await faults(tab, "the page that was followed") == []
                assert tab.complaints == []
