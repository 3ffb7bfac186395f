"""What goes wrong at Discord, and that the unmodified client meets it as it meets Discord's."""

from pathlib import Path
from typing import Any

import pytest

from discord_sim.documents import Validators
from discord_sim.simulator import Simulator
from discord_sim.users import UserAction
from tests.discord.bot_process import BotProcess
from tests.discord.test_wire import BOARD, KERNEL, SUBMIT

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _submitted(sim: Simulator, channel: str) -> tuple[UserAction, dict[str, Any]]:
    """A submission as far as the menu's answer."""
    ada = sim.person("ada")
    doing = await ada.slash(channel, SUBMIT, script=KERNEL, **BOARD)
    message = await doing.answered()
    await (await ada.select(message, ["H100"])).acknowledged()
    return doing, message


def _limited(sim: Simulator) -> int:
    """How many edits were told to wait."""
    return sum(one.status == 429 for one in sim.record.of("update_message"))


async def _told(sim: Simulator, channel: str, said: str) -> None:
    _, message = await _submitted(sim, channel)
    await sim.record.until(lambda: said in message["content"], said, 30)


async def test_errors_and_limits_are_waited_out(sim: Simulator) -> None:
    channel, before = await sim.add_channel("submissions"), len(sim.record.calls)
    sim.faults.limit("create_thread", 0.2)
    sim.faults.limit("update_message", 0.1, scope="global")
    sim.faults.fail("add_thread_member", 500)
    await _told(sim, channel, "Done")
    calls = sim.record.calls[before:]
    statuses = [one.status for one in calls if one.operation == "create_thread"]
    assert statuses == [429, 201]
    assert [one.status for one in calls if one.operation == "add_thread_member"] == [500, 204]


async def test_missing_channel_permissions_are_refused(sim: Simulator) -> None:
    role = sim.guild.bot_role
    channel = await sim.add_channel("locked", deny={role: ("create_private_threads",)})
    await _told(sim, channel, "No thread: 50013")


async def test_there_are_a_thousand_threads_at_most(sim: Simulator) -> None:
    channel, crowd = await sim.add_channel("submissions"), await sim.add_channel("crowd")
    await sim.fill_with_threads(crowd, 1000)
    await _told(sim, channel, "No thread: 160006")
    await sim.delete_channel(crowd)
    await _told(sim, channel, "Done")


@pytest.mark.parametrize(("how", "code"), [("deleted", 10003), ("locked", 50083)])
async def test_a_thread_may_be_deleted_while_in_use(sim: Simulator, how: str, code: int) -> None:
    channel = await sim.add_channel("submissions")
    # While this waits, a moderator comes.
    sim.faults.limit("update_message", 0.5)
    seen = _limited(sim)
    _, message = await _submitted(sim, channel)
    await sim.record.until(lambda: _limited(sim) > seen, "an edit that waits")
    thread = next(one for one in sim.guild.threads() if one["parent_id"] == channel)
    if how == "deleted":
        await sim.delete_channel(thread["id"])
    else:
        await sim.archive(thread["id"], is_locked=True)
    await sim.record.until(lambda: f"No thread: {code}" in message["content"], "what is said")


@pytest.mark.parametrize("how", ["drop", "op 7", "op 9"])
async def test_a_lost_connection_is_resumed(sim: Simulator, how: str) -> None:
    identified, resumed = sim.gateway.identified, sim.gateway.resumed
    if how == "drop":
        await sim.gateway.drop()
    elif how == "op 7":
        await sim.gateway.ask_to_reconnect()
    else:
        await sim.gateway.invalidate(is_resumable=True)
    await sim.record.until(lambda: sim.gateway.resumed > resumed, "a RESUME", 30)
    assert sim.gateway.identified == identified


async def test_missed_events_are_replayed_after_a_resume(sim: Simulator) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    before = len(sim.gateway.replayed)
    connections = [one.connection for one in sim.gateway.sessions.values() if one.connection]
    await sim.gateway.cut()
    doing = await ada.slash(channel, "leaderboard show", **BOARD)
    for one in connections:
        await one.close(4000)
    await doing.answered()
    assert "INTERACTION_CREATE" in sim.gateway.replayed[before:]


@pytest.mark.long
async def test_an_unanswered_heartbeat_reconnects(validators: Validators, tmp_path: Path) -> None:
    async with Simulator(validators) as sim:
        sim.gateway.heartbeat_s = 0.5
        bot = BotProcess(sim, tmp_path / "log.txt")
        try:
            await bot.ready(BOT_HEARTBEAT_S_MAX="3")
            sim.gateway.is_deaf = True
            await sim.record.until(lambda: sim.gateway.resumed, "a RESUME", 60)
        finally:
            await bot.stop()
        assert sim.gateway.identified == 1


@pytest.mark.long
async def test_an_invalidated_session_is_started_again(sim: Simulator) -> None:
    identified = sim.gateway.identified
    await sim.gateway.invalidate()
    await sim.record.until(lambda: sim.gateway.identified > identified, "an IDENTIFY", 60)


@pytest.mark.long
async def test_the_bot_outlives_an_outage_of_everything(
    sim: Simulator, bot_process: BotProcess
) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    await sim.outage()
    await sim.record.until(lambda: not sim.gateway.is_connected, "silence")
    sim.recover()
    await sim.record.until(lambda: sim.gateway.is_connected, "a bot that is back", 60)
    await (await ada.slash(channel, "leaderboard show", **BOARD)).answered()
    assert bot_process.process is not None
    assert bot_process.process.returncode is None


@pytest.mark.long
async def test_a_killed_bot_misses_events_and_reconnects(
    sim: Simulator, bot_process: BotProcess
) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    await bot_process.kill()
    await sim.record.until(lambda: not sim.gateway.is_connected, "silence")
    doing = await ada.slash(channel, "leaderboard show", **BOARD)
    sim.clock.turn(3)
    with pytest.raises(AssertionError, match="did not respond"):
        await doing.acknowledged()
    await bot_process.ready()
    await (await ada.slash(channel, "leaderboard show", **BOARD)).answered()


async def test_nothing_is_sent_to_a_disconnected_bot(validators: Validators) -> None:
    async with Simulator(validators) as sim:
        sim.commands[None] = [
            {"id": "1", "name": "ping", "type": 1, "default_member_permissions": None}
        ]
        ada, channel = sim.person("ada"), await sim.add_channel("general")
        doing = await ada.slash(channel, "ping")
        with pytest.raises(AssertionError, match="did not respond"):
            await doing.acknowledged()
        assert not sim.record.violations
