"""Gateway payloads against a schema made of the community's types; Discord publishes none."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

from discord_sim.errors import Problem
from discord_sim.judges.explain import problems
from discord_sim.shapes import Json

SENT_BY_BOT = "SEND"
# Which definition an interaction is, by its type.
KINDS = {2: "CHAT_INPUT", 3: "COMPONENT", 4: "AUTOCOMPLETE", 5: "MODAL"}


class GatewaySchema:
    """The schema, with the events that it knows."""

    def __init__(self, said: Json) -> None:
        """A schema whose bit fields are any integer: TypeScript knows single bits alone."""
        definitions: Json = {
            name: {"type": "integer"} if _is_bits(name, one) else one
            for name, one in said["definitions"].items()
        }
        self._definitions = definitions
        self._events: Json = definitions["Gateway"]["properties"]
        self._validators: dict[str, jsonschema_rs.Draft7Validator] = {}
        self.seen: set[str] = set()
        self.unchecked: set[str] = set()

    @classmethod
    def read(cls, path: Path) -> "GatewaySchema":
        """The schema in a file."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def check(self, event: str, data: Any) -> list[Problem]:
        """What is wrong with a payload; nothing, of an event that the schema does not have."""
        name = KINDS.get(data.get("type"), event) if event == "INTERACTION_CREATE" else event
        if name not in self._events:
            self.unchecked.add(name)
            return []
        self.seen.add(name)
        if name not in self._validators:
            whole = {**self._events[name], "definitions": self._definitions}
            self._validators[name] = jsonschema_rs.Draft7Validator(whole)
        return problems(self._validators[name].iter_errors(data))


def _is_bits(name: str, schema: Json) -> bool:
    return "Flags" in name and bool({"enum", "const"} & set(schema))
