"""The web site in a real browser, on a whole platform."""

import json
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
import pytest_asyncio

from ingest.http.auth import COOKIE
from tests.ingest.logins import CSRF, PASSWORD
from tests.support.browser import Browser, Tab, browser, program
from tests.support.people import HONEST, Person, add_problem, headers_of
from tests.support.platform import ROOT, Running
from tests.support.waits import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

# axe-core 4.14.1 of the npm registry, unchanged.
AXE = ROOT / "tests/support/axe-core/axe.min.js"
PHONE, DESKTOP = 375, 1280
SLOW = f"import time\ntime.sleep(8)\n{HONEST}"
CURRENT_STEP = "document.querySelector('.steps [aria-current] .name').innerText"
LONG_NAME = "a-participant-with-a-long-name32"
# Every page, and a text that it shows. `{number}` is a ranked submission.
PAGES = {
    "/": "Active leaderboards",
    "/?q=vector": "Vector",
    "/?gpu=CPU&language=python&tag=memory": "Vector",
    "/leaderboards/identity/CPU": LONG_NAME,
    # Both are folded from the archive, up to an instant.
    "/leaderboards/identity/CPU?as_of=2999-01-01": LONG_NAME,
    "/leaderboards/identity/CPU?as_of=2020-01-01T12:00": "There was no entry at that moment",
    "/leaderboards/identity/CPU/cases": LONG_NAME,
    "/leaderboards/vectoradd/CPU": "No entry yet",
    "/leaderboards/vectoradd/CPU/cases": "No entry has public times",
    "/problems/vectoradd": "Statement",
    "/problems/vectoradd/submit": "Submit",
    "/submissions/{number}": "Why this rank",
    "/submissions/{number}/compare": "Write the number of a submission",
    "/submissions/{number}/compare?with={number}": "You cannot see both sources",
    f"/people/{LONG_NAME}": "Ranked submissions",
    "/contests": "Active contests",
    "/queue": "GPU types",
    "/agents": "Isolation",
    "/leaderboards/nothing/CPU": "What you can do",
    "/cli": "Install it",
    "/login": "Log in",
}
OPERATORS_PAGES = {
    "/admin": "What needs attention",
    "/admin/overdue": "No submission is overdue",
    "/admin/held": "No submission is held",
    "/admin/appeals": "No appeal",
    "/admin/participants": LONG_NAME,
    f"/admin/participants/{LONG_NAME}": "Ways to log in",
    "/admin/agents": "local",
    "/admin/intake": "Agents online",
    "/admin/invites": "Choose a problem",
    "/admin/dead-letters": "No consumer has given up an event",
    "/admin/acts/choose-canary?gpu=CPU": "Interval in seconds",
}
# What they show changes while the agent runs baselines.
LIVE_PAGES = {"/queue", "/agents", "/admin/overdue", "/admin/agents", "/admin/intake"}
# Scripts show instants otherwise, and add an editor and buttons.
MAIN = """(() => {
    const main = document.querySelector('main').cloneNode(true);
    const scripted = 'time, [data-until], noscript, .CodeMirror, .copy button';
    main.querySelectorAll(scripted).forEach((part) => part.remove());
    return main.textContent.replace(/\\s+/g, ' ').trim();
})()"""
FAULTS = """[
    ...performance.getEntriesByType('resource').map((entry) => entry.name)
        .filter((name) => !name.startsWith(location.origin)),
    ...(document.documentElement.scrollWidth > innerWidth ? ['wider than the window'] : []),
    ...(document.querySelectorAll('h1').length === 1 ? [] : ['not one h1']),
    ...[...document.querySelectorAll('input, select, textarea')]
        .filter((field) => field.type !== 'hidden' && !field.labels.length)
        .map((field) => 'no label: ' + field.name),
]"""
VIOLATIONS = """axe.run({resultTypes: ['violations'], preload: false}).then(
    (results) => results.violations
        .filter((rule) => ['serious', 'critical'].includes(rule.impact))
        .map((rule) => `${rule.id}: ${rule.nodes.slice(0, 3).map((node) => node.html).join(' ')}`)
)"""
# When each event of the leaderboard arrived, and when each row was first shown.
WATCH = """(() => {
    const board = document.getElementById('board');
    window.arrivals = [];
    window.rows = {};
    const note = () => board.querySelectorAll('tr[data-number]').forEach(
        (row) => { window.rows[row.dataset.number] ??= performance.now(); }
    );
    note();
    new MutationObserver(note).observe(board, {childList: true});
    new EventSource(board.dataset.events).addEventListener('changed', (event) => {
        window.arrivals.push([Number(event.lastEventId), performance.now()]);
    });
})()"""
ROW_MS_MAX = 1000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Browser]:
    """A browser."""
    if program() is None:
        pytest.skip("NOT RUN: no browser here; apt-get install chromium")
    async with browser() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def tab(opened: Browser) -> AsyncIterator[Tab]:
    """A window that records what its console reports."""
    async with opened.tab("about:blank") as found:
        await found.call("Page.bringToFront")
        for domain in ("Log", "Runtime"):
            await found.call(f"{domain}.enable")
        yield found


async def open_page(tab: Tab, url: str) -> None:
    """Open a page and wait until all that it loads is there."""
    await tab.call("Page.navigate", url=url)
    await tab.until(f"location.href === '{url}' && document.readyState === 'complete'")


async def faults(tab: Tab, path: str) -> list[str]:
    """What is wrong with the page that is open, and what axe-core finds to be serious."""
    await tab.run(f"{AXE.read_text(encoding='utf-8')};0")
    found = [*await tab.run(FAULTS), *await tab.run(VIOLATIONS)]
    return [f"{path}: {fault}" for fault in found]


async def open_everywhere(tab: Tab, url: str, pages: Mapping[str, str]) -> list[str]:
    """The faults of pages at every size; each shows a text, the same without scripts."""
    found: list[str] = []
    texts: dict[str, str] = {}
    for width in (PHONE, DESKTOP):
        await tab.size(width, 900)
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            await tab.call("Emulation.setEmulatedMedia", features=[feature])
            for path, text in pages.items():
                await open_page(tab, f"{url}{path}")
                texts[path] = await tab.run(MAIN)
                assert text in texts[path], path
                found += await faults(tab, f"{path} at {width}, {scheme}")
    await tab.call("Emulation.setScriptExecutionDisabled", value=True)
    for path, text in pages.items():
        await open_page(tab, f"{url}{path}")
        shown = await tab.run(MAIN)
        assert text in shown if path in LIVE_PAGES else shown == texts[path], path
    await tab.call("Emulation.setScriptExecutionDisabled", value=False)
    return found


def log_in_admin(platform: Running) -> str:
    """The session of a new admin; a session has the scopes of the roles at the login."""
    secret = ""
    with httpx.Client(base_url=platform.url, timeout=30) as http:
        for path in ("/register", "/login"):
            match = CSRF.search(http.get(path).text)
            assert match, path
            form = {"csrf": match[1], "name": "the-admin", "password": PASSWORD}
            answer = http.post(path, data=form)
            assert answer.status_code == 303, answer.text
            secret = answer.cookies[COOKIE]
            http.cookies.clear()
            body = {"role": "admin", "reason": "r"}
            url, headers = "/v1/admin/participants/the-admin/roles", platform.operator
            answer = http.post(url, json=body, headers=headers)
            assert answer.status_code in (200, 409), answer.text
    return secret


async def test_every_page_is_accessible_and_readable_without_scripts_at_every_size(
    platform: Running, tab: Tab
) -> None:
    add_problem(platform.url, ROOT / "problems" / "vectoradd")
    with Person(platform.url, LONG_NAME) as person:
        number = person.submit(HONEST, mode="ranked")
        person.end(number)
    pages = {path.format(number=number): text for path, text in PAGES.items()}
    found = await open_everywhere(tab, platform.url, pages)
    session = log_in_admin(platform)
    await tab.call("Network.setCookie", name=COOKIE, value=session, url=platform.url)
    found += await open_everywhere(tab, platform.url, OPERATORS_PAGES)
    await tab.call("Network.deleteCookies", name=COOKIE, url=platform.url)
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


async def test_an_open_leaderboard_shows_a_new_row_within_a_second_of_its_event(
    platform: Running, tab: Tab
) -> None:
    await open_page(tab, f"{platform.url}/leaderboards/identity/CPU")
    await tab.run(WATCH)
    await tab.until("window.arrivals.length > 0")
    with Person(platform.url, "newcomer") as person:
        number = person.submit(HONEST, mode="ranked")
        person.end(number)
        path, accept = f"/v1/submissions/{number}/events", {"Accept": "application/json"}
        history = person.http.get(path, headers=accept).json()
    row_at = await tab.until(f"window.rows[{number}]")
    ranked_seq = next(event["id"] for event in history if event["type"] == "SubmissionRanked")
    arrivals = await tab.run("window.arrivals")
    event_at = next(at for seq, at in arrivals if seq >= ranked_seq)
    assert row_at - event_at <= ROW_MS_MAX
    assert await tab.run("document.getElementById('news').textContent") == "The ranking changed."
    # Instants are local, with the time in UTC as their title.
    await open_page(tab, f"{platform.url}/")
    assert await tab.run("document.querySelector('time.instant').title.endsWith('UTC')")
    assert tab.complaints == []


async def test_code_written_before_a_login_is_submitted_and_ranked(
    platform: Running, opened: Browser
) -> None:
    editor = "document.querySelector('.CodeMirror').CodeMirror"
    async with opened.tab("about:blank") as tab:
        for domain in ("Log", "Runtime"):
            await tab.call(f"{domain}.enable")
        await open_page(tab, f"{platform.url}/problems/identity/submit")
        await tab.run(f"{editor}.setValue({json.dumps(HONEST)})")
        await tab.run("document.querySelector('input[value=ranked]').click()")
        await tab.run("document.getElementById('submit').click()")
        # It asks for a login first; a new account comes back to the same code.
        await tab.until("document.querySelector('main a[href^=\"/register?next=\"]').click() ?? 1")
        await tab.until("document.querySelector('form[action=\"/register\"]') !== null")
        await tab.run("document.getElementById('name').value = 'writer'")
        await tab.run("document.getElementById('password').value = 'correct horse battery'")
        await tab.run("document.querySelector('form[action=\"/register\"]').requestSubmit()")
        await tab.until(f"{editor}.getValue() === {json.dumps(HONEST)}")
        assert "You are logged in" in await tab.run(MAIN)
        # The keyboard alone submits.
        await tab.run(f"{editor}.focus()")
        for kind in ("rawKeyDown", "keyUp"):
            key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": 2}
            await tab.call("Input.dispatchKeyEvent", type=kind, **key)
        results = "document.getElementById('results')"
        await tab.until(f"{results}.innerText.includes('Why this rank')")
        assert "passed" in await tab.run(f"{results}.innerText")
        assert await faults(tab, "the editor with a result") == []
        await open_page(tab, f"{platform.url}/leaderboards/identity/CPU")
        assert "writer" in await tab.run(MAIN)
    assert tab.complaints == []


async def test_scripts_refresh_the_queue_and_count_down_to_deadlines(
    platform: Running, opened: Browser
) -> None:
    add_problem(platform.url, ROOT / "problems" / "vectoradd")
    settings = f"{platform.url}/v1/admin/leaderboards/vectoradd"

    def set_deadline(deadline_at: str | None) -> None:
        body = {"deadline_at": deadline_at, "reason": "a test"}
        answer = httpx.put(settings, json=body, headers=headers_of("author"), timeout=30)
        assert answer.status_code == 200, answer.text

    set_deadline("2999-01-02T03:04:00Z")
    try:
        contests = f"{platform.url}/contests"
        until(lambda: "/problems/vectoradd" in httpx.get(contests, timeout=30).text)
        async with opened.tab("about:blank") as tab:
            for domain in ("Log", "Runtime"):
                await tab.call(f"{domain}.enable")
            await open_page(tab, contests)
            await tab.until("document.querySelector('.left').innerText.startsWith('in 3')")
            await tab.until("document.querySelector('time.instant').innerText.includes('2999')")
            for path in ("/queue", "/agents"):
                await open_page(tab, f"{platform.url}{path}")
                # The part that is refreshed is replaced whole.
                await tab.run("document.querySelector('#refreshed *').dataset.isOld = 'yes'")
                await tab.until("document.querySelector('[data-is-old]') === null")
                assert await faults(tab, path) == []
        assert tab.complaints == []
    finally:
        set_deadline(None)
