"""What participants are told of what concerns them alone, by the real bot: once, as they chose."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from discord_sim.cdn import FileUpload
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from shared.clock import now
from tests.discord.announcing import (
    change_leaderboard,
    find_channel,
    publish_copy,
    send_operator_request,
)
from tests.discord.channel_users import ChannelUser
from tests.discord.platform import (
    EDGE_MARKS,
    EDGE_TOKEN,
    END_S,
    KERNEL,
    RANKED,
    EdgePlatform,
    newest_thread,
    wait_for_report,
)
from tests.support.people import HONEST

pytestmark = EDGE_MARKS

SLOW = FileUpload(
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


async def ranked(
    edge_sim: Simulator, person: Member, lobby: str, slug: str, kernel: FileUpload
) -> Any:
    """A thread of a ranked submission that is over, and its number."""
    await person.slash(lobby, RANKED, script=kernel, gpu="CPU", leaderboard_name=slug)
    room = await newest_thread(edge_sim, person, lobby)
    await wait_for_report(edge_sim, person, room)
    return room, numbers(str(edge_sim.guild.channels[room]["name"]))


@pytest.mark.feature("N8")
async def test_participants_get_the_notifications_they_chose_once(
    announcing: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    await publish_copy(announcing, edge_sim, tmp_path / "find_direct_report")
    lobby, submissions = (
        await edge_sim.add_channel("letters"),
        find_channel(edge_sim, "submissions"),
    )
    vera, walt = edge_sim.person("vera"), edge_sim.person("walt")
    channel_user = ChannelUser(announcing, vera, lobby)
    assert "only notified of decisions" in await channel_user.use_command("account notify")
    for event, how in (("overtaken", "dm"), ("run finished", "thread"), ("deadline near", "dm")):
        assert "From now on" in await channel_user.use_command(
            "account notify", event=event, how=how
        )
    assert "overtaken: by direct message" in await channel_user.use_command("account notify")
    assert "belong together" in await channel_user.use_command("account notify", event="overtaken")
    assert "thread, dm or off" in await channel_user.use_command(
        "account notify", event="overtaken", how="on"
    )
    shy = ChannelUser(announcing, walt, lobby)
    chosen = {"event": LINES, "how": "off", "threads": "per problem"}
    assert "private threads: per problem" in await shy.use_command("account notify", **chosen)

    room, number = await ranked(edge_sim, vera, lobby, "find_direct_report", SLOW)

    def over() -> bool:
        called = [one for one in vera.sees(room) if "has finished: passed" in one["content"]]
        return bool(called) and called[0]["mentions"][0]["id"] == vera.id

    await edge_sim.record.until(over, "the end, in the thread", END_S)
    shared, other = await ranked(edge_sim, walt, lobby, "find_direct_report", KERNEL)
    assert edge_sim.guild.channels[shared]["name"] == f"find_direct_report since #{other}"

    def letters(sign: str, person: Member = vera) -> Callable[[], list[str]]:
        return lambda: [one for one in texts(person.letters()) if sign in one]

    await edge_sim.record.until(letters("**walt** overtook you"), "a letter", END_S)
    assert f"with #{other}" in letters("overtook")()[0]
    assert f"#{number}" in letters("overtook")()[0]
    await change_leaderboard(
        announcing, "find_direct_report", deadline_at=(now() + timedelta(hours=23)).isoformat()
    )
    await edge_sim.record.until(letters("takes submissions until"), "a letter", END_S)
    await announcing.kill()
    await announcing.start()
    # A line comes after all that was said before it.
    await ranked(edge_sim, edge_sim.person("xena"), lobby, "find_direct_report", KERNEL)
    await edge_sim.record.until(
        lambda: any("**xena**" in one for one in texts(vera.sees(submissions))), "a line", END_S
    )
    assert len(letters("takes submissions until")()) == 1
    assert len(letters("**walt** overtook you")()) == 1
    assert not any("**walt**" in one for one in texts(vera.sees(submissions)) if "· #" in one)
    assert not walt.letters()


async def test_decisions_are_notified_with_a_way_to_appeal(
    announcing: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    await publish_copy(announcing, edge_sim, tmp_path / "judged")
    lobby, yuri = await edge_sim.add_channel("judging"), edge_sim.person("yuri")
    room, number = await ranked(edge_sim, yuri, lobby, "judged", KERNEL)
    why = {"reason": "it keeps results", "rule": "compute anew"}

    async def said(sign: str, inside: str = room) -> Any:
        await edge_sim.record.until(
            lambda: any(sign in one for one in texts(yuri.sees(inside))), sign, END_S
        )
        return [one for one in yuri.sees(inside) if sign in one["content"]]

    await send_operator_request(announcing, "POST", f"submissions/{number}/disqualify", **why)
    [message] = await said("is disqualified")
    assert "Rule: compute anew\nReason: it keeps results" in message["content"]
    doing = await yuri.click(message, "Appeal")
    await doing.acknowledged()
    doing = await yuri.fill_in(doing, {"Why should this be reviewed again?": "it does not"})
    assert "Filed" in (await doing.answered())["content"]
    # Where the thread is gone, it is told by letter.
    await edge_sim.delete_channel(room)
    answer = {"is_accepted": True, "reason": "you are right"}
    await send_operator_request(announcing, "POST", f"submissions/{number}/decide-appeal", **answer)
    box = str(edge_sim.guild.private_with(yuri.id)["id"])
    [message] = await said("your appeal is accepted: the submission may be ranked", box)
    assert "Reason: you are right" in message["content"]
    await send_operator_request(announcing, "POST", "participants/yuri/ban")
    shown = {
        "Authorization": f"Bearer {EDGE_TOKEN}",
        "Warpboard-Discord-User": yuri.id,
    }
    async with httpx.AsyncClient(base_url=announcing.running.url, headers=shown) as http:
        appeal = await http.post("/v1/me/appeal", json={"text": "it was not me"})
    assert appeal.is_success, appeal.text
    await send_operator_request(
        announcing, "POST", "participants/yuri/decide-appeal", is_accepted=False
    )
    await said("Your ban was reviewed again, and your appeal is rejected", box)
    assert len(texts(yuri.letters())) == 2
