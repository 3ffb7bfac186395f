"""The real bot before the real platform: from a command on Discord to the row on a leaderboard."""

import asyncio
import re

import httpx
import pytest

from discord_edge.domain.wishes import Wish
from discord_edge.ingest_http import HttpApi
from discord_edge.postgres import SCHEMA, PostgresLedger, PostgresPosts
from discord_edge.service.ports import Post, Sent, User
from discord_edge.service.public import Moved
from discord_edge.service.sending import Sending
from discord_sim import shapes
from discord_sim.cdn import Blob
from discord_sim.simulator import Simulator
from shared.errors import Refused
from shared.postgres import pool
from shared.testing import eventually
from tests.discord.platform import (
    BOARD,
    END_S,
    KERNEL,
    RANKED,
    Whole,
    known,
    reported,
    thread_of,
)
from tests.support.people import Person

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]

HOSTILE = b"""
print("``` @everyone <@&1> " + "x" * 5000)
def custom_kernel(data):
    raise RuntimeError("```\\n@everyone **bold** \\u202e")
"""


async def test_a_ranked_file_goes_from_discord_to_the_leaderboard(town: Simulator) -> None:
    ada, bob = town.person("ada"), town.person("bob")
    channel = await town.add_channel("submissions")
    await known(ada, channel)
    doing = await ada.slash(channel, RANKED, script=KERNEL, gpu="cpu", **BOARD)
    await doing.acknowledged()
    assert doing.interaction.callback == 5
    assert doing.is_ephemeral
    room = await thread_of(town, ada, channel)
    assert not bob.threads(channel)
    status, report = await reported(town, ada, room)
    assert "score" in status["content"]
    assert "rank 1" in status["content"]
    assert "✅" in report["embeds"][0]["description"]
    assert not status["mentions"]
    [thread] = [one for one in ada.threads(channel) if one["id"] == room]
    assert thread["type"] == shapes.PRIVATE_THREAD
    assert re.match(r"#\d+ identity ranked CPU", thread["name"])
    message = await doing.answered()
    await town.record.until(lambda: "rank 1" in message["content"], "the last edit", END_S)
    shown = await (await bob.slash(channel, "leaderboard show", gpu="CPU", **BOARD)).answered()
    assert "ada" in shown["embeds"][0]["description"]
    mine = await (
        await ada.slash(channel, "leaderboard show-personal", gpu="CPU", **BOARD)
    ).answered()
    assert "kernel.py" in mine["embeds"][0]["description"]
    number = int(re.findall(r"#(\d+)", thread["name"])[0])
    whose = {"submission_id": number}
    path = "leaderboard get-submission"
    mine = await (await ada.slash(channel, path, **whose)).answered()
    assert town.cdn.data(mine["attachments"][-1]) == KERNEL.data
    others = await (await bob.slash(channel, path, **whose)).answered()
    unknown = await (await bob.slash(channel, path, submission_id=999999)).answered()
    assert (
        others["content"].replace(str(number), "N").rpartition("·")[0]
        == (unknown["content"].replace("999999", "N").rpartition("·")[0])
    )


async def test_what_cannot_be_submitted_is_refused_in_words(town: Simulator) -> None:
    ada, channel = town.person("ada2"), await town.add_channel("refusals")
    await known(ada, channel)
    says = {"data": b"#!POPCORN leaderboard other\n" + KERNEL.data}
    for script, given, said in (
        (Blob("kernel.txt", "text/plain", b"x"), BOARD, "must end in"),
        (Blob("kernel.py", "text/x-python", b"\xff\xfe"), BOARD, "not UTF-8"),
        (Blob("kernel.py", "text/x-python", b""), BOARD, "empty"),
        (Blob("kernel.py", "text/x-python", says["data"]), BOARD, "change one of them"),
        (KERNEL, {"leaderboard_name": "nothing"}, "Not done"),
        (KERNEL, {**BOARD, "gpu": "NONE"}, "not `NONE`"),
    ):
        doing = await ada.slash(channel, RANKED, script=script, **given)
        message = await doing.answered()
        assert said in message["content"]
        assert doing.is_ephemeral
        assert message["content"].rstrip("`").endswith(doing.interaction.id)
    assert not ada.threads(channel)


async def test_hostile_output_is_shown_and_harms_nobody(town: Simulator) -> None:
    eve, channel = town.person("eve"), await town.add_channel("hostile")
    await known(eve, channel)
    script = Blob("kernel.py", "text/x-python", HOSTILE)
    await eve.slash(channel, "leaderboard submit test", script=script, gpu="CPU", **BOARD)
    room = await thread_of(town, eve, channel)
    status, report = await reported(town, eve, room)
    body = report["embeds"][0]["description"]
    assert body.count("```") == 2
    assert "\u202e" not in body
    assert not status["mention_everyone"]
    assert not report["mention_everyone"]
    assert report["attachments"]


async def test_a_kill_in_between_posts_nothing_twice(whole: Whole, town: Simulator) -> None:
    ada, channel = town.person("ada3"), await town.add_channel("kills")
    await known(ada, channel)
    await ada.slash(channel, "leaderboard submit benchmark", script=KERNEL, gpu="CPU", **BOARD)
    room = await thread_of(town, ada, channel)
    await town.record.until(lambda: ada.sees(room), "the status", END_S)
    before = len(town.record.of("bulk_set_guild_application_commands"))
    await whole.kill()
    await whole.start()
    _, report = await reported(town, ada, room)
    assert "identity on CPU" in report["embeds"][0]["title"]
    assert len(ada.sees(room)) == 2
    assert len(ada.threads(channel)) == 1
    assert len(town.record.of("bulk_set_guild_application_commands")) == before


async def test_several_gpu_types_are_chosen_from_a_menu(town: Simulator) -> None:
    ada, bob = town.person("ada5"), town.person("bob5")
    channel = await town.add_channel("menus")
    await known(ada, channel)
    doing = await ada.slash(channel, "leaderboard submit test", script=KERNEL, **BOARD)
    message = await doing.answered()
    assert "Choose" in message["content"]
    [[menu]] = [one["components"] for one in message["components"]]
    forged = {"custom_id": menu["custom_id"], "component_type": 3, "values": ["CPU"]}
    told = await (await bob._use(message, forged)).answered()
    assert "only who asked for it" in told["content"]
    await (await ada.select(message, ["CPU"])).acknowledged()
    room = await thread_of(town, ada, channel)
    status, _ = await reported(town, ada, room)
    assert "passed" in status["content"]
    assert not message["components"]


async def test_a_deleted_thread_becomes_a_letter(town: Simulator) -> None:
    ada, channel = town.person("ada6"), await town.add_channel("deleted")
    await known(ada, channel)
    await ada.slash(channel, "leaderboard submit test", script=KERNEL, gpu="CPU", **BOARD)
    await town.delete_channel(await thread_of(town, ada, channel))
    letters = await town.record.until(
        lambda: [one for one in ada.letters() if one["embeds"]], "a letter", END_S
    )
    assert "identity on CPU" in letters[-1]["embeds"][0]["title"]


async def test_what_ends_while_discord_is_down_is_told_after(whole: Whole, town: Simulator) -> None:
    ada, channel = town.person("ada7"), await town.add_channel("outage")
    await known(ada, channel)
    await ada.slash(channel, "leaderboard submit test", script=KERNEL, gpu="CPU", **BOARD)
    room = await thread_of(town, ada, channel)
    number = int(re.findall(r"#(\d+)", ada.threads(channel)[0]["name"])[0])
    await town.outage()
    try:
        with Person(whole.running.url, "ada7", whole.running.operator) as seen:
            await asyncio.to_thread(seen.end, number)
    finally:
        town.recover()
    await reported(town, ada, room)
    assert len(ada.sees(room)) == 2
    await town.record.until(lambda: town.gateway.is_connected, "the edge is back", END_S)


async def test_what_a_killed_edge_had_sent_is_sent_again(whole: Whole, town: Simulator) -> None:
    ada, channel = town.person("ada12"), await town.add_channel("sent")
    await whole.stop()
    async with pool(whole.dsn, 1, 1, SCHEMA) as connections:
        wish = Wish("identity", "test", ("CPU",), "kernel.py", KERNEL.data)
        sent = Sent("a-key-of-a-kill", User(int(ada.id), "ada12"), channel, wish)
        await PostgresPosts(connections).want(sent)
        await whole.start()
        await reported(town, ada, await thread_of(town, ada, channel))
        assert not await PostgresPosts(connections).wanted()
    assert len(ada.threads(channel)) == 1


async def test_what_is_taken_in_late_is_followed_once_and_not_given_up(whole: Whole) -> None:
    keys, told = set(), []
    taken = {"submissions": [{"number": 2**40 + n, "gpu": gpu} for n, gpu in enumerate("AB")]}

    async def answers(request: httpx.Request) -> httpx.Response:
        keys.add(request.headers["Idempotency-Key"])
        return httpx.Response(200, json=taken)

    async def refused(sent: Sent, why: Refused) -> None:
        raise AssertionError(sent, why)

    async def follow(posts: list[Post]) -> None:
        told.extend(posts)

    wish = Wish("identity", "test", ("A", "B"), "kernel.py", KERNEL.data)
    transport = httpx.MockTransport(answers)
    async with (
        pool(whole.dsn, 2, 2, SCHEMA) as connections,
        httpx.AsyncClient(transport=transport, base_url="http://platform") as client,
    ):
        posts = PostgresPosts(connections)
        sending = Sending(HttpApi(client), posts, follow, refused, send_s_max=0.2)
        async with connections.connection() as locked, locked.transaction():
            # Ingest has it, and the table does not take its numbers yet.
            await locked.execute("lock table post in exclusive mode")
            assert await sending.send(Sent("a-late-key", User(1), "2", wish)) is None
        await eventually(lambda: len(told) == 2, END_S)
        assert keys == {"a-late-key"}
        assert [one.number for one in await posts.group(2**40)] == [2**40, 2**40 + 1]
        assert not await posts.wanted()
        for post in told:
            await posts.keep(post.number, "ended", "a test")


async def test_what_is_refused_late_is_kept_until_it_is_told(whole: Whole) -> None:
    held, telling = asyncio.Event(), asyncio.Event()

    async def answers(_: httpx.Request) -> httpx.Response:
        await held.wait()
        return httpx.Response(409, json={"code": "closed", "detail": "it is over"})

    async def told(_: Sent, __: Refused) -> None:
        if telling.is_set():
            return
        telling.set()
        await asyncio.Event().wait()

    async def follow(posts: list[Post]) -> None:
        raise AssertionError(posts)

    wish = Wish("identity", "test", ("A",), "kernel.py", KERNEL.data)
    transport = httpx.MockTransport(answers)
    async with (
        pool(whole.dsn, 1, 1, SCHEMA) as connections,
        httpx.AsyncClient(transport=transport, base_url="http://platform") as client,
    ):
        posts = PostgresPosts(connections)
        sending = Sending(HttpApi(client), posts, follow, told, send_s_max=0.1)
        assert await sending.send(Sent("a-refused-key", User(1), "2", wish)) is None
        held.set()
        await asyncio.wait_for(telling.wait(), END_S)
        # Discord is away, and the process ends before it is told.
        await sending.stop()
        assert [one.key for one in await posts.wanted()] == ["a-refused-key"]
        await sending.resume()
        await asyncio.gather(*sending.tasks)
        assert not await posts.wanted()


async def test_what_moves_while_a_podium_is_told_is_told_after_it(whole: Whole) -> None:
    async with pool(whole.dsn, 1, 1, SCHEMA) as connections:
        ledger = PostgresLedger(connections)

        async def due() -> list[Moved]:
            return [one for one in await ledger.due(0, 0) if one.problem == "moved"]

        first = Moved("moved", "CPU", 1, is_record=True, before=["ada"])
        await ledger.moved(first)
        await ledger.telling(first)
        await ledger.moved(Moved("moved", "CPU", 2, is_record=False, before=["bob"]))
        await ledger.moved(Moved("moved", "CPU", 3, is_record=False, before=["eve"]))
        assert [one.seq for one in await due()] == [1]
        await ledger.told(first)
        [after] = await due()
        assert after == Moved("moved", "CPU", 3, is_record=False, before=["bob"])
        await ledger.told(after)
        assert not await due()


async def test_the_edge_waits_for_a_discord_that_is_away(whole: Whole, town: Simulator) -> None:
    await whole.stop()
    await town.outage()
    before = len(town.record.calls)
    starting = asyncio.create_task(whole.start())
    try:
        await town.record.until(lambda: len(town.record.calls) > before, "a try", END_S)
    finally:
        town.recover()
    await asyncio.wait_for(starting, END_S)
    ada, channel = town.person("ada13"), await town.add_channel("back")
    assert "There" in (await (await ada.slash(channel, "ping")).answered())["content"]
