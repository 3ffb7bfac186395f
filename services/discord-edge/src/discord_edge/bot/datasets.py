"""`/admin export`: a leaderboard as a data set, in a file."""

import json
import re
from typing import Any

from discord import app_commands

from discord_edge.bot.asking import Here
from discord_edge.bot.problems import file_of
from discord_edge.bot.staff import Named, any_board, begun
from discord_edge.service.ports import User
from shared.errors import Failed, Refused

ADMIN = "admin"
SUFFIX = ".parquet"
# What Discord takes may be more, and a process that writes to many holds it in memory.
BYTES_MAX = 100 * 1024 * 1024
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")
TOO_LARGE = "too_large"


@app_commands.command(name="export", description="All of a leaderboard's submissions, as a file")
@app_commands.describe(
    filename="What the file is called; the leaderboard's name if it is not said",
    private="Everything, for you; else what everybody may have by now",
)
@app_commands.autocomplete(leaderboard_name=any_board)
async def export(
    here: Here, leaderboard_name: Named, filename: str | None = None, private: bool = True
) -> None:
    """Every submission with its source, a row each, in one Parquet file."""
    user, slug = await begun(here, ADMIN), leaderboard_name.strip().lower()
    name = (filename or slug).strip().removesuffix(SUFFIX)
    if not NAME.match(name):
        what = "a file's name has 1 to 100 letters, digits, dots, _ and -"
        raise Refused("invalid_request", what, "filename")
    said = {"leaderboard_ids": [await _id_of(here, user, slug)], "private": private}
    bytes_max = min(here.filesize_limit, BYTES_MAX)
    try:
        data = await here.client.api.late(
            user, "/admin/export", bytes_max, filename=name + SUFFIX, **said
        )
    except Refused as refused:
        if refused.code != TOO_LARGE:
            raise
        what = (
            f"the file has more than the {bytes_max:,} bytes that may be sent here: "
            "ask the platform itself for it, by `POST /admin/export` with an admin's token"
        )
        raise Refused(TOO_LARGE, what, "leaderboard_name") from refused
    whose = "everything, for you alone" if private else "what everybody may have"
    text = f"`{slug}`, {whose}: {len(data):,} bytes."
    await here.edit_original_response(content=text, attachments=[file_of(name + SUFFIX, data)])


async def _id_of(here: Here, user: User, slug: str) -> int:
    """The integer by which a leaderboard is exported. Errors: Refused; Failed."""
    data = await here.client.api.file(user, "/leaderboards?state=all")
    try:
        known = {str(one["name"]): int(one["id"]) for one in json.loads(data)}
    except (ValueError, TypeError, KeyError) as error:
        raise Failed("the platform's list of leaderboards cannot be read") from error
    if slug not in known:
        what = f"there is no leaderboard {slug!r}: `/leaderboard list` with state all has them"
        raise Refused("unknown_problem", what, "leaderboard_name")
    return known[slug]


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (export,)
