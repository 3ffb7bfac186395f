"""The first answer to an interaction."""

from collections.abc import Mapping

from discord_sim import effects, shapes
from discord_sim.cdn import Blob
from discord_sim.errors import ApiError, Problem, invalid
from discord_sim.interactions import AUTOCOMPLETE, COMMAND, COMPONENT, MODAL, Interaction
from discord_sim.judges.components import check_components
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.parts import Parts
from discord_sim.shapes import EPHEMERAL, LOADING, Json

MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, CHOICES, OPEN_MODAL = 4, 5, 6, 7, 8, 9
ALLOWED = {
    COMMAND: {MESSAGE, DEFERRED_MESSAGE, OPEN_MODAL},
    COMPONENT: {MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, OPEN_MODAL},
    AUTOCOMPLETE: {CHOICES},
    MODAL: {MESSAGE, DEFERRED_MESSAGE},
}
OF_MODAL_AT_MESSAGE = ALLOWED[MODAL] | {DEFERRED_UPDATE, UPDATE}
# What a message is called that answers a command, and one that answers a component.
BY_COMMAND, REPLY = 20, 19


@operation("POST", "/interactions/{interaction_id}/{interaction_token}/callback", is_open=True)
async def create_interaction_response(parts: Parts, request: Request) -> Answer:
    """Acknowledge an interaction, once and in time."""
    identity, token = request.path["interaction_id"], request.path["interaction_token"]
    interaction = parts.interactions.to_answer(identity, token)
    kind, data = request.body["type"], request.body.get("data") or {}
    _check(interaction, kind, data)
    try:
        message = _answered(parts, interaction, kind, data, request.files)
    except ApiError as error:
        error.problems = [one.under("data") for one in error.problems]
        raise
    interaction.answer(kind, parts.clock.now())
    if message is not None and kind == UPDATE:
        await effects.tell_changed(parts, message)
    elif message is not None and kind != DEFERRED_UPDATE:
        await effects.post(parts, message)
    if request.query.get("with_response") not in ("1", "true"):
        return 204, None
    return 200, _said(interaction, kind, message)


def _check(interaction: Interaction, kind: int, data: Json) -> None:
    allowed = ALLOWED[interaction.kind]
    if interaction.kind == MODAL and interaction.message_id:
        allowed = OF_MODAL_AT_MESSAGE
    if kind not in allowed:
        told = f"callback type {kind} cannot answer interaction type {interaction.kind}"
        raise invalid([Problem(("type",), told, "INTERACTION_CALLBACK_TYPE")])
    if kind == DEFERRED_MESSAGE and (data.get("flags") or 0) & ~EPHEMERAL:
        told = "only EPHEMERAL may be set on a deferred response"
        raise invalid([Problem(("data", "flags"), told, "MESSAGE_FLAGS")])


def _answered(
    parts: Parts,
    interaction: Interaction,
    kind: int,
    data: Json,
    files: Mapping[int, Blob],
) -> Json | None:
    """Do what an answer says; the message that it makes or changes."""
    if kind == CHOICES:
        interaction.choices = data.get("choices") or []
        return None
    if kind == OPEN_MODAL:
        if found := check_components(data["components"], is_modal=True):
            raise invalid([one.under("components") for one in found])
        interaction.modal = data
        return None
    if kind in (UPDATE, DEFERRED_UPDATE):
        where, identity = interaction.channel_id, interaction.message_id or ""
        old = effects.find(parts, where, identity, by_token=True)
        if kind == UPDATE:
            effects.change(parts, old, data, files)
        interaction.original_id = old["id"]
        return old
    message = told_by(parts, interaction)
    if kind == DEFERRED_MESSAGE:
        message["flags"] = (data.get("flags") or 0) & EPHEMERAL | LOADING
        interaction.is_deferred = True
    else:
        effects.fill(parts, message, data, files)
    interaction.original_id = message["id"]
    interaction.message_ids.append(message["id"])
    return message


def told_by(parts: Parts, interaction: Interaction) -> Json:
    """A new message that says which interaction it answers."""
    message = effects.new(parts, interaction.channel_id, parts.guild.bot)
    message |= {
        "type": BY_COMMAND if interaction.kind == COMMAND else 0,
        "application_id": parts.application_id,
        "webhook_id": parts.application_id,
        "interaction_metadata": _metadata(parts, interaction),
    }
    answered = interaction.original_id or interaction.message_id
    if interaction.kind == COMPONENT or interaction.original_id:
        message |= {"type": REPLY, "message_reference": _reference(parts, interaction, answered)}
    return message


def _reference(parts: Parts, interaction: Interaction, message_id: str | None) -> Json:
    where = {"type": 0, "channel_id": interaction.channel_id, "message_id": message_id}
    channel = parts.guild.channel(interaction.channel_id)
    return where if channel["type"] == shapes.DM else {**where, "guild_id": parts.guild.id}


def _metadata(parts: Parts, interaction: Interaction) -> Json:
    person = parts.guild.users[interaction.user_id]
    owners = {"0": parts.guild.id}
    found = {"id": interaction.id, "user": person, "authorizing_integration_owners": owners}
    if interaction.kind == COMPONENT:
        return {**found, "type": COMPONENT, "interacted_message_id": interaction.message_id}
    if interaction.kind == MODAL:
        begun = {**found, "type": COMMAND}
        return {**found, "type": MODAL, "triggering_interaction_metadata": begun}
    return {**found, "type": interaction.kind}


def _said(interaction: Interaction, kind: int, message: Json | None) -> Json:
    told: Json = {"id": interaction.id, "type": interaction.kind}
    found: Json = {"interaction": told}
    if message is not None and kind != DEFERRED_UPDATE:
        told |= {
            "response_message_id": message["id"],
            "response_message_loading": bool(message["flags"] & LOADING),
            "response_message_ephemeral": bool(message["flags"] & EPHEMERAL),
        }
        if kind in (MESSAGE, UPDATE):
            found["resource"] = {"type": kind, "message": message}
    return found
