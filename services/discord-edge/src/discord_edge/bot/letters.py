"""Messages to one participant, and the button by which they appeal against what was decided."""

import discord
from discord.ext import commands

from discord_edge.bot.asking import Here, fail, pressed, say, user_of
from discord_edge.bot.buttons import OfSubmission
from discord_edge.bot.drawing import reaching
from discord_edge.service.public import Slip

APPEAL_MAX = 3000


class Appeal(discord.ui.Modal, title="Appeal"):
    """Why somebody should look again at what was decided."""

    text: discord.ui.TextInput["Appeal"] = discord.ui.TextInput(
        label="Why should somebody look again?",
        style=discord.TextStyle.paragraph,
        max_length=APPEAL_MAX,
    )

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    async def on_submit(self, here: Here) -> None:  # type: ignore[override]
        """File it."""
        await here.response.defer(ephemeral=True, thinking=True)
        path = ("submissions", self.number, "appeal")
        await here.client.api.act(user_of(here), str(here.id), *path, text=self.text.value)
        await say(here, f"Filed: somebody will look again at #{self.number}, and you are told.")

    async def on_error(  # type: ignore[override]
        self, here: Here, error: Exception
    ) -> None:
        """Say what went wrong."""
        await fail(here, error)


class AppealButton(OfSubmission, template=r"appeal:(?P<number>[0-9]{1,15})"):
    """Asks why somebody should look again; whose the submission is, the platform knows."""

    what, says = "appeal", "Appeal"

    async def callback(self, here: Here) -> None:  # type: ignore[override]
        """Ask."""
        async with pressed(here):
            await here.response.send_modal(Appeal(self.number))


class DiscordMail:
    """Mail over a client that is connected, or will be."""

    def __init__(self, client: commands.Bot) -> None:
        self._client = client
        client.add_dynamic_items(AppealButton)

    async def room(self, whom: str) -> str:
        """Where somebody gets letters."""
        await self._client.wait_until_ready()
        with reaching():
            user = await self._client.fetch_user(int(whom))
            return str((await user.create_dm()).id)

    async def write(self, room: str, whom: str, slip: Slip, nonce: str) -> str:
        """A message to somebody, who alone is called by it, once for a nonce. Its id."""
        await self._client.wait_until_ready()
        place = self._client.get_partial_messageable(int(room))
        calls = discord.AllowedMentions(users=[discord.Object(int(whom))])
        view = discord.ui.View(timeout=None)
        if slip.appeal is not None:
            view.add_item(AppealButton(slip.appeal))
        with reaching():
            sent = await place.send(
                slip.text,
                nonce=nonce,
                allowed_mentions=calls,
                view=discord.utils.MISSING if slip.appeal is None else view,
            )
            return str(sent.id)
