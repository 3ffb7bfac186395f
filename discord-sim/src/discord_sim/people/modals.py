"""A modal as the client lets somebody send it off."""

from collections.abc import Mapping

from discord_sim.errors import NotOffered
from discord_sim.shapes import Json

LABEL, TEXT_INPUT = 18, 4
TEXT_MAX = 4000


def filled(modal: Json, values: Mapping[str, str]) -> Json:
    """What the client sends for a modal, its fields named by label or by id."""
    used: set[str] = set()
    rows = [_row(row, values, used) for row in modal["components"]]
    if lost := set(values) - used:
        raise NotOffered(f"the modal has no field {sorted(lost)}")
    return {"custom_id": modal["custom_id"], "components": [one for one in rows if one]}


def _row(row: Json, values: Mapping[str, str], used: set[str]) -> Json | None:
    if row["type"] == LABEL:
        inner = _field(row["component"], row.get("label"), values, used)
        return {"type": LABEL, "id": 1, "component": inner}
    if "components" not in row:
        return None
    fields = [_field(one, one.get("label"), values, used) for one in row["components"]]
    return {"type": row["type"], "id": 1, "components": fields}


def _field(said: Json, label: str | None, values: Mapping[str, str], used: set[str]) -> Json:
    name = next((one for one in (label, said["custom_id"]) if one in values), None)
    value = said.get("value") or "" if name is None else values[name]
    if name is not None:
        used.add(name)
    if said["type"] != TEXT_INPUT:
        return {"type": said["type"], "custom_id": said["custom_id"], "id": 1, "values": [value]}
    least, most = said.get("min_length") or 0, said.get("max_length") or TEXT_MAX
    is_missing = said.get("required", True) and not value
    if is_missing or not (least <= len(value) <= most or not value):
        raise NotOffered(f"the client refuses {value!r} for {label!r}")
    return {"type": TEXT_INPUT, "custom_id": said["custom_id"], "value": value, "id": 1}
