"""What who submits can see and press: the answer while it is told on, and the buttons after."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from discord_sim.cdn import Blob
from discord_sim.errors import NotOffered
from discord_sim.people.person import Person as Member
from discord_sim.simulator import Simulator
from shared.testing import eventually
from tests.discord.desks import text_of
from tests.discord.platform import (
    BOARD,
    END_S,
    KERNEL,
    RANKED,
    Whole,
    known,
    more_threads,
    reported,
    thread_of,
)
from tests.support.people import Person, add_problem
from tests.support.platform import ROOT
from tests.support.processes import stopped

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]

TEST = "leaderboard submit test"
SLOW = Blob("kernel.py", "text/x-python", b"import time\ntime.sleep(60)\n" + KERNEL.data)
SETTING = "WARPBOARD_DISCORD_EDGE_THREADS"


async def forged(person: Member, message: Any, label: str) -> Any:
    """A press by somebody whose client shows no such button."""
    [row] = message["components"]
    [button] = [one for one in row["components"] if one["label"] == label]
    data = {"custom_id": button["custom_id"], "component_type": 2, "id": button["id"]}
    return await (await person._use(message, data)).answered()


async def newest(town: Simulator, person: Member, channel: str, before: int) -> tuple[Any, Any]:
    """The report in a thread that was not there before."""
    await eventually(lambda: more_threads(person, channel, before), END_S)
    return await reported(town, person, person.threads(channel)[-1]["id"])


def shared(person: Member, channel: str) -> list[str]:
    """The threads that are for a problem, oldest first."""
    return [one["id"] for one in person.threads(channel) if "identity since" in one["name"]]


async def ended(town: Simulator, person: Member, channel: str, count: int) -> None:
    """So many reports are in the only thread, which is closed."""
    await person.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    room = await thread_of(town, person, channel)

    def is_closed() -> bool:
        reports = [one for one in person.sees(room) if one["embeds"]]
        is_archived = town.guild.channel(room)["thread_metadata"]["archived"]
        return len(reports) == count and bool(is_archived)

    await town.record.until(is_closed, "a closed thread", END_S)


async def test_the_answer_says_where_it_is_and_cancels_it(whole: Whole, town: Simulator) -> None:
    ada, bob = town.person("ada20"), town.person("bob20")
    channel = await town.add_channel("answers")
    await known(ada, channel)
    first = await (await ada.slash(channel, TEST, script=SLOW, gpu="CPU", **BOARD)).answered()
    await town.record.until(lambda: "running" in first["content"], "the run", END_S)
    assert f"<#{ada.threads(channel)[0]['id']}>" in first["content"]
    doing = await ada.slash(channel, TEST, script=SLOW, gpu="CPU", **BOARD)
    second = await doing.answered()
    await town.record.until(lambda: "place 1" in second["content"], "a place", END_S)
    await town.record.until(lambda: "begins " in second["content"], "an estimate", END_S)
    assert doing.is_ephemeral
    others = await forged(bob, second, "Cancel")
    assert "only who asked for it" in others["content"]
    assert "place 1" in second["content"]
    room, thread = (one["id"] for one in ada.threads(channel))
    with stopped(whole.running.pid("scheduler")):
        await (await ada.click(second, "Cancel")).acknowledged()
        await cancelling(town, ada, second)
        await cancelling(town, ada, ada.sees(thread)[0])
        await whole.kill()
        await whole.start()
        pressed = await ada.click(first, "Cancel")
        await pressed.acknowledged()
        await town.record.until(lambda: pressed.followups, "a word", END_S)
        assert "is being cancelled" in pressed.followups[0]["content"]
        await cancelling(town, ada, ada.sees(room)[0])
    await reported(town, ada, thread)
    status, _ = await reported(town, ada, room)
    assert "❌ cancelled" in status["content"]
    assert not status["components"]


async def cancelling(town: Simulator, person: Member, message: Any) -> None:
    """A message says that it is being cancelled, and its button cannot be pressed again."""
    await town.record.until(lambda: "being cancelled" in message["content"], "an edit", END_S)
    with pytest.raises(NotOffered, match="disabled"):
        await person.click(message, "Cancelling")


async def test_an_answer_that_is_over_harms_nothing(town: Simulator) -> None:
    ada, channel = town.person("ada21"), await town.add_channel("late")
    await known(ada, channel)
    doing = await ada.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    message = await doing.answered()
    town.clock.turn(15 * 60 + 1)
    status, _ = await reported(town, ada, await thread_of(town, ada, channel))
    assert "passed" in status["content"]
    assert "passed" not in message["content"]
    assert "There" in (await (await ada.slash(channel, "ping")).answered())["content"]


async def test_a_report_leads_on_after_a_restart(whole: Whole, town: Simulator) -> None:
    ada, bob = town.person("ada22"), town.person("bob22")
    channel = await town.add_channel("again")
    await known(ada, channel)
    await ada.slash(channel, RANKED, script=KERNEL, gpu="CPU", **BOARD)
    _, report = await newest(town, ada, channel, 0)
    told = await (await ada.click(report, "Compare with best")).answered()
    assert "is your best there" in told["content"]
    await whole.stop()
    await whole.start()
    assert "you have no submission" in (await forged(bob, report, "Resubmit"))["content"]
    again = await (await ada.click(report, "Resubmit")).answered()
    number = re.findall(r"\*\*#(\d+)\*\*", again["content"])[0]
    status, other = await newest(town, ada, channel, 1)
    assert status["content"].startswith(f"**#{number}** identity · ranked · CPU")
    assert ada.threads(channel)[1]["parent_id"] == channel
    shown = [
        await (await ada.click(one, "Compare with best")).answered() for one in (report, other)
    ]
    compared = "".join(map(text_of, shown))
    # One of the two is the best.
    assert "is your best there" in compared
    assert re.search(r"score: .* ratio [0-9.]+, (.*\n)*.*size=.* ratio [0-9.]+", compared)
    # What goes wrong after a press is told as after a command.
    both = zip((report, other), map(text_of, shown), strict=True)
    [worse] = [one for one, said in both if "ratio" in said]
    town.faults.fail("update_original_webhook_message", 400)
    failed = await (await ada.click(worse, "Compare with best")).answered()
    assert "something went wrong here" in failed["content"]
    path, whose = "leaderboard get-submission", {"submission_id": int(number)}
    mine = await (await ada.slash(channel, path, **whose)).answered()
    assert KERNEL.data in [town.cdn.data(one) for one in mine["attachments"]]


async def test_one_case_is_profiled_alone_and_once_more(
    whole: Whole, town: Simulator, tmp_path: Path
) -> None:
    folder = tmp_path / "several"
    shutil.copytree(ROOT / "problems" / "identity", folder)
    text = (folder / "task.yml").read_text().replace('ranking_by: "last"', 'ranking_by: "mean"')
    several = "".join(f"  - {{size: {size}, seed: 1}}\n" for size in (64, 128, 256))
    one = "  - {size: 4194304, seed: 6252}\n"
    (folder / "task.yml").write_text(text.replace(one, several))
    await asyncio.to_thread(add_problem, whole.running.url, folder, whole.running.operator)
    ada, channel = town.person("ada25"), await town.add_channel("profiles")
    asked = {"script": KERNEL, "gpu": "CPU", "leaderboard_name": "several"}
    path = "leaderboard submit profile"
    message = await (await ada.slash(channel, path, case=4, **asked)).answered()
    assert "case 4 is none of 1 to 3" in message["content"]
    await ada.slash(channel, path, case=2, **asked)
    _, report = await newest(town, ada, channel, 0)
    await (await ada.click(report, "Resubmit")).answered()
    await newest(town, ada, channel, 1)
    for thread in ada.threads(channel):
        number = int(re.findall(r"#(\d+)", thread["name"])[0])
        with Person(whole.running.url, "ada25", whole.running.operator) as seen:
            cases = (await asyncio.to_thread(seen.end, number))["cases"]
        [profiled] = [one["name"] for one in cases if one["stage"] == "profile"]
        assert "size=128" in profiled


async def test_the_application_s_own_emojis_stand_beside_words(
    whole: Whole, town: Simulator
) -> None:
    await whole.stop()
    for name in ("wb_passed", "wb_cpu", "other"):
        town.add_emoji(name)
    await whole.start()
    try:
        ada, channel = town.person("ada26"), await town.add_channel("marks")
        await known(ada, channel)
        message = await (await ada.slash(channel, TEST, script=KERNEL, **BOARD)).answered()
        [[menu]] = [one["components"] for one in message["components"]]
        beside = {one["value"]: (one.get("emoji") or {}).get("name") for one in menu["options"]}
        assert beside == {one: "wb_cpu" if one == "CPU" else None for one in beside}
        await (await ada.select(message, ["CPU"])).acknowledged()
        await town.record.until(lambda: "<:wb_passed:" in message["content"], "the end", END_S)
        room = await thread_of(town, ada, channel)
        await town.record.until(lambda: len(ada.sees(room)) == 2, "a report", END_S)
        [_, report] = ada.sees(room)
        assert re.match(r"<:wb_passed:\d+> \*\*passed", report["embeds"][0]["description"])
    finally:
        await whole.stop()
        town.emojis.clear()
        await whole.start()


async def test_who_can_have_no_thread_is_told_elsewhere(town: Simulator) -> None:
    ada, bot = town.person("ada23"), town.guild.bot_id
    channel = await town.add_channel("narrow", deny={bot: ("create_private_threads",)})
    await known(ada, channel)
    message = await (await ada.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)).answered()
    await town.record.until(lambda: "✅ passed" in message["content"], "the end", END_S)
    assert "in direct messages" in message["content"]
    assert not message["components"]
    await town.record.until(lambda: len(ada.letters()) == 2, "two letters", END_S)
    town.closed_doors.add(ada.id)
    try:
        doing = await ada.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
        message = await doing.answered()
        await town.record.until(lambda: "✅ passed" in message["content"], "the end", END_S)
    finally:
        town.closed_doors.clear()
    assert "it is told here alone" in message["content"]
    assert len(ada.letters()) == 2


async def test_a_problem_s_thread_is_used_again(whole: Whole, town: Simulator) -> None:
    ada, bob = town.person("ada24"), town.person("bob24")
    channel = await town.add_channel("rooms")
    await known(ada, channel)
    await whole.stop()
    whole.more[SETTING] = "problem"
    try:
        await whole.start()
        await ended(town, ada, channel, 1)
        await ended(town, ada, channel, 2)
        assert re.fullmatch(r"identity since #\d+", ada.threads(channel)[0]["name"])
    finally:
        await whole.stop()
        del whole.more[SETTING]
    # On a full server it is so for everybody; what a moderator locked is left alone.
    [room] = shared(ada, channel)
    before = set(town.guild.channels)
    await town.fill_with_threads(channel, 901)
    fillers = set(town.guild.channels) - before
    await whole.start()
    await town.archive(room, is_locked=True)
    for person in (ada, bob):
        await person.slash(channel, TEST, script=KERNEL, gpu="CPU", **BOARD)
    await eventually(lambda: len(shared(ada, channel)) == 2 and shared(bob, channel), END_S)
    for one in fillers:
        del town.guild.channels[one]
    for person in (ada, bob):
        await reported(town, person, shared(person, channel)[-1])
    await whole.stop()
    await whole.start()
