"""What scores are compared with besides each other: the yardstick, baselines and milestones.

The yardstick is timed beside every submission. Baselines are submissions that the platform runs
itself; a milestone is what a participant may reach beside a rank, once and for ever.
"""

import hashlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field

from shared.api.fields import PRINTABLE
from shared.errors import Refused
from shared.problems.document import Document, Path, StrictModel, quote_value
from shared.problems.sources import UP, Sources, normalize_path
from shared.problems.submission_file import read_directives, suffix, suffixes, toolchains
from shared.problems.values import Milestone, Requires

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

Line = Annotated[str, Field(min_length=1, max_length=100, pattern=f"^{PRINTABLE}*$")]
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
    title: Line
    when: WhenYml


def read_milestones(
    document: Document,
    entries: Sequence[MilestoneYml],
    content: Mapping[str, Any],
    baselines: Sequence["Baseline"],
) -> tuple[Milestone, ...]:
    """Check and return the milestones in the `warpboard.yml` of a problem with this manifest.

    Errors: Refused `bad_problem`.
    """
    ids = [entry.id for entry in entries]
    gpus = {gpu.lower(): gpu for gpu in content["gpus"]}
    milestones = []
    for index, entry in enumerate(entries):
        path, when = (MILESTONES_KEY, index, "when"), entry.when
        if entry.id in ids[:index]:
            reason = f"two milestones have the id {quote_value(entry.id)}: change one of them"
            document.refuse((MILESTONES_KEY, index, "id"), reason)
        _check_metric(document, (*path, "metric"), when.metric, content, baselines)
        if when.gpu is not None and when.gpu.lower() not in gpus:
            reason = f"GPU type {quote_value(when.gpu)} is not one of {', '.join(content['gpus'])}"
            document.refuse((*path, "gpu"), reason)
        count = len(content["tests"])
        is_lower_bound = when.metric == CASES_PASSED and when.op in (">=", ">")
        if is_lower_bound and not comparison_holds(count, when.op, when.value):
            reason = f"the problem has {count} tests: nobody could pass {when.op} {when.value:g}"
            document.refuse((*path, "value"), reason)
        milestones.append(
            Milestone(
                id=entry.id,
                title=entry.title,
                metric=when.metric,
                op=when.op,
                value=float(when.value),
                gpu=gpus[when.gpu.lower()] if when.gpu else "",
            )
        )
    return tuple(milestones)


def milestones_manifest(milestones: Sequence[Milestone]) -> dict[str, Any]:
    """Return the manifest's entry, absent without milestones."""
    return {MILESTONES_KEY: [asdict(milestone) for milestone in milestones]} if milestones else {}


def _check_metric(
    document: Document,
    path: Path,
    metric: str,
    content: Mapping[str, Any],
    baselines: Sequence["Baseline"],
) -> None:
    names = [baseline.name for baseline in baselines]
    if metric.startswith(VS_BASELINE) and metric.removeprefix(VS_BASELINE) in names:
        return
    if metric.startswith(VS_BASELINE):
        fix = f"there are {', '.join(names)}" if names else "there are none: write baselines"
        document.refuse(path, f"no baseline {quote_value(metric[len(VS_BASELINE) :])}: {fix}")
    if metric == ROOFLINE and "roofline" not in content:
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


class BaselineYml(StrictModel):
    """A problem file that is run like a submission, with its name."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    file: Annotated[str, Field(min_length=1, max_length=200)]
    note: Annotated[str, Field(max_length=100, pattern=f"^{PRINTABLE}*$")] = ""


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


def read_baselines(
    document: Document,
    entries: Sequence[BaselineYml],
    content: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> tuple[Baseline, ...]:
    """Check and return the baselines in the `warpboard.yml` of a problem with this manifest.

    Errors: Refused if one of them cannot be submitted.
    """
    names = [entry.name for entry in entries]
    for index, name in enumerate(names):
        if name in names[:index]:
            reason = f"two baselines are named {quote_value(name)}: rename one of them"
            document.refuse((BASELINES_KEY, index, "name"), reason)
    return tuple(
        _read_baseline(document, index, entry, content, files)
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


def _read_baseline(
    document: Document,
    index: int,
    entry: BaselineYml,
    content: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> Baseline:
    where = (BASELINES_KEY, index, "file")
    path, data, gpus = _read_file(document, where, entry.file, content, files)
    tools = tuple(toolchains(path, data.decode()))
    return Baseline(entry.name, path, entry.note, data, gpus, tools)


def _read_file(
    document: Document,
    where: Path,
    source: str,
    content: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> tuple[str, bytes, tuple[str, ...]]:
    """Return the path and text of a file that is run like a submission, and the GPUs it names."""

    def refuse(reason: str) -> NoReturn:
        document.refuse(where, f"{quote_value(source)} {reason}")

    path, most = normalize_path(source) or "", content["source_bytes_max"]
    data, ends = files.get(path, b""), suffixes(content["languages"])
    for is_wrong, reason in (
        (
            not path or path.startswith(UP),
            "is outside the problem: move it into the problem's folder",
        ),
        (path not in files, "is no file of the problem: add it, or fix the path"),
        (
            not path.endswith(ends),
            f"does not end in {' or '.join(ends)}, as submissions here do",
        ),
        (
            len(data) > most,
            f"has {len(data):,} bytes: submissions here have at most {most:,}",
        ),
        (b"\0" in data, "contains a NUL byte"),
        (not data.strip(), "is empty: write it"),
    ):
        if is_wrong:
            refuse(reason)
    try:
        return path, data, read_directives(data.decode()).gpus
    except UnicodeDecodeError as error:
        refuse(f"is not UTF-8 at byte {error.start}: save it as UTF-8")
    except Refused as refused:
        refuse(f"cannot be submitted: {refused.reason}")


YARDSTICK_KEY = "yardstick"
# Among a version's files; participants do not see files whose names begin like this.
_YARDSTICK_NAME = "solution_yardstick"
_WRONG = "solutions/wrong/"


def add_yardstick(
    document: Document,
    source: str | None,
    content: dict[str, Any],
    sources: Sources,
    files: Mapping[str, bytes],
) -> Sources:
    """Return the sources with the yardstick, and write it into the manifest's `content`.

    Without a yardstick, both are unchanged: it is the reference. Errors: Refused `bad_problem`.
    """
    if source is None:
        return sources
    where = (YARDSTICK_KEY,)
    if "main" in content:
        document.refuse(where, "the problem's own program times submissions: leave it out")
    if (normalize_path(source) or "").startswith(_WRONG):
        document.refuse(where, f"{quote_value(source)} is a wrong solution: name a correct one")
    path, data, gpus = _read_file(document, where, source, content, files)
    known = {gpu.lower() for gpu in gpus or content["gpus"]}
    if missing := [gpu for gpu in content["gpus"] if gpu.lower() not in known]:
        reason = f"{quote_value(source)} runs on {', '.join(gpus)}, and not on {', '.join(missing)}"
        document.refuse(where, f"{reason}: name one that runs on each of the problem's GPU types")
    name = f"{_YARDSTICK_NAME}{suffix(path)}"
    if sources.files.get(name, data) != data:
        document.refuse(where, f"{quote_value(name)} exists with another text: rename that file")
    content[YARDSTICK_KEY] = name
    content["files"][name] = hashlib.sha256(data).hexdigest()
    if tools := toolchains(path, data.decode()):
        requires = Requires(**content.get("requires", {}))
        together = dict.fromkeys([*requires.toolchains, *tools])
        content["requires"] = {
            "count": requires.count,
            "memory_mib": requires.memory_mib,
            "toolchains": [*together],
        }
    return replace(sources, files={**sources.files, name: data})
