"""A person at a Discord client: does what the client offers, and sees what it shows."""

import asyncio
from collections.abc import Mapping
from typing import Any

from discord_sim import shapes
from discord_sim.errors import NotOffered
from discord_sim.interactions import AUTOCOMPLETE, COMMAND, COMPONENT, MODAL
from discord_sim.judges.components import walk
from discord_sim.parts import Parts
from discord_sim.people import modals, options
from discord_sim.people.doing import Doing, begin
from discord_sim.permissions import BITS
from discord_sim.shapes import EPHEMERAL, Json


class Person:
    """Somebody; what they are not offered is NotOffered, a mistake of the test."""

    def __init__(self, parts: Parts, identity: str) -> None:
        """Somebody who is in the server."""
        self._parts, self.id = parts, identity

    @property
    def mention(self) -> str:
        """How a message calls them."""
        return f"<@{self.id}>"

    def sees(self, channel_id: str) -> list[Json]:
        """The messages of a channel, oldest first, others' ephemeral ones left out."""
        if not self._parts.guild.sees(self.id, channel_id):
            return []
        messages = self._parts.messages[channel_id].values()
        return [one for one in messages if self._is_shown(one)]

    def _is_shown(self, message: Json) -> bool:
        asked_by = message.get("interaction_metadata", {}).get("user", {}).get("id")
        return not message["flags"] & EPHEMERAL or asked_by == self.id

    def threads(self, parent_id: str) -> list[Json]:
        """The threads and posts of a channel that they can open, oldest first."""
        return [
            one
            for one in self._parts.guild.channels.values()
            if one["type"] in shapes.THREADS
            and one["parent_id"] == parent_id
            and self._parts.guild.sees(self.id, one["id"])
        ]

    def letters(self) -> list[Json]:
        """The direct messages that they got."""
        return self.sees(self._parts.guild.private_with(self.id)["id"])

    async def slash(self, channel_id: str, path: str, **given: Any) -> Doing:
        """Use a command: `slash(channel, "leaderboard show", leaderboard_name="sort")`.

        A file is given as a Blob, a member by their id.
        """
        self._may_use_commands(channel_id)
        data = options.command(self._parts, self.id, path, given)
        return await self._do(COMMAND, channel_id, data)

    async def autocomplete(
        self, channel_id: str, path: str, focused: str, **given: Any
    ) -> list[Json]:
        """The choices that are offered while an option is typed; each has `name` and `value`."""
        self._may_use_commands(channel_id)
        data = options.command(self._parts, self.id, path, given, focused)
        doing = await self._do(AUTOCOMPLETE, channel_id, data)
        await doing.acknowledged()
        return doing.interaction.choices

    def _may_use_commands(self, channel_id: str) -> None:
        allowed = self._parts.guild.may(self.id, channel_id)
        if not self._parts.guild.sees(self.id, channel_id):
            raise NotOffered("that channel is not shown to this person")
        if not allowed & BITS["use_application_commands"]:
            raise NotOffered("this person may not use commands here")

    async def click(
        self, message: Json, label: str | None = None, custom_id: str | None = None
    ) -> Doing:
        """Press a button, found by its label, its emoji or its id."""
        button = await self._component(message, (2,), label, custom_id)
        data = {"custom_id": button["custom_id"], "component_type": 2, "id": button["id"]}
        return await self._use(message, data)

    async def select(
        self,
        message: Json,
        values: list[str],
        label: str | None = None,
        custom_id: str | None = None,
    ) -> Doing:
        """Choose from a menu, found by its placeholder or its id."""
        menu = await self._component(message, (3,), label, custom_id)
        offered = [one["value"] for one in menu["options"]]
        is_right = menu["min_values"] <= len(values) <= menu["max_values"]
        if not is_right or set(values) - set(offered) or len(set(values)) != len(values):
            least, most = menu["min_values"], menu["max_values"]
            raise NotOffered(f"{values} of {offered}: choose {least} to {most} of them")
        data = {"custom_id": menu["custom_id"], "component_type": 3, "id": menu["id"]}
        return await self._use(message, data | {"values": values})

    async def _use(self, message: Json, data: Json) -> Doing:
        return await self._do(COMPONENT, message["channel_id"], data, message["id"])

    async def _do(
        self, kind: int, channel_id: str, data: Json, message_id: str | None = None
    ) -> Doing:
        interaction = self._parts.interactions.begin(kind, self.id, channel_id, data)
        interaction.message_id = message_id
        return await begin(self._parts, interaction)

    async def _component(
        self, message: Json, kinds: tuple[int, ...], label: str | None, custom_id: str | None
    ) -> Json:
        await asyncio.sleep(self._parts.reaction_s)
        fresh = self._parts.messages[message["channel_id"]].get(message["id"])
        if fresh is None or fresh not in self.sees(message["channel_id"]):
            raise NotOffered("that message is not shown to this person")
        for _, one in walk(fresh["components"]):
            is_named = label is None or label in _labels(one)
            if one["type"] in kinds and is_named and custom_id in (None, one.get("custom_id")):
                if one.get("disabled"):
                    raise NotOffered(f"{label or custom_id or one['custom_id']} is disabled")
                if "custom_id" not in one:
                    raise NotOffered(f"{label} is a link")
                return one
        raise NotOffered(f"nothing called {label or custom_id!r} on that message")

    async def fill_in(self, doing: Doing, values: Mapping[str, str]) -> Doing:
        """Send off the modal that an interaction opened, its fields by label or by id."""
        await asyncio.sleep(self._parts.reaction_s)
        begun = doing.interaction
        if begun.modal is None or begun.user_id != self.id:
            raise NotOffered("no modal is open for this person")
        data = modals.filled(begun.modal, values)
        return await self._do(MODAL, begun.channel_id, data, begun.message_id)


def _labels(component: Json) -> tuple[str | None, ...]:
    emoji = component.get("emoji") or {}
    return component.get("label"), component.get("placeholder"), emoji.get("name")
