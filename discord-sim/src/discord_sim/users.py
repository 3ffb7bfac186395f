"""Simulated users at their Discord clients: they do what it offers and see what it shows."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discord_sim import shapes
from discord_sim.cdn import FileUpload
from discord_sim.guild import ALL, BITS
from discord_sim.rules import walk_components
from discord_sim.shapes import EPHEMERAL, LOADING, ActionNotOffered, Json
from discord_sim.state import (
    ACKNOWLEDGE_S,
    AUTOCOMPLETE,
    COMMAND,
    COMPONENT,
    MODAL,
    Interaction,
    SimulatorState,
)

LABEL, TEXT_INPUT = 18, 4
TEXT_MAX = 4000
STRING, INTEGER, BOOLEAN, USER, CHANNEL, ROLE, NUMBER, ATTACHMENT = 3, 4, 5, 6, 7, 8, 10, 11
NESTED = (1, 2)
TYPES: dict[int, type | tuple[type, ...]] = {
    **dict.fromkeys((STRING, USER, CHANNEL, ROLE), str),
    INTEGER: int,
    BOOLEAN: bool,
    NUMBER: (int, float),
    ATTACHMENT: FileUpload,
}
PATIENCE_S = 30.0


def fill_modal(modal: Json, values: Mapping[str, str]) -> Json:
    """Return what the client sends for a modal; fields are named by label or id."""
    unused, rows = set(values), []
    for row in modal["components"]:
        if row["type"] == LABEL:
            inner = _fill_field(row["component"], row.get("label"), values, unused)
            rows.append({"type": LABEL, "id": 1, "component": inner})
        elif "components" in row:
            fields = row["components"]
            inners = [_fill_field(field, field.get("label"), values, unused) for field in fields]
            rows.append({"type": row["type"], "id": 1, "components": inners})
    if unused:
        raise ActionNotOffered(f"the modal has no field {sorted(unused)}")
    return {"custom_id": modal["custom_id"], "components": rows}


def _fill_field(
    field: Json, label: str | None, values: Mapping[str, str], unused: set[str]
) -> Json:
    name = next((key for key in (label, field["custom_id"]) if key in values), None)
    value = field.get("value") or "" if name is None else values[name]
    unused.discard(name or "")
    result = {"type": field["type"], "custom_id": field["custom_id"], "id": 1}
    if field["type"] != TEXT_INPUT:
        return result | {"values": [value]}
    length_min, length_max = field.get("min_length") or 0, field.get("max_length") or TEXT_MAX
    is_missing = field.get("required", True) and not value
    if is_missing or not (length_min <= len(value) <= length_max or not value):
        raise ActionNotOffered(f"the client refuses {value!r} for {label!r}")
    return result | {"value": value}


def fill_command(
    state: SimulatorState,
    user_id: str,
    path: str,
    values: Mapping[str, Any],
    focused: str | None = None,
) -> Json:
    """Return what the client sends for a command; with a focused option it may be incomplete."""
    root, *names = path.split()
    command = node = _find_command(state, user_id, root)
    chain = []
    for name in names:
        nested = {it["name"]: it for it in node.get("options", []) if it["type"] in NESTED}
        if name not in nested:
            raise ActionNotOffered(f"/{path}: there is no {name!r}")
        node = nested[name]
        chain.append(node)
    known = {option["name"]: option for option in node.get("options", [])}
    _check_options(path, known, values, focused)
    resolved: Json = {}
    options = [
        _fill_option(state, known[name], values[name], resolved, is_focused=name == focused)
        for name in known
        if name in values
    ]
    for subcommand in reversed(chain):
        options = [{"name": subcommand["name"], "type": subcommand["type"], "options": options}]
    data = {"id": command["id"], "name": root, "type": 1, "options": options}
    data |= {"guild_id": command["guild_id"]} if "guild_id" in command else {}
    return data | ({"resolved": resolved} if resolved else {})


def _find_command(state: SimulatorState, user_id: str, name: str) -> Json:
    commands = [*state.commands.get(state.guild.id, []), *state.commands.get(None, [])]
    for command in commands:
        if command["name"] == name and command["type"] == 1:
            needed = command["default_member_permissions"]
            allowed = state.guild.may(user_id)
            is_hidden = needed is not None and (needed == "0" or int(needed) & ~allowed)
            if is_hidden and allowed != ALL:
                raise ActionNotOffered(f"/{name} is hidden from this user, who lacks {needed}")
            return command
    names = [command["name"] for command in commands]
    raise ActionNotOffered(f"there is no /{name}; synced are {names}")


def _check_options(
    path: str, known: Mapping[str, Json], values: Mapping[str, Any], focused: str | None
) -> None:
    if any(option["type"] in NESTED for option in known.values()):
        raise ActionNotOffered(f"/{path} is incomplete: add one of {list(known)}")
    if unknown := set(values) - set(known):
        raise ActionNotOffered(f"/{path} has no option {sorted(unknown)}; it has {list(known)}")
    if focused is not None:
        if not known.get(focused, {}).get("autocomplete"):
            raise ActionNotOffered(f"/{path}: there is no autocomplete for {focused!r}")
        return
    missing = [name for name, it in known.items() if it.get("required") and name not in values]
    if missing:
        raise ActionNotOffered(f"/{path}: the client requires {missing}")


def _fill_option(
    state: SimulatorState, option: Json, value: Any, resolved: Json, *, is_focused: bool
) -> Json:
    kind, name = option["type"], option["name"]
    if not is_focused:
        # A value is text while it is typed.
        is_wrong_bool = isinstance(value, bool) and kind != BOOLEAN
        if is_wrong_bool or not isinstance(value, TYPES[kind]):
            raise ActionNotOffered(f"{name}: {value!r} has the wrong type")
        _check_value(option, value)
    result = {"name": name, "type": kind, "value": _resolve(state, kind, value, resolved)}
    return result | ({"focused": True} if is_focused else {})


def _check_value(option: Json, value: Any) -> None:
    name, is_text = option["name"], option["type"] == STRING
    offered = [choice["value"] for choice in option.get("choices") or []]
    if offered and value not in offered:
        raise ActionNotOffered(f"{name}: {value!r} is not one of {offered}")
    size = len(value) if is_text else value
    lower, upper = ("min_length", "max_length") if is_text else ("min_value", "max_value")
    if option.get(lower) is not None and size < option[lower]:
        raise ActionNotOffered(f"{name}: {value!r} is less than {option[lower]}")
    if option.get(upper) is not None and size > option[upper]:
        raise ActionNotOffered(f"{name}: {value!r} is more than {option[upper]}")


def _resolve(state: SimulatorState, kind: int, value: Any, resolved: Json) -> Any:
    """Return the value to send, and add the object that it refers to to `resolved`."""
    guild = state.guild
    if kind == ATTACHMENT:
        stored = state.cdn.store(value, state.ids.next(), is_ephemeral=True)
        resolved.setdefault("attachments", {})[stored["id"]] = stored
        return stored["id"]
    if kind == USER:
        hidden = ("user", "mute", "deaf")
        member = {key: item for key, item in guild.member(value).items() if key not in hidden}
        member["permissions"] = str(guild.may(value))
        resolved.setdefault("users", {})[value] = guild.users[value]
        resolved.setdefault("members", {})[value] = member
    if kind == CHANNEL:
        channel = guild.channel(value)
        resolved.setdefault("channels", {})[value] = channel | {"permissions": "0"}
    if kind == ROLE:
        resolved.setdefault("roles", {})[value] = guild.role(value)
    return value


@dataclass(frozen=True)
class UserAction:
    """An interaction from the user's side."""

    state: SimulatorState
    interaction: Interaction

    async def acknowledged(self, within_s: float = PATIENCE_S) -> "UserAction":
        """Wait for the acknowledgement. Raises `AssertionError` if there is none in time."""
        interaction = self.interaction
        await self.state.record.until(
            lambda: interaction.callback is not None or interaction.is_failed,
            f"an answer to {interaction.name()}",
            within_s,
        )
        assert not interaction.is_failed, f"{interaction.name()}: The application did not respond"
        return self

    async def answered(self, within_s: float = PATIENCE_S) -> Json:
        """Wait for the answer's message, until the bot is no longer thinking."""
        await self.acknowledged(within_s)
        return await self.state.record.until(
            lambda: self.message if self.message and not self.is_thinking else None,
            f"a message that answers {self.interaction.name()}",
            within_s,
        )

    @property
    def _messages(self) -> dict[str, Json]:
        return self.state.messages[self.interaction.channel_id]

    @property
    def message(self) -> Json | None:
        """The answer's message as it is now."""
        return self._messages.get(self.interaction.original_id or "")

    @property
    def is_thinking(self) -> bool:
        """Whether the answer is deferred."""
        return bool(self.message and self.message["flags"] & LOADING)

    @property
    def is_ephemeral(self) -> bool:
        """Whether only this user sees the answer."""
        return bool(self.message and self.message["flags"] & EPHEMERAL)

    @property
    def followups(self) -> list[Json]:
        """The follow-up messages, oldest first."""
        ids = [it for it in self.interaction.message_ids if it != self.interaction.original_id]
        return [self._messages[identity] for identity in ids if identity in self._messages]


async def _expire(state: SimulatorState, interaction: Interaction) -> None:
    waiting = {
        asyncio.create_task(interaction.answered.wait()),
        asyncio.create_task(state.clock.until(interaction.created_at + ACKNOWLEDGE_S)),
    }
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    if interaction.callback is not None:
        return
    interaction.is_failed = True
    # A bot that is not connected cannot be late.
    connections = [session.connection for session in state.gateway.sessions.values()]
    if any(connection is not None and not connection.is_cut for connection in connections):
        violation = f"{interaction.name()}: not acknowledged within {ACKNOWLEDGE_S:g} s"
        state.record.violations.append(violation)
    await state.record.tell()


def _payload(state: SimulatorState, interaction: Interaction) -> Json:
    guild, channel_id = state.guild, interaction.channel_id
    channel = guild.channel(channel_id)
    allowed = str(guild.may(interaction.user_id, channel_id))
    payload: Json = {
        "id": interaction.id,
        "application_id": state.application_id,
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
        "attachment_size_limit": state.files_max_bytes,
    }
    if interaction.message_id:
        payload["message"] = state.messages[channel_id][interaction.message_id]
    if channel["type"] == shapes.DM:
        return payload | {"user": guild.users[interaction.user_id]}
    return payload | {
        "member": {**guild.members[interaction.user_id], "permissions": allowed},
        "guild_id": guild.id,
        "guild": {"id": guild.id, "features": [], "locale": "en-US"},
        "guild_locale": "en-US",
    }


class SimulatedUser:
    """A user; actions that the client does not offer raise `ActionNotOffered`."""

    def __init__(self, state: SimulatorState, identity: str) -> None:
        self._state, self.id = state, identity

    @property
    def mention(self) -> str:
        """The text that mentions this user in a message."""
        return f"<@{self.id}>"

    def sees(self, channel_id: str) -> list[Json]:
        """Return the visible messages of a channel, oldest first."""
        if not self._state.guild.sees(self.id, channel_id):
            return []
        return [
            message
            for message in self._state.messages[channel_id].values()
            if not message["flags"] & EPHEMERAL
            or message.get("interaction_metadata", {}).get("user", {}).get("id") == self.id
        ]

    def threads(self, parent_id: str) -> list[Json]:
        """Return the visible threads and posts of a channel, oldest first."""
        guild = self._state.guild
        return [
            channel
            for channel in guild.channels.values()
            if channel["type"] in shapes.THREADS
            and channel["parent_id"] == parent_id
            and guild.sees(self.id, channel["id"])
        ]

    def letters(self) -> list[Json]:
        """Return the user's direct messages."""
        return self.sees(self._state.guild.private_with(self.id)["id"])

    async def slash(self, channel_id: str, path: str, **values: Any) -> UserAction:
        """Use a command: `slash(channel, "leaderboard show", leaderboard_name="sort")`.

        A file is a `FileUpload`, a member is an id.
        """
        return await self._use_command(COMMAND, channel_id, path, values)

    async def autocomplete(
        self, channel_id: str, path: str, focused: str, **values: Any
    ) -> list[Json]:
        """Return the choices for the focused option; each has `name` and `value`."""
        action = await self._use_command(AUTOCOMPLETE, channel_id, path, values, focused)
        await action.acknowledged()
        return action.interaction.choices

    async def _use_command(
        self,
        kind: int,
        channel_id: str,
        path: str,
        values: Mapping[str, Any],
        focused: str | None = None,
    ) -> UserAction:
        allowed = self._state.guild.may(self.id, channel_id)
        if not self._state.guild.sees(self.id, channel_id):
            raise ActionNotOffered("this user does not see that channel")
        if not allowed & BITS["use_application_commands"]:
            raise ActionNotOffered("this user may not use commands here")
        data = fill_command(self._state, self.id, path, values, focused)
        return await self._interact(kind, channel_id, data)

    async def click(
        self, message: Json, label: str | None = None, custom_id: str | None = None
    ) -> UserAction:
        """Press a button, found by its label, its emoji or its id."""
        button = await self._find_component(message, 2, label, custom_id)
        data = {"custom_id": button["custom_id"], "component_type": 2, "id": button["id"]}
        return await self._use_component(message, data)

    async def select(
        self,
        message: Json,
        values: list[str],
        label: str | None = None,
        custom_id: str | None = None,
    ) -> UserAction:
        """Choose from a menu, found by its placeholder or its id."""
        menu = await self._find_component(message, 3, label, custom_id)
        offered = [option["value"] for option in menu["options"]]
        is_count_allowed = menu["min_values"] <= len(values) <= menu["max_values"]
        if not is_count_allowed or set(values) - set(offered) or len(set(values)) != len(values):
            limits = f"{menu['min_values']} to {menu['max_values']}"
            raise ActionNotOffered(f"{values} of {offered}: choose {limits} of them")
        data = {"custom_id": menu["custom_id"], "component_type": 3, "id": menu["id"]}
        return await self._use_component(message, data | {"values": values})

    async def _use_component(self, message: Json, data: Json) -> UserAction:
        return await self._interact(COMPONENT, message["channel_id"], data, message["id"])

    async def _interact(
        self, kind: int, channel_id: str, data: Json, message_id: str | None = None
    ) -> UserAction:
        state = self._state
        interaction = state.interactions.begin(kind, self.id, channel_id, data)
        interaction.message_id = message_id
        if not state.gateway.sessions:
            interaction.is_failed = True
            await state.record.tell()
            return UserAction(state, interaction)
        expiry = asyncio.create_task(_expire(state, interaction))
        state.deadlines.add(expiry)
        expiry.add_done_callback(state.deadlines.discard)
        # A bot gets its own interactions whatever its intents.
        await state.gateway.emit("INTERACTION_CREATE", _payload(state, interaction))
        return UserAction(state, interaction)

    async def _find_component(
        self, message: Json, kind: int, label: str | None, custom_id: str | None
    ) -> Json:
        await asyncio.sleep(self._state.reaction_s)
        current = self._state.messages[message["channel_id"]].get(message["id"])
        if current is None or current not in self.sees(message["channel_id"]):
            raise ActionNotOffered("this user does not see that message")
        for _, component in walk_components(current["components"]):
            emoji = (component.get("emoji") or {}).get("name")
            labels = (None, component.get("label"), component.get("placeholder"), emoji)
            has_id = custom_id in (None, component.get("custom_id"))
            if component["type"] == kind and label in labels and has_id:
                if component.get("disabled"):
                    name = label or custom_id or component["custom_id"]
                    raise ActionNotOffered(f"{name} is disabled")
                if "custom_id" not in component:
                    raise ActionNotOffered(f"{label} is a link")
                return component
        raise ActionNotOffered(f"that message has no component {label or custom_id!r}")

    async def fill_in(self, action: UserAction, values: Mapping[str, str]) -> UserAction:
        """Submit the modal that an action opened; fields are named by label or id."""
        await asyncio.sleep(self._state.reaction_s)
        interaction = action.interaction
        if interaction.modal is None or interaction.user_id != self.id:
            raise ActionNotOffered("no modal is open for this user")
        data = fill_modal(interaction.modal, values)
        return await self._interact(MODAL, interaction.channel_id, data, interaction.message_id)
