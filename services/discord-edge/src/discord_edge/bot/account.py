"""`/account …`: a CLI id linked, and one's own tokens listed and ended; none is made in a chat."""

from datetime import datetime
from typing import Any

from discord import app_commands

from discord_edge.bot.asking import Here, say, user_of
from discord_edge.bot.paging import NOBODY
from discord_edge.bot.staff import Number, Question, told
from discord_edge.domain.wishes import GPUS_MAX
from discord_edge.domain.wording import escaped
from shared.errors import Failed, Refused

ASKED_S_MAX = 120.0


def _at(text: str | None) -> str:
    """An instant on the reader's own clock."""
    return "never" if not text else f"<t:{int(datetime.fromisoformat(text).timestamp())}:R>"


async def _tokens(here: Here) -> list[dict[str, Any]]:
    """One's own; nothing of who is not known yet. Errors: Refused; Failed."""
    try:
        answer = await here.client.api.get(user_of(here), "tokens")
    except Refused as refused:
        if refused.code == NOBODY:
            return []
        raise
    items: list[dict[str, Any]] = answer["items"]
    return items


async def own_tokens(here: Here, typed: str) -> list[app_commands.Choice[int]]:
    """One's own tokens, by number and name."""
    try:
        items = await _tokens(here)
    except (Refused, Failed):
        return []
    return [
        app_commands.Choice(name=f"{one['id']} {one['name']}"[:100], value=int(one["id"]))
        for one in reversed(items)
        if typed.lower() in f"{one['id']} {one['name']}".lower()
    ][:GPUS_MAX]


class Account(app_commands.Group):
    """The commands about oneself."""

    def __init__(self) -> None:
        super().__init__(name="account", description="Your own account", guild_only=True)

    @app_commands.command(name="link", description="Let a client in a terminal act for you")
    @app_commands.describe(cli_id="The id that your client wrote into its settings")
    @app_commands.rename(cli_id="id")
    async def link(self, here: Here, cli_id: app_commands.Range[str, 1, 256]) -> None:
        """Say who asked for an id; once that is confirmed, let it act."""
        await here.response.defer(ephemeral=True, thinking=True)
        api, user, path = here.client.api, user_of(here), ("auth", "link")
        asked = {"cli_id": cli_id.strip()}
        found = await api.act(user, f"{here.id}-look", *path, **asked, confirm=False)
        view = Question(here.user.id, "Link it", "Do not", ASKED_S_MAX)
        await here.edit_original_response(
            content=f"A client asked for this id {_at(found['requested_at'])}, from the network "
            f"{escaped(str(found['network']))}. Did you start this yourself, a moment ago? "
            "Then it may submit for you, for 90 days; `/account revoke` ends that.",
            view=view,
        )
        if not await view.answered():
            await say(here, "Nothing was linked.")
            return
        made = await api.act(user, f"{here.id}-link", *path, **asked, confirm=True)
        name = escaped(str(made["user_name"]))
        await say(here, f"Linked: the client acts for {name} now, as token {made['token_id']}.")

    @app_commands.command(name="tokens", description="What acts for you: clients, browsers, tokens")
    async def tokens(self, here: Here) -> None:
        """One's own tokens, without their texts."""
        await here.response.defer(ephemeral=True, thinking=True)
        lines = [
            f"**{one['id']}** {escaped(str(one['name']))} · {one['kind']} · used "
            f"{_at(one['last_used_at'])} · ends {_at(one['expires_at'])} · "
            f"{escaped(', '.join(one['scopes']))}"
            for one in await _tokens(here)
        ]
        await told(here, lines, "You have no tokens.")

    @app_commands.command(name="revoke", description="Let a token act for you no longer")
    @app_commands.autocomplete(token=own_tokens)
    async def revoke(self, here: Here, token: Number) -> None:
        """End one, everywhere within a second."""
        await here.response.defer(ephemeral=True, thinking=True)
        key = str(here.id)
        await here.client.api.do(user_of(here), "DELETE", "tokens", token, key=key)
        await say(here, f"Token {token} acts for nobody any more.")
