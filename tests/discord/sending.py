"""Somebody who submits on Discord, and what they are told of it once."""

from discord_sim.cdn import Blob
from discord_sim.people.doing import Doing
from discord_sim.people.person import Person as Member
from discord_sim.simulator import Simulator
from tests.discord.platform import BOARD, KERNEL, known, reported, thread_of

TEST = "leaderboard submit test"
SLOW = Blob("kernel.py", "text/x-python", b"import time\ntime.sleep(4)\n" + KERNEL.data)


async def submitted(
    sim: Simulator, name: str, script: Blob = SLOW, channel: str = ""
) -> tuple[Member, str, Doing]:
    """Somebody new who submitted, where, and how."""
    person, channel = sim.person(name), channel or await sim.add_channel(name)
    await known(person, channel)
    given = {"script": script, "gpu": "CPU", **BOARD}
    return person, channel, await person.slash(channel, TEST, **given)


async def told_once(sim: Simulator, person: Member, channel: str) -> None:
    """One thread, with where it is and one report."""
    status, report = await reported(sim, person, await thread_of(sim, person, channel))
    assert "passed" in status["content"]
    assert "identity on CPU" in report["embeds"][0]["title"]
    [room] = person.threads(channel)
    assert len(person.sees(room["id"])) == 2
    assert not person.letters()
