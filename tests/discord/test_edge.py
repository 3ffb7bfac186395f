"""The real bot before the real platform: from a command on Discord to the row on a leaderboard."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from discord_sim import shapes
from discord_sim.cdn import Blob
from discord_sim.errors import NotOffered
from discord_sim.judges import Judges
from discord_sim.people.person import Person as Member
from discord_sim.simulator import Simulator
from shared.errors import Failed
from shared.servers import nats, postgresql
from shared.testing import eventually
from tests.discord.platform import END_S, Whole, launched
from tests.system.people import HONEST, Person, add_problem
from tests.system.running import ROOT

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

KERNEL = Blob("kernel.py", "text/x-python", HONEST.encode())
BOARD = {"leaderboard_name": "identity"}
RANKED = "leaderboard submit ranked"
HOSTILE = b"""
print("``` @everyone <@&1> " + "x" * 5000)
def custom_kernel(data):
    raise RuntimeError("```\\n@everyone **bold** \\u202e")
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(
    discords_judges: Judges, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Whole]:
    """One platform and one simulated Discord for all tests here."""
    try:
        nats.binary()
        postgresql.binaries()
    except Failed as failed:
        pytest.skip(str(failed))
    folder = tmp_path_factory.mktemp("edge")
    running = await asyncio.to_thread(launched, folder / "home")
    try:
        await asyncio.to_thread(add_problem, running.url, ROOT / "problems" / "identity")
        async with Simulator(discords_judges) as sim:
            dsn = running.environ("ranker")["WARPBOARD_RANKER_POSTGRES_DSN"]
            found = Whole(running, sim, folder / "edge.log", dsn)
            try:
                await found.start()
                yield found
            finally:
                await found.stop()
    finally:
        await asyncio.to_thread(running.stop)


@pytest.fixture
def sim(whole: Whole) -> Iterator[Simulator]:
    """The simulator; nobody broke a rule of Discord's in a test."""
    yield whole.sim
    record = whole.sim.record
    faults, record.own_faults[:] = list(record.own_faults), []
    violations = record.take_violations()
    assert not faults, "\n".join(faults)
    assert not violations, "\n".join(violations)


async def known(person: Member, channel: str) -> None:
    """The edge has heard of the leaderboard."""
    typed = {"leaderboard_name": "ide"}
    await eventually(
        lambda: person.autocomplete(channel, RANKED, "leaderboard_name", **typed), END_S
    )


async def thread_of(sim: Simulator, person: Member, channel: str) -> str:
    """The person's newest thread there."""
    threads = await sim.record.until(lambda: person.threads(channel), "a thread", END_S)
    return str(threads[-1]["id"])


async def reported(sim: Simulator, person: Member, room: str) -> tuple[Any, Any]:
    """Status and report, once the status is the last."""

    def over() -> Any:
        seen = person.sees(room)
        marks = ("✅", "❌")
        if len(seen) >= 2 and seen[0]["content"].rpartition("\n")[2].startswith(marks):
            return seen
        return None

    seen = await sim.record.until(over, "a report", END_S)
    return seen[0], seen[1]


async def test_a_ranked_file_goes_from_discord_to_the_leaderboard(sim: Simulator) -> None:
    ada, bob = sim.person("ada"), sim.person("bob")
    channel = await sim.add_channel("submissions")
    await known(ada, channel)
    doing = await ada.slash(channel, RANKED, script=KERNEL, gpu="cpu", **BOARD)
    await doing.acknowledged()
    assert doing.interaction.callback == 5
    assert doing.is_ephemeral
    room = await thread_of(sim, ada, channel)
    assert not bob.threads(channel)
    status, report = await reported(sim, ada, room)
    assert "score" in status["content"]
    assert "rank 1" in status["content"]
    assert "✅" in report["embeds"][0]["description"]
    assert not status["mentions"]
    [thread] = [one for one in ada.threads(channel) if one["id"] == room]
    assert thread["type"] == shapes.PRIVATE_THREAD
    assert re.match(r"#\d+ identity ranked CPU", thread["name"])
    message = await doing.answered()
    await sim.record.until(lambda: "rank 1" in message["content"], "the last edit", END_S)
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
    assert sim.cdn.data(mine["attachments"][-1]) == KERNEL.data
    others = await (await bob.slash(channel, path, **whose)).answered()
    unknown = await (await bob.slash(channel, path, submission_id=999999)).answered()
    assert (
        others["content"].replace(str(number), "N").rpartition("·")[0]
        == (unknown["content"].replace("999999", "N").rpartition("·")[0])
    )


async def test_what_cannot_be_submitted_is_refused_in_words(sim: Simulator) -> None:
    ada, channel = sim.person("ada2"), await sim.add_channel("refusals")
    await known(ada, channel)
    says = {"data": b"#!POPCORN leaderboard other\n" + KERNEL.data}
    for script, given, said in (
        (Blob("kernel.txt", "text/plain", b"x"), BOARD, "must end in"),
        (Blob("kernel.py", "text/x-python", b"\xff\xfe"), BOARD, "not UTF-8"),
        (Blob("kernel.py", "text/x-python", b""), BOARD, "empty"),
        (Blob("kernel.py", "text/x-python", says["data"]), BOARD, "change one of them"),
        (KERNEL, {}, "for which leaderboard"),
        (KERNEL, {"leaderboard_name": "nothing"}, "Not done"),
        (KERNEL, {**BOARD, "gpu": "NONE"}, "not `NONE`"),
    ):
        doing = await ada.slash(channel, RANKED, script=script, **given)
        message = await doing.answered()
        assert said in message["content"]
        assert doing.is_ephemeral
        assert message["content"].rstrip("`").endswith(doing.interaction.id)
    assert not ada.threads(channel)


async def test_hostile_output_is_shown_and_harms_nobody(sim: Simulator) -> None:
    eve, channel = sim.person("eve"), await sim.add_channel("hostile")
    await known(eve, channel)
    script = Blob("kernel.py", "text/x-python", HOSTILE)
    await eve.slash(channel, "leaderboard submit test", script=script, gpu="CPU", **BOARD)
    room = await thread_of(sim, eve, channel)
    status, report = await reported(sim, eve, room)
    body = report["embeds"][0]["description"]
    assert body.count("```") == 2
    assert "\u202e" not in body
    assert not status["mention_everyone"]
    assert not report["mention_everyone"]
    assert report["attachments"]


async def test_a_kill_in_between_posts_nothing_twice(whole: Whole, sim: Simulator) -> None:
    ada, channel = sim.person("ada3"), await sim.add_channel("kills")
    await known(ada, channel)
    await ada.slash(channel, "leaderboard submit benchmark", script=KERNEL, gpu="CPU", **BOARD)
    room = await thread_of(sim, ada, channel)
    await sim.record.until(lambda: ada.sees(room), "the status", END_S)
    before = len(sim.record.of("bulk_set_guild_application_commands"))
    await whole.kill()
    await whole.start()
    _, report = await reported(sim, ada, room)
    assert "identity on CPU" in report["embeds"][0]["title"]
    assert len(ada.sees(room)) == 2
    assert len(ada.threads(channel)) == 1
    assert len(sim.record.of("bulk_set_guild_application_commands")) == before


async def test_what_there_is_to_look_at_is_shown(sim: Simulator) -> None:
    ada, channel = sim.person("ada4"), await sim.add_channel("looking")
    await known(ada, channel)
    for path, given, said in (
        ("leaderboard list", {}, "identity"),
        ("leaderboard show-personal", {**BOARD, "gpu": "CPU"}, "Nothing is here yet"),
        ("leaderboard task", BOARD, ""),
        ("leaderboard template", BOARD, "Begin"),
        ("leaderboard reference-code", BOARD, "reference"),
        ("leaderboard queue", {"gpu": "CPU"}, "CPU"),
        ("leaderboard help", {}, "/leaderboard submit ranked"),
        ("leaderboard cancel", {"submission_id": 999999}, "you have no submission"),
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
        await ada.slash(channel, "leaderboard create")


async def test_several_gpu_types_are_chosen_from_a_menu(sim: Simulator) -> None:
    ada, channel = sim.person("ada5"), await sim.add_channel("menus")
    await known(ada, channel)
    doing = await ada.slash(channel, "leaderboard submit test", script=KERNEL, **BOARD)
    message = await doing.answered()
    assert "Choose" in message["content"]
    await (await ada.select(message, ["CPU"])).acknowledged()
    room = await thread_of(sim, ada, channel)
    status, _ = await reported(sim, ada, room)
    assert "passed" in status["content"]
    assert not message["components"]


async def test_a_deleted_thread_becomes_a_letter(sim: Simulator) -> None:
    ada, channel = sim.person("ada6"), await sim.add_channel("deleted")
    await known(ada, channel)
    await ada.slash(channel, "leaderboard submit test", script=KERNEL, gpu="CPU", **BOARD)
    await sim.delete_channel(await thread_of(sim, ada, channel))
    letters = await sim.record.until(
        lambda: [one for one in ada.letters() if one["embeds"]], "a letter", END_S
    )
    assert "identity on CPU" in letters[-1]["embeds"][0]["title"]


async def test_what_ends_while_discord_is_down_is_told_after(whole: Whole, sim: Simulator) -> None:
    ada, channel = sim.person("ada7"), await sim.add_channel("outage")
    await known(ada, channel)
    await ada.slash(channel, "leaderboard submit test", script=KERNEL, gpu="CPU", **BOARD)
    room = await thread_of(sim, ada, channel)
    number = int(re.findall(r"#(\d+)", ada.threads(channel)[0]["name"])[0])
    await sim.outage()
    try:
        with Person(whole.running.url, "ada7") as seen:
            await asyncio.to_thread(seen.end, number)
    finally:
        sim.recover()
    await reported(sim, ada, room)
    assert len(ada.sees(room)) == 2
    await sim.record.until(lambda: sim.gateway.is_connected, "the edge is back", END_S)


async def test_pages_turn_and_outlive_the_edge(
    whole: Whole, sim: Simulator, tmp_path: Path
) -> None:
    for number in range(10):
        folder = shutil.copytree(ROOT / "problems" / "identity", tmp_path / f"other-{number}")
        await asyncio.to_thread(add_problem, whole.running.url, folder)
    ada, channel = sim.person("ada8"), await sim.add_channel("pages")

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
    await sim.record.until(
        lambda: message["embeds"][0]["footer"]["text"] == "Page 2/2", "the page", END_S
    )


async def test_fifty_people_are_all_answered(sim: Simulator) -> None:
    channel = await sim.add_channel("crowd")
    people = [sim.person(f"crowd{n}") for n in range(50)]
    doings = await asyncio.gather(
        *(one.slash(channel, "leaderboard show", gpu="CPU", **BOARD) for one in people)
    )
    await asyncio.gather(*(one.answered() for one in doings))
    # A bound for a busy machine; Discord's own is three seconds.
    assert max(one.interaction.latency_s for one in doings) < 3
