"""Fifty people at the same time, each of whom Discord lets wait for three seconds at most."""

import asyncio
from typing import Any

import pytest

from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from discord_sim.users import UserAction
from tests.discord.platform import BOARD, EDGE_MARKS, END_S, KERNEL, EdgePlatform, wait_until_known
from tests.support.processes import stopped

pytestmark = EDGE_MARKS

PEOPLE = 50
# Each needs the platform for its answer.
COMMANDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("leaderboard submit test", {"script": KERNEL, "gpu": "CPU", **BOARD}),
    ("leaderboard show", {"gpu": "CPU", **BOARD}),
    ("leaderboard queue", {}),
    ("leaderboard get-submission", {"submission_id": 10**9}),
)


@pytest.mark.feature("P3")
async def test_fifty_users_at_once_are_acknowledged_before_the_platform_answers(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    """An acknowledgement waits for nobody but the bot, so a slow platform makes none of them late.

    Discord's clock stands still meanwhile, for a busy machine may stand still for any time. How
    soon the bot acknowledges is measured by `python -m bench.discord`.
    """
    channel = await edge_sim.add_channel("crowd")
    people = [edge_sim.person(f"crowd{number}") for number in range(PEOPLE)]
    await wait_until_known(people[0], channel)

    async def use(person: Member, number: int) -> UserAction:
        path, given = COMMANDS[number % len(COMMANDS)]
        doing = await person.slash(channel, path, **given)
        return await doing.acknowledged(END_S)

    with edge_sim.clock.stopped():
        with stopped(edge_platform.running.pid("ingest")):
            doings = await asyncio.gather(*map(use, people, range(PEOPLE)))
            assert [doing for doing in doings if not doing.is_thinking] == []
        for doing in doings:
            await doing.answered(END_S)
