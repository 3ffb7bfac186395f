"""Structs as JSON Schemas that describe a tool to a model, and arguments as structs."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from shared.errors import Refused

DEFS = "#/$defs/"
PLACE = re.compile(r" - at `\$\.?([\w.\[\]]*)`$")
FIELD = re.compile(r"field `(\w+)`")

T = TypeVar("T", bound=msgspec.Struct)


def schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """A struct's schema, an object at its root as the protocol wants it.

    >>> class One(msgspec.Struct):
    ...     number: int
    >>> schema(One)["properties"]
    {'number': {'type': 'integer'}}
    """
    made = msgspec.json.schema(kind)
    others: dict[str, Any] = made.get("$defs", {})
    root = dict(others.pop(made["$ref"].removeprefix(DEFS)))
    return root | ({"$defs": others} if others else {})


def arguments(tool: str, kind: type[T], given: Mapping[str, Any]) -> T:
    """A tool's arguments; numbers may come as text. Errors: Refused, naming field and mend."""
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(tool, schema(kind), str(error)) from error


def _refused(tool: str, known: Mapping[str, Any], said: str) -> Refused:
    properties: Mapping[str, Mapping[str, Any]] = known.get("properties", {})
    found = PLACE.search(said) or FIELD.search(said)
    field = found[1].partition(".")[0].partition("[")[0] if found else ""
    if field in properties:
        mend = f"{field}: {_wanted(properties[field])}"
    else:
        must = known.get("required", [])
        names = ", ".join(f"{one} (required)" if one in must else one for one in properties)
        mend = f"{tool} takes {names or 'nothing'}"
    return Refused("bad_argument", f"{PLACE.sub('', said)}; {mend}", field or None)


def _wanted(property_: Mapping[str, Any]) -> str:
    """What one argument may be, in words.

    >>> _wanted({"enum": ["a", "b"], "description": "One of both."})
    'one of a, b (One of both.)'
    """
    kinds = [property_, *property_.get("anyOf", [])]
    enum = next((one["enum"] for one in kinds if "enum" in one), None)
    types = " or ".join(str(one["type"]) for one in kinds if "type" in one)
    said = f"one of {', '.join(map(str, enum))}" if enum else types or "another value"
    told = next((one["description"] for one in kinds if "description" in one), "")
    return f"{said} ({told})" if told else said
