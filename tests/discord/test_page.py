"""The page of the simulated Discord, used as somebody uses it: in a real browser."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from discord_sim.control import Control
from discord_sim.documents import Validators
from discord_sim.simulator import Simulator
from tests.discord.bot_process import BotProcess
from tests.support.browser import open_browser, open_context

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shown(
    validators: Validators, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Simulator, "BrowserContext"]]:
    """A simulated Discord with a bot and its page, and a browser; nobody breaks a rule."""
    sim = Simulator(validators)
    sim.extras.append(Control(sim).add_to)
    async with open_browser() as browser, sim, open_context(browser, sim.url) as context:
        await sim.add_channel("lobby")
        await sim.add_role("Leaderboard Creator")
        bot = BotProcess(sim, tmp_path_factory.mktemp("bot") / "log.txt")
        try:
            await bot.ready()
            yield sim, context
        finally:
            await bot.stop()
        assert sim.record.violations == []
        assert sim.record.own_faults == []


async def join(context: "BrowserContext", name: str) -> "Page":
    """Join as somebody in a window of their own, and look at the lobby."""
    page = await context.new_page()
    await page.goto("/sim/")
    await page.locator("#command option").first.wait_for(state="attached")
    await page.get_by_placeholder("somebody new").fill(name)
    await page.get_by_role("button", name="Join").click()
    await page.locator("#people option:checked", has_text=exact(name)).wait_for(state="attached")
    await look_at(page, "# lobby")
    return page


def exact(text: str) -> re.Pattern[str]:
    """Return a pattern for the whole text of an element."""
    return re.compile(f"^{re.escape(text)}$")


async def look_at(page: "Page", place: str) -> None:
    """Open a channel or a thread by its name."""
    await page.locator("#channels").get_by_role("button", name=place, exact=True).click()
    await page.locator("#place", has_text=exact(place)).wait_for()


async def use(page: "Page", command: str, **options: str) -> None:
    """Choose a command, fill in its options and send it."""
    await page.locator("#command").select_option(command)
    for name, value in options.items():
        field = page.locator(f"#options [name={name}]")
        await field.evaluate("(field, value) => { field.value = value; }", value)
    await page.get_by_role("button", name="Send").click()


async def press(page: "Page", label: str) -> None:
    """Press a button of a message."""
    await page.locator("#messages").get_by_role("button", name=label, exact=True).click()


async def says(page: "Page", words: str) -> None:
    """Wait until the messages contain words."""
    await page.locator("#messages", has_text=words).wait_for()


async def test_a_user_submits_by_menu_and_reads_the_file_in_their_thread(
    shown: tuple[Simulator, "BrowserContext"], tmp_path: Path
) -> None:
    _, context = shown
    source = tmp_path / "kernel.py"
    source.write_text("def kernel(): ...\n")
    page = await join(context, "ada")
    await page.locator("#command").select_option("leaderboard submit ranked")
    board = page.locator("#options [name=leaderboard_name]")
    await board.focus()
    offers = page.locator("#offered-leaderboard_name option")
    await offers.nth(3).wait_for(state="attached")
    assert await offers.count() == 4
    await page.locator("#options [name=script]").set_input_files(source)
    await board.evaluate("(field) => { field.value = 'sort_v1'; }")
    await page.get_by_role("button", name="Send").click()
    await says(page, "Where should it run?")
    await says(page, "Only you can see this")
    choose = page.locator("#messages").get_by_role("button", name="Choose", exact=True)
    assert await choose.is_disabled()
    boxes = page.locator(".menu input")
    await boxes.nth(0).click()
    await boxes.nth(2).click()
    await choose.click()
    await says(page, "Done:")
    await look_at(page, "🔒 sort_v1 ranked")
    await says(page, "step 3 of 3")
    await says(page, "📎 report.txt")
    await page.locator(".file summary").first.click()
    await page.get_by_text("def kernel(): ...").first.wait_for()
    file = await page.request.get(str(await page.locator(".file a").first.get_attribute("href")))
    assert await file.text() == source.read_text()
    await page.close()


async def test_private_messages_are_shown_to_their_user_only(
    shown: tuple[Simulator, "BrowserContext"],
) -> None:
    _, context = shown
    bea, cid = await join(context, "bea"), await join(context, "cid")
    await use(bea, "leaderboard tell", user=await bea.locator("#people").input_value())
    await says(bea, "told")
    await use(cid, "leaderboard show", leaderboard_name="sort_v2")
    await says(cid, "Page 1/3")
    await says(bea, "Page 1/3")
    assert "told" not in await cid.locator("#messages").inner_text()
    await press(cid, "▶")
    await says(bea, "Page 2/3")
    next_page = cid.locator("#messages").get_by_role("button", name="▶", exact=True)
    assert await next_page.is_enabled()
    await look_at(bea, "✉️ letters with bea")
    await says(bea, "hey")
    # A reload leaves everybody who and where they were.
    await bea.reload()
    await bea.locator("#place", has_text="bea").wait_for()
    assert "bea" not in await cid.locator("#channels").inner_text()
    await bea.close()
    await cid.close()


async def test_roles_modals_and_errors_work_on_the_page(
    shown: tuple[Simulator, "BrowserContext"],
) -> None:
    sim, context = shown
    page = await join(context, "dan")
    await use(page, "leaderboard create")
    await says(page, "You may not do that.")
    await page.locator("#roles label", has_text="Creator").locator("input").click()
    dan = await page.locator("#people").input_value()
    await sim.record.until(lambda: sim.guild.member(dan)["roles"], "a role")
    await use(page, "leaderboard create")
    await page.locator("#modal input, #modal textarea").first.fill("bubble")
    await page.locator("#modal").get_by_role("button", name="Submit").click()
    await says(page, "Created bubble.")
    await use(page, "leaderboard crash")
    await says(page, "Something went wrong.")
    forum = await sim.add_channel("central", 15)
    await look_at(page, "📋 central")
    await look_at(page, "# lobby")
    await use(page, "leaderboard announce", forum=forum)
    await look_at(page, "📋 central")
    await says(page, "sort_v2")
    await page.locator(".post").first.click()
    await says(page, "it is open")
    await page.close()
