"""The commands that people are offered."""

from discord_sim import shapes
from discord_sim.errors import ApiError, invalid, unknown
from discord_sim.judges.commands import check_commands
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.parts import Parts
from discord_sim.shapes import Json

OF_APPLICATION = "/applications/{application_id}/commands"
OF_GUILD = "/applications/{application_id}/guilds/{guild_id}/commands"


def _place(parts: Parts, request: Request) -> str | None:
    """The server whose commands are meant; None is all servers."""
    if request.path["application_id"] != parts.application_id:
        raise unknown("Application", 10002)
    guild_id = request.path.get("guild_id")
    if guild_id not in (None, parts.guild.id):
        raise ApiError(403, 50001, "Missing Access")
    return guild_id


def _replace(parts: Parts, request: Request) -> list[Json]:
    guild_id, wanted = _place(parts, request), request.body or []
    if found := check_commands(wanted):
        raise invalid(found)
    old = {(one["type"], one["name"]): one["id"] for one in parts.commands.get(guild_id, [])}
    parts.commands[guild_id] = [
        _command(parts, body, guild_id, old.get((body.get("type") or 1, body["name"])))
        for body in wanted
    ]
    return parts.commands[guild_id]


def _command(parts: Parts, body: Json, guild_id: str | None, identity: str | None) -> Json:
    found = shapes.command(identity or parts.ids.next(), body)
    found |= {"application_id": parts.application_id, "version": parts.ids.next()}
    return found | ({"guild_id": guild_id} if guild_id else {})


@operation("PUT", OF_GUILD)
async def bulk_set_guild_application_commands(parts: Parts, request: Request) -> Answer:
    """Replace the server's commands."""
    return 200, _replace(parts, request)


@operation("PUT", OF_APPLICATION)
async def bulk_set_application_commands(parts: Parts, request: Request) -> Answer:
    """Replace the commands of every server."""
    return 200, _replace(parts, request)


@operation("GET", OF_GUILD)
async def list_guild_application_commands(parts: Parts, request: Request) -> Answer:
    """The server's commands."""
    return 200, parts.commands.get(_place(parts, request), [])


@operation("GET", OF_APPLICATION)
async def list_application_commands(parts: Parts, request: Request) -> Answer:
    """The commands of every server."""
    return 200, parts.commands.get(_place(parts, request), [])
