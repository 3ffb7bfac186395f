"""Discord is away for five minutes: what happened meanwhile is told once, and nothing is lost."""

import asyncio
from typing import Any

from discord_sim.cdn import FileUpload
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from tests.discord.announcing import find_channel
from tests.discord.platform import (
    BOARD,
    EDGE_MARKS,
    END_S,
    KERNEL,
    RANKED,
    EdgePlatform,
    newest_thread,
    wait_for_report,
    wait_until_known,
)
from tests.support.people import HONEST, Person
from tests.support.platform import Running
from tests.support.waits import eventually

pytestmark = EDGE_MARKS

# By the simulator's clock: Discord has forgotten every nonce. It is away for as long as the
# platform needs to end what was submitted.
AWAY_S = 300.0


async def _ranked(sim: Simulator, name: str) -> tuple[Member, str]:
    """Somebody new who submitted from Discord, as soon as that was acknowledged; and where."""
    person, channel = sim.person(name), await sim.add_channel(name)
    await wait_until_known(person, channel)
    script = FileUpload("kernel.py", "text/x-python", KERNEL.data + f"# {name}".encode())
    doing = await person.slash(channel, RANKED, script=script, gpu="CPU", **BOARD)
    await doing.acknowledged()
    return person, channel


def _by_another(running: Running) -> int:
    """What somebody submits by HTTP, until it is over; its number."""
    token = running.token("terminal", "submit", "submit:ranked", "read:own")
    with Person(running.url, "terminal", token) as somebody:
        number = somebody.submit(HONEST, mode="ranked")
        somebody.end(number, END_S)
    return number


async def test_five_minutes_without_discord_lose_and_repeat_nothing(
    announcing: EdgePlatform, edge_sim: Simulator
) -> None:
    lines = find_channel(edge_sim, "submissions")
    entered, room = await _entered(edge_sim)
    late, lobby = await _ranked(edge_sim, "late")
    await edge_sim.outage()
    try:
        edge_sim.clock.turn(AWAY_S)
        numbers = [await asyncio.to_thread(_by_another, announcing.running)]
    finally:
        edge_sim.recover()
    rooms = {entered: room, late: await newest_thread(edge_sim, late, lobby)}
    for person, where in rooms.items():
        status, report = await wait_for_report(edge_sim, person, where)
        assert "identity on CPU" in report["embeds"][0]["title"]
        numbers.append(int(status["content"].split("#")[1].split("*")[0].split()[0]))

    def said() -> list[str]:
        return [one["content"] for one in edge_sim.owner().sees(lines)]

    def signs() -> list[list[str]]:
        return [[one for one in said() if one.endswith(f"· #{number}")] for number in numbers]

    await edge_sim.record.until(lambda: all(signs()), "a line for each", END_S)
    await edge_sim.record.until(lambda: edge_sim.gateway.is_connected, "the edge is back", END_S)
    await eventually(lambda: _is_quiet(edge_sim), END_S)
    assert [len(one) for one in signs()] == [1] * len(numbers)
    for person, where in rooms.items():
        assert len(person.sees(where)) == 2
        assert not person.letters()
    assert len(entered.threads(edge_sim.guild.channel(room)["parent_id"])) == 1
    assert len(late.threads(lobby)) == 1


async def _entered(edge_sim: Simulator) -> tuple[Member, str]:
    """Somebody whose thread has its first message, of which the bot was not told."""
    edge_sim.faults.lose("create_message")
    person, channel = await _ranked(edge_sim, "entered")
    room = await newest_thread(edge_sim, person, channel)
    await edge_sim.record.until(lambda: person.sees(room), "the status", END_S)
    return person, room


async def _is_quiet(edge_sim: Simulator) -> Any:
    """Whether the bot does nothing more for a while."""
    before = len(edge_sim.record.calls)
    await edge_sim.record.wait(lambda: len(edge_sim.record.calls) > before, 4)
    return len(edge_sim.record.calls) == before
