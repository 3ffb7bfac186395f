"""A validator's errors as problems: of a union, the member that was meant."""

import re
from collections.abc import Iterable
from typing import Any

from jsonschema_rs import ValidationError

from discord_sim.errors import Problem

SAID_MAX = 160
UNIONS = ("anyOf", "oneOf")
CHOICES = ("enum", "const")
NUMBER = re.compile("-?[0-9]+")


def problems(errors: Iterable[ValidationError], *, takes_text: bool = False) -> list[Problem]:
    """What is wrong, at the deepest place that can be named.

    Discord takes "5" for 5, as it says of its document, but does not say so itself.
    """
    return [problem for error in errors for problem in _problems(error, takes_text=takes_text)]


def _problems(error: ValidationError, *, takes_text: bool) -> list[Problem]:
    members: list[list[ValidationError]] = getattr(error.kind, "context", [])
    if error.kind.name in UNIONS and members:
        meant, *_ = sorted(members, key=_misfit)
        return problems(meant, takes_text=takes_text)
    if takes_text and _is_number_as_text(error):
        return []
    rule, value = error.kind.name, error.kind.value
    told = rule if isinstance(value, dict | list) else f"{rule}={value}"
    return [Problem(tuple(error.instance_path), _short(error.message), told)]


def _is_number_as_text(error: ValidationError) -> bool:
    """As discord.py sends permissions."""
    types: Any = getattr(error.kind, "types", [])
    said = error.instance
    return "integer" in types and isinstance(said, str) and NUMBER.fullmatch(said) is not None


def _misfit(errors: list[ValidationError]) -> tuple[int, int]:
    """How little a member of a union was meant: objects say by `type` which one they are."""
    return sum(map(_is_other_kind, errors)), len(errors)


def _is_other_kind(error: ValidationError) -> bool:
    rule, path = error.kind.name, error.instance_path
    # Where `type` itself is a union, its own members say the same once more.
    nested: list[list[ValidationError]] = getattr(error.kind, "context", [])
    is_chosen = rule in CHOICES and path[-1:] == ["type"]
    return is_chosen or (rule == "type" and not nested and _is_null(error))


def _is_null(error: ValidationError) -> bool:
    """That a member allows nothing but null."""
    types: Any = getattr(error.kind, "types", [])
    return list(types) == ["null"]


def _short(text: str) -> str:
    half = SAID_MAX // 2
    return text if len(text) <= SAID_MAX else f"{text[:half]} … {text[-half:]}"
