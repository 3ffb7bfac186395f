"""Rules that Discord documents in prose: about commands, components and messages."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from discord_sim.shapes import COMPONENTS_V2, Json, Path, Problem

ROW, BUTTON, STRING_SELECT = 1, 2, 3
SELECTS = (3, 5, 6, 7, 8)
LINK, PREMIUM = 5, 6
ROWS_MAX, COMPONENTS_MAX = 5, 40
CHAT_INPUT, SUB_COMMAND, GROUP = 1, 1, 2
NESTED = {SUB_COMMAND, GROUP}
COMMAND_CHARACTERS_MAX = 8000
COMMANDS_MAX = {1: 100, 2: 15, 3: 15}
DESCRIPTION_MAX, NAME_MAX = 100, 32
# Scripts whose vowel signs are neither letters nor numbers.
COMBINING = re.compile("[\u0900-\u097f\u0e00-\u0e7f]")
# The document allows 4000 characters; bots may send half of that.
CONTENT_MAX = 2000
EMBEDS_CHARACTERS_MAX = 6000
FILES_MAX = 10
LEGACY = ("content", "embeds", "poll")


def walk_components(components: list[Json], path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yield every component with its path, outer ones first."""
    for n, component in enumerate(components):
        yield from _walk_component(component, (*path, n))


def _walk_component(component: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    yield path, component
    yield from walk_components(component.get("components") or [], (*path, "components"))
    for key in ("component", "accessory"):
        if component.get(key):
            yield from _walk_component(component[key], (*path, key))


def check_components(
    rows: list[Json], *, is_v2: bool = False, is_modal: bool = False
) -> list[Problem]:
    """Return the problems of a message's or a modal's components."""
    components = list(walk_components(rows))
    problems = [] if is_v2 or is_modal else list(_check_rows(rows))
    problems += _check_ids(components)
    for path, component in components:
        own_problems = _check_component(component, is_modal=is_modal)
        problems += [problem.under(*path) for problem in own_problems]
    if len(components) > COMPONENTS_MAX:
        message = f"Must be {COMPONENTS_MAX} or fewer components in all"
        problems.append(Problem((), message, "COMPONENT_MAX_TOTAL_COMPONENTS"))
    return problems


def _check_rows(rows: list[Json]) -> Iterator[Problem]:
    if len(rows) > ROWS_MAX:
        message = f"Must be between 1 and {ROWS_MAX} in length."
        yield Problem((), message, "BASE_TYPE_BAD_LENGTH")
    if any(row.get("type") != ROW for row in rows):
        message = "Only action rows without IS_COMPONENTS_V2"
        yield Problem((), message, "COMPONENTS_V2_FLAG_REQUIRED")


def _check_ids(components: list[tuple[Path, Json]]) -> list[Problem]:
    counts = Counter(component.get("custom_id") for _, component in components)
    message = "Component custom id cannot be duplicated"
    return [
        Problem((*path, "custom_id"), message, "COMPONENT_CUSTOM_ID_DUPLICATED")
        for path, component in components
        if component.get("custom_id") and counts[component["custom_id"]] > 1
    ]


def _check_component(component: Json, *, is_modal: bool) -> Iterator[Problem]:
    kind = component.get("type")
    if kind == ROW and not is_modal:
        children = component.get("components") or []
        if len(children) > 1 and any(child.get("type") in SELECTS for child in children):
            message = "A select menu takes an action row of its own"
            yield Problem(("components",), message, "COMPONENT_LAYOUT_WIDTH_EXCEEDED")
    elif kind == BUTTON:
        yield from _check_button(component)
    elif kind == STRING_SELECT:
        yield from _check_select(component)


def _check_button(button: Json) -> Iterator[Problem]:
    style = button.get("style")
    if style == PREMIUM:
        return
    if not button.get("label") and not button.get("emoji"):
        message = "A button must have a label or an emoji"
        yield Problem((), message, "BUTTON_COMPONENT_LABEL_OR_EMOJI")
    if style == LINK:
        if not button.get("url") or button.get("custom_id"):
            message = "A link button has a url and no custom_id"
            yield Problem((), message, "BUTTON_COMPONENT_URL_REQUIRED")
        return
    if not button.get("custom_id"):
        rule = "BUTTON_COMPONENT_CUSTOM_ID_REQUIRED"
        yield Problem(("custom_id",), "A custom id is required", rule)
    if button.get("url"):
        rule = "BUTTON_COMPONENT_CUSTOM_ID_URL_MUTUALLY_EXCLUSIVE"
        yield Problem(("url",), "custom_id and url are mutually exclusive", rule)


def _check_select(select: Json) -> Iterator[Problem]:
    options = select.get("options") or []
    if len({option.get("value") for option in options}) != len(options):
        message = "The specified option value is already used"
        yield Problem(("options",), message, "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED")
    values_min = 1 if select.get("min_values") is None else select["min_values"]
    values_max = 1 if select.get("max_values") is None else select["max_values"]
    if values_min > values_max:
        message = "min_values is larger than max_values"
        yield Problem((), message, "SELECT_COMPONENT_MIN_VALUES_TOO_LARGE")
    if values_max > len(options):
        message = "max_values is larger than the number of options"
        yield Problem(("max_values",), message, "SELECT_COMPONENT_MAX_VALUES_TOO_LARGE")
    if sum(bool(option.get("default")) for option in options) > values_max:
        message = "More default options than max_values"
        yield Problem(("options",), message, "SELECT_COMPONENT_TOO_MANY_DEFAULT_VALUES")


def check_commands(commands: list[Json]) -> list[Problem]:
    """Return the problems of a set of commands."""
    problems = list(_check_set(commands))
    for n, command in enumerate(commands):
        problems += _check_command(n, command)
    return problems


def _check_set(commands: list[Json]) -> Iterator[Problem]:
    kinds = [command.get("type") or CHAT_INPUT for command in commands]
    names: set[tuple[int, str]] = set()
    for n, (kind, command) in enumerate(zip(kinds, commands, strict=True)):
        if (kind, command["name"]) in names:
            message = "Application command names must be unique"
            yield Problem((n, "name"), message, "APPLICATION_COMMANDS_DUPLICATE_NAME")
        names.add((kind, command["name"]))
    for kind, count in Counter(kinds).items():
        if count > COMMANDS_MAX[kind]:
            message = f"Maximum number of application commands reached ({COMMANDS_MAX[kind]})"
            yield Problem((), message, "APPLICATION_COMMANDS_LIMIT")


def _check_command(n: int, command: Json) -> Iterator[Problem]:
    description = command.get("description") or ""
    if (command.get("type") or CHAT_INPUT) != CHAT_INPUT:
        if description:
            message = "Context menu commands cannot have description"
            yield Problem((n, "description"), message, "APPLICATION_COMMAND_DESCRIPTION")
        return
    yield from _check_name((n,), command)
    if not 1 <= len(description) <= DESCRIPTION_MAX:
        message = f"Must be between 1 and {DESCRIPTION_MAX} in length."
        yield Problem((n, "description"), message, "BASE_TYPE_BAD_LENGTH")
    yield from _check_options((n, "options"), command.get("options") or [], 0)
    if (total := count_characters(command)) > COMMAND_CHARACTERS_MAX:
        message = f"Command exceeds maximum size ({COMMAND_CHARACTERS_MAX}): {total}"
        yield Problem((n,), message, "APPLICATION_COMMAND_TOO_LARGE")


def _check_name(path: Path, named: Json) -> Iterator[Problem]:
    name = named.get("name", "")
    is_short = 1 <= len(name) <= NAME_MAX
    if not (is_short and name == name.lower() and all(map(_is_letter, name))):
        yield Problem(
            (*path, "name"), "Command name is invalid", "APPLICATION_COMMAND_INVALID_NAME"
        )


def _is_letter(character: str) -> bool:
    is_plain = character in "-_'" or unicodedata.category(character)[0] in "LN"
    return is_plain or COMBINING.match(character) is not None


def _check_options(path: Path, options: list[Json], depth: int) -> Iterator[Problem]:
    kinds = {option.get("type") for option in options}
    if kinds & NESTED and kinds - NESTED:
        message = "Sub-commands and groups cannot be mixed with other options"
        yield Problem(path, message, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID")
    names: set[str] = set()
    for n, option in enumerate(options):
        option_path = (*path, n)
        yield from _check_name(option_path, option)
        if option.get("name") in names:
            message = "Option names must be unique"
            yield Problem(
                (*option_path, "name"), message, "APPLICATION_COMMAND_OPTIONS_NAME_DUPLICATE"
            )
        names.add(option.get("name", ""))
        if option.get("type") in NESTED:
            yield from _check_nested(option_path, option, depth)
        else:
            yield from _check_choices(option_path, option)
    yield from _check_order(path, options)


def _check_order(path: Path, options: list[Json]) -> Iterator[Problem]:
    plain = [option for option in options if option.get("type") not in NESTED]
    are_required = [bool(option.get("required")) for option in plain]
    if are_required != sorted(are_required, reverse=True):
        message = "Required options must be placed before non-required options"
        yield Problem(path, message, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID")


def _check_nested(path: Path, option: Json, depth: int) -> Iterator[Problem]:
    inner = option.get("options") or []
    if depth > 1 or (option["type"] == GROUP and depth > 0):
        message = "Sub-command nesting is invalid"
        yield Problem(path, message, "APPLICATION_COMMAND_OPTIONS_NESTING")
    if option["type"] == GROUP and any(child.get("type") != SUB_COMMAND for child in inner):
        message = "A group contains only sub-commands"
        yield Problem(path, message, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID")
    yield from _check_options((*path, "options"), inner, depth + 1)


def _check_choices(path: Path, option: Json) -> Iterator[Problem]:
    choices = option.get("choices") or []
    if option.get("autocomplete") and choices:
        message = "autocomplete may not be set to true if choices are present"
        yield Problem(path, message, "APPLICATION_COMMAND_AUTOCOMPLETE_WITH_CHOICES")
    values = {str(choice.get("value")) for choice in choices}
    if len(values) != len(choices):
        message = "Choice values must be unique"
        yield Problem((*path, "choices"), message, "APPLICATION_COMMAND_OPTIONS_CHOICES_DUPLICATE")


def count_characters(node: Json) -> int:
    """Count what is limited to 8000 per command: the longest translation of each text."""

    def longest(key: str) -> int:
        translations = node.get(f"{key}_localizations") or {}
        return max(len(str(text)) for text in [node.get(key) or "", *translations.values()])

    count = longest("name") + longest("description")
    for choice in node.get("choices") or []:
        count += len(str(choice.get("name", ""))) + len(str(choice.get("value", "")))
    return count + sum(map(count_characters, node.get("options") or []))


def check_message(body: Json, flags: int, files: int) -> list[Problem]:
    """Return the problems of a message; `files` is the number of new ones."""
    is_v2 = bool(flags & COMPONENTS_V2)
    embeds, components = body.get("embeds") or [], body.get("components") or []
    return [
        *_check_content(body, files, is_v2=is_v2),
        *(problem.under("embeds") for problem in _check_embeds(embeds)),
        *(problem.under("components") for problem in check_components(components, is_v2=is_v2)),
        *_check_mentions(body.get("allowed_mentions") or {}),
    ]


def _check_content(body: Json, files: int, *, is_v2: bool) -> Iterator[Problem]:
    if len(body.get("content") or "") > CONTENT_MAX:
        message = f"Must be {CONTENT_MAX} or fewer in length."
        yield Problem(("content",), message, "BASE_TYPE_MAX_LENGTH")
    if files > FILES_MAX:
        message = f"Must be {FILES_MAX} or fewer in length."
        yield Problem(("attachments",), message, "BASE_TYPE_MAX_LENGTH")
    for key in LEGACY if is_v2 else ():
        if body.get(key):
            message = f"The '{key}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2"
            rule = "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2"
            yield Problem((key,), message, rule)


def _check_embeds(embeds: list[Json]) -> Iterator[Problem]:
    total = 0
    for n, embed in enumerate(embeds):
        texts = [
            embed.get("title"),
            embed.get("description"),
            (embed.get("footer") or {}).get("text"),
            (embed.get("author") or {}).get("name"),
        ]
        fields = embed.get("fields") or []
        texts += [field.get(key) for field in fields for key in ("name", "value")]
        total += sum(len((text or "").strip()) for text in texts)
        for place, field in enumerate(fields):
            for key in ("name", "value"):
                if not (field.get(key) or "").strip():
                    path = (n, "fields", place, key)
                    yield Problem(path, "This field is required", "BASE_TYPE_REQUIRED")
        if not any([*texts, embed.get("image"), embed.get("thumbnail"), embed.get("url")]):
            yield Problem((n,), "Embed is empty", "MESSAGE_EMBED_EMPTY")
    if total > EMBEDS_CHARACTERS_MAX:
        message = f"Embed size exceeds maximum size of {EMBEDS_CHARACTERS_MAX}: {total}"
        yield Problem((), message, "MAX_EMBED_SIZE_EXCEEDED")


def _check_mentions(allowed: Json) -> Iterator[Problem]:
    for key in ("users", "roles"):
        if allowed.get(key) and key in (allowed.get("parse") or []):
            message = f"parse:['{key}'] and {key}: [ids...] are mutually exclusive."
            rule = "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE"
            yield Problem(("allowed_mentions",), message, rule)
