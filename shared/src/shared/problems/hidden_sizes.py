"""`hidden` in a warpboard.yml: the families that every ranked run draws cases from."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from harness.hidden_sizes import COUNT_MAX, GROUPS, HiddenFamily, read_family
from shared.problems.document import Document, StrictModel
from shared.problems.reference_form import SEED
from shared.problems.task_yml import ARGUMENTS_MAX, WEIGHT_MAX, Case, check_value

KEY = "hidden"
CHOICES_MAX = 64
_RANGE_KEYS = ("from", "to", "step", "scale")
_SCALES = ("linear", "log")
_INTEGER_KEYS = ("from", "to", "step")


class FamilyYml(StrictModel):
    """How many cases a run draws, and what their arguments may be.

    An argument is `{from, to, step, scale}` for integers, a list of values, or one value.
    """

    count: Annotated[int, Field(ge=1, le=COUNT_MAX)]
    args: Annotated[dict[str, Any], Field(min_length=1, max_length=ARGUMENTS_MAX)]


class TimedFamilyYml(FamilyYml):
    """A family of timed cases; `weight` is that of each of them in the score."""

    weight: Annotated[float, Field(gt=0, le=WEIGHT_MAX, allow_inf_nan=False)] = 1.0


class HiddenYml(StrictModel):
    """The cases that every ranked run draws, and that participants never see."""

    tests: FamilyYml | None = None
    benchmarks: TimedFamilyYml | None = None


def hidden_manifest(
    document: Document | None,
    hidden: HiddenYml | None,
    cases: Mapping[str, list[Case]],
    *,
    ranking_by: str,
    needs_harness: str,
) -> dict[str, Any]:
    """Return the manifest's entry, absent without hidden sizes, so that its digest stays.

    The drawn cases take a seed if the public ones do. `needs_harness` says why only public cases
    can run, "" if hidden ones can, too. Errors: Refused.
    """
    if document is None or hidden is None:
        return {}
    if hidden.tests is hidden.benchmarks is None:
        document.refuse((KEY,), "hidden is empty: write tests or benchmarks, or remove it")
    if needs_harness:
        document.refuse((KEY,), f"hidden sizes do not work {needs_harness}: remove them")
    if hidden.benchmarks is not None and ranking_by == "last":
        reason = "hidden benchmarks with ranking_by: last, which takes one case"
        document.refuse((KEY, "benchmarks"), f"{reason}: rank by mean or geom")
    has_seed = any(SEED in case.args for group in cases.values() for case in group)
    seed = {SEED: 0} if has_seed else {}
    families: dict[str, Any] = {}
    for group in GROUPS:
        family: FamilyYml | None = getattr(hidden, group)
        if family is not None:
            _check_arguments(document, group, family.args)
            families[group] = family.model_dump() | {"args": family.args | seed}
    return {KEY: families}


def read_families(manifest: Mapping[str, Any]) -> list[HiddenFamily]:
    """Return the families of a manifest, those of tests first."""
    entries = manifest.get(KEY, {})
    return [read_family(group, entries[group]) for group in GROUPS if group in entries]


def corner_cases(manifest: Mapping[str, Any]) -> dict[str, list[Case]]:
    """Return the smallest and the largest case of each family, by its group."""
    return {
        family.group: [Case("", args) for args in family.corners()]
        for family in read_families(manifest)
    }


def _check_arguments(document: Document, group: str, args: Mapping[str, Any]) -> None:
    for name, choices in args.items():
        path = (KEY, group, "args", name)
        if name == SEED:
            document.refuse(path, "every hidden case has a fresh seed: remove this one")
        if isinstance(choices, dict):
            _check_range(document, path, choices)
        elif isinstance(choices, list) and not 1 <= len(choices) <= CHOICES_MAX:
            reason = f"{len(choices)} choices: write 1 to {CHOICES_MAX}"
            document.refuse(path, reason)
        else:
            check_value(document, path, choices)


def _check_range(document: Document, path: tuple[str, ...], entry: Mapping[str, Any]) -> None:
    if unknown := [key for key in entry if key not in _RANGE_KEYS]:
        reason = f"unknown key '{unknown[0]}': there are {', '.join(_RANGE_KEYS)}"
        document.refuse((*path, unknown[0]), reason)
    if missing := [key for key in ("from", "to") if key not in entry]:
        document.refuse(path, f"the key '{missing[0]}' is missing: write from and to, or a list")
    for key in _INTEGER_KEYS:
        value = entry.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool):
            document.refuse((*path, key), f"'{key}' must be an integer: list other values instead")
        check_value(document, (*path, key), value)
    if entry.get("scale", "linear") not in _SCALES:
        document.refuse((*path, "scale"), "'scale' must be 'linear' or 'log'")
    try:
        read_family("tests", {"count": 1, "args": {"size": entry}})
    except ValueError as error:
        document.refuse(path, str(error))
