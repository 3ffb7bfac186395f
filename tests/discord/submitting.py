"""New users who submit on Discord, and what they must see exactly once."""

from discord_sim.cdn import FileUpload
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from discord_sim.users import UserAction
from tests.discord.platform import BOARD, KERNEL, newest_thread, wait_for_report, wait_until_known

TEST = "leaderboard submit test"
SLOW = FileUpload("kernel.py", "text/x-python", b"import time\ntime.sleep(4)\n" + KERNEL.data)


async def submit_as_new_user(
    sim: Simulator, name: str, script: FileUpload = SLOW, channel: str = ""
) -> tuple[Member, str, UserAction]:
    """Submit as a new user; return the user, the channel and the action."""
    person, channel = sim.person(name), channel or await sim.add_channel(name)
    await wait_until_known(person, channel)
    given = {"script": script, "gpu": "CPU", **BOARD}
    return person, channel, await person.slash(channel, TEST, **given)


async def check_reported_once(sim: Simulator, person: Member, channel: str) -> None:
    """Check that there is one thread with one status and one report."""
    status, report = await wait_for_report(sim, person, await newest_thread(sim, person, channel))
    assert "passed" in status["content"]
    assert "identity on CPU" in report["embeds"][0]["title"]
    [room] = person.threads(channel)
    assert len(person.sees(room["id"])) == 2
    assert not person.letters()
