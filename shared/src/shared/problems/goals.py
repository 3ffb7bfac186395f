"""What scores are compared with besides each other: a problem's baselines and milestones.

Baselines are submissions that the platform runs itself; a milestone is what a participant may reach
beside a rank, once and for ever.
"""

import hashlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field

from shared.errors import Refused
from shared.problems.document import Document, Path, StrictModel, quote_value
from shared.problems.sources import UP, normalize_path
from shared.problems.submission_file import read_directives, suffixes, toolchains
from shared.problems.values import Milestone

MILESTONES_MAX = 32
MILESTONES_KEY = "milestones"
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


class WhenYml(StrictModel):
    """A milestone's condition; without `gpu` it is tested on each GPU type separately."""

    metric: Annotated[str, Field(min_length=1, max_length=60)]
    op: Literal[">=", "<=", ">", "<"]
    value: Value
    gpu: str | None = None


class MilestoneYml(StrictModel):
    """A milestone: its id, which is stable across versions, its title and its condition."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    title: Title
    when: WhenYml


@dataclass(frozen=True)
class MilestoneMetrics:
    """What a milestone of this problem may refer to."""

    baselines: Sequence[str]
    gpus: Sequence[str]
    tests_count: int
    has_roofline: bool


def read_milestones(
    document: Document, entries: Sequence[MilestoneYml], metrics: MilestoneMetrics
) -> tuple[Milestone, ...]:
    """Check and return the milestones in a `warpboard.yml`. Errors: Refused `bad_problem`."""
    ids = [entry.id for entry in entries]
    for index, entry in enumerate(entries):
        if entry.id in ids[:index]:
            reason = f"two milestones have the id {quote_value(entry.id)}: change one of them"
            document.refuse((MILESTONES_KEY, index, "id"), reason)
        _check_condition(document, (MILESTONES_KEY, index, "when"), entry.when, metrics)
    gpus = {gpu.lower(): gpu for gpu in metrics.gpus}
    return tuple(
        Milestone(
            id=entry.id,
            title=entry.title,
            metric=entry.when.metric,
            op=entry.when.op,
            value=float(entry.when.value),
            gpu=gpus[entry.when.gpu.lower()] if entry.when.gpu else "",
        )
        for entry in entries
    )


def milestones_manifest(milestones: Sequence[Milestone]) -> dict[str, Any]:
    """Return the manifest's entry, absent without milestones."""
    return {MILESTONES_KEY: [asdict(milestone) for milestone in milestones]} if milestones else {}


def _check_condition(
    document: Document, path: Path, when: WhenYml, metrics: MilestoneMetrics
) -> None:
    _check_metric(document, (*path, "metric"), when.metric, metrics)
    if when.gpu is not None and when.gpu.lower() not in {gpu.lower() for gpu in metrics.gpus}:
        reason = f"GPU type {quote_value(when.gpu)} is not one of {', '.join(metrics.gpus)}"
        document.refuse((*path, "gpu"), reason)
    value_max = {CASES_PASSED: float(metrics.tests_count)}.get(when.metric)
    if (
        value_max is not None
        and when.op in (">=", ">")
        and not comparison_holds(value_max, when.op, when.value)
    ):
        reason = f"the problem has {value_max:g} tests: nobody could pass {when.op} {when.value:g}"
        document.refuse((*path, "value"), reason)


def _check_metric(document: Document, path: Path, metric: str, metrics: MilestoneMetrics) -> None:
    if metric.startswith(VS_BASELINE):
        name = metric.removeprefix(VS_BASELINE)
        if name not in metrics.baselines:
            known = ", ".join(metrics.baselines)
            fix = f"there are {known}" if known else "there are none: write baselines"
            document.refuse(path, f"no baseline {quote_value(name)}: {fix}")
        return
    if metric == ROOFLINE and not metrics.has_roofline:
        document.refuse(path, "the metric roofline needs a roofline: write its bytes and flops")
    if metric not in (SCORE, ROOFLINE, CASES_PASSED):
        known = f"{SCORE}, {ROOFLINE}, {CASES_PASSED} or {VS_BASELINE}NAME"
        document.refuse(path, f"unknown metric {quote_value(metric)}: write {known}")


def comparison_holds(left: float, op: str, right: float) -> bool:
    """Return whether a comparison holds; always false with NaN.

    >>> comparison_holds(2.0, ">=", 2.0), comparison_holds(2.0, "<", 2.0)
    (True, False)
    >>> comparison_holds(float("nan"), ">=", 0.0)
    False
    """
    return OPS[op](left, right)


BASELINES_MAX = 8
BASELINES_KEY = "baselines"

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Note = Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f]*$")]


class BaselineYml(StrictModel):
    """A problem file that is run like a submission, with its name."""

    name: Name
    file: Annotated[str, Field(min_length=1, max_length=200)]
    note: Note = ""


@dataclass(frozen=True)
class Baseline:
    """A baseline of a problem version with its source; empty `gpus` means all of the problem's.

    `toolchains` lists what an agent needs to compile it.
    """

    name: str
    file: str
    note: str
    data: bytes
    gpus: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceLimits:
    """Which files a problem accepts as submissions. Units: bytes."""

    languages: Sequence[str]
    source_bytes_max: int


def read_baselines(
    document: Document,
    entries: Sequence[BaselineYml],
    files: Mapping[str, bytes],
    limits: SourceLimits,
) -> tuple[Baseline, ...]:
    """Check and return the baselines in a `warpboard.yml`.

    Errors: Refused if one of them cannot be submitted.
    """
    names = [entry.name for entry in entries]
    for index, name in enumerate(names):
        if name in names[:index]:
            reason = f"two baselines are named {quote_value(name)}: rename one of them"
            document.refuse((BASELINES_KEY, index, "name"), reason)
    return tuple(
        _read_baseline(_Entry(document, (BASELINES_KEY, index, "file"), entry), files, limits)
        for index, entry in enumerate(entries)
    )


def baselines_manifest(baselines: Sequence[Baseline]) -> dict[str, Any]:
    """Return the manifest's entry, absent without baselines.

    So the digest of a problem without baselines is the same as before baselines existed.
    """
    entries = [
        {
            "name": baseline.name,
            "file": baseline.file,
            "note": baseline.note,
            "digest": hashlib.sha256(baseline.data).hexdigest(),
        }
        for baseline in baselines
    ]
    return {BASELINES_KEY: entries} if entries else {}


@dataclass(frozen=True)
class _Entry:
    """One entry of the list, and where it is written."""

    document: Document
    path: Path
    baseline: BaselineYml

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the file of this entry."""
        self.document.refuse(self.path, f"{quote_value(self.baseline.file)} {reason}")


def _read_baseline(entry: _Entry, files: Mapping[str, bytes], limits: SourceLimits) -> Baseline:
    path = normalize_path(entry.baseline.file) or ""
    if not path or path.startswith(UP):
        entry.refuse("is outside the problem: move it into the problem's folder")
    if path not in files:
        entry.refuse("is no file of the problem: add it, or fix the path")
    allowed_suffixes = suffixes(limits.languages)
    if not path.endswith(allowed_suffixes):
        entry.refuse(f"does not end in {' or '.join(allowed_suffixes)}, as submissions here do")
    text = _decode_source(entry, files[path], limits.source_bytes_max)
    try:
        directives = read_directives(text)
    except Refused as refused:
        entry.refuse(f"cannot be submitted: {refused.reason}")
    return Baseline(
        name=entry.baseline.name,
        file=path,
        note=entry.baseline.note,
        data=files[path],
        gpus=directives.gpus,
        toolchains=tuple(toolchains(path, text)),
    )


def _decode_source(entry: _Entry, data: bytes, bytes_max: int) -> str:
    if len(data) > bytes_max:
        entry.refuse(f"has {len(data):,} bytes: submissions here have at most {bytes_max:,}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        entry.refuse(f"is not UTF-8 at byte {error.start}: save it as UTF-8")
    if "\0" in text or not text.strip():
        entry.refuse("contains a NUL byte" if "\0" in text else "is empty: write the baseline")
    return text
