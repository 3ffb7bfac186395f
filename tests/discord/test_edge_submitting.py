"""What who submits can see and press: the answer while it is told on, and the buttons after."""

import asyncio
import io
import itertools
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from discord_sim.cdn import FileUpload
from discord_sim.documents import Validators
from discord_sim.shapes import ActionNotOffered
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from shared.problems.warpboard_yml import BUILD_S_MAX
from tests.discord.channel_users import message_text
from tests.discord.platform import (
    BOARD,
    EDGE_MARKS,
    END_S,
    KERNEL,
    RANKED,
    EdgePlatform,
    has_more_threads,
    launch_platform,
    newest_thread,
    wait_for_report,
    wait_until_known,
)
from tests.support.people import Person, add_problem
from tests.support.platform import ROOT
from tests.support.processes import stopped
from tests.support.waits import eventually

pytestmark = EDGE_MARKS

TEST = "leaderboard submit test"
# Its import works as long as the longest budget, so that it runs until it is cancelled: a file that
# sleeps would be stopped. It leaves the cores to others.
ENDLESS = FileUpload(
    "kernel.py", "text/x-python", b"import os\nos.nice(19)\nwhile True: pass\n" + KERNEL.data
)
SETTING = "WARPBOARD_DISCORD_EDGE_THREADS"


async def press_forged_button(person: Member, message: Any, label: str) -> Any:
    """Press a button that the client of the user does not show."""
    [row] = message["components"]
    [button] = [one for one in row["components"] if one["label"] == label]
    data = {"custom_id": button["custom_id"], "component_type": 2, "id": button["id"]}
    return await (await person._use_component(message, data)).answered()


async def newest(edge_sim: Simulator, person: Member, channel: str, before: int) -> tuple[Any, Any]:
    """The report in a thread that was not there before."""
    await eventually(lambda: has_more_threads(person, channel, before), END_S)
    return await wait_for_report(edge_sim, person, person.threads(channel)[-1]["id"])


def shared(person: Member, channel: str) -> list[str]:
    """The threads that are for a problem, oldest first."""
    return [one["id"] for one in person.threads(channel) if "identity since" in one["name"]]


async def ended(edge_sim: Simulator, person: Member, channel: str, count: int) -> None:
    """So many reports are in the only thread, which is closed."""
    await person.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    room = await newest_thread(edge_sim, person, channel)

    def is_closed() -> bool:
        reports = [one for one in person.sees(room) if one["embeds"]]
        is_archived = edge_sim.guild.channel(room)["thread_metadata"]["archived"]
        return len(reports) == count and bool(is_archived)

    await edge_sim.record.until(is_closed, "a closed thread", END_S)


@pytest.mark.feature("P13")
async def test_the_answer_shows_the_queue_place_and_cancels(
    edge_platform: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "patient")
    with (folder / "warpboard.yml").open("a") as settings:
        settings.write(f"budget_s: {{build: {BUILD_S_MAX}}}\n")
    await asyncio.to_thread(
        add_problem, edge_platform.running.url, folder, edge_platform.running.operator
    )
    ada, bob = edge_sim.person("ada20"), edge_sim.person("bob20")
    channel = await edge_sim.add_channel("answers")
    await wait_until_known(ada, channel, "patient")
    given = {"script": ENDLESS, "gpu": "CPU", "leaderboard_name": "patient"}
    # The agent has two slots.
    await wait_until_known(bob, channel, "patient")
    other = await (await bob.slash(channel, TEST, **given)).answered()
    await edge_sim.record.until(lambda: "running" in other["content"], "another run", END_S)
    first = await (await ada.slash(channel, TEST, **given)).answered()
    await edge_sim.record.until(lambda: "running" in first["content"], "the run", END_S)
    assert f"<#{ada.threads(channel)[0]['id']}>" in first["content"]
    doing = await ada.slash(channel, TEST, **given)
    second = await doing.answered()
    await edge_sim.record.until(lambda: "place 1" in second["content"], "a place", END_S)
    await edge_sim.record.until(lambda: "begins " in second["content"], "an estimate", END_S)
    assert doing.is_ephemeral
    others = await press_forged_button(bob, second, "Cancel")
    assert "only the user who asked for it" in others["content"]
    assert "place 1" in second["content"]
    room, thread = (one["id"] for one in ada.threads(channel))
    with stopped(edge_platform.running.pid("scheduler")):
        pressed = await ada.click(second, "Cancel")
        await cancelling(edge_sim, ada, second)
        await cancelling(edge_sim, ada, ada.sees(thread)[0])
        # The messages change before the platform knows, and a killed bot would not tell it.
        await edge_sim.record.until(lambda: pressed.followups, "a word", END_S)
        await edge_platform.kill()
        await edge_platform.start()
        pressed = await ada.click(first, "Cancel")
        await edge_sim.record.until(lambda: pressed.followups, "a word", END_S)
        assert "is being cancelled" in pressed.followups[0]["content"]
        await cancelling(edge_sim, ada, ada.sees(room)[0])
    await bob.click(other, "Cancel")
    await wait_for_report(edge_sim, ada, thread)
    status, _ = await wait_for_report(edge_sim, ada, room)
    assert "❌ cancelled" in status["content"]
    assert not status["components"]


async def cancelling(edge_sim: Simulator, person: Member, message: Any) -> None:
    """A message says that it is being cancelled, and its button cannot be pressed again."""
    await edge_sim.record.until(lambda: "being cancelled" in message["content"], "an edit", END_S)
    with pytest.raises(ActionNotOffered, match="disabled"):
        await person.click(message, "Cancelling")


async def test_an_expired_answer_harms_nothing(edge_sim: Simulator) -> None:
    ada, channel = edge_sim.person("ada21"), await edge_sim.add_channel("late")
    await wait_until_known(ada, channel)
    doing = await ada.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    message = await doing.answered()
    edge_sim.clock.turn(15 * 60 + 1)
    status, _ = await wait_for_report(edge_sim, ada, await newest_thread(edge_sim, ada, channel))
    assert "passed" in status["content"]
    assert "passed" not in message["content"]
    assert "Pong" in (await (await ada.slash(channel, "ping")).answered())["content"]


async def test_buttons_of_pages_and_reports_work_after_a_restart(
    edge_platform: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    ada, bob = edge_sim.person("ada22"), edge_sim.person("bob22")
    channel = await edge_sim.add_channel("again")
    await wait_until_known(ada, channel)
    await ada.slash(channel, RANKED, script=KERNEL, gpu="CPU", **BOARD)
    listed = await list_on_two_pages(edge_platform, ada, channel, tmp_path)
    _, report = await newest(edge_sim, ada, channel, 0)
    told = await (await ada.click(report, "Compare with best")).answered()
    assert "is your best there" in told["content"]
    await edge_platform.stop()
    await edge_platform.start()
    await wait_until_known(ada, channel)
    await (await ada.click(listed, "▶")).acknowledged()
    await edge_sim.record.until(
        lambda: listed["embeds"][0]["footer"]["text"].startswith("Page 2/"), "the page", END_S
    )
    assert (
        "you have no submission" in (await press_forged_button(bob, report, "Resubmit"))["content"]
    )
    again = await (await ada.click(report, "Resubmit")).answered()
    number = re.findall(r"\*\*#(\d+)\*\*", again["content"])[0]
    status, other = await newest(edge_sim, ada, channel, 1)
    assert status["content"].startswith(f"**#{number}** identity · ranked · CPU")
    assert ada.threads(channel)[1]["parent_id"] == channel
    shown = [
        await (await ada.click(one, "Compare with best")).answered() for one in (report, other)
    ]
    compared = "".join(map(message_text, shown))
    # One of the two is the best.
    assert "is your best there" in compared
    assert re.search(r"score: .* ratio [0-9.]+, (.*\n)*.*size=.* ratio [0-9.]+", compared)
    # What goes wrong after a press is told as after a command.
    both = zip((report, other), map(message_text, shown), strict=True)
    [worse] = [one for one, said in both if "ratio" in said]
    edge_sim.faults.fail("update_original_webhook_message", 400)
    failed = await (await ada.click(worse, "Compare with best")).answered()
    assert "the bot has a problem" in failed["content"]
    path, whose = "leaderboard get-submission", {"submission_id": int(number)}
    mine = await (await ada.slash(channel, path, **whose)).answered()
    assert KERNEL.data in [edge_sim.cdn.data(one) for one in mine["attachments"]]


async def list_on_two_pages(
    edge_platform: EdgePlatform, person: Member, channel: str, tmp_path: Path
) -> Any:
    """Publish problems until a list of them has a second page, and return the first."""
    numbers = itertools.count()

    async def listed() -> Any:
        message = await (await person.slash(channel, "leaderboard list")).answered()
        if message["components"]:
            return message
        folder = tmp_path / f"other-{next(numbers)}"
        shutil.copytree(ROOT / "problems" / "identity", folder)
        await asyncio.to_thread(
            add_problem, edge_platform.running.url, folder, edge_platform.running.operator
        )
        return None

    message = await eventually(listed, END_S)
    assert message["embeds"][0]["footer"]["text"].startswith("Page 1/")
    with pytest.raises(ActionNotOffered, match="disabled"):
        await person.click(message, "◀")
    return message


async def test_one_case_is_profiled_and_resubmitted(
    edge_platform: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    folder = tmp_path / "several"
    shutil.copytree(ROOT / "problems" / "identity", folder)
    text = (folder / "task.yml").read_text().replace('ranking_by: "last"', 'ranking_by: "mean"')
    several = "".join(f"  - {{size: {size}, seed: 1}}\n" for size in (64, 128, 256))
    one = "  - {size: 4194304, seed: 6252}\n"
    (folder / "task.yml").write_text(text.replace(one, several))
    await asyncio.to_thread(
        add_problem, edge_platform.running.url, folder, edge_platform.running.operator
    )
    ada, channel = edge_sim.person("ada25"), await edge_sim.add_channel("profiles")
    asked = {"script": KERNEL, "gpu": "CPU", "leaderboard_name": "several"}
    path = "leaderboard submit profile"
    message = await (await ada.slash(channel, path, case=4, **asked)).answered()
    assert "case 4 is none of 1 to 3" in message["content"]
    await ada.slash(channel, path, case=2, **asked)
    _, report = await newest(edge_sim, ada, channel, 0)
    await (await ada.click(report, "Resubmit")).answered()
    await newest(edge_sim, ada, channel, 1)
    for thread in ada.threads(channel):
        number = int(re.findall(r"#(\d+)", thread["name"])[0])
        with Person(edge_platform.running.url, "ada25", edge_platform.running.operator) as seen:
            cases = (await asyncio.to_thread(seen.end, number))["cases"]
        [profiled] = [one["name"] for one in cases if one["stage"] == "profile"]
        assert "size=128" in profiled


async def test_a_user_without_a_thread_is_notified_elsewhere(edge_sim: Simulator) -> None:
    ada, bot = edge_sim.person("ada23"), edge_sim.guild.bot_id
    channel = await edge_sim.add_channel("narrow", deny={bot: ("create_private_threads",)})
    await wait_until_known(ada, channel)
    message = await (await ada.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)).answered()
    await edge_sim.record.until(lambda: "✅ passed" in message["content"], "the end", END_S)
    assert "in direct messages" in message["content"]
    assert not message["components"]
    await edge_sim.record.until(lambda: len(ada.letters()) == 2, "two letters", END_S)
    edge_sim.closed_doors.add(ada.id)
    try:
        doing = await ada.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
        message = await doing.answered()
        await edge_sim.record.until(lambda: "✅ passed" in message["content"], "the end", END_S)
    finally:
        edge_sim.closed_doors.clear()
    assert "follow it here" in message["content"]
    assert len(ada.letters()) == 2


async def test_emojis_and_shared_threads_are_used_after_a_start(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    ada, bob = edge_sim.person("ada24"), edge_sim.person("bob24")
    channel, crowd = await edge_sim.add_channel("rooms"), await edge_sim.add_channel("crowd")
    await edge_platform.stop()
    for name in ("wb_passed", "wb_cpu", "other"):
        edge_sim.add_emoji(name)
    edge_platform.more[SETTING] = "problem"
    try:
        await edge_platform.start()
        await check_emojis(edge_sim)
        await ended(edge_sim, ada, channel, 1)
        await ended(edge_sim, ada, channel, 2)
        assert re.fullmatch(r"identity since #\d+", ada.threads(channel)[0]["name"])
    finally:
        await edge_platform.stop()
        edge_sim.emojis.clear()
        del edge_platform.more[SETTING]
    # On a full server it is so for everybody; what a moderator locked is left alone.
    [room] = shared(ada, channel)
    await edge_sim.fill_with_threads(crowd, 901)
    await edge_platform.start()
    await edge_sim.archive(room, is_locked=True)
    for person in (ada, bob):
        await person.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    await eventually(lambda: len(shared(ada, channel)) == 2 and shared(bob, channel), END_S)
    await edge_sim.delete_channel(crowd)
    for person in (ada, bob):
        await wait_for_report(edge_sim, person, shared(person, channel)[-1])


async def check_emojis(edge_sim: Simulator) -> None:
    """Check that a menu, an answer and a report have the application's emojis."""
    ada, channel = edge_sim.person("ada26"), await edge_sim.add_channel("marks")
    await wait_until_known(ada, channel)
    message = await (await ada.slash(channel, TEST, script=KERNEL, **BOARD)).answered()
    [[menu]] = [one["components"] for one in message["components"]]
    beside = {one["value"]: (one.get("emoji") or {}).get("name") for one in menu["options"]}
    assert beside == {one: "wb_cpu" if one == "CPU" else None for one in beside}
    await (await ada.select(message, ["CPU"])).acknowledged()
    await edge_sim.record.until(lambda: "<:wb_passed:" in message["content"], "the end", END_S)
    room = await newest_thread(edge_sim, ada, channel)
    await edge_sim.record.until(lambda: len(ada.sees(room)) == 2, "a report", END_S)
    [_, report] = ada.sees(room)
    assert re.match(r"<:wb_passed:\d+> \*\*passed", report["embeds"][0]["description"])


@pytest.mark.platform
async def test_the_first_ranked_submission_asks_for_a_licence(
    validators: Validators, tmp_path: Path
) -> None:
    running = await asyncio.to_thread(launch_platform, tmp_path / "home", ASKS_LICENCE="true")
    try:
        folder = ROOT / "problems" / "identity"
        await asyncio.to_thread(add_problem, running.url, folder, running.operator)
        async with Simulator(validators) as sim:
            dsn = running.postgres.dsn_of("discord_edge")
            platform = EdgePlatform(running, sim, tmp_path / "edge.log", dsn)
            try:
                await platform.start()
                await choose_licence(platform)
            finally:
                await platform.stop()
            assert not sim.record.take_violations()
    finally:
        await asyncio.to_thread(running.stop)


async def choose_licence(platform: EdgePlatform) -> None:
    """Submit twice: the first time the bot shows the terms and waits for a choice."""
    ada, channel = platform.sim.person("ada"), await platform.sim.add_channel("licences")
    await wait_until_known(ada, channel)
    asked = {"script": KERNEL, "gpu": "CPU", **BOARD}
    message = await (await ada.slash(channel, RANKED, **asked)).answered()
    assert "public kernel archive" in message["content"]
    assert "notification set licence" in message["content"]
    assert not ada.threads(channel)
    await (await ada.select(message, ["MIT"])).acknowledged()
    await wait_for_report(platform.sim, ada, await newest_thread(platform.sim, ada, channel))
    # The choice holds for the account: nobody is asked again.
    before = len(ada.threads(channel))
    message = await (await ada.slash(channel, RANKED, **asked)).answered()
    assert "archive" not in message["content"]
    await newest(platform.sim, ada, channel, before)


@pytest.mark.feature("N7")
async def test_files_beside_the_script_are_run_with_it_and_come_back_as_an_archive(
    edge_platform: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / "several")
    with (folder / "warpboard.yml").open("a") as settings:
        settings.write("limits: {files: 2}\n")
    await asyncio.to_thread(
        add_problem, edge_platform.running.url, folder, edge_platform.running.operator
    )
    ada, channel = edge_sim.person("ada21"), await edge_sim.add_channel("several")
    await wait_until_known(ada, channel, "several")
    helper = FileUpload("kernel_parts.py", "text/x-python", KERNEL.data)
    entry = FileUpload("kernel.py", "text/x-python", b"from kernel_parts import custom_kernel\n")
    given = {"script": entry, "file_2": helper, "gpu": "CPU"}
    # Other problems take one file.
    refused = await (await ada.slash(channel, TEST, **given, **BOARD)).answered()
    assert "2 files; this problem takes one file" in refused["content"]
    await ada.slash(channel, TEST, **given, leaderboard_name="several")
    room = await newest_thread(edge_sim, ada, channel)
    status, _ = await wait_for_report(edge_sim, ada, room)
    assert "passed" in status["content"]
    [thread] = ada.threads(channel)
    number = int(re.findall(r"#(\d+)", thread["name"])[0])
    path = "leaderboard get-submission"
    shown = await (await ada.slash(channel, path, submission_id=number)).answered()
    [attachment] = [it for it in shown["attachments"] if it["filename"].endswith(".zip")]
    with zipfile.ZipFile(io.BytesIO(edge_sim.cdn.data(attachment))) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    assert texts == {"kernel.py": entry.data, "kernel_parts.py": helper.data}
