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
    LAUNCHED_AGENTS,
    RANKED,
    EdgePlatform,
    has_more_threads,
    wait_for_report,
    wait_until_known,
)
from tests.support.launchers import launching
from tests.support.people import Person
from tests.support.waits import eventually

pytestmark = EDGE_MARKS


async def test_a_submission_chooses_its_launcher_by_an_option_or_a_command(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    running = edge_platform.running
    ada, channel = edge_sim.person("ada27"), await edge_sim.add_channel("runners")
    await wait_until_known(ada, channel)
    given = {"script": KERNEL, "gpu": "CPU", **BOARD}
    for path, runner in ((RANKED, {"runner": "modal"}), ("leaderboard submit modal", {})):
        message = await (await ada.slash(channel, path, **given, **runner)).answered()
        assert "there is no launcher 'modal'" in message["content"]
    assert "No launcher ever registered" in await olga.use_command("agents launchers")
    with ExitStack() as launchers:
        for agent in LAUNCHED_AGENTS:
            launcher = launching(running, agent.partition("-")[0], agent)
            await asyncio.to_thread(launcher.__enter__)
            launchers.push(launcher)
        offered = await ada.autocomplete(channel, RANKED, "runner", runner="mod")
        assert [choice["value"] for choice in offered] == ["modal"]
        report = await _submit(edge_platform, ada, channel, RANKED, "github-1", runner="github")
        await _submit(edge_platform, ada, channel, "leaderboard submit modal", "modal-1")
        await _submit(edge_platform, ada, channel, "leaderboard submit github", "github-1")
        # The button submits to the same launcher.
        before = len(ada.threads(channel))
        await (await ada.click(report, "Resubmit")).answered()
        await _check_end(edge_platform, ada, channel, before, "github-1")
        text = await olga.use_command("agents launchers")
        assert re.search(
            r"\*\*modal\*\* · local · CPU · \d of 1 agents · cost today 0.00 of 10", text
        )


async def _submit(
    edge_platform: EdgePlatform, ada: Member, channel: str, path: str, agent: str, **runner: str
) -> Any:
    """Submit, check which agent ran it and that it is ranked, and return its report."""
    before = len(ada.threads(channel))
    await ada.slash(channel, path, script=KERNEL, gpu="CPU", **BOARD, **runner)
    return await _check_end(edge_platform, ada, channel, before, agent)


async def _check_end(
    edge_platform: EdgePlatform, ada: Member, channel: str, before: int, agent: str
) -> Any:
    await eventually(lambda: has_more_threads(ada, channel, before), 120)
    thread = ada.threads(channel)[-1]
    _, report = await wait_for_report(edge_platform.sim, ada, thread["id"])
    (number,) = re.findall(r"#(\d+)", thread["name"])
    running = edge_platform.running
    with Person(running.url, "ada27", running.operator) as reader:
        submission = await asyncio.to_thread(reader.end, int(number))
    assert submission["agent"] == agent, submission
    assert submission["ranking"]["status"] == "ranked"
    return report
