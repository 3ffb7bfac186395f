"""Members, their roles, and direct messages with them."""

from discord_sim.errors import ApiError
from discord_sim.gateway.intents import DIRECT_MESSAGES, GUILDS, MEMBERS
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.parts import Parts
from discord_sim.permissions import BITS
from discord_sim.shapes import Json

ONE_ROLE = "/guilds/{guild_id}/members/{user_id}/roles/{role_id}"


@operation("GET", "/guilds/{guild_id}/members/{user_id}")
async def get_guild_member(parts: Parts, request: Request) -> Answer:
    """One member."""
    return 200, parts.guild.member(request.path["user_id"])


@operation("PUT", ONE_ROLE)
async def add_guild_member_role(parts: Parts, request: Request) -> Answer:
    """Give somebody a role."""
    held = _held(parts, request)
    if request.path["role_id"] not in held:
        held.append(request.path["role_id"])
    await _tell(parts, request)
    return 204, None


@operation("DELETE", ONE_ROLE)
async def delete_guild_member_role(parts: Parts, request: Request) -> Answer:
    """Take a role from somebody."""
    held = _held(parts, request)
    if request.path["role_id"] in held:
        held.remove(request.path["role_id"])
    await _tell(parts, request)
    return 204, None


def _held(parts: Parts, request: Request) -> list[str]:
    parts.guild.role(request.path["role_id"])
    _need_roles(parts)
    held: list[str] = parts.guild.member(request.path["user_id"])["roles"]
    return held


def _need_roles(parts: Parts) -> None:
    if not parts.guild.may(parts.guild.bot_id) & BITS["manage_roles"]:
        raise ApiError(403, 50013, "Missing Permissions")


async def _tell(parts: Parts, request: Request) -> None:
    one = parts.guild.member(request.path["user_id"])
    told = {**one, "guild_id": parts.guild.id}
    is_own = request.path["user_id"] == parts.guild.bot_id
    await parts.gateway.emit("GUILD_MEMBER_UPDATE", told, 0 if is_own else MEMBERS)


@operation("GET", "/guilds/{guild_id}/roles")
async def list_guild_roles(parts: Parts, _: Request) -> Answer:
    """All roles."""
    return 200, list(parts.guild.roles.values())


@operation("POST", "/guilds/{guild_id}/roles")
async def create_guild_role(parts: Parts, request: Request) -> Answer:
    """A new role."""
    _need_roles(parts)
    body: Json = request.body or {}
    allowed = int(body.get("permissions") or 0)
    made = parts.guild.role(parts.guild.add_role(body.get("name") or "new role", allowed))
    made |= {key: body[key] for key in ("hoist", "mentionable") if body.get(key) is not None}
    if body.get("color"):
        made["color"] = made["colors"]["primary_color"] = body["color"]
    if body.get("colors"):
        made["colors"] |= body["colors"]
        made["color"] = made["colors"]["primary_color"]
    told = {"guild_id": parts.guild.id, "role": made}
    await parts.gateway.emit("GUILD_ROLE_CREATE", told, GUILDS)
    return 200, made


@operation("DELETE", "/guilds/{guild_id}/roles/{role_id}")
async def delete_guild_role(parts: Parts, request: Request) -> Answer:
    """A role less."""
    _need_roles(parts)
    role_id = parts.guild.role(request.path["role_id"])["id"]
    # @everyone has the server's id; the bot's own goes with the bot.
    if role_id in (parts.guild.id, parts.guild.bot_role):
        raise ApiError(400, 50028, "Invalid Role")
    del parts.guild.roles[role_id]
    for one in parts.guild.members.values():
        one["roles"] = [held for held in one["roles"] if held != role_id]
    told = {"guild_id": parts.guild.id, "role_id": role_id}
    await parts.gateway.emit("GUILD_ROLE_DELETE", told, GUILDS)
    return 204, None


@operation("POST", "/users/@me/channels")
async def create_dm(parts: Parts, request: Request) -> Answer:
    """Direct messages with somebody; whether they take any shows when one is sent."""
    # The document lets several people be named, for which a bot has no use.
    user_id = str((request.body or {}).get("recipient_id") or "")
    if not user_id:
        raise ApiError(400, 50033, "Invalid Recipient(s)")
    parts.guild.member(user_id)
    channel = parts.guild.private_with(user_id)
    await parts.gateway.emit("CHANNEL_CREATE", channel, DIRECT_MESSAGES)
    return 200, channel
