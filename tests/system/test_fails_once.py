"""A newcomer whose kernel fails once and then ranks: in a browser, a terminal and on Discord.

Each reads the first line of the error and the marked line of the source within the first screen.
"""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from tests.discord.channel_users import message_text
from tests.discord.page_users import PageUser, read_until, upload
from tests.support.browser import open_browser, open_context, send_login_form
from tests.support.people import Person, add_problem
from tests.support.platform import ROOT, Running

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator, Page, ViewportSize

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
]

ERROR = "AttributeError: 'Tensor' object has no attribute 'coppy_'"
FAILING_LINE = "output.coppy_(source)"
COMMAND_S_MAX = 240
LINES, COLUMNS = 24, 80
# A leaderboard of each surface's own.
VISITORS, TYPISTS, MEMBERS = "visitors", "typists", "members"
DESKTOP: "ViewportSize" = {"width": 1440, "height": 900}
PHONE: "ViewportSize" = {"width": 390, "height": 844}
LOOK_MS = 100
NEXT_NUMBER = """(shown) => {
    const link = document.querySelector('#results h3 a');
    const number = Number(link?.getAttribute('href').split('/').pop() ?? 0);
    return number > shown ? number : 0;
}"""
# Without it, the code is in a plain text field, and only the card marks the line.
CODE_EDITOR = files("ingest.site") / "static" / "built" / "code-editor.js"


def kernel(sleep_s: float, statement: str = "output.copy_(source)") -> str:
    """Return a kernel that takes a time; with another statement, one that fails."""
    return f"""import time


def custom_kernel(data):
    source, output = data
    time.sleep({sleep_s})
    {statement}
    return output
"""


# A newcomer's kernel that fails, its fix, which is slower than the others, and a faster one.
FAILING, SLOW, FAST = kernel(0.002, FAILING_LINE), kernel(0.1), kernel(0.002)
OTHERS = {"first": kernel(0.0), "second": kernel(0.03)}


@pytest.fixture
def platform(simulated_platform: Running) -> Running:
    """A platform with a simulated Discord."""
    return simulated_platform


def add_leaderboard(platform: Running, slug: str, folder: Path) -> None:
    """Publish a leaderboard on which two others are ranked."""
    shutil.copytree(ROOT / "problems" / "identity", folder / slug)
    add_problem(platform.url, folder / slug)
    for name, source in OTHERS.items():
        with Person(platform.url, name) as person:
            submission = person.end(person.submit(source, "ranked", problem=slug))
            assert submission["ranking"]["rank"] is not None, submission["ranking"]


def assert_pass(text: str, slug: str) -> None:
    """Fail unless a card has the score with its interval, the move, and the distance."""
    assert "passed" in text
    assert re.search(r"\d ± [\d.]+\s(?:µs|ms)", text)
    assert re.search(rf"[Rr]ank 2 of {slug} on CPU, from 3\b", text)
    assert "behind the next place" in text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator["Browser"]:
    """A browser."""
    async with open_browser() as browser:
        yield browser


async def submit_code(page: "Page", code: str) -> "Locator":
    """Submit code in the editor, and return the card of its result."""
    file: Any = {"name": "kernel.py", "mimeType": "text/x-python", "buffer": code.encode()}
    await page.get_by_label("Or choose a file").set_input_files(file)
    await page.get_by_role("button", name="Submit", exact=True).click()
    # The earlier result goes as soon as there is a number.
    path = f"/submissions/{await _next_number(page)}"
    card = page.locator(f'#results h3:has(a[href="{path}"]) + .submission .card-result')
    await card.wait_for()
    return card


async def _next_number(page: "Page") -> int:
    """Return the number of the submission that the page shows next."""
    shown = await page.evaluate("window.shownNumber ?? 0")
    # Not at every frame: a browser without a GPU would draw them all meanwhile.
    found = await page.wait_for_function(NEXT_NUMBER, arg=shown, polling=LOOK_MS)
    number = int(await found.json_value())
    await page.evaluate("(number) => { window.shownNumber = number; }", number)
    return number


async def assert_on_screen(page: "Page", part: "Locator") -> None:
    """Fail unless the first line of a part is within the window, as it stands now."""
    box, size = await part.bounding_box(), page.viewport_size
    assert box is not None
    assert size is not None
    text = await part.inner_text()
    assert 0 <= box["y"] <= size["height"] - 20, f"{text!r} is at {box} of {size}"
    assert 0 <= box["x"] < size["width"], f"{text!r} is at {box} of {size}"


async def assert_error_is_seen(page: "Page", error: "Locator", marked: "Locator") -> None:
    """Fail unless the error and the marked line are on the screen together."""
    assert (await error.inner_text()).startswith(ERROR)
    assert FAILING_LINE in await marked.inner_text()
    await assert_on_screen(page, error)
    await assert_on_screen(page, marked)


async def fail_in_editor(page: "Page") -> None:
    """Submit the kernel that fails, and fail unless the error is seen beside its line."""
    await page.goto(f"/problems/{VISITORS}/submit")
    await page.locator("input[value=ranked]").check()
    await submit_code(page, FAILING)
    if CODE_EDITOR.is_file():
        # The editor shows the error below the line.
        line = page.locator(".cm-error-line")
        await line.wait_for()
        await assert_error_is_seen(page, page.locator(".cm-error-message"), line)
    # The page of the submission shows it first.
    own_page = await page.context.new_page()
    if page.viewport_size:
        await own_page.set_viewport_size(page.viewport_size)
    await own_page.goto(f"/submissions/{await page.evaluate('window.shownNumber')}")
    card = own_page.locator(".card-result")
    error, marked = card.locator(".error-text").first, card.locator(".failing")
    await assert_error_is_seen(own_page, error, marked)


@pytest.mark.asyncio(loop_scope="module")
async def test_in_a_browser(platform: Running, browser: "Browser", tmp_path: Path) -> None:
    add_leaderboard(platform, VISITORS, tmp_path)
    async with open_context(browser, platform.url, viewport=DESKTOP) as context:
        page = await context.new_page()
        await page.goto("/register")
        await send_login_form(page, "visitor")
        await fail_in_editor(page)
        await submit_code(page, SLOW)
        card = await submit_code(page, FAST)
        assert_pass(await card.inner_text(), VISITORS)
        for part in (".result", ".rank"):
            await assert_on_screen(page, card.locator(part))
        # The same on a phone.
        page = await context.new_page()
        await page.set_viewport_size(PHONE)
        await fail_in_editor(page)
        card = await submit_code(page, FAST)
        for part in (".result", ".rank"):
            await assert_on_screen(page, card.locator(part))


def run_in_terminal(*arguments: object) -> list[str]:
    """Run a command in a terminal of 80 columns; return the lines of its answer."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "warpboard", *map(str, arguments)]
    environ = os.environ | {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "NO_COLOR": "1"}
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environ
    ) as process:
        os.close(theirs)
        data = b"".join(_read_to_end(ours))
        process.wait(COMMAND_S_MAX)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode())
    return [line.rstrip() for line in text.splitlines()]


def _read_to_end(descriptor: int) -> Iterator[bytes]:
    with open(descriptor, "rb", buffering=0) as stream:
        while True:
            try:
                data = stream.read(4096)
            except OSError:
                # The program closed the terminal.
                return
            if not data:
                return
            yield data


def assert_first_screen(lines: list[str]) -> None:
    """Fail unless the error and the marked line are among the first lines, whole and readable."""
    screen = lines[:LINES]
    assert any(line.startswith(ERROR) for line in screen), lines
    assert f"  > {FAILING_LINE}" in screen
    assert max(map(len, lines)) <= COLUMNS
    assert "\n".join(lines).count(ERROR) == 1


def test_in_a_terminal(platform: Running, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    add_leaderboard(platform, TYPISTS, tmp_path)
    who = ("--as", "typist", "--url", platform.url)

    def submit(code: str) -> list[str]:
        file.write_text(code)
        return run_in_terminal("submit", file, "--leaderboard", TYPISTS, "--gpu", "CPU", *who)

    lines = submit(FAILING)
    assert_first_screen(lines)
    number = re.findall(r"submission (\d+): crashed", lines[0])[0]
    assert_first_screen(run_in_terminal("submission", "show", number, *who))
    submit(SLOW)
    lines = submit(FAST)
    assert "passed (ranked on CPU)" in lines[0]
    assert_pass(" ".join(lines), TYPISTS)
    assert max(map(len, lines)) <= COLUMNS


@pytest.fixture
def member(platform: Running, tmp_path: Path) -> Iterator[PageUser]:
    """A newcomer to the simulated Discord, who breaks none of its rules."""
    add_leaderboard(platform, MEMBERS, tmp_path)
    rows = {row["name"]: row["address"] for row in platform.state["processes"]}
    with httpx.Client(base_url=rows["discord-sim"].removesuffix("/sim/"), timeout=60) as http:
        read_until(http, "/sim/state", lambda it: it["commands"] and it["is_connected"])
        identity = http.post("/sim/people", json={"name": "dora", "roles": []}).json()["id"]
        channels = http.get(f"/sim/people/{identity}/channels").json()
        [lobby] = [channel["id"] for channel in channels if channel["name"] == "lobby"]
        member = PageUser(http, identity, lobby)
        member.wait_until_offered(MEMBERS)
        yield member
        state = http.get("/sim/state").json()
        assert (state["violations"], state["own_faults"]) == ([], [])


def submit_on_discord(member: PageUser, code: str) -> tuple[str, str]:
    """Submit code; return the last text of the command's answer, and that of the report."""
    script = upload("kernel.py", code.encode())
    options = {"leaderboard_name": MEMBERS, "gpu": "CPU", "script": script}
    answer = member.use_command("leaderboard submit ranked", "#", **options)
    number = re.findall(r"#(\d+)", message_text(answer))[0]

    def threads_of(channels: Any) -> list[str]:
        return [it["id"] for it in channels if it.get("parent_id") and f"#{number}" in it["name"]]

    people = f"/sim/people/{member.id}/channels"
    [thread] = threads_of(read_until(member.http, people, threads_of))

    def report_of(messages: Any) -> list[str]:
        return [message_text(it) for it in messages if it["embeds"]]

    path = f"/sim/people/{member.id}/channels/{thread}"
    [report] = report_of(read_until(member.http, path, report_of))
    ended = member.wait_for(answer["id"], "✅" if "✅" in report.splitlines()[0] else "❌")
    return message_text(ended), report


def test_on_discord(member: PageUser) -> None:
    answer, report = submit_on_discord(member, FAILING)
    assert "crashed: AttributeError: 'Tensor' object has no attribute" in answer
    _, fence, *block = report.splitlines()
    assert fence == "```text"
    assert block[0].startswith(ERROR)
    assert f"  > {FAILING_LINE}" in block[: block.index("```")]
    assert report.count(ERROR) == 1
    submit_on_discord(member, SLOW)
    answer, report = submit_on_discord(member, FAST)
    assert "✅ passed, score" in answer
    assert_pass(report.replace("\\", ""), MEMBERS)
