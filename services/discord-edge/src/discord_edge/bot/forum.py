"""`/admin set-forum-ids`: which post of the forum is which problem's."""

from typing import Any

from discord import app_commands

from discord_edge.bot.asking import Here
from discord_edge.bot.staff import acted, begun, told
from discord_edge.domain.pairing import said
from shared.errors import Refused

ADMIN = "admin"


@app_commands.command(name="set-forum-ids", description="Pair the forum's posts with problems")
@app_commands.describe(dry_run="Say what would be paired, and keep nothing")
async def set_forum_ids(here: Here, dry_run: bool = True) -> None:
    """Look which posts of the bot's are which problem's; unless it is a dry run, keep it."""
    user = await begun(here, ADMIN)
    pairing = here.client.pairing
    if pairing is None:
        what = "this bot tells everybody nothing, so it has no forum: its setting PUBLIC is off"
        raise Refused("no_forum", what)
    await acted(here, user, "the forum", "looked at its posts" if dry_run else "paired its posts")
    found = await pairing.look()
    if not dry_run:
        await pairing.keep(found)
    last = "Nothing was kept: `dry_run` is true." if dry_run else "What is paired is kept."
    await told(here, [*map(said, found), last], "")


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (set_forum_ids,)
