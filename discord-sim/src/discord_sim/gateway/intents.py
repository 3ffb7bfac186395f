"""What a bot asks to be told, and what of it needs Discord's leave."""

from discord_sim.shapes import Json

GUILDS, MEMBERS, PRESENCES = 1 << 0, 1 << 1, 1 << 8
MESSAGES, DIRECT_MESSAGES, CONTENT = 1 << 9, 1 << 12, 1 << 15
PRIVILEGED = MEMBERS | PRESENCES | CONTENT


def seen(event: str, data: Json, intents: int, bot_id: str) -> Json:
    """An event as these intents show it: without CONTENT, foreign messages are empty."""
    if not event.startswith("MESSAGE_") or "author" not in data or intents & CONTENT:
        return data
    is_own = data["author"]["id"] == bot_id or any(one["id"] == bot_id for one in data["mentions"])
    if is_own or "guild_id" not in data:
        return data
    return {**data, "content": "", "embeds": [], "attachments": [], "components": []}
