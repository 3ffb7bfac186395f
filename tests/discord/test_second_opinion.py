"""SimCord, a simulator of other people's, has the same bot: what we believe, it must find too."""

from typing import TYPE_CHECKING

import pytest

# discord.py is imported when it is needed: every worker collects these tests, one runs them.
if TYPE_CHECKING:
    import simcord

    from tests.discord.bot import Bot

GUILD_ID = 4242
BOARD = {"leaderboard_name": "sort_v2"}


def answer(done: "simcord.InteractionResult") -> "simcord.ResponseMessage":
    """The message that answers."""
    assert done.response is not None
    return done.response


@pytest.fixture
def bot() -> "Bot":
    """The small bot, in this process."""
    from tests.discord.bot import Bot

    return Bot(GUILD_ID)


async def test_the_menu_is_for_its_owner_and_ends_after_two_minutes(bot: "Bot") -> None:
    import simcord

    async with simcord.run(bot) as env:
        guild = env.create_guild(id=GUILD_ID)
        channel = guild.create_text_channel("submissions")
        ada, eve = (guild.add_member(env.create_user(name)) for name in ("ada", "eve"))
        script = ("kernel.py", b"x = 1")
        done = await ada.slash(channel, "leaderboard submit ranked", script=script, **BOARD)
        assert done.ephemeral
        with pytest.raises(simcord.SetupError):
            await eve.select(answer(done), ["H100"])
        await env.advance_time(121)
        late = await ada.select(answer(done), ["H100"])
        assert not late.acknowledged


async def test_roles_and_errors_are_handled_alike(bot: "Bot") -> None:
    import simcord

    async with simcord.run(bot, check_errors=False) as env:
        guild = env.create_guild(id=GUILD_ID)
        channel = guild.create_text_channel("general")
        creator = guild.create_role("Leaderboard Creator")
        eve = guild.add_member(env.create_user("eve"))
        ada = guild.add_member(env.create_user("ada"), roles=[creator])
        refused = await eve.slash(channel, "leaderboard create")
        assert answer(refused).content == "You may not do that."
        assert (await ada.slash(channel, "leaderboard create")).modal
        crashed = await ada.slash(channel, "leaderboard crash")
        assert answer(crashed).content == "Something went wrong."
        assert crashed.ephemeral


async def test_pages_turn_alike(bot: "Bot") -> None:
    import simcord

    async with simcord.run(bot) as env:
        guild = env.create_guild(id=GUILD_ID)
        channel = guild.create_text_channel("general")
        ada = guild.add_member(env.create_user("ada"))
        done = await ada.slash(channel, "leaderboard show", **BOARD)
        with pytest.raises(simcord.SetupError):
            await ada.click(answer(done), label="◀")
        await ada.click(answer(done), label="▶")
        [embed] = answer(done).embeds
        assert embed.footer.text == "Page 2/3"
