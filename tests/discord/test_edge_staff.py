"""Accounts, authors and admins on Discord, by the real bot before the real platform."""

from typing import Any

import httpx
import pytest

from discord_sim.cdn import Blob
from discord_sim.errors import NotOffered
from discord_sim.simulator import Simulator
from tests.discord.desks import WHY, Desk, begun, granted, kept, problem, text_of
from tests.discord.platform import KERNEL, RANKED, Whole, known, reported, thread_of

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_a_client_is_linked_listed_and_ended(whole: Whole, town: Simulator) -> None:
    ada = Desk(whole, town.person("lina"), await town.add_channel("accounts"))
    async with httpx.AsyncClient(base_url=whole.running.url) as http:
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
        assert "cli" in await ada.ask("account tokens")
        path = "account revoke"
        [token] = await ada.person.autocomplete(ada.channel, path, "token", token="popcorn")
        assert "acts for nobody" in await ada.ask(path, token=token["value"])
        assert (await http.get("/v1/me", headers=shown)).status_code == 401
    assert "Not done" in await ada.ask("account link", id="nobody-gave-this-out")


async def test_an_author_publishes_and_archives(whole: Whole, town: Simulator) -> None:
    channel = await town.add_channel("authors")
    zipped, report = problem()
    asked = {
        "leaderboard_name": "copied",
        "deadline": "2099-01-02 03:04",
        "reference_code": zipped,
        "report": Blob("report.json", "application/json", report.encode()),
    }
    eve = Desk(whole, town.person("eve2"), channel)
    assert "role_missing" in await eve.ask("leaderboard create", **asked)
    assert "role_missing" in await eve.ask("leaderboard delete", leaderboard_name="identity")
    ann = Desk(whole, town.person("ann", whole.roles["creator"]), channel)
    for change, said in (
        ({"deadline": "tomorrow"}, "no deadline"),
        ({"deadline": "2020-01-01"}, "is over"),
        ({"leaderboard_name": "other"}, "not of other"),
        ({"reference_code": Blob("a.zip", "application/zip", b"no zip")}, "cannot be read"),
        ({"report": Blob("r.json", "application/json", b"{}")}, "report"),
        ({"unchecked": "no time"}, "attach as"),
    ):
        assert said in await ann.ask("leaderboard create", **{**asked, **change}), change
    # On Discord alone she is an author; the platform does not know of it.
    message = await begun(ann, asked)
    await ann.press(message, "Publish", "scope_missing")
    await granted(whole, "ann", "creator")
    message = await begun(ann, asked)
    assert "<t:4071006240:F>" in text_of(message)
    await ann.press(message, "Discard", "Discarded")
    message = await begun(ann, asked)
    await ann.press(message, "Publish", "version 1 published")

    await known(ann.person, channel, "copied")
    # Where none is named, one is chosen; and of one GPU type nothing is to be chosen.
    doing = await ann.person.slash(channel, "leaderboard submit test", script=KERNEL)
    message = await doing.answered()
    assert "For which leaderboard" in message["content"]
    await (await ann.person.select(message, ["copied"])).acknowledged()
    status, _ = await reported(town, ann.person, await thread_of(town, ann.person, channel))
    assert "passed" in status["content"]

    await archived(ann, "copie", "not what you typed")
    await archived(ann, "copied", "takes nothing in any more")
    doing = await ann.person.slash(
        channel, RANKED, script=KERNEL, leaderboard_name="copied", gpu="CPU"
    )
    assert "Not done" in text_of(await doing.answered())


async def archived(author: Desk, typed: str, expected: str) -> None:
    """Fill in the form that asks for the name."""
    path = "leaderboard delete"
    doing = await author.person.slash(author.channel, path, leaderboard_name="copied")
    await doing.acknowledged()
    filled = {"Type its name": typed, "Why": "a test"}
    message = await (await author.person.fill_in(doing, filled)).answered()
    assert expected in text_of(message)


async def test_an_admin_runs_the_platform_from_discord(
    whole: Whole, town: Simulator, olga: Desk
) -> None:
    bob, manager = town.person("bob2"), await town.add_role("managers", "manage_guild")
    await known(bob, olga.channel)
    with pytest.raises(NotOffered):
        await bob.slash(olga.channel, "admin stop", **WHY)
    # Who manages the server is shown the commands, and may not use them.
    boss = Desk(whole, town.person("boss", manager), olga.channel)
    for path in ("admin stop", "agents drain", "moderate release"):
        more: dict[str, Any] = {"agent": "x"} if "agents" in path else {}
        more |= {"submission": 1} if "moderate" in path else {}
        assert "role_missing" in await boss.ask(path, **WHY, **more)
    board = {"leaderboard_name": "identity"}
    bobs = Desk(whole, bob, olga.channel)
    try:
        assert "No submission is taken in" in await olga.ask("admin stop", **WHY)
        assert "paused already" in await olga.ask("admin stop", **WHY)
        said = await bobs.ask("leaderboard submit test", script=KERNEL, gpu="CPU", **board)
        assert "a test" in said
        assert "submissions are stopped: a test" in await bobs.ask("leaderboard list")
    finally:
        assert "are taken in" in await olga.ask("admin start", **WHY)
    await bob.slash(olga.channel, "leaderboard submit test", script=KERNEL, gpu="CPU", **board)
    await reported(town, bob, await thread_of(town, bob, olga.channel))
    assert "is over" in await olga.ask("admin ban", user=bob.id, until="2020-01-01", **WHY)
    assert "say one of" in await olga.ask("admin ban", **WHY)
    said = await olga.ask("admin ban", user=bob.id, until="2099-01-02 03:04", **WHY)
    assert "is kept out, until <t:4071006240:F>" in said
    said = await bobs.ask("leaderboard submit test", script=KERNEL, gpu="CPU", **board)
    assert "user_banned" in said
    assert "may take part" in await olga.ask("admin unban", participant="bob2", **WHY)
    for path, given, expected in (
        ("admin ban", {"user": boss.person.id, **WHY}, "never did anything"),
        ("admin visibility", {**board, "value": "public", **WHY}, "it was so already"),
        ("admin deadline", {**board, "value": "2099-01-01", **WHY}, "none → 2099-01-01"),
        ("admin deadline", {**board, "value": "none", **WHY}, "→ none"),
        ("admin show-stats", {"last_day_only": True}, ":"),
        ("admin health", {}, "log and database: they answer"),
        ("admin resync", {}, "Discord knows"),
        ("agents list", {}, "CPU"),
        ("agents queue", {}, "CPU"),
        ("agents drain", {"agent": "nobody-is-this", **WHY}, "Not done"),
    ):
        said = await olga.ask(path, **given)
        assert expected in said, (path, said)
    await kept(whole, "IntakePaused", "AccountBanned", "LeaderboardChanged", "OperatorActed")
