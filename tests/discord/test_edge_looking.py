"""What people look at, choose and end by the real bot, before the real platform."""

import asyncio
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from discord_sim.cdn import Blob
from discord_sim.errors import NotOffered
from discord_sim.simulator import Simulator
from shared.testing import eventually
from tests.discord.platform import (
    BOARD,
    END_S,
    KERNEL,
    Whole,
    known,
    more_threads,
    reported,
    thread_of,
)
from tests.system.people import add_problem
from tests.system.running import ROOT

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_what_there_is_to_look_at_is_shown(town: Simulator) -> None:
    ada, channel = town.person("ada4"), await town.add_channel("looking")
    await known(ada, channel)
    for path, given, said in (
        ("leaderboard list", {}, "identity"),
        ("leaderboard show-personal", {**BOARD, "gpu": "CPU"}, "Nothing is here yet"),
        ("leaderboard task", BOARD, ""),
        ("leaderboard template", BOARD, "Begin"),
        ("leaderboard reference-code", BOARD, "reference"),
        ("leaderboard eval-code", BOARD, "the lowest is first"),
        ("account tokens", {}, "You have no tokens"),
        ("leaderboard queue", {"gpu": "CPU"}, "CPU"),
        ("leaderboard help", {}, "/leaderboard submit ranked"),
        ("leaderboard cancel", {"submission_id": 999999}, "you have no submission"),
        ("leaderboard join", {"code": "nothing"}, "Not done"),
        ("ping", {}, "the platform in"),
    ):
        doing = await ada.slash(channel, path, **given)
        message = await doing.answered()
        text = (message["content"] or "") + "".join(
            one.get("description", "") for one in message["embeds"]
        )
        assert said in text, (path, message)
        assert doing.is_ephemeral, path
    with pytest.raises(NotOffered):
        await ada.slash(channel, "admin stop", reason="no operator")


async def test_pages_turn_and_outlive_the_edge(
    whole: Whole, town: Simulator, tmp_path: Path
) -> None:
    for number in range(10):
        folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / f"other-{number}")
        await asyncio.to_thread(add_problem, whole.running.url, folder)
    ada, channel = town.person("ada8"), await town.add_channel("pages")

    async def listed() -> Any:
        message = await (await ada.slash(channel, "leaderboard list")).answered()
        return message if message["components"] else None

    message = await eventually(listed, END_S)
    assert message["embeds"][0]["footer"]["text"] == "Page 1/2"
    with pytest.raises(NotOffered, match="disabled"):
        await ada.click(message, "◀")
    await whole.stop()
    await whole.start()
    await known(ada, channel)
    await (await ada.click(message, "▶")).acknowledged()
    await town.record.until(
        lambda: message["embeds"][0]["footer"]["text"] == "Page 2/2", "the page", END_S
    )


async def test_fifty_people_are_all_answered(town: Simulator) -> None:
    channel = await town.add_channel("crowd")
    people = [town.person(f"crowd{n}") for n in range(50)]
    doings = await asyncio.gather(
        *(one.slash(channel, "leaderboard show", gpu="CPU", **BOARD) for one in people)
    )
    await asyncio.gather(*(one.answered() for one in doings))
    # A bound for a busy machine; Discord's own is three seconds.
    assert max(one.interaction.latency_s for one in doings) < 3


async def test_a_text_is_accepted_before_the_first_submission(
    whole: Whole, town: Simulator, tmp_path: Path
) -> None:
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "asking")
    with (folder / "warpboard.yml").open("a") as file:
        file.write("consent: CONSENT.md\n")
    (folder / "CONSENT.md").write_text("What I send in may be published.\n")
    await asyncio.to_thread(add_problem, whole.running.url, folder)
    ada, channel = town.person("ada9"), await town.add_channel("consents")
    asked = {"script": KERNEL, "leaderboard_name": "asking", "gpu": "CPU"}
    doing = await ada.slash(channel, "leaderboard submit test", **asked)
    message = await doing.answered()
    assert "may be published" in message["embeds"][0]["description"]
    await (await ada.click(message, "Decline")).acknowledged()
    await town.record.until(lambda: "nothing is submitted" in message["content"], "a no", END_S)
    assert not ada.threads(channel)
    message = await (await ada.slash(channel, "leaderboard submit test", **asked)).answered()
    await (await ada.click(message, "Accept")).acknowledged()
    status, _ = await reported(town, ada, await thread_of(town, ada, channel))
    assert "passed" in status["content"]


async def test_a_button_cancels_what_is_one_s_own(town: Simulator) -> None:
    ada, channel = town.person("ada10"), await town.add_channel("cancels")
    await known(ada, channel)
    slow = Blob("kernel.py", "text/x-python", b"import time\ntime.sleep(60)\n" + KERNEL.data)
    await ada.slash(channel, "leaderboard submit test", script=slow, gpu="CPU", **BOARD)
    room = await thread_of(town, ada, channel)
    [message] = await town.record.until(lambda: ada.sees(room), "the status", END_S)
    told = await (await ada.click(message, "Cancel")).answered()
    assert "is being cancelled" in told["content"]
    status, _ = await reported(town, ada, room)
    assert "cancelled" in status["content"]
    assert not status["components"]


async def test_two_of_one_s_own_are_compared(town: Simulator) -> None:
    ada, channel = town.person("ada11"), await town.add_channel("compares")
    await known(ada, channel)
    path, other = "leaderboard submit test", Blob("k.py", "text/x-python", KERNEL.data + b"# 2\n")
    for script in (KERNEL, other):
        before = len(ada.threads(channel))
        await ada.slash(channel, path, script=script, gpu="CPU", **BOARD)
        await eventually(partial(more_threads, ada, channel, before), END_S)
        await reported(town, ada, ada.threads(channel)[-1]["id"])
    offered = await ada.autocomplete(channel, "leaderboard compare", "a", a="identity")
    numbers = sorted(one["value"] for one in offered)
    assert len(numbers) == 2
    message = await (
        await ada.slash(channel, "leaderboard compare", a=numbers[0], b=numbers[1])
    ).answered()
    assert b"+# 2" in town.cdn.data(message["attachments"][0])
