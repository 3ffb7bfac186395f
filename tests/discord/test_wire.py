"""The unmodified discord.py in its own process, and people who use its bot."""

import asyncio

import pytest

from discord_sim import shapes
from discord_sim.cdn import FileUpload
from discord_sim.clock import Clock
from discord_sim.shapes import ActionNotOffered
from discord_sim.simulator import Simulator
from tests.discord.bot_process import BotProcess

pytestmark = pytest.mark.asyncio(loop_scope="session")
KERNEL = FileUpload("kernel.py", "text/x-python", b"def custom_kernel(data):\n    return data\n")
BOARD = {"leaderboard_name": "sort_v2"}
SUBMIT = "leaderboard submit ranked"


async def test_commands_are_synced_and_completed(sim: Simulator) -> None:
    [command] = sim.commands[sim.guild.id]
    assert command["name"] == "leaderboard"
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    typed = await ada.autocomplete(channel, SUBMIT, "leaderboard_name", leaderboard_name="sor")
    assert [one["value"] for one in typed] == ["sort_v1", "sort_v2"]


async def test_a_submission_goes_through_a_menu_to_its_thread(sim: Simulator) -> None:
    ada, bob = sim.person("ada"), sim.person("bob")
    channel = await sim.add_channel("submissions")
    doing = await ada.slash(channel, SUBMIT, script=KERNEL, **BOARD)
    await doing.acknowledged()
    assert doing.interaction.callback == 5
    assert doing.is_ephemeral
    message = await doing.answered()
    assert "kernel.py" in message["content"]
    assert message in ada.sees(channel)
    assert message not in bob.sees(channel)
    with pytest.raises(ActionNotOffered, match="does not see"):
        await bob.select(message, ["H100"])
    with pytest.raises(ActionNotOffered, match="choose 1 to 3"):
        await ada.select(message, ["B300"])
    await (await ada.select(message, ["H100", "A100"], "GPUs")).acknowledged()
    await sim.record.until(lambda: "Done" in message["content"], "the last edit")
    [thread] = ada.threads(channel)
    assert thread["type"] == shapes.PRIVATE_THREAD
    assert not bob.threads(channel)
    status, report = ada.sees(thread["id"])
    assert status["content"] == "step 3 of 3"
    assert not status["mentions"]
    assert sim.cdn.data(report["attachments"][0]) == KERNEL.data


async def test_pages_turn_and_outlive_the_bot(sim: Simulator, bot_process: BotProcess) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    message = await (await ada.slash(channel, "leaderboard show", **BOARD)).answered()
    with pytest.raises(ActionNotOffered, match="disabled"):
        await ada.click(message, "◀")
    await (await ada.click(message, "▶")).acknowledged()
    assert message["embeds"][0]["footer"]["text"] == "Page 2/3"
    await bot_process.stop()
    await bot_process.ready()
    await (await ada.click(message, "▶")).acknowledged()
    assert message["embeds"][0]["footer"]["text"] == "Page 3/3"


async def test_a_modal_needs_the_role(sim: Simulator) -> None:
    channel = await sim.add_channel("general")
    creator = await sim.add_role("Leaderboard Creator")
    eve, ada = sim.person("eve"), sim.person("ada", creator)
    refused = await (await eve.slash(channel, "leaderboard create")).answered()
    assert refused["content"] == "You may not do that."
    doing = await (await ada.slash(channel, "leaderboard create")).acknowledged()
    assert doing.interaction.modal is not None
    assert doing.interaction.modal["title"] == "A new leaderboard"
    with pytest.raises(ActionNotOffered, match="refuses"):
        await ada.fill_in(doing, {"Name": "n" * 41})
    with pytest.raises(ActionNotOffered, match="no modal"):
        await eve.fill_in(doing, {"Name": "board"})
    answer = await (await ada.fill_in(doing, {"Name": "board"})).answered()
    assert answer["content"] == "Created `board`."


async def test_errors_are_explained_without_details(sim: Simulator) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    doing = await ada.slash(channel, "leaderboard crash")
    assert (await doing.answered())["content"] == "Something went wrong."
    assert doing.is_ephemeral


async def test_responses_after_three_seconds_fail(sim: Simulator) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    doing = await ada.slash(channel, "leaderboard late")
    sim.clock.turn(3)
    with pytest.raises(AssertionError, match="did not respond"):
        await doing.acknowledged()
    late = await sim.record.until(
        lambda: [one for one in sim.record.of("create_interaction_response") if one.status == 404],
        "the late answer",
    )
    assert late[-1].answer["code"] == 10062
    assert sim.record.take_violations() == ["leaderboard: not acknowledged within 3 s"]


async def test_a_token_is_valid_for_a_quarter_of_an_hour(sim: Simulator) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    doing = await (await ada.slash(channel, "leaderboard later")).acknowledged()
    sim.clock.turn(15 * 60 + 1)
    look = sim.record.of
    late = await sim.record.until(
        lambda: [one for one in look("update_original_webhook_message") if one.status == 401],
        "the edit after the end",
    )
    assert late[-1].answer["code"] == 50027
    assert doing.is_thinking


async def test_a_forum_post_is_created_and_its_nonce_enforced(sim: Simulator) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    forum = await sim.add_channel("central", shapes.FORUM)
    doing = await ada.slash(channel, "leaderboard announce", forum=forum)
    await doing.answered()
    [post] = ada.threads(forum)
    assert post["thread_metadata"]["archived"]
    first, second = ada.sees(post["id"])
    assert first["id"] == post["id"]
    assert second["nonce"] == "n1"
    assert not second["mention_everyone"]


async def test_a_server_is_set_up_and_maintained(sim: Simulator) -> None:
    owner, channel = sim.owner(), await sim.add_channel("general")
    doing = await owner.slash(channel, "leaderboard tour")
    said = (await doing.answered())["content"]
    expected = "second | first | about the first | matmul_v1 | problems | True"
    assert said == expected
    [forum] = [one for one in sim.guild.channels.values() if one.get("name") == "problems"]
    assert [one["name"] for one in forum["available_tags"]] == ["open", "closed"]
    assert sim.guild.channels[forum["parent_id"]]["name"] == "Leaderboards"
    # The post is seen by those who see its category's forum, which inherits nothing by itself.
    assert sim.person("ada").threads(forum["id"])


async def test_a_direct_message_may_be_refused(sim: Simulator) -> None:
    ada, channel = sim.person("ada"), await sim.add_channel("general")
    told = await ada.slash(channel, "leaderboard tell", user=ada.id, loudly=True)
    assert (await told.answered())["content"] == "told"
    assert [one["content"] for one in ada.letters()] == ["HEY"]
    sim.closed_doors.add(ada.id)
    told = await ada.slash(channel, "leaderboard tell", user=ada.id)
    assert (await told.answered())["content"] == "refused: 50007"


async def test_users_do_only_what_their_client_offers(sim: Simulator) -> None:
    eve, channel = sim.person("eve"), await sim.add_channel("general")
    hidden = await sim.add_channel("hidden", deny={sim.guild.id: ("view_channel",)})
    mute = await sim.add_channel("mute", deny={eve.id: ("use_application_commands",)})
    for where, path, given, said in (
        (channel, "nothing", {}, "there is no /nothing"),
        (channel, "leaderboard submit", BOARD, "is incomplete"),
        (channel, "leaderboard submit best", BOARD, "no 'best'"),
        (channel, SUBMIT, BOARD, "the client requires"),
        (channel, SUBMIT, {"script": "kernel.py", **BOARD}, "wrong type"),
        (channel, "leaderboard show", {"board": "sort_v2"}, "no option"),
        (hidden, "leaderboard show", BOARD, "does not see"),
        (mute, "leaderboard show", BOARD, "may not use"),
    ):
        with pytest.raises(ActionNotOffered, match=said):
            await eve.slash(where, path, **given)
    with pytest.raises(ActionNotOffered, match="there is no autocomplete"):
        await eve.autocomplete(channel, "leaderboard tell", "user", user="e")


async def test_fifty_users_at_once_are_all_answered(sim: Simulator) -> None:
    channel = await sim.add_channel("crowd")
    people = [sim.person(f"person{n}") for n in range(50)]
    doings = await asyncio.gather(
        *(one.slash(channel, "leaderboard show", **BOARD) for one in people)
    )
    await asyncio.gather(*(one.answered() for one in doings))
    assert all(one.interaction.callback for one in doings)


async def test_time_stands_still_for_everyone_while_the_clock_is_stopped() -> None:
    clock = Clock()
    with clock.stopped():
        before = clock.now()
        waiting = asyncio.create_task(clock.until(before + 5))
        assert clock.now() == before
        clock.turn(4)
        assert clock.now() == pytest.approx(before + 4)
        assert not waiting.done()
        clock.turn(1)
        await asyncio.wait_for(waiting, 10)
    assert clock.now() > before + 4.9
