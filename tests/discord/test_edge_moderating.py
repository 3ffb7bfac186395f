"""What moderators and admins decide on Discord, by the real bot before the real platform."""

from functools import partial

import httpx

from discord_sim.simulator import Simulator
from tests.discord.announcing import send_operator_request, wait_for_posts
from tests.discord.channel_users import (
    WHY,
    ChannelUser,
    grant_role,
    message_text,
    start_publication,
    zip_problem,
)
from tests.discord.platform import (
    EDGE_MARKS,
    END_S,
    KERNEL,
    RANKED,
    EdgePlatform,
    newest_thread,
    wait_for_report,
    wait_until_known,
)
from tests.support.waits import eventually

pytestmark = EDGE_MARKS


async def test_operators_decide_on_what_counts(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    board = {"leaderboard_name": "identity"}
    kim, channel = edge_sim.person("kim"), await edge_sim.add_channel("moderated")
    await wait_until_known(kim, channel)
    await kim.slash(channel, RANKED, script=KERNEL, gpu="CPU", **board)
    room = await newest_thread(edge_sim, kim, channel)
    await wait_for_report(edge_sim, kim, room)
    [thread] = [one for one in kim.threads(channel) if one["id"] == room]
    number = int(thread["name"].split()[0].removeprefix("#"))
    # A leaderboard with entries is archived only by force.
    doing = await olga.person.slash(olga.channel, "leaderboard delete", **board)
    await doing.acknowledged()
    filled = {"Type its name": "identity", "Why": "a test"}
    message = await (await olga.person.fill_in(doing, filled)).answered()
    assert "has_submissions" in message_text(message)
    which = {"submission": number, **WHY}
    # Its author is an operator, so another creator may not decide about it.
    cora = ChannelUser(
        edge_platform, edge_sim.person("cora", edge_platform.roles["creator"]), channel
    )
    assert "scope_missing" in await cora.use_command("leaderboard hold", rule="r", **which)
    await grant_role(edge_platform, "cora", "creator")
    assert "another author" in await cora.use_command("leaderboard hold", rule="r", **which)
    mia = ChannelUser(
        edge_platform, edge_sim.person("mia", edge_platform.roles["moderator"]), channel
    )
    assert "scope_missing" in await mia.use_command("moderate hold", rule="r", **which)
    await grant_role(edge_platform, "mia", "moderator")
    assert "until it is reviewed" in await mia.use_command("moderate hold", rule="r", **which)
    assert "no longer held" in await mia.use_command("moderate release", **which)
    assert "does not count" in await mia.use_command("moderate disqualify", rule="r", **which)
    assert "already disqualified" in await mia.use_command("moderate disqualify", rule="r", **which)


async def test_an_applied_rejudge_is_announced(
    announcing: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    asked = {
        "leaderboard_name": "copied2",
        "deadline": "none",
        "reference_code": zip_problem()[0],
        "unchecked": "a test of rejudges",
    }
    await olga.press(await start_publication(olga, asked), "Publish", "version 1 published")
    await eventually(partial(is_listed, announcing.running.url, "copied2"), END_S)
    [post] = await wait_for_posts(edge_sim, "copied2")
    lou, channel = edge_sim.person("lou"), await edge_sim.add_channel("rejudged")
    await lou.slash(channel, RANKED, script=KERNEL, gpu="CPU", leaderboard_name="copied2")
    await wait_for_report(edge_sim, lou, await newest_thread(edge_sim, lou, channel))
    asked["reference_code"] = zip_problem("Said better.")[0]
    await olga.press(await start_publication(olga, asked), "Publish", "version 2 published")
    body = {"problem": "copied2", "select": "best"}
    rejudge = await send_operator_request(announcing, "POST", "rejudges", **body)
    path = f"rejudges/{rejudge['id']}"

    async def is_previewed() -> bool:
        async with httpx.AsyncClient(base_url=announcing.running.url) as http:
            answer = await http.get(f"/v1/admin/{path}", headers=announcing.running.operator)
        return answer.is_success and answer.json()["state"] == "previewed"

    await eventually(is_previewed, END_S)
    await send_operator_request(announcing, "POST", f"{path}/apply")

    def is_announced() -> bool:
        first, *others = (one["content"] for one in edge_sim.owner().sees(post["id"]))
        return "Rejudged under version 2: 1 submission was run again" in first and any(
            one.startswith("Rejudged under version 2") for one in others
        )

    await edge_sim.record.until(is_announced, "a rejudge in the post", END_S)
    assert not any(one["mention_roles"] for one in edge_sim.owner().sees(post["id"])[1:])


async def is_listed(url: str, slug: str) -> bool:
    """Whether the read models have a problem that was published."""
    async with httpx.AsyncClient(base_url=url) as http:
        return (await http.get(f"/v1/problems/{slug}")).is_success
