"""What became of something that a person did, as they see it."""

import asyncio
from dataclasses import dataclass

from discord_sim import shapes
from discord_sim.gateway.wire import Session
from discord_sim.interactions import ACKNOWLEDGE_S, Interaction
from discord_sim.parts import Parts
from discord_sim.shapes import EPHEMERAL, LOADING, Json

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Doing:
    """An interaction from its person's side."""

    parts: Parts
    interaction: Interaction

    async def acknowledged(self, within_s: float = PATIENCE_S) -> "Doing":
        """Wait for the answer. Errors: AssertionError, "The application did not respond"."""
        one = self.interaction
        await self.parts.record.until(
            lambda: one.callback is not None or one.is_failed,
            f"an answer to {one.name()}",
            within_s,
        )
        assert not one.is_failed, f"{one.name()}: The application did not respond"
        return self

    async def answered(self, within_s: float = PATIENCE_S) -> Json:
        """The message that answers, once it no longer says that the bot is thinking."""
        await self.acknowledged(within_s)
        return await self.parts.record.until(
            lambda: self.message if self.message and not self.is_thinking else None,
            f"a message that answers {self.interaction.name()}",
            within_s,
        )

    @property
    def message(self) -> Json | None:
        """The message that answers, as it is now."""
        messages = self.parts.messages[self.interaction.channel_id]
        return messages.get(self.interaction.original_id or "")

    @property
    def is_thinking(self) -> bool:
        """Whether an answer was promised and is not there."""
        return bool(self.message and self.message["flags"] & LOADING)

    @property
    def is_ephemeral(self) -> bool:
        """Whether nobody else sees the answer."""
        return bool(self.message and self.message["flags"] & EPHEMERAL)

    @property
    def followups(self) -> list[Json]:
        """The messages after the first, oldest first."""
        messages = self.parts.messages[self.interaction.channel_id]
        ids = [one for one in self.interaction.message_ids if one != self.interaction.original_id]
        return [messages[one] for one in ids if one in messages]


async def begin(parts: Parts, interaction: Interaction) -> Doing:
    """Let Discord tell the bot what a person did."""
    doing = Doing(parts, interaction)
    if not parts.gateway.sessions:
        interaction.is_failed = True
        await parts.record.tell()
        return doing
    watching = asyncio.create_task(_watch(parts, interaction))
    parts.deadlines.add(watching)
    watching.add_done_callback(parts.deadlines.discard)
    # Every bot hears of its own interactions, whatever its intents.
    await parts.gateway.emit("INTERACTION_CREATE", _payload(parts, interaction))
    return doing


async def _watch(parts: Parts, interaction: Interaction) -> None:
    """Give an interaction up that nobody acknowledges in time."""
    answered = asyncio.create_task(interaction.answered.wait())
    late = asyncio.create_task(parts.clock.until(interaction.created_at + ACKNOWLEDGE_S))
    try:
        await asyncio.wait({answered, late}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        answered.cancel()
        late.cancel()
    if interaction.callback is not None:
        return
    interaction.is_failed = True
    # Who was not there cannot have been late.
    if any(_hears(one) for one in parts.gateway.sessions.values()):
        said = f"{interaction.name()}: not acknowledged within {ACKNOWLEDGE_S:g} s"
        parts.record.violations.append(said)
    await parts.record.tell()


def _hears(session: Session) -> bool:
    return session.connection is not None and not session.connection.is_cut


def _payload(parts: Parts, interaction: Interaction) -> Json:
    """An interaction as the bot hears of it."""
    guild, channel_id = parts.guild, interaction.channel_id
    channel = guild.channel(channel_id)
    allowed = str(guild.may(interaction.user_id, channel_id))
    found: Json = {
        "id": interaction.id,
        "application_id": parts.application_id,
        "type": interaction.kind,
        "data": interaction.data,
        "channel_id": channel_id,
        "channel": {**channel, "permissions": allowed},
        "token": interaction.token,
        "version": 1,
        "app_permissions": str(guild.may(guild.bot_id, channel_id)),
        "locale": "en-US",
        "entitlements": [],
        "entitlement_sku_ids": [],
        "authorizing_integration_owners": {"0": guild.id},
        "context": 1 if channel["type"] == shapes.DM else 0,
        "attachment_size_limit": parts.files_max_bytes,
    }
    if interaction.message_id:
        found["message"] = parts.messages[channel_id][interaction.message_id]
    if channel["type"] == shapes.DM:
        return found | {"user": guild.users[interaction.user_id]}
    return found | {
        "member": {**guild.members[interaction.user_id], "permissions": allowed},
        "guild_id": guild.id,
        "guild": {"id": guild.id, "features": [], "locale": "en-US"},
        "guild_locale": "en-US",
    }
