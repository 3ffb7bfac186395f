"""A validator's errors as problems: of a union, the member that was meant."""

from collections.abc import Iterable
from typing import Any

from jsonschema_rs import ValidationError

from discord_sim.errors import Problem

SAID_MAX = 160
UNIONS = ("anyOf", "oneOf")
CHOICES = ("enum", "const")


def problems(errors: Iterable[ValidationError]) -> list[Problem]:
    """What is wrong, at the deepest place that can be named."""
    return [problem for error in errors for problem in _problems(error)]


def _problems(error: ValidationError) -> list[Problem]:
    members: list[list[ValidationError]] = getattr(error.kind, "context", [])
    if error.kind.name in UNIONS and members:
        meant, *_ = sorted(members, key=_misfit)
        return problems(meant)
    rule, value = error.kind.name, error.kind.value
    told = rule if isinstance(value, dict | list) else f"{rule}={value}"
    return [Problem(tuple(error.instance_path), _short(error.message), told)]


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
