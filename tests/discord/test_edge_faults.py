"""What goes wrong at Discord while the real bot tells of a submission: it is told, and once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from discord_edge.settings import PREFIX
from discord_sim.cdn import Blob
from discord_sim.gateway.intents import GUILDS
from discord_sim.people.person import Person as Member
from discord_sim.simulator import Simulator
from shared.testing import eventually
from tests.discord.platform import BOARD, END_S, KERNEL, Whole, known, reported, thread_of
from tests.discord.running import BotProcess
from tests.discord.sending import TEST, submitted, told_once

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]

LOUD = Blob(
    "kernel.py",
    "text/x-python",
    b"print('``` @everyone <@&1> ' * 50_000)\nraise RuntimeError('```\\n@everyone')\n",
)
# What a bot is told to wait for longer than the interaction's quarter of an hour.
LATER_S = 16 * 60.0


async def lettered(sim: Simulator, person: Member) -> Any:
    """The report that came as a letter, the only one."""

    def reports() -> list[Any]:
        return [one for one in person.letters() if one["embeds"]]

    await sim.record.until(reports, "a letter", END_S)
    [report] = reports()
    return report


async def test_limits_errors_and_lost_answers_repeat_nothing(town: Simulator) -> None:
    faults, before = town.faults, len(town.record.calls)
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
    person, channel, _ = await submitted(town, "limited")
    await told_once(town, person, channel)
    met = {(one.operation, one.status) for one in town.record.calls[before:]}
    expected = {"create_thread": 429, "add_thread_member": 500, "create_message": 429}
    assert expected.items() <= met
    assert ("create_message", 500) in met


async def test_what_was_sent_together_has_one_thread_however_late(town: Simulator) -> None:
    person, channel = town.person("together"), await town.add_channel("together")
    await known(person, channel)
    # One more than the library tries by itself.
    town.faults.fail("create_thread", 500, times=6)
    await person.slash(channel, TEST, script=KERNEL, gpu="CPU,H100", **BOARD)
    room = await thread_of(town, person, channel)

    def both() -> bool:
        said = " ".join(one["content"] for one in person.sees(room))
        return "· CPU" in said and "· H100" in said

    await town.record.until(both, "where both are", END_S)
    assert len(person.threads(channel)) == 1


async def test_a_token_that_is_no_good_for_a_while_ends_nothing(
    whole: Whole, town: Simulator
) -> None:
    person, channel, _ = await submitted(town, "untrusted")
    await thread_of(town, person, channel)
    town.faults.fail("create_message", 401, times=4)
    await told_once(town, person, channel)
    assert whole.bot.process is not None
    assert whole.bot.process.returncode is None


async def test_a_quarter_of_an_hour_later_the_thread_goes_on(town: Simulator) -> None:
    person, channel, doing = await submitted(town, "patient")
    before = len(town.record.calls)
    message = await doing.answered()
    await thread_of(town, person, channel)
    town.clock.turn(LATER_S)
    said = message["content"]
    await told_once(town, person, channel)
    # The token is over: what it had answered stays, and nobody is told of an error.
    assert message["content"] == said
    statuses = {one.status for one in town.record.calls[before:] if "webhook" in one.operation}
    assert statuses <= {200, 401}


@pytest.mark.parametrize("how", ["drop", "op 7", "op 9", "op 9 for good"])
async def test_a_lost_connection_comes_back_by_itself(town: Simulator, how: str) -> None:
    gateway = town.gateway
    person, channel, _ = await submitted(town, f"lost-{how.replace(' ', '-')}")
    identified, resumed = gateway.identified, gateway.resumed
    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "drop": gateway.drop,
        "op 7": gateway.ask_to_reconnect,
        "op 9": lambda: gateway.invalidate(is_resumable=True),
        "op 9 for good": gateway.invalidate,
    }
    await ways[how]()
    if how == "op 9 for good":
        await town.record.until(lambda: gateway.identified > identified, "an IDENTIFY", END_S)
    else:
        await town.record.until(lambda: gateway.resumed > resumed, "a RESUME", END_S)
        assert gateway.identified == identified
    await told_once(town, person, channel)
    doing = await person.slash(channel, "ping")
    assert "There" in (await doing.answered())["content"]
    assert {one.intents for one in gateway.sessions.values()} == {GUILDS}


async def test_a_command_during_a_drop_is_answered_after_it(town: Simulator) -> None:
    ada, channel = town.person("dropped"), await town.add_channel("dropped")
    await known(ada, channel)
    before = len(town.gateway.replayed)
    connections = [one.connection for one in town.gateway.sessions.values() if one.connection]
    await town.gateway.cut()
    doing = await ada.slash(channel, "leaderboard list")
    for one in connections:
        await one.close(4000)
    assert (await doing.answered())["embeds"]
    assert "INTERACTION_CREATE" in town.gateway.replayed[before:]


async def test_a_heart_that_nobody_answers_starts_anew(town: Simulator) -> None:
    gateway = town.gateway
    every_s, gateway.heartbeat_s = gateway.heartbeat_s, 5.0
    try:
        resumed = gateway.resumed
        await gateway.drop()
        await town.record.until(lambda: gateway.resumed > resumed, "a RESUME", END_S)
        gateway.is_deaf, resumed = True, gateway.resumed
        await town.record.until(lambda: gateway.resumed > resumed, "a RESUME", 150)
    finally:
        gateway.heartbeat_s, gateway.is_deaf = every_s, False
    ada, channel = town.person("hearty"), await town.add_channel("hearty")
    assert "There" in (await (await ada.slash(channel, "ping")).answered())["content"]
    await gateway.drop()


@pytest.mark.parametrize("is_locked", [False, True])
async def test_an_archived_thread_is_written_in_and_a_locked_one_left(
    town: Simulator, is_locked: bool
) -> None:
    person, channel, _ = await submitted(town, f"archived-{is_locked}")
    room = await thread_of(town, person, channel)
    await town.record.until(lambda: person.sees(room), "the status", END_S)
    await town.archive(room, is_locked=is_locked)
    if is_locked:
        report = await lettered(town, person)
        assert "identity on CPU" in report["embeds"][0]["title"]
        assert len(person.sees(room)) == 1
    else:
        await told_once(town, person, channel)


async def test_where_no_thread_can_be_opened_a_letter_is_sent(town: Simulator) -> None:
    role, crowd = town.guild.bot_role, await town.add_channel("crowd")
    channel = await town.add_channel("forbidden", deny={role: ("create_private_threads",)})
    person, _, doing = await submitted(town, "forbidden", KERNEL, channel)
    assert (await lettered(town, person))["embeds"]
    message = await doing.answered()
    await town.record.until(lambda: "passed" in message["content"], "the last words", END_S)
    await town.fill_with_threads(crowd, 1000)
    try:
        person, channel, _ = await submitted(town, "crowded", KERNEL)
        assert (await lettered(town, person))["embeds"]
        assert not person.threads(channel)
    finally:
        await town.delete_channel(crowd)


async def test_who_takes_no_letters_reads_the_answer_alone(town: Simulator) -> None:
    role = town.guild.bot_role
    channel = await town.add_channel("closed", deny={role: ("create_private_threads",)})
    person = town.person("closed")
    town.closed_doors.add(person.id)
    await known(person, channel)
    doing = await person.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    message = await doing.answered()
    await town.record.until(lambda: "passed" in message["content"], "the last words", END_S)
    assert not person.letters()


async def test_a_megabyte_of_hostile_words_harms_nobody(town: Simulator) -> None:
    person, channel, _ = await submitted(town, "loud", LOUD)
    room = await thread_of(town, person, channel)
    status, report = await reported(town, person, room)
    assert "passed" not in status["content"]
    for one in person.sees(room):
        assert not one["mention_everyone"]
        assert not one["mentions"]
        assert not one["mention_roles"]
    assert report["embeds"][0]["description"].count("```") % 2 == 0


async def test_a_gateway_that_is_away_at_the_start_is_waited_for(
    whole: Whole, town: Simulator
) -> None:
    await whole.stop()
    town.gateway.is_down = True
    before = len(town.record.calls)
    starting = asyncio.create_task(whole.start())
    try:
        await eventually(lambda: "gateway does not answer" in whole.log.read_text(), END_S)
    finally:
        town.gateway.is_down = False
    await asyncio.wait_for(starting, END_S)
    # It came in once, and waited: a process that ended would have begun anew.
    calls = [one.operation for one in town.record.calls[before:]]
    assert calls.count("get_my_user") == 1


async def test_what_discord_refuses_for_good_is_said_and_not_asked_again(
    whole: Whole, town: Simulator, tmp_path: Path
) -> None:
    before = len(town.record.calls)
    wrong = BotProcess(town, tmp_path / "wrong.log", "discord_edge")
    await wrong.start(**{**whole.told(), f"{PREFIX}_TOKEN": "wrong"})
    try:
        await eventually(lambda: "Discord does not know the token" in log_of(wrong), END_S)
        assert f"{PREFIX}_TOKEN" in log_of(wrong)
        assert "wrong" not in log_of(wrong).replace("wrong.log", "")
        assert wrong.process is not None
        # Whoever starts it again at once would ask Discord again and again.
        assert wrong.process.returncode is None
        # The bot that is right may still tell of what was submitted before.
        refused = [one for one in town.record.calls[before:] if one.status == 401]
        assert len(refused) == 1
    finally:
        await wrong.stop()
    assert wrong.process.returncode == 0


def log_of(bot: BotProcess) -> str:
    """What a process said so far."""
    return bot.log.read_text()
