"""What people look at, choose and end by the real bot, before the real platform."""

import asyncio
import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest

from discord_sim.cdn import FileUpload
from discord_sim.shapes import ActionNotOffered
from discord_sim.simulator import Simulator
from tests.discord.platform import (
    BOARD,
    EDGE_MARKS,
    END_S,
    KERNEL,
    EdgePlatform,
    has_more_threads,
    newest_thread,
    wait_for_report,
    wait_until_known,
)
from tests.support.people import add_problem
from tests.support.platform import ROOT
from tests.support.waits import eventually

pytestmark = EDGE_MARKS


@pytest.mark.feature("P1")
async def test_leaderboards_problems_and_submissions_are_shown(edge_sim: Simulator) -> None:
    ada, channel = edge_sim.person("ada4"), await edge_sim.add_channel("looking")
    await wait_until_known(ada, channel)
    for path, given, said in (
        ("leaderboard list", {}, "identity"),
        ("leaderboard show-personal", {**BOARD, "gpu": "CPU"}, "Nothing here yet"),
        (
            "leaderboard show-personal",
            {**BOARD, "gpu": "t4, L4"},
            "**T4**\nNothing here yet.\n**L4**",
        ),
        ("leaderboard show", {**BOARD, "gpu": "t4 l4"}, "**T4**\nNothing here yet.\n**L4**"),
        ("leaderboard show", {**BOARD, "gpu": "T4, H1000"}, "Not done"),
        ("leaderboard task", BOARD, ""),
        ("leaderboard template", BOARD, "Start"),
        ("leaderboard reference-code", BOARD, "reference"),
        ("leaderboard eval-code", {}, "custom\\_kernel\\(data\\)"),
        ("leaderboard eval-code", {"language": "cuda"}, "warpboard.h"),
        ("leaderboard eval-code", BOARD, "the lowest is first"),
        ("leaderboard eval-code", {**BOARD, "language": "python"}, "custom\\_kernel\\(data\\)"),
        ("leaderboard eval-code", {**BOARD, "language": "cuda"}, "warpboard.h"),
        ("account tokens", {}, "You have no tokens"),
        ("leaderboard queue", {"gpu": "CPU"}, "CPU"),
        ("leaderboard queue", {"gpu": "cpu, T4"}, "\n**T4**"),
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
    message = await (await ada.slash(channel, "leaderboard show", **BOARD)).answered()
    await (await ada.select(message, ["T4", "L4"])).acknowledged()
    await edge_sim.record.until(lambda: message["embeds"], "the rankings", END_S)
    assert "**T4**\nNothing here yet.\n**L4**" in message["embeds"][0]["description"]
    assert not message["components"]
    offered = await ada.autocomplete(channel, "leaderboard help", "topic", topic="leaderboard su")
    assert "leaderboard submit" in [one["value"] for one in offered]
    offered = await ada.autocomplete(channel, "leaderboard template", "lang", lang="", **BOARD)
    assert [one["value"] for one in offered] == ["cpp", "cuda", "python"]
    with pytest.raises(ActionNotOffered):
        await ada.slash(channel, "admin pages")


async def test_the_rules_come_with_a_program_to_run_and_the_address_of_the_harness(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    ada, channel = edge_sim.person("ada13"), await edge_sim.add_channel("harnesses")
    await wait_until_known(ada, channel)
    url = edge_platform.running.url
    harnesses = await asyncio.to_thread(httpx.get, f"{url}/v1/harnesses")
    harness = harnesses.json()["items"][0]
    for given, query, names in (
        (BOARD, "?problem=identity", ["eval.py", "utils.py", "reference.py", "task.py"]),
        ({"language": "python"}, "", ["eval.py", "utils.py"]),
        ({"language": "cuda"}, "", ["eval.cu", "utils.h"]),
    ):
        message = await (await ada.slash(channel, "leaderboard eval-code", **given)).answered()
        files = {one["filename"]: edge_sim.cdn.data(one) for one in message["attachments"]}
        assert list(files) == names
        # Its cases are those of the leaderboard, and HTTP has the same file.
        same = await asyncio.to_thread(httpx.get, f"{url}/v1/evaluation/{names[0]}{query}")
        assert files[names[0]] == same.content
        assert (b"    {'size': " in same.content) == bool(query)
        (card,) = message["embeds"]
        assert f"`{names[0]}` shows the procedure" in card["description"]
        line = f"**harness on CPU** version 2, `{harness['digest']}` (`{harness['url']}` of"
        assert line in card["description"]


@pytest.mark.feature("P2")
async def test_the_task_has_all_that_a_participant_needs_to_evaluate_a_submission(
    edge_sim: Simulator, tmp_path: Path
) -> None:
    ada, channel = edge_sim.person("ada13"), await edge_sim.add_channel("evaluating")
    await wait_until_known(ada, channel)
    message = await (await ada.slash(channel, "leaderboard task", **BOARD)).answered()
    for file in message["attachments"]:
        (tmp_path / file["filename"]).write_bytes(edge_sim.cdn.data(file))
    (tmp_path / "submission.py").write_bytes(KERNEL.data)
    command = [sys.executable, "eval.py", "--test"]
    ended = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, timeout=END_S, check=False
    )
    assert ended.stdout.startswith(b"check: passed, "), ended


async def test_files_that_discord_does_not_take_are_listed(
    edge_platform: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "of-many-files")
    names = [f"table{number}.py" for number in range(12)]
    for name in names:
        (folder / name).write_text(name)
    task = folder / "task.yml"
    listed = "".join(f'  - {{name: "{name}", source: "{name}"}}\n' for name in names)
    task.write_text(task.read_text().replace("files:\n", f"files:\n{listed}", 1))
    await asyncio.to_thread(
        add_problem, edge_platform.running.url, folder, edge_platform.running.operator
    )
    ada, channel = edge_sim.person("ada14"), await edge_sim.add_channel("many-files")
    await wait_until_known(ada, channel)
    asked = {"leaderboard_name": folder.name}
    message = await (await ada.slash(channel, "leaderboard task", **asked)).answered()
    given = {one["filename"] for one in message["attachments"]}
    said = message["embeds"][0]["description"]
    assert len(given) == 9
    assert [name for name in names if (name in given) == (name in said)] == []


async def test_consent_is_asked_before_the_first_submission(
    edge_platform: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "asking")
    with (folder / "warpboard.yml").open("a") as file:
        file.write("consent: CONSENT.md\n")
    (folder / "CONSENT.md").write_text("What I send in may be published.\n")
    await asyncio.to_thread(
        add_problem, edge_platform.running.url, folder, edge_platform.running.operator
    )
    ada, channel = edge_sim.person("ada9"), await edge_sim.add_channel("consents")
    asked = {"script": KERNEL, "leaderboard_name": "asking", "gpu": "CPU"}
    doing = await ada.slash(channel, "leaderboard submit test", **asked)
    message = await doing.answered()
    assert "may be published" in message["embeds"][0]["description"]
    await (await ada.click(message, "Decline")).acknowledged()
    await edge_sim.record.until(lambda: "nothing is submitted" in message["content"], "a no", END_S)
    assert not ada.threads(channel)
    message = await (await ada.slash(channel, "leaderboard submit test", **asked)).answered()
    await (await ada.click(message, "Accept")).acknowledged()
    status, _ = await wait_for_report(edge_sim, ada, await newest_thread(edge_sim, ada, channel))
    assert "passed" in status["content"]


async def test_a_submission_that_nobody_can_run_is_confirmed_first(edge_sim: Simulator) -> None:
    ada, channel = edge_sim.person("ada10"), await edge_sim.add_channel("confirms")
    await wait_until_known(ada, channel)
    asked = {"script": KERNEL, "gpu": "H100", **BOARD}
    message = await (await ada.slash(channel, "leaderboard submit test", **asked)).answered()
    assert "No agent with H100 is alive" in message["content"]
    assert "its quota is refunded" in message["content"]
    await (await ada.click(message, "Do not submit")).acknowledged()
    await edge_sim.record.until(lambda: "Nothing is submitted" in message["content"], "no", END_S)
    assert not ada.threads(channel)
    # The command of the queue counts open submissions.
    message = await (await ada.slash(channel, "leaderboard queue")).answered()
    assert "open submissions: 0 of at most 100" in message["content"]


async def test_two_own_submissions_are_compared(edge_sim: Simulator) -> None:
    ada, channel = edge_sim.person("ada11"), await edge_sim.add_channel("compares")
    await wait_until_known(ada, channel)
    path, other = (
        "leaderboard submit test",
        FileUpload("k.py", "text/x-python", KERNEL.data + b"# 2\n"),
    )
    for script in (KERNEL, other):
        before = len(ada.threads(channel))
        await ada.slash(channel, path, script=script, gpu="CPU", **BOARD)
        await eventually(partial(has_more_threads, ada, channel, before), END_S)
        await wait_for_report(edge_sim, ada, ada.threads(channel)[-1]["id"])
    offered = await ada.autocomplete(channel, "leaderboard compare", "a", a="identity")
    numbers = sorted(one["value"] for one in offered)
    assert len(numbers) == 2
    message = await (
        await ada.slash(channel, "leaderboard compare", a=numbers[0], b=numbers[1])
    ).answered()
    assert b"+# 2" in edge_sim.cdn.data(message["attachments"][0])


async def test_a_report_has_the_files_of_its_run(edge_sim: Simulator) -> None:
    ada, channel = edge_sim.person("ada12"), await edge_sim.add_channel("profiles")
    await wait_until_known(ada, channel)
    path = "leaderboard submit profile"
    await ada.slash(channel, path, script=KERNEL, gpu="CPU", **BOARD)
    _, report = await wait_for_report(edge_sim, ada, await newest_thread(edge_sim, ada, channel))
    [card] = report["embeds"]
    assert "kernel" in card["description"]
    assert "self time" in card["description"]
    assert "agent" in card["footer"]["text"]
    names = [one["filename"] for one in report["attachments"]]
    assert names[-1] == "result.json"
    assert {"profile-0-trace.json.gz", "profile-0-table.txt"} <= set(names)
    answer = json.loads(edge_sim.cdn.data(report["attachments"][-1]))
    assert (answer["mode"], answer["is_over"]) == ("profile", True)
