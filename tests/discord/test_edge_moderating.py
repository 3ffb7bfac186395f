"""What moderators and admins decide on Discord, by the real bot before the real platform."""

import json
from functools import partial
from typing import Any

import httpx

from discord_sim.simulator import Simulator
from tests.discord.announcing import wait_for_posts
from tests.discord.channel_users import (
    WHY,
    ChannelUser,
    grant_role,
    message_text,
    start_publication,
    wait_for_acts,
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
    # What has entries is archived by force alone, and nothing else of it happens.
    doing = await olga.person.slash(olga.channel, "admin delete-leaderboard", **board)
    await doing.acknowledged()
    filled = {"Type its name": "identity", "Why": "a test"}
    message = await (await olga.person.fill_in(doing, filled)).answered()
    assert "has_submissions" in message_text(message)
    which = {"submission": number, **WHY}
    mia = ChannelUser(
        edge_platform, edge_sim.person("mia", edge_platform.roles["moderator"]), channel
    )
    assert "scope_missing" in await mia.use_command("moderate hold", rule="r", **which)
    await grant_role(edge_platform, "mia", "moderator")
    assert "until a moderator decides" in await mia.use_command("moderate hold", rule="r", **which)

    async def is_listed() -> bool:
        return f"#{number}" in await mia.use_command("moderate appeals")

    await eventually(is_listed, END_S)
    assert "no longer held" in await mia.use_command("moderate release", **which)
    assert "does not count" in await mia.use_command("moderate disqualify", rule="r", **which)
    assert "counts again" in await mia.use_command("moderate restore", **which)
    assert "Not done" in await mia.use_command("moderate decide-appeal", decision="accept", **which)
    # A moderator begins no rejudge, and is no admin.
    asked = {**board, "select": "best", **WHY}
    assert "role_missing" in await mia.use_command("moderate rejudge", **asked)
    assert "role_missing" in await mia.use_command("admin health")

    assert "runs on every agent" in await olga.use_command(
        "agents canary", gpu="CPU", submission=number
    )
    [agent] = await olga.person.autocomplete(olga.channel, "agents drain", "agent", agent="")
    treated = {"agent": agent["value"], **WHY}
    for act, expected in (
        ("drain", "no new jobs"),
        ("undrain", "works again"),
        ("quarantine", "is in quarantine"),
        ("undrain", "works again"),
    ):
        assert expected in await olga.use_command(f"agents {act}", **treated)
    assert agent["value"] in (await olga.use_command("agents list")).replace("\\", "")

    await withdraw_submission(edge_sim, olga, number)
    await wait_for_acts(edge_platform, "OperatorActed")


async def withdraw_submission(edge_sim: Simulator, olga: ChannelUser, number: int) -> None:
    """Look at a submission, keep it, and then withdraw it."""
    path = "admin get-submission"
    doing = await olga.person.slash(olga.channel, path, submission_id=number)
    message = await doing.answered()
    files = [edge_sim.cdn.data(one) for one in message["attachments"]]
    assert KERNEL.data in files
    named = {one["filename"]: edge_sim.cdn.data(one) for one in message["attachments"]}
    # The hidden run is in it as well, and why it was disqualified for a while.
    assert {one["stage"] for one in json.loads(named["runs.json"])["cases"]} >= {"hidden_check"}
    assert b"SubmissionDisqualified" in named["history.txt"]
    assert "kim" in message["content"]
    path = "admin delete-submission"
    message = await (
        await olga.person.slash(olga.channel, path, submission=number, **WHY)
    ).answered()
    await olga.press(message, "Keep", "is kept")
    message = await (
        await olga.person.slash(olga.channel, path, submission=number, **WHY)
    ).answered()
    await olga.press(message, "Delete", "was removed from its leaderboard")


async def test_a_rejudge_is_shown_before_it_counts_and_announced_when_it_does(
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
    named = {"leaderboard_name": "copied2"}
    await lou.slash(channel, RANKED, script=KERNEL, gpu="CPU", **named)
    await wait_for_report(edge_sim, lou, await newest_thread(edge_sim, lou, channel))
    asked["reference_code"] = zip_problem("Said better.")[0]
    await olga.press(await start_publication(olga, asked), "Publish", "version 2 published")
    shown = await wait_for_preview(olga, "rejudge", **named, select="best", **WHY)
    which = {"rejudge_id": message_text(shown).split("`")[1], **WHY}
    # Whoever did not answer, or somebody else, takes it up again.
    await olga.press(
        await wait_for_preview(olga, "settle-rejudge", **which), "Apply", "it counts now"
    )

    async def is_applied() -> bool:
        return "is already applied" in await olga.use_command("moderate settle-rejudge", **which)

    await eventually(is_applied, END_S)
    unknown = {**which, "rejudge_id": "nothing"}
    assert "Not done" in await olga.use_command("moderate settle-rejudge", **unknown)

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


async def wait_for_preview(channel_user: ChannelUser, command: str, **given: Any) -> Any:
    """Use a command, and return the message with the preview of a rejudge."""
    doing = await channel_user.person.slash(channel_user.channel, f"moderate {command}", **given)
    message = await doing.answered()
    await channel_user.edge_platform.sim.record.until(
        lambda: message["components"] or "Not done" in message_text(message), "a preview", END_S
    )
    assert "would change" in message_text(message), message_text(message)
    return message
