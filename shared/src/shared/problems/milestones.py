"""Milestones: what a participant may reach beside a rank, once and for ever."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from shared.problems.document import Document, Path, shown
from shared.problems.schema import Strict

MILESTONES_MAX = 32
KEY = "milestones"
# A score in seconds, the share of the roofline, how many checked cases passed.
SCORE, ROOFLINE, CASES_PASSED = "score", "roofline", "cases_passed"
# How many times as fast as a baseline, such as vs_baseline.eager.
VS_BASELINE = "vs_baseline."
OPS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

Title = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]*$")]
Value = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class WhenYml(Strict):
    """What must hold; without `gpu`, on each GPU type for itself."""

    metric: Annotated[str, Field(min_length=1, max_length=60)]
    op: Literal[">=", "<=", ">", "<"]
    value: Value
    gpu: str | None = None


class MilestoneYml(Strict):
    """A milestone: its id, which it keeps from version to version, its title, its condition."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    title: Title
    when: WhenYml


@dataclass(frozen=True)
class Milestone:
    """A milestone of a problem version; "" for `gpu` is each GPU type.

    Units of `value`: seconds for `score`, else none.
    """

    id: str
    title: str
    metric: str
    op: str
    value: float
    gpu: str = ""


@dataclass(frozen=True)
class Measured:
    """What a problem has that a milestone may speak of."""

    baselines: Sequence[str]
    gpus: Sequence[str]
    tests_count: int
    has_roofline: bool


def milestones(
    document: Document, asked: Sequence[MilestoneYml], measured: Measured
) -> tuple[Milestone, ...]:
    """The milestones that a `warpboard.yml` names. Errors: Refused `bad_problem`."""
    ids = [one.id for one in asked]
    for index, one in enumerate(asked):
        if one.id in ids[:index]:
            what = f"two milestones have the id {shown(one.id)}: give one of them another"
            document.refuse((KEY, index, "id"), what)
        _check(document, (KEY, index, "when"), one.when, measured)
    gpus = {gpu.lower(): gpu for gpu in measured.gpus}
    return tuple(
        Milestone(
            id=one.id,
            title=one.title,
            metric=one.when.metric,
            op=one.when.op,
            value=float(one.when.value),
            gpu=gpus[one.when.gpu.lower()] if one.when.gpu else "",
        )
        for one in asked
    )


def of_milestones(found: Sequence[Milestone]) -> dict[str, Any]:
    """What a manifest says of them; nothing where there are none."""
    return {KEY: [asdict(one) for one in found]} if found else {}


def _check(document: Document, path: Path, when: WhenYml, measured: Measured) -> None:
    _check_metric(document, (*path, "metric"), when.metric, measured)
    if when.gpu is not None and when.gpu.lower() not in {gpu.lower() for gpu in measured.gpus}:
        what = f"GPU type {shown(when.gpu)} is none of {', '.join(measured.gpus)}: name one of them"
        document.refuse((*path, "gpu"), what)
    most = {CASES_PASSED: float(measured.tests_count)}.get(when.metric)
    if most is not None and when.op in (">=", ">") and not holds(most, when.op, when.value):
        what = f"the problem has {most:g} tests: nobody could pass {when.op} {when.value:g}"
        document.refuse((*path, "value"), what)


def _check_metric(document: Document, path: Path, metric: str, measured: Measured) -> None:
    if metric.startswith(VS_BASELINE):
        name = metric.removeprefix(VS_BASELINE)
        if name not in measured.baselines:
            known = ", ".join(measured.baselines)
            mend = f"there are {known}" if known else "there are none: write baselines"
            document.refuse(path, f"no baseline {shown(name)}: {mend}")
        return
    if metric == ROOFLINE and not measured.has_roofline:
        document.refuse(path, "the metric roofline needs a roofline: say the bytes and flops of it")
    if metric not in (SCORE, ROOFLINE, CASES_PASSED):
        known = f"{SCORE}, {ROOFLINE}, {CASES_PASSED} or {VS_BASELINE}NAME"
        document.refuse(path, f"unknown metric {shown(metric)}: write {known}")


def holds(left: float, op: str, right: float) -> bool:
    """Whether a comparison holds; nothing does of what is no number.

    >>> holds(2.0, ">=", 2.0), holds(2.0, "<", 2.0), holds(float("nan"), ">=", 0.0)
    (True, False, False)
    """
    return OPS[op](left, right)
