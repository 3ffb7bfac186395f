"""What people look at, choose and end by the real bot, before the real platform."""

import asyncio
import hashlib
import io
import json
import shutil
import zipfile
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
from tests.support.people import add_problem
from tests.support.platform import ROOT

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
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
        ("leaderboard eval-code", {**BOARD, "language": "python"}, "custom\\_kernel\\(data\\)"),
        ("leaderboard eval-code", {**BOARD, "language": "cuda"}, "warpboard.h"),
        ("account tokens", {}, "You have no tokens"),
        ("leaderboard queue", {"gpu": "CPU"}, "CPU"),
        ("leaderboard help", {}, "/leaderboard submit ranked"),
        ("leaderboard help", {"topic": "leaderboard submit"}, "- `script`"),
        ("leaderboard help", {"topic": "nothing"}, "there is no command `nothing`"),
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
    offered = await ada.autocomplete(channel, "leaderboard help", "topic", topic="leaderboard su")
    assert "leaderboard submit" in [one["value"] for one in offered]
    offered = await ada.autocomplete(channel, "leaderboard template", "lang", lang="", **BOARD)
    assert [one["value"] for one in offered] == ["cpp", "cuda", "python"]
    with pytest.raises(NotOffered):
        await ada.slash(channel, "admin stop", reason="no operator")


async def test_the_harness_that_judges_comes_beside_the_rules(town: Simulator) -> None:
    ada, channel = town.person("ada13"), await town.add_channel("harnesses")
    await known(ada, channel)
    message = await (await ada.slash(channel, "leaderboard eval-code", **BOARD)).answered()
    first, *others = message["attachments"]
    data = town.cdn.data(first)
    digest = hashlib.sha256(data).hexdigest()
    assert first["filename"] == f"warpboard-harness-2-{digest[:12]}.zip"
    with zipfile.ZipFile(io.BytesIO(data)) as code:
        assert "harness/supervisor/calls.py" in code.namelist()
    assert "reference.py" in [one["filename"] for one in others]
    (card,) = message["embeds"]
    assert f"**harness on CPU** version 2, `{digest}`" in card["description"]


async def test_files_beyond_what_discord_takes_are_told_of(
    whole: Whole, town: Simulator, tmp_path: Path
) -> None:
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "of-many-files")
    names = [f"table{number}.py" for number in range(12)]
    for name in names:
        (folder / name).write_text(name)
    task = folder / "task.yml"
    listed = "".join(f'  - {{name: "{name}", source: "{name}"}}\n' for name in names)
    task.write_text(task.read_text().replace("files:\n", f"files:\n{listed}", 1))
    await asyncio.to_thread(add_problem, whole.running.url, folder, whole.running.operator)
    ada, channel = town.person("ada14"), await town.add_channel("many-files")
    await known(ada, channel)
    asked = {"leaderboard_name": folder.name}
    message = await (await ada.slash(channel, "leaderboard task", **asked)).answered()
    given = {one["filename"] for one in message["attachments"]}
    said = message["embeds"][0]["description"]
    assert len(given) == 9
    assert [name for name in names if (name in given) == (name in said)] == []


async def test_pages_turn_and_outlive_the_edge(
    whole: Whole, town: Simulator, tmp_path: Path
) -> None:
    for number in range(10):
        folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / f"other-{number}")
        await asyncio.to_thread(add_problem, whole.running.url, folder, whole.running.operator)
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


async def test_a_text_is_accepted_before_the_first_submission(
    whole: Whole, town: Simulator, tmp_path: Path
) -> None:
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "asking")
    with (folder / "warpboard.yml").open("a") as file:
        file.write("consent: CONSENT.md\n")
    (folder / "CONSENT.md").write_text("What I send in may be published.\n")
    await asyncio.to_thread(add_problem, whole.running.url, folder, whole.running.operator)
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
    pressed = await ada.click(message, "Cancel")
    [told] = await town.record.until(lambda: pressed.followups, "a word", END_S)
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


async def test_a_report_has_the_files_of_its_run(town: Simulator) -> None:
    ada, channel = town.person("ada12"), await town.add_channel("profiles")
    await known(ada, channel)
    path = "leaderboard submit profile"
    await ada.slash(channel, path, script=KERNEL, gpu="CPU", **BOARD)
    _, report = await reported(town, ada, await thread_of(town, ada, channel))
    [card] = report["embeds"]
    assert "kernel" in card["description"]
    assert "self time" in card["description"]
    assert "agent" in card["footer"]["text"]
    names = [one["filename"] for one in report["attachments"]]
    assert names[-1] == "result.json"
    assert {"profile-0-trace.json.gz", "profile-0-table.txt"} <= set(names)
    answer = json.loads(town.cdn.data(report["attachments"][-1]))
    assert (answer["mode"], answer["is_over"]) == ("profile", True)
