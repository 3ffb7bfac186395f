"""What goes wrong at Discord while the real bot tells of a submission: it is told, and once."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from discord_edge.settings import PREFIX
from discord_sim.cdn import FileUpload
from discord_sim.gateway import GUILDS, Gateway
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from tests.discord.bot_process import BotProcess
from tests.discord.platform import (
    BOARD,
    EDGE_MARKS,
    END_S,
    KERNEL,
    EdgePlatform,
    newest_thread,
    wait_for_report,
    wait_until_known,
)
from tests.discord.submitting import TEST, check_reported_once, submit_as_new_user
from tests.support.waits import eventually

pytestmark = EDGE_MARKS

LOUD = FileUpload(
    "kernel.py",
    "text/x-python",
    b"print('``` @everyone <@&1> ' * 50_000)\nraise RuntimeError('```\\n@everyone')\n",
)
# What a bot is told to wait for longer than the interaction's quarter of an hour.
LATER_S = 16 * 60.0


async def find_direct_report(sim: Simulator, person: Member) -> Any:
    """Return the only report that was sent by direct message."""

    def reports() -> list[Any]:
        return [one for one in person.letters() if one["embeds"]]

    await sim.record.until(reports, "a letter", END_S)
    [report] = reports()
    return report


async def test_limits_errors_and_lost_answers_repeat_nothing(edge_sim: Simulator) -> None:
    faults, before = edge_sim.faults, len(edge_sim.record.calls)
    faults.limit("create_thread", 0.3)
    faults.lose("create_thread")
    faults.fail("add_thread_member", 500)
    # discord.py tries that one no second time, so the thread is there without its person.
    faults.fail("add_thread_member", 503)
    faults.lose("add_thread_member")
    faults.limit("create_message", 0.2, scope="global")
    faults.limit("create_message", 0.2, scope="user")
    faults.fail("create_message", 500)
    faults.lose("create_message")
    faults.fail("update_message", 503, times=2)
    person, channel, _ = await submit_as_new_user(edge_sim, "limited")
    await check_reported_once(edge_sim, person, channel)
    met = {(one.operation, one.status) for one in edge_sim.record.calls[before:]}
    expected = {"create_thread": 429, "add_thread_member": 500, "create_message": 429}
    assert expected.items() <= met
    assert ("create_message", 500) in met


async def test_submissions_of_one_command_share_a_thread_opened_late(edge_sim: Simulator) -> None:
    person, channel = edge_sim.person("together"), await edge_sim.add_channel("together")
    await wait_until_known(person, channel)
    # One more than the library tries by itself.
    edge_sim.faults.fail("create_thread", 500, times=6)
    message = await (
        await person.slash(channel, TEST, script=KERNEL, gpu="CPU,H100", **BOARD)
    ).answered()
    await person.click(message, "Submit anyway")
    room = await newest_thread(edge_sim, person, channel)

    def both() -> bool:
        said = " ".join(one["content"] for one in person.sees(room))
        return "· CPU" in said and "· H100" in said

    await edge_sim.record.until(both, "where both are", END_S)
    assert len(person.threads(channel)) == 1


async def test_a_token_that_is_briefly_invalid_ends_nothing(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    person, channel, _ = await submit_as_new_user(edge_sim, "untrusted")
    await newest_thread(edge_sim, person, channel)
    edge_sim.faults.fail("create_message", 401, times=4)
    await check_reported_once(edge_sim, person, channel)
    assert edge_platform.bot.process is not None
    assert edge_platform.bot.process.returncode is None


async def test_the_thread_continues_after_the_interaction_expires(edge_sim: Simulator) -> None:
    person, channel, doing = await submit_as_new_user(edge_sim, "patient")
    before = len(edge_sim.record.calls)
    message = await doing.answered()
    await newest_thread(edge_sim, person, channel)
    edge_sim.clock.turn(LATER_S)
    said = message["content"]
    await check_reported_once(edge_sim, person, channel)
    # The token is over: what it had answered stays, and nobody is told of an error.
    assert message["content"] == said
    statuses = {one.status for one in edge_sim.record.calls[before:] if "webhook" in one.operation}
    assert statuses <= {200, 401}


async def test_a_lost_connection_is_restored(edge_sim: Simulator) -> None:
    gateway = edge_sim.gateway
    person, channel, _ = await submit_as_new_user(edge_sim, "lost")
    identified = gateway.identified
    ways: tuple[Callable[[], Awaitable[None]], ...] = (
        gateway.drop,
        gateway.ask_to_reconnect,
        lambda: gateway.invalidate(is_resumable=True),
    )
    for lose in ways:
        resumed = gateway.resumed
        await lose()
        await edge_sim.record.until(partial(is_resumed_since, gateway, resumed), "a RESUME", END_S)
        assert gateway.identified == identified
    await gateway.invalidate()
    await edge_sim.record.until(lambda: gateway.identified > identified, "an IDENTIFY", END_S)
    await check_reported_once(edge_sim, person, channel)
    doing = await person.slash(channel, "ping")
    assert "Pong" in (await doing.answered())["content"]
    assert {one.intents for one in gateway.sessions.values()} == {GUILDS}


def is_resumed_since(gateway: Gateway, resumed: int) -> bool:
    """Return whether the bot has resumed its session more often than so."""
    return gateway.resumed > resumed


async def test_a_command_during_a_drop_is_answered_after_it(edge_sim: Simulator) -> None:
    ada, channel = edge_sim.person("dropped"), await edge_sim.add_channel("dropped")
    await wait_until_known(ada, channel)
    before = len(edge_sim.gateway.replayed)
    connections = [one.connection for one in edge_sim.gateway.sessions.values() if one.connection]
    await edge_sim.gateway.cut()
    doing = await ada.slash(channel, "leaderboard list")
    for one in connections:
        await one.close(4000)
    assert (await doing.answered())["embeds"]
    assert "INTERACTION_CREATE" in edge_sim.gateway.replayed[before:]


@pytest.mark.parametrize("is_locked", [False, True])
async def test_an_archived_thread_is_written_in_and_a_locked_one_left(
    edge_sim: Simulator, is_locked: bool
) -> None:
    person, channel, _ = await submit_as_new_user(edge_sim, f"archived-{is_locked}")
    room = await newest_thread(edge_sim, person, channel)
    await edge_sim.record.until(lambda: person.sees(room), "the status", END_S)
    await edge_sim.archive(room, is_locked=is_locked)
    if is_locked:
        report = await find_direct_report(edge_sim, person)
        assert "identity on CPU" in report["embeds"][0]["title"]
        assert len(person.sees(room)) == 1
    else:
        await check_reported_once(edge_sim, person, channel)


async def test_a_direct_message_replaces_a_thread_that_cannot_be_opened(
    edge_sim: Simulator,
) -> None:
    role, crowd = edge_sim.guild.bot_role, await edge_sim.add_channel("crowd")
    channel = await edge_sim.add_channel("forbidden", deny={role: ("create_private_threads",)})
    person, _, doing = await submit_as_new_user(edge_sim, "forbidden", KERNEL, channel)
    assert (await find_direct_report(edge_sim, person))["embeds"]
    message = await doing.answered()
    await edge_sim.record.until(lambda: "passed" in message["content"], "the last words", END_S)
    await edge_sim.fill_with_threads(crowd, 1000)
    try:
        person, channel, _ = await submit_as_new_user(edge_sim, "crowded", KERNEL)
        assert (await find_direct_report(edge_sim, person))["embeds"]
        assert not person.threads(channel)
    finally:
        await edge_sim.delete_channel(crowd)


async def test_a_user_without_direct_messages_reads_the_answer(edge_sim: Simulator) -> None:
    role = edge_sim.guild.bot_role
    channel = await edge_sim.add_channel("closed", deny={role: ("create_private_threads",)})
    person = edge_sim.person("closed")
    edge_sim.closed_doors.add(person.id)
    await wait_until_known(person, channel)
    doing = await person.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    message = await doing.answered()
    await edge_sim.record.until(lambda: "passed" in message["content"], "the last words", END_S)
    assert not person.letters()


async def test_a_megabyte_of_hostile_output_harms_nobody(edge_sim: Simulator) -> None:
    person, channel, _ = await submit_as_new_user(edge_sim, "loud", LOUD)
    room = await newest_thread(edge_sim, person, channel)
    status, report = await wait_for_report(edge_sim, person, room)
    assert "passed" not in status["content"]
    for one in person.sees(room):
        assert not one["mention_everyone"]
        assert not one["mentions"]
        assert not one["mention_roles"]
    assert report["embeds"][0]["description"].count("```") % 2 == 0


async def test_a_permanent_refusal_is_reported_and_not_retried(
    edge_platform: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    before = len(edge_sim.record.calls)
    wrong = BotProcess(edge_sim, tmp_path / "wrong.log", "discord_edge")
    await wrong.start(**{**edge_platform.told(), f"{PREFIX}_TOKEN": "wrong"})
    try:
        await eventually(lambda: "Discord does not know the token" in log_of(wrong), END_S)
        assert f"{PREFIX}_TOKEN" in log_of(wrong)
        assert "wrong" not in log_of(wrong).replace("wrong.log", "")
        assert wrong.process is not None
        # Whoever starts it again at once would ask Discord again and again.
        assert wrong.process.returncode is None
        # The bot that is right may still tell of what was submitted before.
        refused = [one for one in edge_sim.record.calls[before:] if one.status == 401]
        assert len(refused) == 1
    finally:
        await wrong.stop()
    assert wrong.process.returncode == 0


def log_of(bot: BotProcess) -> str:
    """What a process said so far."""
    return bot.log.read_text()
