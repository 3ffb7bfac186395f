"""What would be done twice, or not at all, if the bot did not look: it is done once."""

import asyncio
from typing import Any

import pytest

from discord_edge.notifications.postgres import PendingMessage, PostgresLedger
from discord_edge.postgres import SCHEMA
from discord_sim.simulator import Simulator
from discord_sim.state import NONCE_S
from shared.postgres import create_pool
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


async def test_users_are_answered_although_every_first_response_is_lost(
    edge_sim: Simulator,
) -> None:
    ada, channel = edge_sim.person("cut"), await edge_sim.add_channel("cut")
    await wait_until_known(ada, channel)
    for operation in ("create_interaction_response", "update_original_webhook_message"):
        edge_sim.faults.lose(operation)
    assert "Pong" in (await (await ada.slash(channel, "ping")).answered())["content"]
    message = await (await ada.slash(channel, TEST, script=KERNEL, **BOARD)).answered()
    edge_sim.faults.lose("create_interaction_response")
    await (await ada.select(message, ["CPU"])).acknowledged()
    await check_reported_once(edge_sim, ada, channel)
    # To ask again is to be told that it was answered.
    assert all(" 40060 " in one for one in edge_sim.record.take_violations())


@pytest.mark.parametrize("what", ["the thread", "where it is", "the report"])
async def test_a_kill_before_an_id_is_stored_repeats_nothing(
    edge_platform: EdgePlatform, edge_sim: Simulator, what: str
) -> None:
    operation = "create_thread" if what == "the thread" else "create_message"
    edge_sim.nonce_s = 0
    try:
        if what != "the report":
            edge_sim.faults.lose(operation)
        before = len(edge_sim.record.of(operation))
        person, channel, _ = await submit_as_new_user(
            edge_sim, f"killed-at-{what.replace(' ', '-')}"
        )
        if what == "the report":
            room = await newest_thread(edge_sim, person, channel)
            await edge_sim.record.until(lambda: person.sees(room), "the status", END_S)
            before = len(edge_sim.record.of(operation))
            edge_sim.faults.lose(operation)
        await edge_sim.record.until(
            lambda: len(edge_sim.record.of(operation)) > before, what, END_S
        )
        await edge_platform.kill()
        await edge_platform.start()
        await check_reported_once(edge_sim, person, channel)
    finally:
        edge_sim.nonce_s = NONCE_S


async def test_a_thread_whose_event_was_lost_is_not_opened_twice(edge_sim: Simulator) -> None:
    person, channel = edge_sim.person("untold"), await edge_sim.add_channel("untold")
    await wait_until_known(person, channel)
    edge_sim.faults.lose("create_thread")
    doing = await person.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    connections = [one.connection for one in edge_sim.gateway.sessions.values() if one.connection]
    await doing.acknowledged()
    await edge_sim.gateway.cut()
    try:
        room = await newest_thread(edge_sim, person, channel)
        await edge_sim.record.until(lambda: person.sees(room), "the status", END_S)
    finally:
        for one in connections:
            await one.close(4000)
    await check_reported_once(edge_sim, person, channel)


async def test_messages_of_others_are_not_taken_for_the_bots(edge_sim: Simulator) -> None:
    person, channel, _ = await submit_as_new_user(edge_sim, "mimic")
    room = await newest_thread(edge_sim, person, channel)
    [status] = await edge_sim.record.until(lambda: person.sees(room), "the status", END_S)
    number = status["content"].split("#")[1].split("*")[0]
    title = f"#{number} identity on CPU"
    await edge_sim.write(person.id, room, {"embeds": [{"title": title}]})

    def by_the_bot() -> list[Any]:
        said = [one for one in person.sees(room) if one["author"]["id"] == edge_sim.guild.bot_id]
        return [one for one in said if one["embeds"] and one["embeds"][0]["title"] == title]

    await edge_sim.record.until(by_the_bot, "a report", END_S)


async def test_a_button_works_although_its_acknowledgement_is_lost(
    edge_sim: Simulator,
) -> None:
    person, channel = edge_sim.person("unacknowledged"), await edge_sim.add_channel("lost")
    await wait_until_known(person, channel)
    # No agent has this GPU type, so the submission waits until it is cancelled.
    message = await (
        await person.slash(channel, TEST, script=KERNEL, gpu="H100", **BOARD)
    ).answered()
    await person.click(message, "Submit anyway")
    room = await newest_thread(edge_sim, person, channel)
    [status] = await edge_sim.record.until(lambda: person.sees(room), "the status", END_S)
    edge_sim.faults.lose("create_interaction_response", times=2)
    await person.click(status, "Cancel")
    status, _ = await wait_for_report(edge_sim, person, room)
    assert "cancelled" in status["content"]
    assert all(" 40060 " in one for one in edge_sim.record.take_violations())


async def test_a_start_waits_for_the_gateway(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    await edge_platform.stop()
    edge_sim.gateway.is_down = True
    before, waits = len(edge_sim.record.calls), "gateway does not answer"
    waits_before = edge_platform.log.read_text().count(waits)
    starting = asyncio.create_task(edge_platform.start())
    try:
        await eventually(lambda: edge_platform.log.read_text().count(waits) > waits_before, END_S)
    finally:
        edge_sim.gateway.is_down = False
    await asyncio.wait_for(starting, END_S)
    # It logged in once and waited; a process that ended would have logged in again.
    calls = [one.operation for one in edge_sim.record.calls[before:]]
    assert calls.count("get_my_user") == 1


async def test_messages_are_sent_once_without_access_to_the_history(
    edge_sim: Simulator,
) -> None:
    deny = {edge_sim.guild.bot_role: ("read_message_history",)}
    channel = await edge_sim.add_channel("forgetful", deny=deny)
    person, channel, _ = await submit_as_new_user(edge_sim, "forgetful", KERNEL, channel)
    await check_reported_once(edge_sim, person, channel)


async def test_unsent_messages_are_deleted_after_a_month(
    edge_platform: EdgePlatform,
) -> None:
    async with create_pool(edge_platform.dsn, 1, 1, SCHEMA) as connections:
        ledger = PostgresLedger(connections)
        for name in ("refused", "waiting"):
            await ledger.save_pending_message(name, "1", PendingMessage(name, "0"))
        async with connections.connection() as connection:
            old = "update begun set at = now() - interval '31 days' where name = 'refused'"
            await connection.execute(old)
        await ledger.keep("another", "1")
        assert await ledger.pending_message("refused", "1") is None
        assert await ledger.pending_message("waiting", "1") == PendingMessage("waiting", "0")
        await ledger.keep("waiting", "1")
