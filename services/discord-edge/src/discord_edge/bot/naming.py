"""`/admin get-user-names` and `update-user-names`: what participants are called."""

import json
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.asking import Here, say
from discord_edge.bot.authors import attached
from discord_edge.bot.problems import file_of
from discord_edge.bot.staff import LOOKED, Reason, acted, begun, done, told
from discord_edge.domain import naming
from discord_edge.domain.wording import escaped
from discord_edge.service.ports import User
from shared.errors import Failed, Refused

ADMIN = "admin"
PAGES_MAX = 50


@app_commands.command(name="get-user-names", description="What participants are called, by id")
async def get_user_names(here: Here) -> None:
    """A file with every participant's id and name."""
    user = await begun(here, ADMIN)
    await acted(here, user, "all participants", LOOKED)
    known = await _known(here, user)
    file = file_of("names.json", json.dumps(known, indent=1).encode())
    text = f"{len(known)} participants: change names in the file for `/admin update-user-names`."
    await here.edit_original_response(content=text, attachments=[file])


@app_commands.command(name="update-user-names", description="Call participants otherwise")
@app_commands.describe(attachment="A .json file as get-user-names gives it, with other names")
async def update_user_names(here: Here, attachment: discord.Attachment, reason: Reason) -> None:
    """Rename whom a file names otherwise; what they were called leads to them still."""
    user = await begun(here, ADMIN)
    if attachment.size > naming.FILE_BYTES_MAX or not attachment.filename.endswith(".json"):
        what = f"attach a .json file of at most {naming.FILE_BYTES_MAX:,} bytes"
        raise Refused("bad_file", what, "attachment")
    known = await _known(here, user)
    changed = naming.wanted(await attached(attachment, "attachment"), known)
    if not changed:
        await say(here, "Everybody is called so already.")
        return
    lines = [
        await _renamed(here, user, (known[one], name), reason) for one, name in changed.items()
    ]
    await told(here, lines, "")


async def _renamed(here: Here, user: User, names: tuple[str, str], reason: str) -> str:
    """What became of one name, in a line: those before it are changed already."""
    old, new = names
    try:
        path = ("admin", "participants", old, "name")
        await done(here, user, "PUT", *path, name=new, reason=reason)
    except Refused as refused:
        return f"❌ {escaped(old)}: {escaped(refused.reason)}"
    except Failed:
        return f"❌ {escaped(old)}: no answer; the same file changes what is not changed yet"
    return f"✅ {escaped(old)} → **{escaped(new)}**"


async def _known(here: Here, user: User) -> dict[str, str]:
    """What participants are called, by id. Errors: Refused; Failed."""
    found: dict[str, str] = {}
    after = ""
    for _ in range(PAGES_MAX):
        page = await here.client.api.get(user, "admin", "participants", after=after)
        found |= {str(one["participant_id"]): str(one["name"]) for one in page["items"]}
        if page["next_after"] is None:
            break
        after = str(page["next_after"])
    return found


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (get_user_names, update_user_names)
