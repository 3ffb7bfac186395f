"""The choice of a launcher on Discord.

The launcher github starts a real agent as a workflow, in an imitation of GitHub.
"""

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from tests.discord.platform import (
    BOARD,
    EDGE_MARKS,
    GITHUB_AGENT,
    KERNEL,
    MODAL_AGENT,
    EdgePlatform,
    wait_for_report,
    wait_until_known,
)
from tests.support.github_actions import Machines, open_github
from tests.support.launchers import agent_settings, launching_beside
from tests.support.people import Person
from tests.support.waits import eventually

pytestmark = EDGE_MARKS
KEY = base64.b64encode(bytes(range(32))).decode()
TEST, MODAL, GITHUB = (f"leaderboard submit {name}" for name in ("test", "modal", "github"))


async def test_a_submission_chooses_its_launcher_by_an_option_or_a_command(
    edge_platform: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    running = edge_platform.running
    ada, channel = edge_sim.person("ada27"), await edge_sim.add_channel("runners")
    await wait_until_known(ada, channel)
    given = {"script": KERNEL, "gpu": "CPU", **BOARD}
    for path, options, name in (
        (TEST, {"runner": "modal"}, "modal"),
        (MODAL, {}, "modal"),
        (GITHUB, {}, "github"),
    ):
        message = await (await ada.slash(channel, path, **given, **options)).answered()
        said = message["content"]
        assert (
            f"there is no runner `{name}` here. Without one, `/leaderboard submit ranked`" in said
        )
        assert "on CPU, which has agents online" in said
        assert "warpboard" not in said
    async with (
        open_github(Machines(tmp_path, agent_settings(running)), KEY) as github,
        launching_beside(
            running, "github", GITHUB_AGENT, CREDENTIAL_KEY=KEY, **github.launcher_settings
        ),
        launching_beside(running, "modal", MODAL_AGENT),
    ):
        offered = await ada.autocomplete(channel, TEST, "runner", runner="mod")
        assert [choice["value"] for choice in offered] == ["modal"]
        # It starts agents on this machine under the name of a cloud.
        assert offered[0]["name"] == "modal (a stand-in on one machine)"
        message = await (await ada.slash(channel, TEST, **given, runner="azure")).answered()
        assert "`/leaderboard submit ranked` takes `github`, `modal`" in message["content"]
        # A ranked run takes longest, so it begins first.
        await ada.slash(channel, GITHUB, **given)
        by_github = await _wait_for_thread(ada, channel, 1)
        await ada.slash(channel, TEST, **given, runner="modal")
        by_option = await _wait_for_thread(ada, channel, 2)
        _, report = await _check_end(edge_platform, ada, by_option, MODAL_AGENT)
        # The button submits to the same launcher.
        await (await ada.click(report, "Resubmit")).answered()
        by_button = await _wait_for_thread(ada, channel, 3)
        await ada.slash(channel, MODAL, **given)
        by_modal = await _wait_for_thread(ada, channel, 4)
        for thread, agent in ((by_github, GITHUB_AGENT), (by_modal, MODAL_AGENT)):
            submission, _ = await _check_end(edge_platform, ada, thread, agent)
            assert submission["ranking"]["status"] == "ranked"
        # Its workflow, the only one, ends once the agent has left.
        await eventually(lambda: [run["conclusion"] for run in github.runs] == ["success"])
        await _check_end(edge_platform, ada, by_button, MODAL_AGENT)


async def _wait_for_thread(ada: Member, channel: str, count: int) -> Any:
    """Wait until a user has so many threads in a channel, and return the newest."""
    threads = await eventually(
        lambda: threads if len(threads := ada.threads(channel)) >= count else None, 120
    )
    assert threads is not None
    return threads[-1]


async def _check_end(
    edge_platform: EdgePlatform, ada: Member, thread: Any, agent: str
) -> tuple[dict[str, Any], Any]:
    """Check which agent ran the submission of a thread; the submission and its report."""
    _, report = await wait_for_report(edge_platform.sim, ada, thread["id"])
    (number,) = re.findall(r"#(\d+)", thread["name"])
    running = edge_platform.running
    with Person(running.url, "ada27", running.operator) as reader:
        submission = await asyncio.to_thread(reader.end, int(number))
    assert (submission["verdict"], submission["agent"]) == ("passed", agent), submission
    return submission, report
