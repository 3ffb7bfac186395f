"""What follows the first answer, by the interaction's token."""

from discord_sim import effects
from discord_sim.errors import unknown
from discord_sim.interactions import Interaction
from discord_sim.operations.callbacks import told_by
from discord_sim.operations.operation import Answer, Request, operation
from discord_sim.parts import Parts
from discord_sim.shapes import Json

HOOK = "/webhooks/{webhook_id}/{webhook_token}"
ORIGINAL = f"{HOOK}/messages/@original"
ONE = f"{HOOK}/messages/{{message_id}}"


def _interaction(parts: Parts, request: Request) -> Interaction:
    return parts.interactions.to_follow(request.path["webhook_token"])


@operation("POST", HOOK, is_open=True)
async def execute_webhook(parts: Parts, request: Request) -> Answer:
    """A follow-up; the first after a deferral becomes the message that was promised."""
    interaction = _interaction(parts, request)
    if interaction.is_deferred:
        return 200, await _change(parts, interaction, interaction.original_id, request)
    message = told_by(parts, interaction)
    effects.fill(parts, message, request.body, request.files)
    interaction.message_ids.append(message["id"])
    await effects.post(parts, message)
    return 200, message


def _own(parts: Parts, interaction: Interaction, message_id: str | None) -> Json:
    """A message of this interaction. Errors: ApiError 10008."""
    if message_id not in (*interaction.message_ids, interaction.original_id):
        raise unknown("Message", 10008)
    return effects.find(parts, interaction.channel_id, message_id or "", by_token=True)


async def _change(
    parts: Parts, interaction: Interaction, message_id: str | None, request: Request
) -> Json:
    message = _own(parts, interaction, message_id)
    effects.change(parts, message, request.body, request.files)
    if message_id == interaction.original_id:
        interaction.is_deferred = False
    await effects.tell_changed(parts, message)
    return message


@operation("PATCH", ORIGINAL, is_open=True)
async def update_original_webhook_message(parts: Parts, request: Request) -> Answer:
    """Change the first answer."""
    interaction = _interaction(parts, request)
    return 200, await _change(parts, interaction, interaction.original_id, request)


@operation("PATCH", ONE, is_open=True)
async def update_webhook_message(parts: Parts, request: Request) -> Answer:
    """Change a follow-up."""
    interaction = _interaction(parts, request)
    return 200, await _change(parts, interaction, request.path["message_id"], request)


@operation("GET", ORIGINAL, is_open=True)
async def get_original_webhook_message(parts: Parts, request: Request) -> Answer:
    """The first answer."""
    interaction = _interaction(parts, request)
    return 200, _own(parts, interaction, interaction.original_id)


@operation("GET", ONE, is_open=True)
async def get_webhook_message(parts: Parts, request: Request) -> Answer:
    """A follow-up."""
    return 200, _own(parts, _interaction(parts, request), request.path["message_id"])


@operation("DELETE", ORIGINAL, is_open=True)
async def delete_original_webhook_message(parts: Parts, request: Request) -> Answer:
    """The first answer goes."""
    interaction = _interaction(parts, request)
    await effects.remove(parts, _own(parts, interaction, interaction.original_id))
    return 204, None


@operation("DELETE", ONE, is_open=True)
async def delete_webhook_message(parts: Parts, request: Request) -> Answer:
    """A follow-up goes."""
    message = _own(parts, _interaction(parts, request), request.path["message_id"])
    await effects.remove(parts, message)
    return 204, None
