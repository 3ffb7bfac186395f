"""The bot's application, its commands, its server, and the members of that."""

from discord_sim import shapes
from discord_sim.errors import ApiError, invalid_body, unknown_object
from discord_sim.gateway import DIRECT_MESSAGES, GUILDS, MEMBERS
from discord_sim.rules import check_commands
from discord_sim.shapes import Json
from discord_sim.state import Answer, Operations, Request, SimulatorState

STARTS_A_DAY = 1000
APPLICATION_COMMANDS = "/applications/{application_id}/commands"
GUILD_COMMANDS = "/applications/{application_id}/guilds/{guild_id}/commands"
MEMBER_ROLE = "/guilds/{guild_id}/members/{user_id}/roles/{role_id}"
OPERATIONS = Operations()


@OPERATIONS.add("get_my_user", "GET", "/users/@me")
async def _get_own_user(state: SimulatorState, _: Request) -> Answer:
    own = {"mfa_enabled": False, "locale": "en-US", "email": None, "verified": True}
    return 200, state.guild.bot | own


@OPERATIONS.add("get_user", "GET", "/users/{user_id}")
async def _get_user(state: SimulatorState, request: Request) -> Answer:
    if request.path["user_id"] not in state.guild.users:
        raise unknown_object("User", 10013)
    return 200, state.guild.users[request.path["user_id"]]


@OPERATIONS.add("get_my_application", "GET", "/applications/@me")
@OPERATIONS.add("get_my_oauth2_application", "GET", "/oauth2/applications/@me")
async def _get_application(state: SimulatorState, _: Request) -> Answer:
    nulls = ("icon", "type", "team", "interactions_endpoint_url")
    return 200, {
        **dict.fromkeys((*nulls, "role_connections_verification_url")),
        "id": state.application_id,
        "name": "warpboard",
        "description": "",
        "verify_key": "0" * 64,
        "flags": 0,
        "flags_new": "0",
        "redirect_uris": [],
        "owner": state.guild.users[state.guild.owner_id],
        "approximate_guild_count": 1,
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
        "explicit_content_filter": 0,
        "eligible_oauth2_scopes": ["bot", "applications.commands"],
        "bot_public": False,
        "bot_require_code_grant": False,
    }


@OPERATIONS.add("get_gateway", "GET", "/gateway", is_open=True)
async def _get_gateway(state: SimulatorState, _: Request) -> Answer:
    return 200, {"url": state.gateway.url}


@OPERATIONS.add("get_bot_gateway", "GET", "/gateway/bot")
async def _get_bot_gateway(state: SimulatorState, _: Request) -> Answer:
    remaining = STARTS_A_DAY - state.gateway.identified
    limit = {"total": STARTS_A_DAY, "remaining": remaining}
    limit |= {"reset_after": 86_400_000, "max_concurrency": 1}
    return 200, {"url": state.gateway.url, "shards": 1, "session_start_limit": limit}


@OPERATIONS.add("get_guild", "GET", "/guilds/{guild_id}")
async def _get_guild(state: SimulatorState, request: Request) -> Answer:
    if request.path["guild_id"] != state.guild.id:
        raise unknown_object("Guild", 10004)
    return 200, state.guild.api_object()


@OPERATIONS.add("list_application_emojis", "GET", "/applications/{application_id}/emojis")
async def _list_emojis(state: SimulatorState, _: Request) -> Answer:
    return 200, {"items": list(state.emojis.values())}


@OPERATIONS.add("create_application_emoji", "POST", "/applications/{application_id}/emojis")
async def _create_emoji(state: SimulatorState, request: Request) -> Answer:
    return 201, state.add_emoji(request.body["name"])


def _read_guild_id(state: SimulatorState, request: Request) -> str | None:
    """Return the server of the request; None means all servers."""
    if request.path["application_id"] != state.application_id:
        raise unknown_object("Application", 10002)
    guild_id = request.path.get("guild_id")
    if guild_id not in (None, state.guild.id):
        raise ApiError(403, 50001, "Missing Access")
    return guild_id


@OPERATIONS.add("bulk_set_guild_application_commands", "PUT", GUILD_COMMANDS)
@OPERATIONS.add("bulk_set_application_commands", "PUT", APPLICATION_COMMANDS)
async def _replace_commands(state: SimulatorState, request: Request) -> Answer:
    guild_id, bodies = _read_guild_id(state, request), request.body or []
    if problems := check_commands(bodies):
        raise invalid_body(problems)
    existing = state.commands.get(guild_id, [])
    ids = {(command["type"], command["name"]): command["id"] for command in existing}
    guild = {"guild_id": guild_id} if guild_id else {}
    application = {"application_id": state.application_id}
    state.commands[guild_id] = [
        shapes.command(ids.get((body.get("type") or 1, body["name"])) or state.ids.next(), body)
        | application
        | {"version": state.ids.next()}
        | guild
        for body in bodies
    ]
    return 200, state.commands[guild_id]


@OPERATIONS.add("list_guild_application_commands", "GET", GUILD_COMMANDS)
@OPERATIONS.add("list_application_commands", "GET", APPLICATION_COMMANDS)
async def _list_commands(state: SimulatorState, request: Request) -> Answer:
    return 200, state.commands.get(_read_guild_id(state, request), [])


@OPERATIONS.add("get_guild_member", "GET", "/guilds/{guild_id}/members/{user_id}")
async def _get_member(state: SimulatorState, request: Request) -> Answer:
    return 200, state.guild.member(request.path["user_id"])


@OPERATIONS.add("add_guild_member_role", "PUT", MEMBER_ROLE)
async def _add_member_role(state: SimulatorState, request: Request) -> Answer:
    return await _change_member_role(state, request, is_held=True)


@OPERATIONS.add("delete_guild_member_role", "DELETE", MEMBER_ROLE)
async def _delete_member_role(state: SimulatorState, request: Request) -> Answer:
    return await _change_member_role(state, request, is_held=False)


async def _change_member_role(state: SimulatorState, request: Request, *, is_held: bool) -> Answer:
    role_id = state.guild.role(request.path["role_id"])["id"]
    state.guild.need(None, "manage_roles")
    member = state.guild.member(request.path["user_id"])
    other_roles = [held for held in member["roles"] if held != role_id]
    if is_held != (role_id in member["roles"]):
        member["roles"] = [*other_roles, role_id] if is_held else other_roles
    is_own = request.path["user_id"] == state.guild.bot_id
    event = {**member, "guild_id": state.guild.id}
    await state.gateway.emit("GUILD_MEMBER_UPDATE", event, 0 if is_own else MEMBERS)
    return 204, None


@OPERATIONS.add("list_guild_roles", "GET", "/guilds/{guild_id}/roles")
async def _list_roles(state: SimulatorState, _: Request) -> Answer:
    return 200, list(state.guild.roles.values())


@OPERATIONS.add("create_guild_role", "POST", "/guilds/{guild_id}/roles")
async def _create_role(state: SimulatorState, request: Request) -> Answer:
    state.guild.need(None, "manage_roles")
    body: Json = request.body or {}
    allowed = int(body.get("permissions") or 0)
    role = state.guild.role(state.guild.add_role(body.get("name") or "new role", allowed))
    role |= {key: body[key] for key in ("hoist", "mentionable") if body.get(key) is not None}
    if body.get("color"):
        role["colors"]["primary_color"] = body["color"]
    role["colors"] |= body.get("colors") or {}
    role["color"] = role["colors"]["primary_color"]
    event = {"guild_id": state.guild.id, "role": role}
    await state.gateway.emit("GUILD_ROLE_CREATE", event, GUILDS)
    return 200, role


@OPERATIONS.add("delete_guild_role", "DELETE", "/guilds/{guild_id}/roles/{role_id}")
async def _delete_role(state: SimulatorState, request: Request) -> Answer:
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


@OPERATIONS.add("create_dm", "POST", "/users/@me/channels")
async def _create_direct_channel(state: SimulatorState, request: Request) -> Answer:
    # The document allows several recipients, which bots do not use.
    user_id = str((request.body or {}).get("recipient_id") or "")
    if not user_id:
        raise ApiError(400, 50033, "Invalid Recipient(s)")
    state.guild.member(user_id)
    channel = state.guild.private_with(user_id)
    await state.gateway.emit("CHANNEL_CREATE", channel, DIRECT_MESSAGES)
    return 200, channel
