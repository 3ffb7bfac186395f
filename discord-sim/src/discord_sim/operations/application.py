"""The bot's application and commands, its server and members, and its answers to interactions."""

from discord_sim import shapes
from discord_sim.gateway import DIRECT_MESSAGES, GUILDS, MEMBERS
from discord_sim.operations import messages
from discord_sim.rules import check_commands, check_components
from discord_sim.shapes import (
    EPHEMERAL,
    LOADING,
    ApiError,
    Json,
    Problem,
    invalid_body,
    unknown_object,
)
from discord_sim.state import (
    AUTOCOMPLETE,
    COMMAND,
    COMPONENT,
    MODAL,
    Answer,
    Interaction,
    Operations,
    Request,
    SimulatorState,
)

STARTS_A_DAY = 1000
APPLICATION_COMMANDS = "/applications/{application_id}/commands"
GUILD_COMMANDS = "/applications/{application_id}/guilds/{guild_id}/commands"
MEMBER_ROLE = "/guilds/{guild_id}/members/{user_id}/roles/{role_id}"
OPERATIONS = Operations()

# The types of answers to interactions, and which of them each kind of interaction takes.
MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, CHOICES, OPEN_MODAL = 4, 5, 6, 7, 8, 9
ALLOWED = {
    COMMAND: {MESSAGE, DEFERRED_MESSAGE, OPEN_MODAL},
    COMPONENT: {MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, OPEN_MODAL},
    AUTOCOMPLETE: {CHOICES},
    MODAL: {MESSAGE, DEFERRED_MESSAGE},
}
OF_MODAL_AT_MESSAGE = ALLOWED[MODAL] | {DEFERRED_UPDATE, UPDATE}
# The types of messages that answer a command, and of those that answer a component.
BY_COMMAND, REPLY = 20, 19
HOOK = "/webhooks/{webhook_id}/{webhook_token}"
ORIGINAL = f"{HOOK}/messages/@original"
FOLLOWUP = f"{HOOK}/messages/{{message_id}}"
CALLBACK = "/interactions/{interaction_id}/{interaction_token}/callback"


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


@OPERATIONS.add("create_interaction_response", "POST", CALLBACK, is_open=True)
async def _acknowledge(state: SimulatorState, request: Request) -> Answer:
    identity, token = request.path["interaction_id"], request.path["interaction_token"]
    interaction = state.interactions.to_answer(identity, token)
    kind, data = request.body["type"], request.body.get("data") or {}
    _check_kind(interaction, kind, data)
    try:
        message = _apply(state, interaction, kind, request)
    except ApiError as error:
        error.problems = [problem.under("data") for problem in error.problems]
        raise
    interaction.answer(kind, state.clock.now())
    if message is not None and kind == UPDATE:
        await messages.emit_message_update(state, message)
    elif message is not None and kind != DEFERRED_UPDATE:
        await messages.publish_message(state, message)
    if request.query.get("with_response") not in ("1", "true"):
        return 204, None
    return 200, _response_object(interaction, kind, message)


def _check_kind(interaction: Interaction, kind: int, data: Json) -> None:
    is_at_message = interaction.kind == MODAL and interaction.message_id
    if kind not in (OF_MODAL_AT_MESSAGE if is_at_message else ALLOWED[interaction.kind]):
        text = f"callback type {kind} cannot answer interaction type {interaction.kind}"
        raise invalid_body([Problem(("type",), text, "INTERACTION_CALLBACK_TYPE")])
    if kind == DEFERRED_MESSAGE and (data.get("flags") or 0) & ~EPHEMERAL:
        text = "only EPHEMERAL may be set on a deferred response"
        raise invalid_body([Problem(("data", "flags"), text, "MESSAGE_FLAGS")])


def _apply(
    state: SimulatorState, interaction: Interaction, kind: int, request: Request
) -> Json | None:
    """Apply a response, and return the message that it creates or changes."""
    data = request.body.get("data") or {}
    if kind == CHOICES:
        interaction.choices = data.get("choices") or []
        return None
    if kind == OPEN_MODAL:
        if problems := check_components(data["components"], is_modal=True):
            raise invalid_body([problem.under("components") for problem in problems])
        interaction.modal = data
        return None
    if kind in (UPDATE, DEFERRED_UPDATE):
        channel_id, message_id = interaction.channel_id, interaction.message_id or ""
        old = messages.find_message(state, channel_id, message_id, by_token=True)
        if kind == UPDATE:
            messages.change_message(state, old, data, request.files)
        interaction.original_id = old["id"]
        return old
    message = _reply_message(state, interaction)
    if kind == DEFERRED_MESSAGE:
        message["flags"] = (data.get("flags") or 0) & EPHEMERAL | LOADING
        interaction.is_deferred = True
    else:
        messages.fill_message(state, message, data, request.files)
    interaction.original_id = message["id"]
    interaction.message_ids.append(message["id"])
    return message


def _reply_message(state: SimulatorState, interaction: Interaction) -> Json:
    message = messages.new_message(state, interaction.channel_id, state.guild.bot)
    message |= {
        "type": BY_COMMAND if interaction.kind == COMMAND else 0,
        "application_id": state.application_id,
        "webhook_id": state.application_id,
        "interaction_metadata": _metadata(state, interaction),
    }
    answered_id = interaction.original_id or interaction.message_id
    if interaction.kind == COMPONENT or interaction.original_id:
        channel = state.guild.channel(interaction.channel_id)
        reference = {"type": 0, "channel_id": channel["id"], "message_id": answered_id}
        reference |= {} if channel["type"] == shapes.DM else {"guild_id": state.guild.id}
        message |= {"type": REPLY, "message_reference": reference}
    return message


def _metadata(state: SimulatorState, interaction: Interaction) -> Json:
    user = state.guild.users[interaction.user_id]
    owners = {"0": state.guild.id}
    metadata = {"id": interaction.id, "user": user, "authorizing_integration_owners": owners}
    details: Json = {"type": interaction.kind}
    if interaction.kind == COMPONENT:
        details["interacted_message_id"] = interaction.message_id
    if interaction.kind == MODAL:
        details["triggering_interaction_metadata"] = {**metadata, "type": COMMAND}
    return {**metadata, **details}


def _response_object(interaction: Interaction, kind: int, message: Json | None) -> Json:
    details: Json = {"id": interaction.id, "type": interaction.kind}
    response: Json = {"interaction": details}
    if message is not None and kind != DEFERRED_UPDATE:
        details |= {
            "response_message_id": message["id"],
            "response_message_loading": bool(message["flags"] & LOADING),
            "response_message_ephemeral": bool(message["flags"] & EPHEMERAL),
        }
        if kind in (MESSAGE, UPDATE):
            response["resource"] = {"type": kind, "message": message}
    return response


@OPERATIONS.add("execute_webhook", "POST", HOOK, is_open=True)
async def _send_followup(state: SimulatorState, request: Request) -> Answer:
    """Send a follow-up; the first after a deferral replaces the deferred answer."""
    interaction = state.interactions.to_follow(request.path["webhook_token"])
    if interaction.is_deferred:
        return await _change_own_message(state, request)
    message = _reply_message(state, interaction)
    messages.fill_message(state, message, request.body, request.files)
    interaction.message_ids.append(message["id"])
    await messages.publish_message(state, message)
    return 200, message


def _find_own_message(state: SimulatorState, request: Request) -> tuple[Interaction, Json]:
    """Return an interaction and its message: by id, or else the first answer."""
    interaction = state.interactions.to_follow(request.path["webhook_token"])
    message_id = request.path.get("message_id", interaction.original_id)
    if message_id not in (*interaction.message_ids, interaction.original_id):
        raise unknown_object("Message", 10008)
    message = messages.find_message(state, interaction.channel_id, message_id or "", by_token=True)
    return interaction, message


@OPERATIONS.add("update_original_webhook_message", "PATCH", ORIGINAL, is_open=True)
@OPERATIONS.add("update_webhook_message", "PATCH", FOLLOWUP, is_open=True)
async def _change_own_message(state: SimulatorState, request: Request) -> Answer:
    interaction, message = _find_own_message(state, request)
    messages.change_message(state, message, request.body, request.files)
    if message["id"] == interaction.original_id:
        interaction.is_deferred = False
    await messages.emit_message_update(state, message)
    return 200, message


@OPERATIONS.add("get_original_webhook_message", "GET", ORIGINAL, is_open=True)
@OPERATIONS.add("get_webhook_message", "GET", FOLLOWUP, is_open=True)
async def _get_own_message(state: SimulatorState, request: Request) -> Answer:
    return 200, _find_own_message(state, request)[1]


@OPERATIONS.add("delete_original_webhook_message", "DELETE", ORIGINAL, is_open=True)
@OPERATIONS.add("delete_webhook_message", "DELETE", FOLLOWUP, is_open=True)
async def _delete_own_message(state: SimulatorState, request: Request) -> Answer:
    await messages.remove_message(state, _find_own_message(state, request)[1])
    return 204, None
