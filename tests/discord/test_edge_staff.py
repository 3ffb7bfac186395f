"""Accounts, authors and admins on Discord, by the real bot before the real platform."""

import httpx
import pytest

from discord_sim.cdn import FileUpload
from discord_sim.shapes import ActionNotOffered
from discord_sim.simulator import Simulator
from tests.discord.channel_users import (
    WHY,
    ChannelUser,
    grant_role,
    message_text,
    preview_publication,
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
from tests.problems.test_templates import SINGLE

pytestmark = EDGE_MARKS


async def test_a_client_is_linked_listed_and_ended(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    ada = ChannelUser(
        edge_platform, edge_sim.person("lina"), await edge_sim.add_channel("accounts")
    )
    async with httpx.AsyncClient(base_url=edge_platform.running.url) as http:
        state = (await http.get("/auth/init", params={"provider": "discord"})).json()["state"]
        shown = {"X-Popcorn-Cli-Id": state}
        doing = await ada.person.slash(ada.channel, "account link", id=state)
        message = await doing.answered()
        assert "Did you start this yourself" in message["content"]
        assert doing.is_ephemeral
        await ada.press(message, "Do not", "Nothing was linked")
        assert (await http.get("/v1/me", headers=shown)).status_code == 401
        message = await (await ada.person.slash(ada.channel, "account link", id=state)).answered()
        await ada.press(message, "Link it", "Linked")
        assert (await http.get("/v1/me", headers=shown)).json()["name"] == "lina"
        assert "cli" in await ada.use_command("account tokens")
        path = "account revoke"
        [token] = await ada.person.autocomplete(ada.channel, path, "token", token="popcorn")
        assert "is revoked" in await ada.use_command(path, token=token["value"])
        assert (await http.get("/v1/me", headers=shown)).status_code == 401
    assert "Not done" in await ada.use_command("account link", id="nobody-gave-this-out")


async def test_an_author_publishes_and_archives(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    channel = await edge_sim.add_channel("authors")
    zipped, report = zip_problem()
    asked = {
        "leaderboard_name": "copied",
        "deadline": "2099-01-02 03:04",
        "reference_code": zipped,
        "report": FileUpload("report.json", "application/json", report.encode()),
    }
    eve = ChannelUser(edge_platform, edge_sim.person("eve2"), channel)
    assert "role_missing" in await eve.use_command("leaderboard create", **asked)
    assert "role_missing" in await eve.use_command(
        "leaderboard delete", leaderboard_name="identity"
    )
    ann = ChannelUser(
        edge_platform, edge_sim.person("ann", edge_platform.roles["creator"]), channel
    )
    for change, said in (
        ({"deadline": "tomorrow"}, "not a deadline"),
        ({"deadline": "2020-01-01"}, "is in the past"),
        ({"leaderboard_name": "other"}, "not about other"),
        ({"reference_code": FileUpload("a.zip", "application/zip", b"no zip")}, "cannot be read"),
        ({"report": FileUpload("r.json", "application/json", b"{}")}, "report"),
        ({"unchecked": "no time"}, "not both"),
    ):
        assert said in await ann.use_command("leaderboard create", **{**asked, **change}), change
    message = await preview_publication(ann, {**asked, "gpu": "cpu, H100"})
    assert "GPU types CPU, H100" in message_text(message)
    await ann.press(message, "Discard", "Discarded")
    typed = {"gpu": "h100, c"}
    offered = await ann.person.autocomplete(channel, "leaderboard create", "gpu", **typed)
    assert [choice["value"] for choice in offered] == ["h100, CPU"]
    # Where the check ran nothing, the preview says so, and publishing it needs a flag.
    message = await preview_publication(ann, {**asked, "gpu": "B200"})
    assert "this problem was not run on B200 before" in message_text(message)
    await ann.press(message, "Discard", "Discarded")
    # On Discord alone she is an author; the platform does not know of it.
    message = await start_publication(ann, asked)
    await ann.press(message, "Publish", "scope_missing")
    await grant_role(edge_platform, "ann", "creator")
    message = await start_publication(ann, asked)
    assert "<t:4071006240:F>" in message_text(message)
    await ann.press(message, "Discard", "Discarded")
    message = await preview_publication(ann, {**asked, "gpu": "B200"})
    await ann.press(message, "Publish", "untested_gpus")
    message = await start_publication(ann, asked)
    await ann.press(message, "Publish", "version 1 published")
    # Without a report, an agent checks it: this one accepts any answer.
    lax = SINGLE.replace(b"return bool(torch.allclose(got, want))", b"return True")
    assert lax != SINGLE
    sent = FileUpload("reference.py", "text/plain", lax)
    given = {"leaderboard_name": "lax", "deadline": "none", "reference_code": sent, "gpu": "CPU"}
    doing = await ann.person.slash(channel, "leaderboard create", **given)
    message = await doing.answered()
    record = edge_platform.sim.record
    await record.until(lambda: "check_takes_zeros" in message_text(message), "findings", END_S)
    assert "fix the file and send it again" in message_text(message)

    await wait_until_known(ann.person, channel, "copied")
    # Where none is named, one is chosen; and of one GPU type nothing is to be chosen.
    doing = await ann.person.slash(channel, "leaderboard submit test", script=KERNEL)
    message = await doing.answered()
    assert "For which leaderboard" in message["content"]
    await (await ann.person.select(message, ["copied"])).acknowledged()
    status, _ = await wait_for_report(
        edge_sim, ann.person, await newest_thread(edge_sim, ann.person, channel)
    )
    assert "passed" in status["content"]

    await archived(ann, "copie", "you did not type")
    await archived(ann, "copied", "no longer takes submissions")
    doing = await ann.person.slash(
        channel, RANKED, script=KERNEL, leaderboard_name="copied", gpu="CPU"
    )
    assert "Not done" in message_text(await doing.answered())


async def archived(author: ChannelUser, typed: str, expected: str) -> None:
    """Fill in the form that asks for the name."""
    path = "leaderboard delete"
    doing = await author.person.slash(author.channel, path, leaderboard_name="copied")
    await doing.acknowledged()
    filled = {"Type its name": typed, "Why": "a test"}
    message = await (await author.person.fill_in(doing, filled)).answered()
    assert expected in message_text(message)


@pytest.mark.feature("C8")
async def test_an_admin_sets_deadlines_bans_and_finds_the_pages_for_the_rest(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    bob, manager = edge_sim.person("bob2"), await edge_sim.add_role("managers", "manage_guild")
    await wait_until_known(bob, olga.channel)
    with pytest.raises(ActionNotOffered):
        await bob.slash(olga.channel, "admin pages")
    # Discord shows the commands to users who manage the server, but they may not use them.
    boss = ChannelUser(edge_platform, edge_sim.person("boss", manager), olga.channel)
    board = {"leaderboard_name": "identity"}
    for path, given in (
        ("admin pages", {}),
        ("admin deadline", {**board, "value": "none", **WHY}),
        ("admin invites", {**board, "count": 1, **WHY}),
        ("admin ban", {"user": bob.id, **WHY}),
        ("moderate release", {"submission": 1, **WHY}),
    ):
        assert "role_missing" in await boss.use_command(path, **given), path
    bobs = ChannelUser(edge_platform, bob, olga.channel)
    await bob.slash(olga.channel, "leaderboard submit test", script=KERNEL, gpu="CPU", **board)
    await wait_for_report(edge_sim, bob, await newest_thread(edge_sim, bob, olga.channel))
    for given, expected in (
        ({"user": bob.id, "until": "2020-01-01"}, "is in the past"),
        ({}, "choose either"),
        ({"user": boss.person.id}, "has never used the bot"),
        ({"user": bob.id, "until": "2099-01-02 03:04"}, "is banned until <t:4071006240:F>"),
        ({"participant": "bob2"}, "already banned"),
    ):
        assert expected in await olga.use_command("admin ban", **given, **WHY), expected
    said = await bobs.use_command("leaderboard submit test", script=KERNEL, gpu="CPU", **board)
    assert "user_banned" in said
    for value, expected in (
        ("2099-01-01", "none → 2099-01-01T00:00:00Z"),
        ("none", "→ none"),
        ("none", "not changed"),
    ):
        asked = {**board, "value": value, **WHY}
        assert expected in await olga.use_command("admin deadline", **asked), expected
    # This bot does not know the platform's public address.
    assert "`/admin/appeals`: decide appeals" in await olga.use_command("admin pages")
    await wait_for_acts(edge_platform, "AccountBanned", "LeaderboardChanged")
