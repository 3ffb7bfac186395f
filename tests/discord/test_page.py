"""The page of the simulated Discord, used as somebody uses it: in a real browser."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from discord_sim.control import Control
from discord_sim.documents import Validators
from discord_sim.simulator import Simulator
from tests.discord.bot_process import BotProcess
from tests.support.browser import Browser, Tab, browser, program

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="module"),
]

BUTTON = "[...document.querySelectorAll('#messages button')].find((one) => one.textContent === {})"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shown(
    validators: Validators, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Simulator, Browser]]:
    """A simulated Discord with a bot and its page, and a browser; nobody breaks a rule."""
    if program() is None:
        pytest.skip("NOT RUN: no browser here; apt-get install chromium")
    sim = Simulator(validators)
    sim.extras.append(Control(sim).add_to)
    async with sim, browser() as found:
        await sim.add_channel("lobby")
        await sim.add_role("Leaderboard Creator")
        bot = BotProcess(sim, tmp_path_factory.mktemp("bot") / "log.txt")
        try:
            await bot.ready()
            yield sim, found
        finally:
            await bot.stop()
        assert sim.record.violations == []
        assert sim.record.own_faults == []


async def joined(tab: Tab, name: str) -> None:
    """Join as somebody, and look at the lobby."""
    await tab.until("document.getElementById('command').options.length > 0")
    await tab.run(f"document.querySelector('[name=name]').value = '{name}'")
    await tab.run("document.querySelector('#joining button').click()")
    chosen = "document.getElementById('people').selectedOptions[0].textContent"
    await tab.until(f"{chosen} === '{name}'")
    await look_at(tab, "# lobby")


async def look_at(tab: Tab, place: str) -> None:
    """Open a channel or a thread, by how it is called."""
    called = f"(one) => one.textContent === {place!r}"
    one = f"[...document.querySelectorAll('#channels button')].find({called})"
    await tab.until(f"Boolean({one})")
    await tab.run(f"{one}.click()")
    await tab.until(f"document.getElementById('place').textContent === {place!r}")


async def use(tab: Tab, command: str, **options: str) -> None:
    """Choose a command, fill it in, send it."""
    await tab.run(
        "(() => { const all = document.getElementById('command');"
        f" all.value = {command!r}; all.onchange(); }})()"
    )
    for name, value in options.items():
        await tab.run(
            f"document.forms.doing.elements.namedItem('{name}').value = {json.dumps(value)}"
        )
    await tab.run("document.forms.doing.requestSubmit()")


async def press(tab: Tab, label: str) -> None:
    """Press a button of a message."""
    await tab.until(f"Boolean({BUTTON.format(repr(label))})")
    await tab.run(f"{BUTTON.format(repr(label))}.click()")


async def says(tab: Tab, words: str) -> None:
    """Wait until the page says something."""
    await tab.until(f"document.getElementById('messages').innerText.includes({words!r})")


async def test_a_user_submits_by_menu_and_reads_the_file_in_their_thread(
    shown: tuple[Simulator, Browser], tmp_path: Path
) -> None:
    sim, found = shown
    source = tmp_path / "kernel.py"
    source.write_text("def kernel(): ...\n")
    async with found.tab(f"{sim.url}/sim/") as tab:
        await joined(tab, "ada")
        await tab.run(
            "(() => { const all = document.getElementById('command');"
            " all.value = 'leaderboard submit ranked'; all.onchange(); })()"
        )
        await tab.run("document.forms.doing.elements.namedItem('leaderboard_name').focus()")
        await tab.until("document.querySelector('#offered-leaderboard_name').children.length === 4")
        await tab.attach("[name=script]", source)
        await tab.run("document.forms.doing.elements.namedItem('leaderboard_name').value='sort_v1'")
        await tab.run("document.forms.doing.requestSubmit()")
        await says(tab, "Where should it run?")
        await says(tab, "Only you can see this")
        await tab.until(f"{BUTTON.format(repr('Choose'))}.disabled")
        boxes = "document.querySelectorAll('.menu input')"
        await tab.run(f"({boxes}[0].click(), {boxes}[2].click())")
        await press(tab, "Choose")
        await says(tab, "Done:")
        await look_at(tab, "🔒 sort_v1 ranked")
        await says(tab, "step 3 of 3")
        await says(tab, "📎 report.txt")
        await tab.run("document.querySelector('.file details').open = true")
        await says(tab, "def kernel(): ...")
        got = "fetch(document.querySelector('.file a').href).then((one) => one.text())"
        assert await tab.run(got) == source.read_text()


async def test_private_messages_are_shown_to_their_user_only(
    shown: tuple[Simulator, Browser],
) -> None:
    sim, found = shown
    async with found.tab(f"{sim.url}/sim/") as one, found.tab(f"{sim.url}/sim/") as other:
        await joined(one, "bea")
        await joined(other, "cid")
        await use(
            one, "leaderboard tell", user=await one.run("document.getElementById('people').value")
        )
        await says(one, "told")
        await use(other, "leaderboard show", leaderboard_name="sort_v2")
        await says(other, "Page 1/3")
        await says(one, "Page 1/3")
        assert "told" not in await other.run("document.getElementById('messages').innerText")
        await press(other, "▶")
        await says(one, "Page 2/3")
        assert await other.run(f"{BUTTON.format(repr('▶'))}.disabled") is False
        await look_at(one, "✉️ letters with bea")
        await says(one, "hey")
        # A reload leaves everybody who and where they were.
        await one.call("Page.reload")
        await one.until("document.getElementById('place')?.textContent.includes('bea')")
        assert "bea" not in await other.run("document.getElementById('channels').innerText")


async def test_roles_modals_and_errors_work_on_the_page(
    shown: tuple[Simulator, Browser],
) -> None:
    sim, found = shown
    async with found.tab(f"{sim.url}/sim/") as tab:
        await joined(tab, "dan")
        await use(tab, "leaderboard create")
        await says(tab, "You may not do that.")
        roles = "[...document.querySelectorAll('#roles label')]"
        creator = f"{roles}.find((one) => one.innerText.includes('Creator'))"
        await tab.run(f"{creator}.firstChild.click()")
        dan = await tab.run("document.getElementById('people').value")
        await sim.record.until(lambda: sim.guild.member(dan)["roles"], "a role")
        await use(tab, "leaderboard create")
        await tab.until("document.getElementById('modal').open")
        fields = "document.querySelectorAll('#modal input, #modal textarea')"
        await tab.run(f"{fields}[0].value = 'bubble'")
        await tab.run("document.querySelector('#modal .style1').click()")
        await says(tab, "Created bubble.")
        await use(tab, "leaderboard crash")
        await says(tab, "Something went wrong.")
        forum = await sim.add_channel("central", 15)
        await look_at(tab, "📋 central")
        await look_at(tab, "# lobby")
        await use(tab, "leaderboard announce", forum=forum)
        await look_at(tab, "📋 central")
        await says(tab, "sort_v2")
        await tab.until("document.querySelector('.post').click() ?? true")
        await says(tab, "it is open")
