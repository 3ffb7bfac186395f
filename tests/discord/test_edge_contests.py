"""Contests on Discord: commands of participants and announcements, by the real bot."""

import hashlib
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from discord_sim.simulator import Simulator
from shared.clock import now
from tests.discord.announcing import find_channel, publish_copy
from tests.discord.channel_users import ChannelUser, message_text
from tests.discord.contests import CONTEST, PROBLEM, accept_terms, cup, send_contest
from tests.discord.platform import EDGE_MARKS, END_S, EdgePlatform
from tests.support.contests import SLUG, TERMS
from tests.support.waits import eventually

pytestmark = EDGE_MARKS

# Enough for the commands of the test; the bot is away when it ends.
REGISTRATION_S = 25.0


async def register(user: ChannelUser, division: str, model: str = "") -> str:
    """Choose a division in the menu, accept the terms, and fill in the form if there is one."""
    doing = await user.person.slash(user.channel, "contest register", **CONTEST)
    message = await doing.answered()
    assert doing.is_ephemeral
    await (await user.person.select(message, [division])).acknowledged()
    digest = hashlib.sha256(TERMS).hexdigest()
    await user.edge_platform.sim.record.until(
        lambda: f"SHA-256 `{digest}`" in message_text(message), "the terms", END_S
    )
    assert "Be fair." in message_text(message)
    return await accept_terms(user, message, model)


async def read_and_enter(iris: ChannelUser, joe: ChannelUser, main_at: datetime) -> None:
    """Read of the contest, and enter it in two divisions, of which one demands a declaration."""
    offered = await iris.person.autocomplete(iris.channel, "contest show", "contest", contest="win")
    assert [it["value"] for it in offered] == [SLUG]
    assert "unknown_contest" in await iris.use_command("contest show", contest="summer-cup")
    assert "Winter cup" in await iris.use_command("contest list")
    shown = await iris.use_command("contest show", **CONTEST)
    assert "You are not registered: `/contest register` takes part." in shown
    assert f"▶ Registration: <t:{int((main_at - timedelta(hours=1)).timestamp())}:f>" in shown
    not_registered = await iris.use_command("contest team create", **CONTEST, name="Fast")
    assert "not_registered" in not_registered
    wrong = await iris.use_command("contest register", **CONTEST, division="asisted")
    assert "there is no division 'asisted'; did you mean assisted? `" in wrong
    many = await iris.use_command("contest register", **CONTEST, division="panel")
    assert "demands 6 declarations, and a form on Discord has 5 fields" in many
    assert "take part on the contest's page instead" in many
    assert "in the division `assisted`" in await register(iris, "assisted", "m-1")
    assert "in the division `hand`" in await register(joe, "hand")
    assert "already_registered" in await joe.use_command("contest register", **CONTEST)


async def form_a_team(iris: ChannelUser, joe: ChannelUser) -> None:
    """Form a team, hand it over, leave it, and withdraw."""
    created = await iris.use_command("contest team create", **CONTEST, name="Fast *Two*")
    code = created.rpartition("code")[2].split("`")[1]
    assert "invalid" in await joe.use_command("contest team join", **CONTEST, code="wrong")
    joined = await joe.use_command("contest team join", **CONTEST, code=code)
    assert r"in the team **Fast \*Two\***: iris (captain), joe" in joined
    assert "only the captain" in await joe.use_command("contest team code", **CONTEST)
    command = "contest team captain"
    offered = await iris.person.autocomplete(
        iris.channel, command, "participant", participant="", **CONTEST
    )
    assert [it["value"] for it in offered] == ["iris", "joe"]
    assert "**joe** is the captain." in await iris.use_command(
        command, **CONTEST, participant="joe"
    )
    message = await (await joe.person.slash(joe.channel, "contest declare", **CONTEST)).answered()
    await (doing := await joe.person.click(message, "Declare")).acknowledged()
    declared = await (await joe.person.fill_in(doing, {"model": "m2"})).answered()
    assert "You declared model: m2." in message_text(declared)
    assert "You left the team." in await iris.use_command("contest team leave", **CONTEST)
    message = await (
        await iris.person.slash(iris.channel, "contest withdraw", **CONTEST)
    ).answered()
    await iris.press(message, "Withdraw", "You take no more part")
    assert "Nobody has points yet." in await joe.use_command("contest standing", **CONTEST)


@pytest.mark.feature("C3", "N14", "P20")
async def test_people_enter_a_contest_on_discord_and_read_of_its_phases(
    announcing: EdgePlatform, edge_sim: Simulator, olga: ChannelUser, tmp_path: Path
) -> None:
    assert olga.person.id, "she organises it"
    await publish_copy(announcing, edge_sim, tmp_path / PROBLEM)
    main_at = now().replace(microsecond=0) + timedelta(seconds=REGISTRATION_S)
    ends_at = main_at + timedelta(hours=2)
    await send_contest(announcing, cup(main_at, ends_at))
    general, owner = find_channel(edge_sim, "general"), edge_sim.owner()

    def said(words: str) -> list[str]:
        return [it["content"] for it in owner.sees(general) if words in it["content"]]

    await edge_sim.record.until(lambda: said("A new contest: **Winter cup**"), "a contest", END_S)
    room = await edge_sim.add_channel("cup")
    iris, joe = (ChannelUser(announcing, edge_sim.person(it), room) for it in ("iris", "joe"))
    await read_and_enter(iris, joe, main_at)
    await form_a_team(iris, joe)
    await announcing.kill()
    await eventually(lambda: now() >= main_at, END_S)
    await announcing.start()
    await edge_sim.record.until(lambda: said("**Main round** has begun"), "the round", END_S)
    moved = cup(main_at, ends_at + timedelta(days=1))
    await send_contest(announcing, moved, update=True)
    [text] = await edge_sim.record.until(lambda: said("times have moved"), "an update", END_S)
    assert f"Review starts, {PROBLEM} ends, " in text
    assert "Reason: a day longer" in text
    assert len(said("Winter cup")) == 3
