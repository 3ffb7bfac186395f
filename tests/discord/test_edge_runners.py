"""The choice of a launcher on Discord, and what operators see of launchers there."""

import asyncio
import re
from contextlib import ExitStack
from typing import Any

from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from tests.discord.channel_users import ChannelUser
from tests.discord.platform import (
    BOARD,
    EDGE_MARKS,
    KERNEL,
    LAUNCHED_AGENT,
    EdgePlatform,
    wait_for_report,
    wait_until_known,
)
from tests.support.launchers import launching
from tests.support.people import Person
from tests.support.waits import eventually

pytestmark = EDGE_MARKS
TEST, MODAL, GITHUB = (f"leaderboard submit {name}" for name in ("test", "modal", "github"))


async def test_a_submission_chooses_its_launcher_by_an_option_or_a_command(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    running = edge_platform.running
    ada, channel = edge_sim.person("ada27"), await edge_sim.add_channel("runners")
    await wait_until_known(ada, channel)
    given = {"script": KERNEL, "gpu": "CPU", **BOARD}
    # Option and command reach the platform, which knows no launcher yet.
    for path, options, name in (
        (TEST, {"runner": "modal"}, "modal"),
        (MODAL, {}, "modal"),
        (GITHUB, {}, "github"),
    ):
        message = await (await ada.slash(channel, path, **given, **options)).answered()
        assert f"there is no launcher '{name}'" in message["content"]
    assert "No launcher ever registered" in await olga.use_command("agents launchers")
    with ExitStack() as stack:
        # The platform's own agent could run these submissions as well.
        launcher = launching(running, "modal", LAUNCHED_AGENT)
        await asyncio.to_thread(stack.enter_context, launcher)
        offered = await ada.autocomplete(channel, TEST, "runner", runner="mod")
        assert [choice["value"] for choice in offered] == ["modal"]
        await ada.slash(channel, MODAL, **given)
        by_command = await _wait_for_thread(ada, channel, 1)
        submission, report = await _check_end(edge_platform, ada, by_command)
        assert submission["ranking"]["status"] == "ranked"
        # The button submits to the same launcher.
        await (await ada.click(report, "Resubmit")).answered()
        await _check_end(edge_platform, ada, await _wait_for_thread(ada, channel, 2))
        text = await olga.use_command("agents launchers")
        assert re.search(
            r"\*\*modal\*\* · local · CPU · \d of 1 agents · cost today 0.00 of 10", text
        )


async def _wait_for_thread(ada: Member, channel: str, count: int) -> Any:
    """Wait until a user has so many threads in a channel, and return the newest."""
    threads = await eventually(
        lambda: threads if len(threads := ada.threads(channel)) >= count else None, 120
    )
    assert threads is not None
    return threads[-1]


async def _check_end(
    edge_platform: EdgePlatform, ada: Member, thread: Any
) -> tuple[dict[str, Any], Any]:
    """Check that the launcher's agent ran a thread's submission; return that and its report."""
    _, report = await wait_for_report(edge_platform.sim, ada, thread["id"])
    (number,) = re.findall(r"#(\d+)", thread["name"])
    running = edge_platform.running
    with Person(running.url, "ada27", running.operator) as reader:
        submission = await asyncio.to_thread(reader.end, int(number))
    assert (submission["verdict"], submission["agent"]) == ("passed", LAUNCHED_AGENT), submission
    return submission, report
