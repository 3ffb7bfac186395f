"""Fifty people at the same time, each of whom Discord lets wait for three seconds at most."""

import asyncio
from typing import Any

import pytest

from discord_sim.people.doing import Doing
from discord_sim.people.person import Person as Member
from discord_sim.simulator import Simulator
from tests.discord.platform import BOARD, END_S, KERNEL, Whole, known
from tests.support.processes import stopped

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]

PEOPLE = 50
# Each needs the platform for its answer.
COMMANDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("leaderboard submit test", {"script": KERNEL, "gpu": "CPU", **BOARD}),
    ("leaderboard show", {"gpu": "CPU", **BOARD}),
    ("leaderboard queue", {}),
    ("leaderboard get-submission", {"submission_id": 10**9}),
)


async def test_fifty_people_at_once_are_acknowledged_before_the_platform_answers(
    whole: Whole, town: Simulator
) -> None:
    """An acknowledgement waits for nobody but the bot, so a slow platform makes none of them late.

    Discord's clock stands still meanwhile, for a busy machine may stand still for any time. How
    soon the bot acknowledges is measured by `python -m bench.discord`.
    """
    channel = await town.add_channel("crowd")
    people = [town.person(f"crowd{number}") for number in range(PEOPLE)]
    await known(people[0], channel)

    async def use(person: Member, number: int) -> Doing:
        path, given = COMMANDS[number % len(COMMANDS)]
        doing = await person.slash(channel, path, **given)
        return await doing.acknowledged(END_S)

    with town.clock.stopped():
        with stopped(whole.running.pid("ingest")):
            doings = await asyncio.gather(*map(use, people, range(PEOPLE)))
            assert [doing for doing in doings if not doing.is_thinking] == []
        for doing in doings:
            await doing.answered(END_S)
