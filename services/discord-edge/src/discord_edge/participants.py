"""The commands of `/admin` about participants: bans and names."""

import json
import re
from datetime import UTC
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.interactions import BotInteraction, Commands, reply
from discord_edge.bot.messages import discord_file
from discord_edge.bot.staff import (
    Reason,
    defer_for_role,
    find_participant_name,
    read_attachment,
    record_access,
    reply_with_lines,
    run_decision,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.problems.drafts import deadline_text, parse_closing_time
from discord_edge.wording import escaped
from shared.api.accounts import ParticipantNames
from shared.clock import now
from shared.errors import Failed, Refused

FILE_BYTES_MAX = 256 * 1024
NAMES_MAX = 200
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
FORM = 'a JSON object such as {"<id>": "<name>"}, as `/admin get-user-names` returns it'
ADMIN = "admin"
PAGES_MAX = 50


def read_name_changes(data: bytes, current_names: dict[str, str]) -> dict[str, str]:
    """Return the names that a file changes, by participant id. Raises `Refused` `bad_file`.

    >>> read_name_changes(b'{"1": "ada", "2": "bob"}', {"1": "ada", "2": "eve"})
    {'2': 'bob'}
    """
    names = _read_object(data)
    changes = {
        identity: name for identity, name in names.items() if current_names.get(identity) != name
    }
    unknown = [identity for identity in changes if identity not in current_names]
    if unknown:
        raise _bad_file(f"{unknown[0][:60]!r} is not the id of a participant; nothing was changed")
    for identity, name in changes.items():
        if not isinstance(name, str) or not NAME.match(name):
            reason = f"{str(name)[:60]!r} is not a valid name for {identity}: use 1 to 32 of"
            raise _bad_file(f"{reason} a-z 0-9 _ -, first a letter or digit; nothing was changed")
    if len(changes) > NAMES_MAX:
        raise _bad_file(f"{len(changes)} names would change; the limit is {NAMES_MAX} per file")
    return changes


def _read_object(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad_file(f"the file is not JSON: attach {FORM}") from error
    if not isinstance(content, dict):
        raise _bad_file(f"the file is not a JSON object: attach {FORM}")
    return content


def _bad_file(reason: str) -> Refused:
    return Refused("bad_file", reason, "attachment")


@app_commands.command(name="get-user-names", description="The participants' names by id")
async def get_user_names(interaction: BotInteraction) -> None:
    """Send a file with every participant's id and name."""
    api = await defer_for_role(interaction, ADMIN)
    await record_access(interaction, api, "all participants")
    names = await _read_names(api)
    file = discord_file("names.json", json.dumps(names, indent=1).encode())
    text = f"{len(names)} participants: change names in the file for `/admin update-user-names`."
    await interaction.edit_original_response(content=text, attachments=[file])


@app_commands.command(name="update-user-names", description="Rename participants")
@app_commands.describe(attachment="The .json file of get-user-names, with changed names")
async def update_user_names(
    interaction: BotInteraction, attachment: discord.Attachment, reason: Reason
) -> None:
    """Rename the participants whose names differ in a file; old names keep leading to them."""
    api = await defer_for_role(interaction, ADMIN)
    if attachment.size > FILE_BYTES_MAX or not attachment.filename.endswith(".json"):
        message = f"attach a .json file of at most {FILE_BYTES_MAX:,} bytes"
        raise Refused("bad_file", message, "attachment")
    names = await _read_names(api)
    data = await read_attachment(attachment, "attachment")
    changes = read_name_changes(data, names)
    if not changes:
        await reply(interaction, "The file changes no names.")
        return
    lines = [
        await _rename(api, names[identity], name, reason) for identity, name in changes.items()
    ]
    await reply_with_lines(interaction, lines, "")


async def _rename(api: PlatformApi, old: str, new: str, reason: str) -> str:
    """Rename a participant, and return a line with the result; errors stop no other renames."""
    try:
        path = ("admin", "participants", old, "name")
        await api.request(object, "PUT", *path, name=new, reason=reason)
    except Refused as refused:
        return f"❌ {escaped(old)}: {escaped(refused.reason)}"
    except Failed:
        return f"❌ {escaped(old)}: no answer; send the same file again"
    return f"✅ {escaped(old)} → **{escaped(new)}**"


async def _read_names(api: PlatformApi) -> dict[str, str]:
    """Return the participants' names by id. Raises `Refused` and `Failed`."""
    names: dict[str, str] = {}
    after = ""
    for _ in range(PAGES_MAX):
        page = await api.get(ParticipantNames, "admin", "participants", after=after)
        names |= {participant.participant_id: participant.name for participant in page.items}
        if page.next_after is None:
            break
        after = page.next_after
    return names


@app_commands.command(name="ban", description="Ban a participant")
@app_commands.describe(
    user="The participant's Discord user",
    participant="The participant's name on the platform",
    until="YYYY-MM-DD HH:MM in UTC; permanent if left out",
)
async def ban(
    interaction: BotInteraction,
    reason: Reason,
    user: discord.User | None = None,
    participant: str | None = None,
    until: str | None = None,
) -> None:
    """Ban a participant from the platform."""
    api = await defer_for_role(interaction, ADMIN)
    ends_at = None if until is None else parse_closing_time(until, now())
    name = await find_participant_name(interaction, user, participant)
    body = {"reason": reason}
    if ends_at:
        body["until_at"] = ends_at.astimezone(UTC).isoformat()
    note = await run_decision(api, "admin", "participants", name, "ban", **body)
    duration = f"until {deadline_text(ends_at)}" if ends_at else "permanently"
    await reply(interaction, f"**{escaped(name)}** is banned {duration}.{note}")


@app_commands.command(name="unban", description="Lift a participant's ban")
async def unban(
    interaction: BotInteraction,
    reason: Reason,
    user: discord.User | None = None,
    participant: str | None = None,
) -> None:
    """Lift a ban."""
    api = await defer_for_role(interaction, ADMIN)
    name = await find_participant_name(interaction, user, participant)
    note = await run_decision(api, "admin", "participants", name, "unban", reason=reason)
    await reply(interaction, f"**{escaped(name)}** may participate again.{note}")


COMMANDS: Commands = (ban, unban, get_user_names, update_user_names)
