"""What would be done twice, or not at all, if the bot did not look: it is done once."""

from typing import Any

import pytest

from discord_edge.postgres import SCHEMA, PostgresErrands, PostgresLedger
from discord_edge.service.ports import User
from discord_edge.service.public import Begun
from discord_edge.service.sets import Errand
from discord_sim.cdn import Blob
from discord_sim.parts import NONCE_S
from discord_sim.simulator import Simulator
from shared.postgres import pool
from shared.testing import eventually
from tests.discord.platform import (
    BOARD,
    END_S,
    KERNEL,
    Whole,
    known,
    reported,
    thread_of,
)
from tests.discord.sending import TEST, submitted, told_once
from tests.support.repository import REPOSITORY

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="session"),
]

LONG = Blob("kernel.py", "text/x-python", b"import time\ntime.sleep(60)\n" + KERNEL.data)


async def test_who_asks_is_answered_though_every_first_answer_is_lost(town: Simulator) -> None:
    ada, channel = town.person("cut"), await town.add_channel("cut")
    await known(ada, channel)
    for operation in ("create_interaction_response", "update_original_webhook_message"):
        town.faults.lose(operation)
    assert "There" in (await (await ada.slash(channel, "ping")).answered())["content"]
    message = await (await ada.slash(channel, TEST, script=KERNEL, **BOARD)).answered()
    town.faults.lose("create_interaction_response")
    await (await ada.select(message, ["CPU"])).acknowledged()
    await told_once(town, ada, channel)
    # To ask again is to be told that it was answered.
    assert all(" 40060 " in one for one in town.record.take_violations())


@pytest.mark.parametrize("what", ["the thread", "where it is", "the report"])
async def test_a_kill_before_an_id_is_kept_repeats_nothing(
    whole: Whole, town: Simulator, what: str
) -> None:
    operation = "create_thread" if what == "the thread" else "create_message"
    town.nonce_s = 0
    try:
        if what != "the report":
            town.faults.lose(operation)
        before = len(town.record.of(operation))
        person, channel, _ = await submitted(town, f"killed-at-{what.replace(' ', '-')}")
        if what == "the report":
            room = await thread_of(town, person, channel)
            await town.record.until(lambda: person.sees(room), "the status", END_S)
            before = len(town.record.of(operation))
            town.faults.lose(operation)
        await town.record.until(lambda: len(town.record.of(operation)) > before, what, END_S)
        await whole.kill()
        await whole.start()
        await told_once(town, person, channel)
    finally:
        town.nonce_s = NONCE_S


async def test_a_thread_that_nobody_told_of_is_not_opened_twice(town: Simulator) -> None:
    person, channel = town.person("untold"), await town.add_channel("untold")
    await known(person, channel)
    town.faults.lose("create_thread")
    doing = await person.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    connections = [one.connection for one in town.gateway.sessions.values() if one.connection]
    await doing.acknowledged()
    await town.gateway.cut()
    try:
        room = await thread_of(town, person, channel)
        await town.record.until(lambda: person.sees(room), "the status", END_S)
    finally:
        for one in connections:
            await one.close(4000)
    await told_once(town, person, channel)


async def test_what_others_say_is_not_taken_for_the_bots(town: Simulator) -> None:
    person, channel, _ = await submitted(town, "mimic")
    room = await thread_of(town, person, channel)
    [status] = await town.record.until(lambda: person.sees(room), "the status", END_S)
    number = status["content"].split("#")[1].split("*")[0]
    title = f"#{number} identity on CPU"
    await town.write(person.id, room, {"embeds": [{"title": title}]})

    def by_the_bot() -> list[Any]:
        said = [one for one in person.sees(room) if one["author"]["id"] == town.guild.bot_id]
        return [one for one in said if one["embeds"] and one["embeds"][0]["title"] == title]

    await town.record.until(by_the_bot, "a report", END_S)


async def test_a_press_whose_acknowledgement_is_lost_cancels_all_the_same(town: Simulator) -> None:
    person, channel, _ = await submitted(town, "unacknowledged", LONG)
    room = await thread_of(town, person, channel)
    [status] = await town.record.until(lambda: person.sees(room), "the status", END_S)
    town.faults.lose("create_interaction_response", times=2)
    await person.click(status, "Cancel")
    status, _ = await reported(town, person, room)
    assert "cancelled" in status["content"]
    assert all(" 40060 " in one for one in town.record.take_violations())


async def test_what_was_agreed_to_long_ago_is_not_published_by_who_comes_back(
    whole: Whole, town: Simulator
) -> None:
    person = town.person("long-ago")
    await whole.stop()
    async with pool(whole.dsn, 1, 1, SCHEMA) as connections:
        errands, said = PostgresErrands(connections), {"repository": REPOSITORY, "branch": "main"}
        user = User(int(person.id), "long-ago", ("admin",))
        await errands.begin(Errand("long-ago", user, "1", said, {"old": 0}))
        async with connections.connection() as connection:
            await connection.execute("update errand set began_at = now() - interval '1 day'")
        await whole.start()
        [letter] = await town.record.until(person.letters, "a letter", END_S)
        why = "The bot was away for too long: 0 of 1 published. The same command goes on."
        assert letter["content"].endswith(why)

        async def is_over() -> bool:
            return not await errands.open()

        await eventually(is_over, END_S)


async def test_who_may_not_read_what_was_said_tells_it_once_all_the_same(town: Simulator) -> None:
    deny = {town.guild.bot_role: ("read_message_history",)}
    channel = await town.add_channel("forgetful", deny=deny)
    person, channel, _ = await submitted(town, "forgetful", KERNEL, channel)
    await told_once(town, person, channel)


async def test_what_was_begun_and_came_to_nothing_is_kept_for_a_month(whole: Whole) -> None:
    async with pool(whole.dsn, 1, 1, SCHEMA) as connections:
        ledger = PostgresLedger(connections)
        for name in ("refused", "waiting"):
            await ledger.begin(name, "1", Begun(name, "0"))
        async with connections.connection() as connection:
            old = "update begun set at = now() - interval '31 days' where name = 'refused'"
            await connection.execute(old)
        await ledger.keep("another", "1")
        assert await ledger.begun("refused", "1") is None
        assert await ledger.begun("waiting", "1") == Begun("waiting", "0")
        await ledger.keep("waiting", "1")
