"""A command as the client lets somebody fill it in."""

from collections.abc import Mapping
from typing import Any

from discord_sim.cdn import Blob
from discord_sim.errors import NotOffered
from discord_sim.parts import Parts
from discord_sim.permissions import ALL
from discord_sim.shapes import Json

STRING, INTEGER, BOOLEAN, USER, CHANNEL, ROLE, NUMBER, ATTACHMENT = 3, 4, 5, 6, 7, 8, 10, 11
NESTED = (1, 2)
TYPES: dict[int, type | tuple[type, ...]] = {
    STRING: str,
    INTEGER: int,
    BOOLEAN: bool,
    USER: str,
    CHANNEL: str,
    ROLE: str,
    NUMBER: (int, float),
    ATTACHMENT: Blob,
}


def command(
    parts: Parts, user_id: str, path: str, given: Mapping[str, Any], focused: str | None = None
) -> Json:
    """What the client sends for a command; while an option is typed, it may be incomplete."""
    root, *names = path.split()
    found = _shown(parts, user_id, root)
    node, chain = found, []
    for name in names:
        node = _sub(node, name, path)
        chain.append(node)
    known = {one["name"]: one for one in node.get("options", [])}
    if any(one["type"] in NESTED for one in known.values()):
        raise NotOffered(f"/{path} is not complete: one of {list(known)}")
    if lost := set(given) - set(known):
        raise NotOffered(f"/{path} has no option {sorted(lost)}; it has {list(known)}")
    _check_complete(path, known, given, focused)
    resolved: Json = {}
    filled = [
        _option(parts, known[name], given[name], resolved, is_focused=name == focused)
        for name in known
        if name in given
    ]
    for link in reversed(chain):
        filled = [{"name": link["name"], "type": link["type"], "options": filled}]
    data = {"id": found["id"], "name": root, "type": 1, "options": filled}
    data |= {"guild_id": found["guild_id"]} if "guild_id" in found else {}
    return data | ({"resolved": resolved} if resolved else {})


def _shown(parts: Parts, user_id: str, name: str) -> Json:
    """A command that this person sees in the list."""
    everything = [*parts.commands.get(parts.guild.id, []), *parts.commands.get(None, [])]
    for one in everything:
        if one["name"] == name and one["type"] == 1:
            needed, allowed = one["default_member_permissions"], parts.guild.may(user_id)
            is_hidden = needed is not None and (needed == "0" or int(needed) & ~allowed)
            if is_hidden and allowed != ALL:
                raise NotOffered(f"/{name} is not shown to this person, who lacks {needed}")
            return one
    raise NotOffered(f"/{name} is not there; synced are {[one['name'] for one in everything]}")


def _sub(node: Json, name: str, path: str) -> Json:
    for one in node.get("options", []):
        if one["name"] == name and one["type"] in NESTED:
            found: Json = one
            return found
    raise NotOffered(f"/{path}: there is no {name!r}")


def _check_complete(
    path: str, known: Mapping[str, Json], given: Mapping[str, Any], focused: str | None
) -> None:
    if focused is not None:
        if not known.get(focused, {}).get("autocomplete"):
            raise NotOffered(f"/{path}: nothing is offered while {focused!r} is typed")
        return
    missing = [one for one, said in known.items() if said.get("required") and one not in given]
    if missing:
        raise NotOffered(f"/{path}: the client asks for {missing}")


def _option(parts: Parts, known: Json, value: Any, resolved: Json, *, is_focused: bool) -> Json:
    kind, name = known["type"], known["name"]
    is_wrong_bool = isinstance(value, bool) and kind != BOOLEAN
    # Whatever is typed is text until it is sent.
    if not is_focused and (is_wrong_bool or not isinstance(value, TYPES[kind])):
        raise NotOffered(f"{name}: {value!r} is of the wrong type")
    if not is_focused:
        _check_value(known, value)
    found = {"name": name, "type": kind, "value": _resolve(parts, kind, value, resolved)}
    return found | ({"focused": True} if is_focused else {})


def _check_value(known: Json, value: Any) -> None:
    name = known["name"]
    offered = [one["value"] for one in known.get("choices") or []]
    if offered and value not in offered:
        raise NotOffered(f"{name}: {value!r} is none of {offered}")
    size = len(value) if known["type"] == STRING else value
    least, most = ("min_length", "max_length") if known["type"] == STRING else _BOUNDS
    if known.get(least) is not None and size < known[least]:
        raise NotOffered(f"{name}: {value!r} is less than {known[least]}")
    if known.get(most) is not None and size > known[most]:
        raise NotOffered(f"{name}: {value!r} is more than {known[most]}")


_BOUNDS = ("min_value", "max_value")


def _resolve(parts: Parts, kind: int, value: Any, resolved: Json) -> Any:
    """The value as it is sent; what it stands for is sent beside it."""
    guild = parts.guild
    if kind == ATTACHMENT:
        stored = parts.cdn.store(value, parts.ids.next(), is_ephemeral=True)
        resolved.setdefault("attachments", {})[stored["id"]] = stored
        return stored["id"]
    if kind == USER:
        hidden = ("user", "mute", "deaf")
        member = {key: said for key, said in guild.member(value).items() if key not in hidden}
        resolved.setdefault("users", {})[value] = guild.users[value]
        permissions = str(guild.may(value))
        resolved.setdefault("members", {})[value] = member | {"permissions": permissions}
    if kind == CHANNEL:
        channel = guild.channel(value)
        resolved.setdefault("channels", {})[value] = channel | {"permissions": "0"}
    if kind == ROLE:
        resolved.setdefault("roles", {})[value] = guild.role(value)
    return value
