"""What moderators and admins decide on Discord, by the real bot before the real platform."""

import json
from functools import partial
from typing import Any

import httpx
import pytest

from discord_sim.simulator import Simulator
from shared.testing import eventually
from tests.discord.desks import WHY, Desk, begun, granted, kept, problem, text_of
from tests.discord.platform import END_S, KERNEL, RANKED, Whole, known, reported, thread_of

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_operators_decide_on_what_counts(whole: Whole, town: Simulator, olga: Desk) -> None:
    board = {"leaderboard_name": "identity"}
    kim, channel = town.person("kim"), await town.add_channel("moderated")
    await known(kim, channel)
    await kim.slash(channel, RANKED, script=KERNEL, gpu="CPU", **board)
    room = await thread_of(town, kim, channel)
    await reported(town, kim, room)
    [thread] = [one for one in kim.threads(channel) if one["id"] == room]
    number = int(thread["name"].split()[0].removeprefix("#"))
    # What has entries is archived by force alone, and nothing else of it happens.
    doing = await olga.person.slash(olga.channel, "admin delete-leaderboard", **board)
    await doing.acknowledged()
    filled = {"Type its name": "identity", "Why": "a test"}
    message = await (await olga.person.fill_in(doing, filled)).answered()
    assert "has_submissions" in text_of(message)
    which = {"submission": number, **WHY}
    mia = Desk(whole, town.person("mia", whole.roles["moderator"]), channel)
    assert "scope_missing" in await mia.ask("moderate hold", rule="r", **which)
    await granted(whole, "mia", "moderator")
    assert "until somebody decides" in await mia.ask("moderate hold", rule="r", **which)

    async def is_listed() -> bool:
        return f"#{number}" in await mia.ask("moderate appeals")

    await eventually(is_listed, END_S)
    assert "no longer held" in await mia.ask("moderate release", **which)
    assert "does not count" in await mia.ask("moderate disqualify", rule="r", **which)
    assert "counts again" in await mia.ask("moderate restore", **which)
    assert "Not done" in await mia.ask("moderate decide-appeal", decision="accept", **which)
    # A moderator begins no rejudge, and is no admin.
    asked = {**board, "select": "best", **WHY}
    assert "role_missing" in await mia.ask("moderate rejudge", **asked)
    assert "role_missing" in await mia.ask("admin health")

    assert "runs on every agent" in await olga.ask("agents canary", gpu="CPU", submission=number)
    [agent] = await olga.person.autocomplete(olga.channel, "agents drain", "agent", agent="")
    treated = {"agent": agent["value"], **WHY}
    for act, expected in (
        ("drain", "nothing more to do"),
        ("undrain", "works again"),
        ("quarantine", "canaries alone"),
        ("undrain", "works again"),
    ):
        assert expected in await olga.ask(f"agents {act}", **treated)
    assert agent["value"] in (await olga.ask("agents list")).replace("\\", "")

    await taken_off(town, olga, number)
    await kept(whole, "OperatorActed")


async def taken_off(town: Simulator, olga: Desk, number: int) -> None:
    """Look at all of a submission, keep it, and then take it off for ever."""
    path = "admin get-submission"
    doing = await olga.person.slash(olga.channel, path, submission_id=number)
    message = await doing.answered()
    files = [town.cdn.data(one) for one in message["attachments"]]
    assert KERNEL.data in files
    named = {one["filename"]: town.cdn.data(one) for one in message["attachments"]}
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
    await olga.press(message, "Delete", "off its leaderboard")


async def test_a_rejudge_is_shown_before_it_counts(town: Simulator, olga: Desk) -> None:
    asked = {
        "leaderboard_name": "copied2",
        "deadline": "none",
        "reference_code": problem()[0],
        "unchecked": "a test of rejudges",
    }
    await olga.press(await begun(olga, asked), "Publish", "version 1 published")
    await eventually(partial(is_listed, olga.whole.running.url, "copied2"), END_S)
    lou, channel = town.person("lou"), await town.add_channel("rejudged")
    named = {"leaderboard_name": "copied2"}
    await lou.slash(channel, RANKED, script=KERNEL, gpu="CPU", **named)
    await reported(town, lou, await thread_of(town, lou, channel))
    asked["reference_code"] = problem("Said better.")[0]
    await olga.press(await begun(olga, asked), "Publish", "version 2 published")
    shown = await previewed(olga, "rejudge", **named, select="best", **WHY)
    which = {"rejudge_id": text_of(shown).split("`")[1], **WHY}
    # Whoever did not answer, or somebody else, takes it up again.
    await olga.press(await previewed(olga, "settle-rejudge", **which), "Apply", "it counts now")

    async def is_applied() -> bool:
        return "is applied already" in await olga.ask("moderate settle-rejudge", **which)

    await eventually(is_applied, END_S)
    unknown = {**which, "rejudge_id": "nothing"}
    assert "Not done" in await olga.ask("moderate settle-rejudge", **unknown)


async def is_listed(url: str, slug: str) -> bool:
    """Whether the read models have a problem that was published."""
    async with httpx.AsyncClient(base_url=url) as http:
        return (await http.get(f"/v1/problems/{slug}")).is_success


async def previewed(desk: Desk, command: str, **given: Any) -> Any:
    """The message that says what a rejudge would change, and asks."""
    doing = await desk.person.slash(desk.channel, f"moderate {command}", **given)
    message = await doing.answered()
    await desk.whole.sim.record.until(
        lambda: message["components"] or "Not done" in text_of(message), "a preview", END_S
    )
    assert "would change" in text_of(message), text_of(message)
    return message
