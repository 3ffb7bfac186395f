"""The bot's application, its commands, its server, and the members of that."""

from discord_sim import shapes
from discord_sim.errors import ApiError, invalid_body, unknown_object
from discord_sim.gateway import DIRECT_MESSAGES, GUILDS, MEMBERS
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.rules import check_commands
from discord_sim.shapes import Json
from discord_sim.state import SimulatorState

STARTS_A_DAY = 1000
APPLICATION_COMMANDS = "/applications/{application_id}/commands"
GUILD_COMMANDS = "/applications/{application_id}/guilds/{guild_id}/commands"
MEMBER_ROLE = "/guilds/{guild_id}/members/{user_id}/roles/{role_id}"


def _application(state: SimulatorState) -> Json:
    return {
        "id": state.application_id,
        "name": "warpboard",
        "icon": None,
        "description": "",
        "type": None,
        "verify_key": "0" * 64,
        "flags": 0,
        "flags_new": "0",
        "redirect_uris": [],
        "interactions_endpoint_url": None,
        "role_connections_verification_url": None,
        "owner": state.guild.users[state.guild.owner_id],
        "approximate_guild_count": 1,
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
        "explicit_content_filter": 0,
        "team": None,
        "eligible_oauth2_scopes": ["bot", "applications.commands"],
        "bot_public": False,
        "bot_require_code_grant": False,
    }


@operation("GET", "/users/@me")
async def get_my_user(state: SimulatorState, _: Request) -> Answer:
    """Return the bot's user."""
    own = {"mfa_enabled": False, "locale": "en-US", "email": None, "verified": True}
    return 200, state.guild.bot | own


@operation("GET", "/users/{user_id}")
async def get_user(state: SimulatorState, request: Request) -> Answer:
    """Return any user."""
    if request.path["user_id"] not in state.guild.users:
        raise unknown_object("User", 10013)
    return 200, state.guild.users[request.path["user_id"]]


@operation("GET", "/oauth2/applications/@me")
async def get_my_oauth2_application(state: SimulatorState, _: Request) -> Answer:
    """Return the application; discord.py uses this operation."""
    return 200, _application(state)


@operation("GET", "/applications/@me")
async def get_my_application(state: SimulatorState, _: Request) -> Answer:
    """Return the application."""
    return 200, _application(state)


@operation("GET", "/gateway", is_open=True)
async def get_gateway(state: SimulatorState, _: Request) -> Answer:
    """Return the URL of the gateway."""
    return 200, {"url": state.gateway.url}


@operation("GET", "/gateway/bot")
async def get_bot_gateway(state: SimulatorState, _: Request) -> Answer:
    """Return the URL of the gateway and the limit of new sessions."""
    limit = {
        "total": STARTS_A_DAY,
        "remaining": STARTS_A_DAY - state.gateway.identified,
        "reset_after": 86_400_000,
        "max_concurrency": 1,
    }
    return 200, {"url": state.gateway.url, "shards": 1, "session_start_limit": limit}


@operation("GET", "/guilds/{guild_id}")
async def get_guild(state: SimulatorState, request: Request) -> Answer:
    """Return the server."""
    if request.path["guild_id"] != state.guild.id:
        raise unknown_object("Guild", 10004)
    return 200, state.guild.api_object()


@operation("GET", "/applications/{application_id}/emojis")
async def list_application_emojis(state: SimulatorState, _: Request) -> Answer:
    """List the application's emojis."""
    return 200, {"items": list(state.emojis.values())}


@operation("POST", "/applications/{application_id}/emojis")
async def create_application_emoji(state: SimulatorState, request: Request) -> Answer:
    """Add an emoji of the application."""
    return 201, state.add_emoji(request.body["name"])


def _read_guild_id(state: SimulatorState, request: Request) -> str | None:
    """Return the server of the request; None means all servers."""
    if request.path["application_id"] != state.application_id:
        raise unknown_object("Application", 10002)
    guild_id = request.path.get("guild_id")
    if guild_id not in (None, state.guild.id):
        raise ApiError(403, 50001, "Missing Access")
    return guild_id


def _replace(state: SimulatorState, request: Request) -> list[Json]:
    guild_id, bodies = _read_guild_id(state, request), request.body or []
    if problems := check_commands(bodies):
        raise invalid_body(problems)
    existing = state.commands.get(guild_id, [])
    ids = {(command["type"], command["name"]): command["id"] for command in existing}
    state.commands[guild_id] = [
        _build_command(state, body, guild_id, ids.get((body.get("type") or 1, body["name"])))
        for body in bodies
    ]
    return state.commands[guild_id]


def _build_command(
    state: SimulatorState, body: Json, guild_id: str | None, identity: str | None
) -> Json:
    command = shapes.command(identity or state.ids.next(), body)
    command |= {"application_id": state.application_id, "version": state.ids.next()}
    return command | ({"guild_id": guild_id} if guild_id else {})


@operation("PUT", GUILD_COMMANDS)
async def bulk_set_guild_application_commands(state: SimulatorState, request: Request) -> Answer:
    """Replace the server's commands."""
    return 200, _replace(state, request)


@operation("PUT", APPLICATION_COMMANDS)
async def bulk_set_application_commands(state: SimulatorState, request: Request) -> Answer:
    """Replace the commands of every server."""
    return 200, _replace(state, request)


@operation("GET", GUILD_COMMANDS)
async def list_guild_application_commands(state: SimulatorState, request: Request) -> Answer:
    """List the server's commands."""
    return 200, state.commands.get(_read_guild_id(state, request), [])


@operation("GET", APPLICATION_COMMANDS)
async def list_application_commands(state: SimulatorState, request: Request) -> Answer:
    """List the commands of every server."""
    return 200, state.commands.get(_read_guild_id(state, request), [])


@operation("GET", "/guilds/{guild_id}/members/{user_id}")
async def get_guild_member(state: SimulatorState, request: Request) -> Answer:
    """Return a member."""
    return 200, state.guild.member(request.path["user_id"])


@operation("PUT", MEMBER_ROLE)
async def add_guild_member_role(state: SimulatorState, request: Request) -> Answer:
    """Give a member a role."""
    roles = _member_roles(state, request)
    if request.path["role_id"] not in roles:
        roles.append(request.path["role_id"])
    await _emit_update(state, request)
    return 204, None


@operation("DELETE", MEMBER_ROLE)
async def delete_guild_member_role(state: SimulatorState, request: Request) -> Answer:
    """Remove a role from a member."""
    roles = _member_roles(state, request)
    if request.path["role_id"] in roles:
        roles.remove(request.path["role_id"])
    await _emit_update(state, request)
    return 204, None


def _member_roles(state: SimulatorState, request: Request) -> list[str]:
    state.guild.role(request.path["role_id"])
    state.guild.need(None, "manage_roles")
    roles: list[str] = state.guild.member(request.path["user_id"])["roles"]
    return roles


async def _emit_update(state: SimulatorState, request: Request) -> None:
    member = state.guild.member(request.path["user_id"])
    event = {**member, "guild_id": state.guild.id}
    is_own = request.path["user_id"] == state.guild.bot_id
    await state.gateway.emit("GUILD_MEMBER_UPDATE", event, 0 if is_own else MEMBERS)


@operation("GET", "/guilds/{guild_id}/roles")
async def list_guild_roles(state: SimulatorState, _: Request) -> Answer:
    """List all roles."""
    return 200, list(state.guild.roles.values())


@operation("POST", "/guilds/{guild_id}/roles")
async def create_guild_role(state: SimulatorState, request: Request) -> Answer:
    """Create a role."""
    state.guild.need(None, "manage_roles")
    body: Json = request.body or {}
    allowed = int(body.get("permissions") or 0)
    role = state.guild.role(state.guild.add_role(body.get("name") or "new role", allowed))
    role |= {key: body[key] for key in ("hoist", "mentionable") if body.get(key) is not None}
    if body.get("color"):
        role["color"] = role["colors"]["primary_color"] = body["color"]
    if body.get("colors"):
        role["colors"] |= body["colors"]
        role["color"] = role["colors"]["primary_color"]
    event = {"guild_id": state.guild.id, "role": role}
    await state.gateway.emit("GUILD_ROLE_CREATE", event, GUILDS)
    return 200, role


@operation("DELETE", "/guilds/{guild_id}/roles/{role_id}")
async def delete_guild_role(state: SimulatorState, request: Request) -> Answer:
    """Delete a role."""
    state.guild.need(None, "manage_roles")
    role_id = state.guild.role(request.path["role_id"])["id"]
    # @everyone has the server's id; the bot's own goes with the bot.
    if role_id in (state.guild.id, state.guild.bot_role):
        raise ApiError(400, 50028, "Invalid Role")
    del state.guild.roles[role_id]
    for member in state.guild.members.values():
        member["roles"] = [held for held in member["roles"] if held != role_id]
    event = {"guild_id": state.guild.id, "role_id": role_id}
    await state.gateway.emit("GUILD_ROLE_DELETE", event, GUILDS)
    return 204, None


@operation("POST", "/users/@me/channels")
async def create_dm(state: SimulatorState, request: Request) -> Answer:
    """Open direct messages with a user; only sending shows whether they accept any."""
    # The document allows several recipients, which bots do not use.
    user_id = str((request.body or {}).get("recipient_id") or "")
    if not user_id:
        raise ApiError(400, 50033, "Invalid Recipient(s)")
    state.guild.member(user_id)
    channel = state.guild.private_with(user_id)
    await state.gateway.emit("CHANNEL_CREATE", channel, DIRECT_MESSAGES)
    return 200, channel
