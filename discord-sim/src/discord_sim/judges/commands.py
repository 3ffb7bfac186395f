"""What Discord says of commands in prose alone: names, order, nesting, length."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from discord_sim.errors import Path, Problem
from discord_sim.shapes import Json

CHAT_INPUT, SUB_COMMAND, GROUP = 1, 1, 2
NESTED = {SUB_COMMAND, GROUP}
COMMAND_CHARACTERS_MAX = 8000
COMMANDS_MAX = {1: 100, 2: 15, 3: 15}
DESCRIPTION_MAX, NAME_MAX = 100, 32
# Scripts whose vowel signs are neither letters nor numbers.
COMBINING = re.compile("[\u0900-\u097f\u0e00-\u0e7f]")


def check_commands(commands: list[Json]) -> list[Problem]:
    """What is wrong with a set of commands that is to replace another."""
    return [
        *_together(commands),
        *(one for n, said in enumerate(commands) for one in _one(n, said)),
    ]


def _together(commands: list[Json]) -> Iterator[Problem]:
    kinds = [said.get("type") or CHAT_INPUT for said in commands]
    seen: set[tuple[int, str]] = set()
    for n, (kind, said) in enumerate(zip(kinds, commands, strict=True)):
        if (kind, said["name"]) in seen:
            told = "Application command names must be unique"
            yield Problem((n, "name"), told, "APPLICATION_COMMANDS_DUPLICATE_NAME")
        seen.add((kind, said["name"]))
    for kind, count in Counter(kinds).items():
        if count > COMMANDS_MAX[kind]:
            told = f"Maximum number of application commands reached ({COMMANDS_MAX[kind]})"
            yield Problem((), told, "APPLICATION_COMMANDS_LIMIT")


def _one(n: int, said: Json) -> Iterator[Problem]:
    description = said.get("description") or ""
    if (said.get("type") or CHAT_INPUT) != CHAT_INPUT:
        if description:
            told = "Context menu commands cannot have description"
            yield Problem((n, "description"), told, "APPLICATION_COMMAND_DESCRIPTION")
        return
    yield from _named((n,), said)
    if not 1 <= len(description) <= DESCRIPTION_MAX:
        told = f"Must be between 1 and {DESCRIPTION_MAX} in length."
        yield Problem((n, "description"), told, "BASE_TYPE_BAD_LENGTH")
    yield from _options((n, "options"), said.get("options") or [], 0)
    if (total := characters(said)) > COMMAND_CHARACTERS_MAX:
        told = f"Command exceeds maximum size ({COMMAND_CHARACTERS_MAX}): {total}"
        yield Problem((n,), told, "APPLICATION_COMMAND_TOO_LARGE")


def _named(path: Path, said: Json) -> Iterator[Problem]:
    name = said.get("name", "")
    is_short = 1 <= len(name) <= NAME_MAX
    if not (is_short and name == name.lower() and all(map(_is_letter, name))):
        yield Problem(
            (*path, "name"), "Command name is invalid", "APPLICATION_COMMAND_INVALID_NAME"
        )


def _is_letter(character: str) -> bool:
    is_plain = character in "-_'" or unicodedata.category(character)[0] in "LN"
    return is_plain or COMBINING.match(character) is not None


def _options(path: Path, options: list[Json], depth: int) -> Iterator[Problem]:
    kinds = {one.get("type") for one in options}
    if kinds & NESTED and kinds - NESTED:
        told = "Sub-commands and groups stand beside no other option"
        yield Problem(path, told, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID")
    names: set[str] = set()
    for n, one in enumerate(options):
        here = (*path, n)
        yield from _named(here, one)
        if one.get("name") in names:
            told = "Option names must be unique"
            yield Problem((*here, "name"), told, "APPLICATION_COMMAND_OPTIONS_NAME_DUPLICATE")
        names.add(one.get("name", ""))
        yield from _nested(here, one, depth) if one.get("type") in NESTED else _choices(here, one)
    yield from _order(path, options)


def _order(path: Path, options: list[Json]) -> Iterator[Problem]:
    plain = [one for one in options if one.get("type") not in NESTED]
    wanted = [bool(one.get("required")) for one in plain]
    if wanted != sorted(wanted, reverse=True):
        told = "Required options must be placed before non-required options"
        yield Problem(path, told, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID")


def _nested(path: Path, said: Json, depth: int) -> Iterator[Problem]:
    inner = said.get("options") or []
    if depth > 1 or (said["type"] == GROUP and depth > 0):
        told = "Sub-command nesting is invalid"
        yield Problem(path, told, "APPLICATION_COMMAND_OPTIONS_NESTING")
    if said["type"] == GROUP and any(one.get("type") != SUB_COMMAND for one in inner):
        told = "A group holds only sub-commands"
        yield Problem(path, told, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID")
    yield from _options((*path, "options"), inner, depth + 1)


def _choices(path: Path, said: Json) -> Iterator[Problem]:
    choices = said.get("choices") or []
    if said.get("autocomplete") and choices:
        told = "autocomplete may not be set to true if choices are present"
        yield Problem(path, told, "APPLICATION_COMMAND_AUTOCOMPLETE_WITH_CHOICES")
    values = {str(one.get("value")) for one in choices}
    if len(values) != len(choices):
        told = "Choice values must be unique"
        yield Problem((*path, "choices"), told, "APPLICATION_COMMAND_OPTIONS_CHOICES_DUPLICATE")


def characters(said: Json) -> int:
    """What counts towards a command's 8000: the longest translation of each word in it."""

    def longest(key: str) -> int:
        translated = said.get(f"{key}_localizations") or {}
        return max(len(str(one)) for one in [said.get(key) or "", *translated.values()])

    own = longest("name") + longest("description")
    for one in said.get("choices") or []:
        own += len(str(one.get("name", ""))) + len(str(one.get("value", "")))
    return own + sum(characters(one) for one in said.get("options") or [])
