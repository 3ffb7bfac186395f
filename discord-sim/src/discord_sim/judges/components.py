"""What Discord says of buttons, selects and their rows in prose alone."""

from collections import Counter
from collections.abc import Iterator

from discord_sim.errors import Path, Problem
from discord_sim.shapes import Json

ROW, BUTTON, STRING_SELECT = 1, 2, 3
SELECTS = (3, 5, 6, 7, 8)
LINK, PREMIUM = 5, 6
ROWS_MAX, COMPONENTS_MAX = 5, 40


def walk(components: list[Json], path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Every component with its place, outer ones first."""
    for n, one in enumerate(components):
        yield from _walk(one, (*path, n))


def _walk(one: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    yield path, one
    yield from walk(one.get("components") or [], (*path, "components"))
    for key in ("component", "accessory"):
        if one.get(key):
            yield from _walk(one[key], (*path, key))


def check_components(
    rows: list[Json], *, is_v2: bool = False, is_modal: bool = False
) -> list[Problem]:
    """What is wrong with a message's or a modal's components."""
    everything = list(walk(rows))
    found = [] if is_v2 or is_modal else list(_rows(rows))
    found += _ids(everything)
    for path, one in everything:
        found += [problem.under(*path) for problem in _one(one, is_modal=is_modal)]
    if len(everything) > COMPONENTS_MAX:
        told = f"Must be {COMPONENTS_MAX} or fewer components in all"
        found.append(Problem((), told, "COMPONENT_MAX_TOTAL_COMPONENTS"))
    return found


def _rows(rows: list[Json]) -> Iterator[Problem]:
    if len(rows) > ROWS_MAX:
        told = f"Must be between 1 and {ROWS_MAX} in length."
        yield Problem((), told, "BASE_TYPE_BAD_LENGTH")
    if any(one.get("type") != ROW for one in rows):
        told = "Only action rows without IS_COMPONENTS_V2"
        yield Problem((), told, "COMPONENTS_V2_FLAG_REQUIRED")


def _ids(everything: list[tuple[Path, Json]]) -> list[Problem]:
    counted = Counter(one.get("custom_id") for _, one in everything)
    told = "Component custom id cannot be duplicated"
    return [
        Problem((*path, "custom_id"), told, "COMPONENT_CUSTOM_ID_DUPLICATED")
        for path, one in everything
        if one.get("custom_id") and counted[one["custom_id"]] > 1
    ]


def _one(one: Json, *, is_modal: bool) -> Iterator[Problem]:
    kind = one.get("type")
    if kind == ROW and not is_modal:
        kids = one.get("components") or []
        if len(kids) > 1 and any(kid.get("type") in SELECTS for kid in kids):
            told = "A select menu takes an action row of its own"
            yield Problem(("components",), told, "COMPONENT_LAYOUT_WIDTH_EXCEEDED")
    elif kind == BUTTON:
        yield from _button(one)
    elif kind == STRING_SELECT:
        yield from _select(one)


def _button(one: Json) -> Iterator[Problem]:
    style = one.get("style")
    if style == PREMIUM:
        return
    if not one.get("label") and not one.get("emoji"):
        told = "A button must have a label or an emoji"
        yield Problem((), told, "BUTTON_COMPONENT_LABEL_OR_EMOJI")
    if style == LINK:
        if not one.get("url") or one.get("custom_id"):
            told = "A link button has a url and no custom_id"
            yield Problem((), told, "BUTTON_COMPONENT_URL_REQUIRED")
        return
    if not one.get("custom_id"):
        rule = "BUTTON_COMPONENT_CUSTOM_ID_REQUIRED"
        yield Problem(("custom_id",), "A custom id is required", rule)
    if one.get("url"):
        rule = "BUTTON_COMPONENT_CUSTOM_ID_URL_MUTUALLY_EXCLUSIVE"
        yield Problem(("url",), "custom_id and url are mutually exclusive", rule)


def _select(one: Json) -> Iterator[Problem]:
    options = one.get("options") or []
    if len({said.get("value") for said in options}) != len(options):
        told = "The specified option value is already used"
        yield Problem(("options",), told, "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED")
    least = 1 if one.get("min_values") is None else one["min_values"]
    most = 1 if one.get("max_values") is None else one["max_values"]
    if least > most:
        told = "min_values is larger than max_values"
        yield Problem((), told, "SELECT_COMPONENT_MIN_VALUES_TOO_LARGE")
    if most > len(options):
        told = "max_values is larger than the number of options"
        yield Problem(("max_values",), told, "SELECT_COMPONENT_MAX_VALUES_TOO_LARGE")
    if sum(bool(said.get("default")) for said in options) > most:
        told = "More default options than max_values"
        yield Problem(("options",), told, "SELECT_COMPONENT_TOO_MANY_DEFAULT_VALUES")
