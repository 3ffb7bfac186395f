"""The web site in a real browser, on a whole platform."""

import asyncio
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx
import pytest
import pytest_asyncio

from tests.support.browser import log_in_admin, open_browser, open_context, send_login_form
from tests.support.people import HONEST, Person, add_problem, headers_of
from tests.support.platform import ROOT, Running
from tests.support.waits import eventually, until
from tests.system.pictures import CONTEST, SHORT_CONTEST, end_contest, hold_contest
from tests.system.test_problem_checks import REFERENCE

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request

pytestmark = [
    pytest.mark.long,
    # More than the other files of its group have, so that it is the first on an empty platform.
    pytest.mark.timeout(1000),
    pytest.mark.asyncio(loop_scope="module"),
]

# axe-core, as that package brings it.
AXE = files("axe_playwright_python") / "axe.min.js"
PHONE, DESKTOP = 375, 1280
# A page is loaded once and shown in each of these views. The first is checked by all rules of
# axe-core, the others by those that depend on the colours or on the width.
VIEWS: tuple[tuple[int, Literal["light", "dark"], list[str]], ...] = (
    (DESKTOP, "light", []),
    (DESKTOP, "dark", ["color-contrast", "link-in-text-block"]),
    (PHONE, "dark", ["scrollable-region-focusable"]),
)
# Pages that are checked at the same time: browser, platform and test share two cores.
TABS = 3
LONG_NAME = "a-participant-with-a-long-name32"
MISSING_PATH = "/leaderboards/nothing/CPU"
# Every page, and a text that it shows. `{number}` is a ranked submission.
PAGES = {
    "/": "Active leaderboards",
    "/?q=vector&gpu=CPU&language=python&tag=memory": "Vector",
    "/leaderboards/identity/CPU": LONG_NAME,
    # Both are folded from the archive, up to an instant.
    "/leaderboards/identity/CPU?as_of=2999-01-01": LONG_NAME,
    "/leaderboards/identity/CPU?as_of=2020-01-01T12:00": "There was no entry at that moment",
    "/leaderboards/identity/CPU/cases": LONG_NAME,
    "/leaderboards/identity/CPU?language=cuda": "No entry has this language",
    "/leaderboards/identity/CPU/badge": "Copy these lines",
    "/leaderboards/vectoradd/CPU": "No entry yet",
    "/leaderboards/vectoradd/CPU/cases": "No entry has public times",
    "/leaderboards/vectoradd/CPU/practice": "Nobody has practised",
    "/problems/vectoradd": "Statement",
    "/problems/vectoradd/submit": "Submit",
    "/submissions/{number}": "Why this rank",
    "/submissions/{number}/compare": "Write the number of a submission",
    "/submissions/{number}/compare?with={number}": "You cannot see both sources",
    f"/people/{LONG_NAME}": "Ranked submissions",
    "/contests": "Active contests",
    f"/contests/{CONTEST}": "Two Warps",
    "/guide": "Warpboard is",
    "/guide?q=fencing+token": "section",
    "/guide/docs/timing": "yardstick",
    "/guide/docs/problems/matmul": "matmul",
    "/docs": "OpenAPI document",
    "/queue": "GPU types",
    "/agents": "Isolation",
    "/archive": "Releases",
    MISSING_PATH: "What you can do",
    "/cli": "Install it",
    "/login": "Log in",
}
OPERATORS_PAGES = {
    f"/contests/{SHORT_CONTEST}/organise": "Decide each check",
    "/create": "Send one reference",
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
# How long a page may change after the entries of its problem have.
SAME_S_MAX = 20.0
# Scripts show instants otherwise, and add an editor and buttons.
MAIN = """(() => {
    const main = document.querySelector('main').cloneNode(true);
    const scripted = 'time, [data-until], noscript, .cm-editor, .copy button';
    main.querySelectorAll(scripted).forEach((part) => part.remove());
    return main.textContent.replace(/\\s+/g, ' ').trim();
})()"""
FAULTS = """[
    ...(document.documentElement.scrollWidth > innerWidth ? ['wider than the window'] : []),
    ...(document.querySelectorAll('h1').length === 1 ? [] : ['not one h1']),
    ...[...document.querySelectorAll('input, select, textarea')]
        .filter((field) => field.type !== 'hidden' && !field.labels.length)
        .map((field) => 'no label: ' + field.name),
]"""
# Rules are left out whose violations could be neither serious nor critical.
VIOLATIONS = """(rules) => axe.run({
    resultTypes: ['violations'],
    preload: false,
    ...(rules.length ? {runOnly: {type: 'rule', values: rules}} : {
        rules: Object.fromEntries(axe._audit.rules
            .filter((rule) => ['minor', 'moderate'].includes(rule.impact))
            .map((rule) => [rule.id, {enabled: false}])),
    }),
}).then((results) => results.violations
    .filter((rule) => ['serious', 'critical'].includes(rule.impact))
    .map((rule) => `${rule.id}: ${rule.nodes.slice(0, 3).map((node) => node.html).join(' ')}`)
)"""
# When each event of the leaderboard arrived, and when each row was first shown.
WATCH = """() => {
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
}"""
ROW_MS_MAX = 1000
HEADER_PX_MAX = 56
CODE = "codeEditor.value"
COMMENT = "# copied"
MISTAKE = "this is a mistake"
FAILING_LINE = f'    raise ValueError("{MISTAKE}")'
FAILING = f"def custom_kernel(data):\n{FAILING_LINE}\n"
# Without it, the code is in a plain text field.
CODE_EDITOR = files("ingest.site") / "static" / "built" / "code-editor.js"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator["Browser"]:
    """The browser of all tests."""
    async with open_browser() as browser:
        yield browser


@asynccontextmanager
async def open_site(
    browser: "Browser", platform: Running, missing_path: str = "", **options: Any
) -> AsyncIterator["BrowserContext"]:
    """Open a context, and fail if one of its pages reports an error or asks another host.

    Any message on the console counts, but not that the page at `missing_path` does not exist.
    """
    reports: list[str] = []

    def add_message(message: "ConsoleMessage") -> None:
        if message.location["url"] != f"{platform.url}{missing_path}":
            reports.append(f"{message.location['url']}: {message.text}")

    def add_foreign_request(request: "Request") -> None:
        if not request.url.startswith(f"{platform.url}/"):
            reports.append(f"{request.frame.url} asks {request.url}")

    async with open_context(browser, platform.url, **options) as context:
        context.on("console", add_message)
        context.on("weberror", lambda error: reports.append(str(error.error)))
        context.on("request", add_foreign_request)
        yield context
    assert reports == []


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: "Browser", platform: Running) -> AsyncIterator["BrowserContext"]:
    """The cookies and pages of a visitor."""
    async with open_site(browser, platform) as context:
        yield context


async def find_faults(page: "Page", rules: list[str]) -> list[str]:
    """Return what is wrong with an open page; of axe-core's rules, try these or, if [], all."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text(encoding="utf-8"))
    return [*await page.evaluate(FAULTS), *await page.evaluate(VIOLATIONS, rules)]


async def load_both(page: "Page", plain_page: "Page", path: str) -> tuple[str, str]:
    """Load a page with and without scripts, and return what each shows."""
    await asyncio.gather(page.goto(path), plain_page.goto(path))
    shown, shown_plain = await asyncio.gather(page.evaluate(MAIN), plain_page.evaluate(MAIN))
    return str(shown), str(shown_plain)


async def check_page(page: "Page", plain_page: "Page", path: str, text: str) -> list[str]:
    """Return the faults of a page in all views; it shows a text, the same without scripts."""
    until_s = time.monotonic() + SAME_S_MAX
    shown, shown_plain = await load_both(page, plain_page, path)
    # One of them may have come before an entry that the other shows.
    while path not in LIVE_PAGES and shown_plain != shown and time.monotonic() < until_s:
        await asyncio.sleep(0.5)
        shown, shown_plain = await load_both(page, plain_page, path)
    assert text in shown, path
    assert text in shown_plain, path
    assert path in LIVE_PAGES or shown_plain == shown, path
    faults: list[str] = []
    for width, scheme, rules in VIEWS:
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=scheme)
        found = await find_faults(page, rules)
        faults += [f"{path} at {width}, {scheme}: {fault}" for fault in found]
    return faults


async def check_pages(
    context: "BrowserContext", plain_context: "BrowserContext", pages: Mapping[str, str]
) -> list[str]:
    """Return the faults of pages. The second context runs no scripts."""
    unchecked = iter(pages.items())
    faults: list[str] = []

    async def check_in_tab() -> None:
        page, plain_page = await context.new_page(), await plain_context.new_page()
        for path, text in unchecked:
            faults.extend(await check_page(page, plain_page, path, text))

    async with asyncio.TaskGroup() as tabs:
        for _ in range(TABS):
            tabs.create_task(check_in_tab())
    return faults


async def write_code(page: "Page") -> None:
    """Open the editor, load a file into it and add a comment."""
    await page.goto("/problems/identity/submit")
    await page.locator("input[value=ranked]").check()
    file: Any = {"name": "copy.py", "mimeType": "text/x-python", "buffer": HONEST.encode()}
    await page.get_by_label("Or choose a file").set_input_files(file)
    await page.get_by_role("textbox", name="Code", exact=True).click()
    await page.keyboard.press("Control+End")
    await page.keyboard.type(COMMENT)
    assert await page.evaluate(CODE) == HONEST + COMMENT


@contextmanager
def paused_pool(platform: Running) -> Iterator[None]:
    """Let all jobs wait."""
    platform.admin("pools/CPU/pause")
    try:
        yield
    finally:
        platform.admin("pools/CPU/resume")


async def test_every_page_is_accessible_and_readable_without_scripts_at_every_size(
    platform: Running, browser: "Browser", tmp_path: Path
) -> None:
    add_problem(platform.url, ROOT / "problems" / "vectoradd")
    # Outside of its phases a problem of a contest takes no submissions of other tests.
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "contested")
    add_problem(platform.url, folder)
    hold_contest(platform.url, folder.name)
    reviewed = shutil.copytree(folder, tmp_path / "reviewed")
    add_problem(platform.url, reviewed)
    end_contest(platform.url, reviewed.name)
    with Person(platform.url, "ada") as ada:
        ada.end(ada.submit(HONEST, "ranked", problem=folder.name))
        until(lambda: "Two Warps" in ada.http.get(f"/contests/{CONTEST}").text)
    with Person(platform.url, LONG_NAME) as person:
        number = person.submit(HONEST, mode="ranked")
        person.end(number)
    pages = {path.format(number=number): text for path, text in PAGES.items()}
    async with (
        open_site(browser, platform, MISSING_PATH) as context,
        open_site(browser, platform, MISSING_PATH, java_script_enabled=False) as plain_context,
    ):
        assert await check_pages(context, plain_context, pages) == []
        await log_in_admin(await context.new_page(), platform)
        # Playwright types what it returns and what it takes differently.
        cookies: Any = await context.cookies()
        await plain_context.add_cookies(cookies)
        assert await check_pages(context, plain_context, OPERATORS_PAGES) == []


@pytest.mark.parametrize("is_built", [True, False], ids=["code editor", "text field"])
async def test_code_written_before_a_login_is_kept(
    context: "BrowserContext", *, is_built: bool
) -> None:
    if is_built and not CODE_EDITOR.is_file():
        pytest.skip("the code editor was not built: make install")
    if not is_built:
        await context.route("**/static/built/*", lambda route: route.fulfill(body=""))
    name = "drafter" if is_built else "plain-drafter"
    page = await context.new_page()
    submit = page.get_by_role("button", name="Submit", exact=True)
    await write_code(page)
    await submit.click()
    # It asks for a login first; a new account comes back to the same code.
    await page.get_by_role("main").get_by_role("link", name="Make one").click()
    await page.wait_for_url("**/register?**")
    await send_login_form(page, name)
    assert await page.evaluate(CODE) == HONEST + COMMENT
    assert "You are logged in" in await page.evaluate(MAIN)
    await page.get_by_role("button", name="Log out").click()
    await page.wait_for_url("**/login")
    await page.goto("/problems/identity/submit")
    await submit.click()
    await page.wait_for_url("**/login?**")
    await send_login_form(page, name)
    assert await page.evaluate(CODE) == HONEST + COMMENT


async def test_an_error_is_marked_beside_the_statement_and_the_result(
    context: "BrowserContext",
) -> None:
    if not CODE_EDITOR.is_file():
        pytest.skip("the code editor was not built: make install")
    page = await context.new_page()
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.goto("/register")
    await send_login_form(page, "mistaken")
    await page.goto("/problems/identity/submit")
    code = page.get_by_role("textbox", name="Code", exact=True)
    file: Any = {"name": "a.py", "mimeType": "text/x-python", "buffer": FAILING.encode()}
    await page.get_by_label("Or choose a file").set_input_files(file)
    await code.press("Control+End")
    # Tab indents, and after Escape it leaves the code.
    await page.keyboard.press("Tab")
    assert await page.evaluate(CODE) == f"{FAILING}    "
    await page.keyboard.press("Escape")
    await page.keyboard.press("Tab")
    assert not await code.evaluate("field => field.contains(document.activeElement)")
    assert await page.evaluate(CODE) == f"{FAILING}    "
    await code.press("Control+Enter")
    marked = page.locator(".cm-error-line")
    await marked.wait_for()
    assert await marked.inner_text() == FAILING_LINE
    assert MISTAKE in await page.locator(".cm-error-message").inner_text()
    assert await page.locator(".cm-error-marker:visible").count()
    assert "line 2" in (await page.locator("#announcement").text_content() or "")
    # All three columns and the button are within the first screen.
    lefts = []
    for part in (
        page.locator("#statement"),
        page.locator("#code-heading"),
        page.locator("#results .error-text").first,
        page.get_by_role("button", name="Submit", exact=True),
    ):
        box = await part.bounding_box()
        assert box is not None
        assert 0 <= box["y"] <= 900 - box["height"]
        lefts.append(box["x"])
    assert lefts[0] < lefts[1] < lefts[2]
    assert await find_faults(page, []) == []


@pytest.mark.feature("N7")
async def test_the_editor_has_a_tab_for_each_file_and_submits_them_all(
    platform: Running, context: "BrowserContext", tmp_path: Path
) -> None:
    if not CODE_EDITOR.is_file():
        pytest.skip("the code editor was not built: make install")
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "tabbed")
    with (folder / "warpboard.yml").open("a", encoding="utf-8") as settings:
        settings.write("limits: {files: 3}\n")
    add_problem(platform.url, folder)
    page = await context.new_page()
    await page.goto("/register")
    await send_login_form(page, "tabber")
    await page.goto("/problems/tabbed/submit")
    await page.locator("input[value=test]").check()
    entry = "from parts import custom_kernel\n"
    chosen: list[Any] = [
        {"name": name, "mimeType": "text/x-python", "buffer": text.encode()}
        for name, text in (("kernel.py", entry), ("parts.py", HONEST), ("unused.py", "X = 1\n"))
    ]
    await page.get_by_label("Or choose a file").set_input_files(chosen[0])
    await page.wait_for_function(f"() => {CODE}.startsWith('from parts')")
    await page.get_by_label("Files beside it").set_input_files(chosen[1:])
    tabs = page.locator("#tabs")
    await tabs.get_by_role("button", name="parts.py", exact=True).click()
    assert await page.evaluate(CODE) == HONEST
    # What is written in a tab is kept, in the draft, too.
    code = page.get_by_role("textbox", name="Code", exact=True)
    await code.press("Control+End")
    await page.keyboard.type(COMMENT)
    await tabs.get_by_role("button", name="Remove unused.py").click()
    assert await find_faults(page, []) == []
    await page.reload()
    await tabs.get_by_role("button", name="parts.py", exact=True).click()
    assert await page.evaluate(CODE) == HONEST + COMMENT
    names = await tabs.get_by_role("button").all_inner_texts()
    assert names == ["kernel.py", "parts.py", "\N{MULTIPLICATION SIGN}"]
    await code.press("Control+Enter")
    results = page.locator("#results", has_text="passed")
    await results.wait_for()
    path = await page.locator("#results h3 a").get_attribute("href")
    assert path
    await page.goto(path)
    shown = await page.evaluate(MAIN)
    assert "Download all files" in shown
    assert "from parts import custom_kernel" in shown
    assert COMMENT in shown


@pytest.mark.feature("P12")
async def test_open_pages_follow_a_submission_from_the_editor_until_it_is_ranked(
    platform: Running, browser: "Browser", context: "BrowserContext"
) -> None:
    board = await context.new_page()
    await board.goto("/leaderboards/identity/CPU")
    await board.evaluate(WATCH)
    await board.wait_for_function("() => window.arrivals.length > 0")
    async with open_site(browser, platform) as own_context:
        editor = await own_context.new_page()
        await editor.goto("/register")
        await send_login_form(editor, "writer")
        await write_code(editor)
        with paused_pool(platform):
            # The keyboard alone submits.
            await editor.keyboard.press("Control+Enter")
            # Nobody serves a paused pool, so the editor asks.
            await editor.get_by_role("button", name="Submit anyway").press("Enter")
            path = await editor.locator("#results h3 a").get_attribute("href")
            assert path
            pages = [await own_context.new_page(), await context.new_page()]
            for page in pages:
                await page.goto(path)
                await page.locator("#live").wait_for()
                await page.evaluate("window.isFirstLoad = true")
        for page in pages:
            await page.locator("#live").wait_for(state="detached")
            assert await page.evaluate("window.isFirstLoad")
            assert await page.locator(".steps [aria-current] .name").inner_text() == "ended"
            assert "Why this rank" in await page.evaluate(MAIN)
            assert await page.locator("pre.copy button").count() == 1
            assert await find_faults(page, []) == []
        results = editor.locator("#results", has_text="Why this rank")
        assert "passed" in await results.inner_text()
        assert await find_faults(editor, []) == []
        history = await own_context.request.get(
            f"/v1{path}/events", headers={"Accept": "application/json"}
        )
        ranked_seq = next(
            event["id"] for event in await history.json() if event["type"] == "SubmissionRanked"
        )
    number = path.rpartition("/")[2]
    row_at = await (await board.wait_for_function(f"() => window.rows[{number}]")).json_value()
    arrivals = await board.evaluate("window.arrivals")
    event_at = next(at for seq, at in arrivals if seq >= ranked_seq)
    assert row_at - event_at <= ROW_MS_MAX
    assert await board.locator("#news").text_content() == "The ranking changed."
    assert "writer" in await board.evaluate(MAIN)


async def test_scripts_refresh_the_queue_and_count_down_to_deadlines(
    platform: Running, context: "BrowserContext"
) -> None:
    add_problem(platform.url, ROOT / "problems" / "vectoradd")
    settings = f"{platform.url}/v1/admin/leaderboards/vectoradd"

    def set_deadline(deadline_at: str | None) -> None:
        body = {"deadline_at": deadline_at, "reason": "a test"}
        answer = httpx.put(settings, json=body, headers=headers_of("author"), timeout=30)
        assert answer.status_code == 200, answer.text

    set_deadline("2999-01-02T03:04:00Z")
    try:
        until(lambda: "vectoradd" in httpx.get(f"{platform.url}/contests", timeout=30).text)
        pages = [await context.new_page() for _ in ("/queue", "/agents")]
        for page, path in zip(pages, ("/queue", "/agents"), strict=True):
            await page.goto(path)
            # The part that is refreshed is replaced whole.
            await page.evaluate("document.querySelector('#refreshed *').dataset.isOld = 'yes'")
        contests = await context.new_page()
        await contests.goto("/contests")
        await contests.locator(".left", has_text=re.compile("^in 3")).wait_for()
        # Instants are local, with the time in UTC as their title.
        instant = contests.locator("time.instant", has_text="2999")
        assert str(await instant.first.get_attribute("title")).endswith("UTC")
        for page in pages:
            await page.locator("[data-is-old]").wait_for(state="detached")
            assert await find_faults(page, []) == []
    finally:
        set_deadline(None)


async def test_a_chart_is_read_by_pointer_and_by_keys(
    platform: Running, context: "BrowserContext"
) -> None:
    for name in ("pointer", "keys"):
        with Person(platform.url, name) as person:
            person.end(person.submit(f"{HONEST}\n# {name}", mode="ranked"))
    page = await context.new_page()
    await page.goto("/leaderboards/identity/CPU")
    plot = page.get_by_role("application")
    dots, tip = plot.locator("g:not(.line-record) > circle"), page.locator(".tip")
    titles = await dots.locator("title").all_text_contents()
    assert len(titles) >= 2
    await dots.first.scroll_into_view_if_needed()
    await dots.first.hover()
    assert titles[0] in (await tip.inner_text())
    await page.mouse.move(0, 0)
    await tip.wait_for(state="hidden")
    # The last point first; then along the lines, and to the page of a submission.
    await plot.focus()
    await page.keyboard.press("ArrowLeft")
    assert titles[-1] in (await tip.inner_text())
    await page.keyboard.press("ArrowUp")
    shown = await tip.inner_text()
    assert titles[-1] not in shown
    assert await find_faults(page, []) == []
    path = await plot.locator("circle.chosen").get_attribute("data-path")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**{path}")


async def test_on_a_phone_the_header_is_one_row_with_a_menu(context: "BrowserContext") -> None:
    page = await context.new_page()
    await page.set_viewport_size({"width": PHONE, "height": 800})
    await page.goto("/login")
    box = await page.locator("body > header").bounding_box()
    assert box is not None
    assert box["height"] <= HEADER_PX_MAX
    queue = page.get_by_role("link", name="Queue")
    assert await queue.count() == 0
    await page.get_by_role("button", name="Menu").press("Enter")
    assert await find_faults(page, []) == []
    await queue.click()
    await page.wait_for_url("**/queue")


@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "no scripts"])
async def test_a_creator_makes_a_leaderboard_from_one_file(
    platform: Running, browser: "Browser", *, has_scripts: bool
) -> None:
    name = "maker" if has_scripts else "plain-maker"
    reference = REFERENCE.decode()
    lax = reference.replace("return torch.allclose(user_output, reference_output)", "return True")
    async with open_site(browser, platform, java_script_enabled=has_scripts) as context:
        page = await context.new_page()
        await page.goto("/register")
        await send_login_form(page, name)
        await asyncio.to_thread(platform.admin, f"participants/{name}/roles", role="creator")
        # A session has the scopes of the roles at the login.
        await page.get_by_role("button", name="Log out").click()
        await page.wait_for_url("**/login")
        await send_login_form(page, name)

        async def check_rules() -> None:
            # axe-core needs scripts itself.
            assert not has_scripts or await find_faults(page, []) == []

        async def check_file(source: str) -> None:
            await page.get_by_label("Name").fill(f"of-{name}")
            file: Any = {"name": "reference.py", "mimeType": "text/x", "buffer": source.encode()}
            await page.get_by_label("Reference").set_input_files(file)
            await page.get_by_role("button", name="Check it").click()
            await page.wait_for_url("**/create/*")
            # By its script, or by the refresh of a page without scripts.
            await page.locator("[data-is-over]").wait_for()

        await page.get_by_role("link", name="Create", exact=True).click()
        await check_rules()
        await check_file(lax)
        assert "check_takes_zeros" in await page.locator("#refreshed").inner_text()
        assert await page.get_by_role("button", name="Publish").count() == 0
        await check_rules()
        # What was typed is there again.
        await page.get_by_role("link", name="Send the file again").click()
        assert await page.get_by_label("Name").input_value() == f"of-{name}"
        await check_file(reference)
        await check_rules()
        await page.get_by_role("button", name="Publish").click()
        await page.wait_for_url(f"**/problems/of-{name}")
        assert "Version 1 is published." in await page.locator("main").inner_text()


async def test_a_matrix_of_eight_gpu_types_needs_no_scrolling(
    platform: Running, context: "BrowserContext", tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "problems" / "vectoradd", tmp_path / "of-eight")
    # No type has an agent or an entry, so all are shown.
    task = tmp_path / "of-eight" / "task.yml"
    task.write_text(task.read_text().replace('"CPU", ', '"V100", '))
    add_problem(platform.url, tmp_path / "of-eight")
    page = await context.new_page()
    await page.set_viewport_size({"width": 1440, "height": 900})
    matrix = page.locator(".scroll:has(> .matrix)").first

    async def is_shown() -> bool:
        await page.goto("/?q=of-eight")
        return await matrix.locator("thead th").count() == 9

    await eventually(is_shown)
    assert await matrix.evaluate("part => part.scrollWidth <= part.clientWidth")
    assert await find_faults(page, []) == []
