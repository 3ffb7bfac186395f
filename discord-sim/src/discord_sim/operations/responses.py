"""Responses to interactions: the first answer, and what follows by webhook."""

from discord_sim import shapes
from discord_sim.errors import ApiError, Problem, invalid_body, unknown_object
from discord_sim.operations import messages
from discord_sim.rules import check_components
from discord_sim.shapes import EPHEMERAL, LOADING, Json
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
OPERATIONS = Operations()


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
