"""What participants are told of what concerns them alone, by the real bot: once, as they chose."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from discord_sim.cdn import Blob
from discord_sim.people.person import Person as Member
from discord_sim.simulator import Simulator
from shared.clock import now
from shared.testing import eventually
from tests.discord.desks import Desk
from tests.discord.news_desk import changed, operated, place, published
from tests.discord.platform import EDGE_TOKEN, END_S, KERNEL, RANKED, Whole, reported, thread_of
from tests.support.people import HONEST, add_problem

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]

SLOW = Blob(
    "slow.py",
    "text/x-python",
    HONEST.replace("    source,", "    import time\n\n    time.sleep(0.02)\n    source,").encode(),
)
LINES = "my lines for everybody"


def texts(messages: list[Any]) -> list[str]:
    """What messages say."""
    return [one["content"] for one in messages]


def numbers(thread: str) -> int:
    """The number of the submission that a thread is called by."""
    return int(thread.partition("#")[2].split()[0])


async def ranked(town: Simulator, person: Member, lobby: str, slug: str, kernel: Blob) -> Any:
    """A thread of a ranked submission that is over, and its number."""
    await person.slash(lobby, RANKED, script=kernel, gpu="CPU", leaderboard_name=slug)
    room = await thread_of(town, person, lobby)
    await reported(town, person, room)
    return room, numbers(str(town.guild.channels[room]["name"]))


async def test_one_is_told_what_one_asked_to_be_told_and_once(
    telling: Whole, town: Simulator, tmp_path: Path
) -> None:
    await published(telling, town, tmp_path / "lettered")
    lobby, submissions = await town.add_channel("letters"), place(town, "submissions")
    vera, walt = town.person("vera"), town.person("walt")
    desk = Desk(telling, vera, lobby)
    assert "told of nothing but" in await desk.ask("account notify")
    for event, how in (("overtaken", "dm"), ("run finished", "thread"), ("deadline near", "dm")):
        assert "From now on" in await desk.ask("account notify", event=event, how=how)
    assert "overtaken: by letter" in await desk.ask("account notify")
    assert "go together" in await desk.ask("account notify", event="overtaken")
    assert "thread, dm or off" in await desk.ask("account notify", event="overtaken", how="on")
    shy = Desk(telling, walt, lobby)
    chosen = {"event": LINES, "how": "off", "threads": "per problem"}
    assert "private threads: per problem" in await shy.ask("account notify", **chosen)

    room, number = await ranked(town, vera, lobby, "lettered", SLOW)

    def over() -> bool:
        called = [one for one in vera.sees(room) if "is over: passed" in one["content"]]
        return bool(called) and called[0]["mentions"][0]["id"] == vera.id

    await town.record.until(over, "the end, in the thread", END_S)
    shared, other = await ranked(town, walt, lobby, "lettered", KERNEL)
    assert town.guild.channels[shared]["name"] == f"lettered since #{other}"

    def letters(sign: str, person: Member = vera) -> Callable[[], list[str]]:
        return lambda: [one for one in texts(person.letters()) if sign in one]

    await town.record.until(letters("**walt** overtook you"), "a letter", END_S)
    assert f"with #{other}" in letters("overtook")()[0]
    assert f"#{number}" in letters("overtook")()[0]
    await changed(telling, "lettered", deadline_at=(now() + timedelta(hours=23)).isoformat())
    await town.record.until(letters("takes submissions in until"), "a letter", END_S)
    await telling.kill()
    await telling.start()
    # A line comes after all that was said before it.
    await ranked(town, town.person("xena"), lobby, "lettered", KERNEL)
    await town.record.until(
        lambda: any("**xena**" in one for one in texts(vera.sees(submissions))), "a line", END_S
    )
    assert len(letters("takes submissions in until")()) == 1
    assert len(letters("**walt** overtook you")()) == 1
    assert not any("**walt**" in one for one in texts(vera.sees(submissions)) if "· #" in one)
    assert not walt.letters()


async def test_what_is_decided_of_a_submission_is_told_with_the_way_to_appeal(
    telling: Whole, town: Simulator, tmp_path: Path
) -> None:
    await published(telling, town, tmp_path / "judged")
    lobby, yuri = await town.add_channel("judging"), town.person("yuri")
    room, number = await ranked(town, yuri, lobby, "judged", KERNEL)
    why = {"reason": "it keeps results", "rule": "compute anew"}

    async def said(sign: str, inside: str = room) -> Any:
        await town.record.until(
            lambda: any(sign in one for one in texts(yuri.sees(inside))), sign, END_S
        )
        return [one for one in yuri.sees(inside) if sign in one["content"]]

    await operated(telling, "POST", f"submissions/{number}/disqualify", **why)
    [message] = await said("is disqualified")
    assert "Rule: compute anew\nReason: it keeps results" in message["content"]
    doing = await yuri.click(message, "Appeal")
    await doing.acknowledged()
    doing = await yuri.fill_in(doing, {"Why should somebody look again?": "it does not"})
    assert "Filed" in (await doing.answered())["content"]
    # Where the thread is gone, it is told by letter.
    await town.delete_channel(room)
    answer = {"is_accepted": True, "reason": "you are right"}
    await operated(telling, "POST", f"submissions/{number}/decide-appeal", **answer)
    box = str(town.guild.private_with(yuri.id)["id"])
    [message] = await said("your appeal is accepted: it may be ranked", box)
    assert "Reason: you are right" in message["content"]
    await operated(telling, "POST", "participants/yuri/ban")
    shown = {
        "Authorization": f"Bearer {EDGE_TOKEN}",
        "Warpboard-Discord-User": yuri.id,
    }
    async with httpx.AsyncClient(base_url=telling.running.url, headers=shown) as http:
        appeal = await http.post("/v1/me/appeal", json={"text": "it was not me"})
    assert appeal.is_success, appeal.text
    await operated(telling, "POST", "participants/yuri/decide-appeal", is_accepted=False)
    await said("looked again at your ban, and your appeal is rejected", box)
    assert len(texts(yuri.letters())) == 2


async def test_a_rejudge_that_counts_is_told_in_the_post(
    telling: Whole, town: Simulator, tmp_path: Path
) -> None:
    folder = tmp_path / "rejudged"
    [post] = await published(telling, town, folder)
    lobby, owner = await town.add_channel("rejudging"), town.owner()
    await ranked(town, town.person("zoe"), lobby, "rejudged", KERNEL)
    (folder / "statement.md").write_text("Copy it.\n")
    await asyncio.to_thread(add_problem, telling.running.url, folder, telling.running.operator)
    began = await operated(telling, "POST", "rejudges", problem="rejudged", select="all")

    async def applied() -> bool:
        try:
            await operated(telling, "POST", f"rejudges/{began['id']}/apply")
        except AssertionError:
            return False
        return True

    await eventually(applied, END_S)

    def told() -> bool:
        seen = texts(owner.sees(post["id"]))
        return "Rejudged under version 2: 1 submission was run again" in seen[0] and any(
            one.startswith("Rejudged under version 2") for one in seen[1:]
        )

    await town.record.until(told, "a rejudge in the post", END_S)
    assert not any(one["mention_roles"] for one in owner.sees(post["id"])[1:])
