"""The real bot before the real platform: from a command on Discord to the row on a leaderboard."""

import asyncio
import re

import httpx
import msgspec
import pytest

from discord_edge.notifications.postgres import PostgresLedger
from discord_edge.notifications.texts import PodiumUpdate
from discord_edge.platform_api import DiscordUser, PlatformApi
from discord_edge.postgres import SCHEMA
from discord_edge.submissions.models import PendingSubmission, TrackedSubmission
from discord_edge.submissions.postgres import PostgresTrackedSubmissions
from discord_edge.submissions.tracker import SubmissionSender
from discord_sim import shapes
from discord_sim.cdn import FileUpload
from discord_sim.simulator import Simulator
from shared.api.submissions import Receipt, SubmissionReceipts, SubmissionRequest
from shared.errors import Refused
from shared.postgres import create_pool
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
from tests.support.api_examples import make_example
from tests.support.people import Person
from tests.support.waits import eventually

pytestmark = EDGE_MARKS

HOSTILE = b"""
print("``` @everyone <@&1> " + "x" * 5000)
def custom_kernel(data):
    raise RuntimeError("``` @everyone\\n@everyone **bold** \\u202e")
"""


@pytest.mark.feature("P3")
async def test_a_ranked_file_goes_from_discord_to_the_leaderboard(edge_sim: Simulator) -> None:
    ada, bob = edge_sim.person("ada"), edge_sim.person("bob")
    channel = await edge_sim.add_channel("submissions")
    await wait_until_known(ada, channel)
    doing = await ada.slash(channel, RANKED, script=KERNEL, gpu="cpu", **BOARD)
    await doing.acknowledged()
    assert doing.interaction.callback == 5
    assert doing.is_ephemeral
    room = await newest_thread(edge_sim, ada, channel)
    assert not bob.threads(channel)
    status, report = await wait_for_report(edge_sim, ada, room)
    assert "score" in status["content"]
    assert "rank 1" in status["content"]
    assert "✅" in report["embeds"][0]["description"]
    assert not status["mentions"]
    [thread] = [one for one in ada.threads(channel) if one["id"] == room]
    assert thread["type"] == shapes.PRIVATE_THREAD
    assert re.match(r"#\d+ identity ranked CPU", thread["name"])
    message = await doing.answered()
    await edge_sim.record.until(lambda: "rank 1" in message["content"], "the last edit", END_S)
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
    assert edge_sim.cdn.data(mine["attachments"][-1]) == KERNEL.data
    others = await (await bob.slash(channel, path, **whose)).answered()
    unknown = await (await bob.slash(channel, path, submission_id=999999)).answered()
    assert (
        others["content"].replace(str(number), "N").rpartition("·")[0]
        == (unknown["content"].replace("999999", "N").rpartition("·")[0])
    )


async def test_an_invalid_submission_is_refused_with_a_reason(edge_sim: Simulator) -> None:
    ada, channel = edge_sim.person("ada2"), await edge_sim.add_channel("refusals")
    await wait_until_known(ada, channel)
    says = {"data": b"#!POPCORN leaderboard other\n" + KERNEL.data}
    for script, given, said in (
        (FileUpload("kernel.txt", "text/plain", b"x"), BOARD, "must end in"),
        (FileUpload("kernel.py", "text/x-python", b"\xff\xfe"), BOARD, "not UTF-8"),
        (FileUpload("kernel.py", "text/x-python", b""), BOARD, "empty"),
        (FileUpload("kernel.py", "text/x-python", says["data"]), BOARD, "change one of them"),
        (KERNEL, {"leaderboard_name": "nothing"}, "Not done"),
        (KERNEL, {**BOARD, "gpu": "NONE"}, "not `NONE`"),
        (
            FileUpload("kernel.py", "text/x-python", b"import cupy\n" + KERNEL.data),
            {**BOARD, "gpu": "CPU"},
            "no agent of CPU has cupy",
        ),
    ):
        doing = await ada.slash(channel, RANKED, script=script, **given)
        message = await doing.answered()
        assert said in message["content"]
        assert doing.is_ephemeral
        assert message["content"].rstrip("`").endswith(doing.interaction.id)
    assert not ada.threads(channel)


async def test_hostile_output_is_shown_and_harms_nobody(edge_sim: Simulator) -> None:
    eve, channel = edge_sim.person("eve"), await edge_sim.add_channel("hostile")
    await wait_until_known(eve, channel)
    script = FileUpload("kernel.py", "text/x-python", HOSTILE)
    await eve.slash(channel, "leaderboard submit test", script=script, gpu="CPU", **BOARD)
    room = await newest_thread(edge_sim, eve, channel)
    status, report = await wait_for_report(edge_sim, eve, room)
    body = report["embeds"][0]["description"]
    # The error and the stages.
    assert body.count("```") == 4
    assert "\u202e" not in body
    assert "RuntimeError" in status["content"]
    assert not status["mention_everyone"]
    assert not report["mention_everyone"]
    assert report["attachments"]


@pytest.mark.feature("P3", "P9")
async def test_several_gpu_types_are_chosen_from_a_menu(edge_sim: Simulator) -> None:
    ada, bob = edge_sim.person("ada5"), edge_sim.person("bob5")
    channel = await edge_sim.add_channel("menus")
    await wait_until_known(ada, channel)
    doing = await ada.slash(channel, "leaderboard submit test", script=KERNEL, **BOARD)
    message = await doing.answered()
    assert "Choose" in message["content"]
    [[menu]] = [one["components"] for one in message["components"]]
    forged = {"custom_id": menu["custom_id"], "component_type": 3, "values": ["CPU"]}
    told = await (await bob._use_component(message, forged)).answered()
    assert "only the user who asked for it" in told["content"]
    await (await ada.select(message, ["CPU"])).acknowledged()
    room = await newest_thread(edge_sim, ada, channel)
    status, _ = await wait_for_report(edge_sim, ada, room)
    assert "passed" in status["content"]
    assert not message["components"]


async def test_a_deleted_thread_is_replaced_by_direct_messages(edge_sim: Simulator) -> None:
    ada, channel = edge_sim.person("ada6"), await edge_sim.add_channel("deleted")
    await wait_until_known(ada, channel)
    await ada.slash(channel, "leaderboard submit benchmark", script=KERNEL, gpu="CPU", **BOARD)
    await edge_sim.delete_channel(await newest_thread(edge_sim, ada, channel))
    letters = await edge_sim.record.until(
        lambda: [one for one in ada.letters() if one["embeds"]], "a letter", END_S
    )
    assert "identity on CPU" in letters[-1]["embeds"][0]["title"]


async def test_a_result_during_an_outage_is_sent_afterwards(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    ada, channel = edge_sim.person("ada7"), await edge_sim.add_channel("outage")
    await wait_until_known(ada, channel)
    await ada.slash(channel, "leaderboard submit test", script=KERNEL, gpu="CPU", **BOARD)
    room = await newest_thread(edge_sim, ada, channel)
    number = int(re.findall(r"#(\d+)", ada.threads(channel)[0]["name"])[0])
    await edge_sim.outage()
    try:
        with Person(edge_platform.running.url, "ada7", edge_platform.running.operator) as seen:
            await asyncio.to_thread(seen.end, number)
    finally:
        edge_sim.recover()
    await wait_for_report(edge_sim, ada, room)
    assert len(ada.sees(room)) == 2
    await edge_sim.record.until(lambda: edge_sim.gateway.is_connected, "the edge is back", END_S)


async def test_requests_of_a_killed_bot_are_sent_once_discord_is_back(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    ada, channel = edge_sim.person("ada12"), await edge_sim.add_channel("sent")
    commands_set = len(edge_sim.record.of("bulk_set_guild_application_commands"))
    await edge_platform.stop()
    async with create_pool(edge_platform.dsn, 1, 1, SCHEMA) as connections:
        wish = SubmissionRequest("kernel.py", KERNEL.data, "identity", "test", ("CPU",))
        sent = PendingSubmission(
            "a-key-of-a-kill", DiscordUser(int(ada.id), "ada12"), channel, wish
        )
        await PostgresTrackedSubmissions(connections).add_pending(sent)
        await edge_sim.outage()
        before = len(edge_sim.record.calls)
        starting = asyncio.create_task(edge_platform.start())
        try:
            await edge_sim.record.until(lambda: len(edge_sim.record.calls) > before, "a try", END_S)
        finally:
            edge_sim.recover()
        await asyncio.wait_for(starting, END_S)
        await wait_for_report(edge_sim, ada, await newest_thread(edge_sim, ada, channel))
        assert not await PostgresTrackedSubmissions(connections).list_pending()
    assert len(ada.threads(channel)) == 1
    assert "Pong" in (await (await ada.slash(channel, "ping")).answered())["content"]
    # A start sends no commands that Discord has already.
    assert len(edge_sim.record.of("bulk_set_guild_application_commands")) == commands_set


async def test_a_late_acceptance_is_tracked_once(
    edge_platform: EdgePlatform,
) -> None:
    keys, told = set(), []
    receipts = [make_example(Receipt, number=2**40 + n, gpu=gpu) for n, gpu in enumerate("AB")]
    taken = msgspec.json.encode(make_example(SubmissionReceipts, submissions=receipts))

    async def answers(request: httpx.Request) -> httpx.Response:
        keys.add(request.headers["Idempotency-Key"])
        return httpx.Response(200, content=taken)

    async def refused(sent: PendingSubmission, why: Refused) -> None:
        raise AssertionError(sent, why)

    async def follow(posts: list[TrackedSubmission]) -> None:
        told.extend(posts)

    wish = SubmissionRequest("kernel.py", KERNEL.data, "identity", "test", ("A", "B"))
    transport = httpx.MockTransport(answers)
    async with (
        create_pool(edge_platform.dsn, 2, 2, SCHEMA) as connections,
        httpx.AsyncClient(transport=transport, base_url="http://platform") as client,
    ):
        posts = PostgresTrackedSubmissions(connections)
        sending = SubmissionSender(PlatformApi(client), posts, follow, refused, send_s_max=0.2)
        async with connections.connection() as locked, locked.transaction():
            # Ingest has it, and the table does not take its numbers yet.
            await locked.execute("lock table post in exclusive mode")
            assert (
                await sending.send(PendingSubmission("a-late-key", DiscordUser(1), "2", wish))
                is None
            )
        await eventually(lambda: len(told) == 2, END_S)
        assert keys == {"a-late-key"}
        assert [one.number for one in await posts.list_group(2**40)] == [2**40, 2**40 + 1]
        assert not await posts.list_pending()
        for post in told:
            await posts.save(post.number, "ended", "a test")


async def test_a_late_refusal_is_stored_until_the_user_is_notified(
    edge_platform: EdgePlatform,
) -> None:
    held, announcing = asyncio.Event(), asyncio.Event()

    async def answers(_: httpx.Request) -> httpx.Response:
        await held.wait()
        return httpx.Response(409, json={"code": "closed", "detail": "it is over"})

    async def told(_: PendingSubmission, __: Refused) -> None:
        if announcing.is_set():
            return
        announcing.set()
        await asyncio.Event().wait()

    async def follow(posts: list[TrackedSubmission]) -> None:
        raise AssertionError(posts)

    wish = SubmissionRequest("kernel.py", KERNEL.data, "identity", "test", ("A",))
    transport = httpx.MockTransport(answers)
    async with (
        create_pool(edge_platform.dsn, 1, 1, SCHEMA) as connections,
        httpx.AsyncClient(transport=transport, base_url="http://platform") as client,
    ):
        posts = PostgresTrackedSubmissions(connections)
        sending = SubmissionSender(PlatformApi(client), posts, follow, told, send_s_max=0.1)
        assert (
            await sending.send(PendingSubmission("a-refused-key", DiscordUser(1), "2", wish))
            is None
        )
        held.set()
        await asyncio.wait_for(announcing.wait(), END_S)
        # Discord is away, and the process ends before it is told.
        await sending.tasks.stop()
        assert [one.key for one in await posts.list_pending()] == ["a-refused-key"]
        await sending.resume()
        await asyncio.gather(*sending.tasks)
        assert not await posts.list_pending()


async def test_a_change_during_a_podium_announcement_is_announced_next(
    edge_platform: EdgePlatform,
) -> None:
    async with create_pool(edge_platform.dsn, 1, 1, SCHEMA) as connections:
        ledger = PostgresLedger(connections)

        async def due() -> list[PodiumUpdate]:
            return [one for one in await ledger.due_podium_updates(0, 0) if one.problem == "moved"]

        first = PodiumUpdate("moved", "CPU", 1, is_record=True, before=["ada"])
        await ledger.add_podium_update(first)
        await ledger.begin_podium(first)
        await ledger.add_podium_update(
            PodiumUpdate("moved", "CPU", 2, is_record=False, before=["bob"])
        )
        await ledger.add_podium_update(
            PodiumUpdate("moved", "CPU", 3, is_record=False, before=["eve"])
        )
        assert [one.seq for one in await due()] == [1]
        await ledger.finish_podium(first)
        [after] = await due()
        assert after == PodiumUpdate("moved", "CPU", 3, is_record=False, before=["bob"])
        await ledger.finish_podium(after)
        assert not await due()
