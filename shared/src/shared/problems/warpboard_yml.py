"""Warpboard's extension of a `task.yml`: `warpboard.yml` beside it, every key optional.

With the consent text, the release policy, the settings given when a problem is published, and the
JSON Schemas of both files. A schema covers keys, types and limits of single values. What depends on
several values or files, such as the arguments of a case, is checked when a problem is compiled.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from pydantic.json_schema import models_json_schema

from harness.metrics import METRIC_TEXTS, MetricName
from harness.ranking_rules import RankingRule
from harness.vocabulary import LIBRARIES
from shared.api.fields import PublishWhen, SourceVisible
from shared.errors import Refused
from shared.problems.document import (
    Document,
    StrictModel,
    bad_problem,
    quote_value,
    read_document,
    validate_document,
)
from shared.problems.goals import BASELINES_MAX, MILESTONES_MAX, BaselineYml, Line, MilestoneYml
from shared.problems.hidden_sizes import HiddenYml
from shared.problems.roofline import RooflineYml
from shared.problems.sources import Sources, normalize_path
from shared.problems.submission_file import SUFFIXES, Language
from shared.problems.task_yml import CASES_MAX, HOST_GPUS_MAX, WEIGHT_MAX, Gpus, NativeYml, TaskYml
from shared.source_files import SOURCE_FILES_MAX

NAME = "warpboard.yml"
SOURCE_BYTES_MAX = 1_000_000
BUILD_S_MAX = 600
MEMORY_MIB_MAX = 1024 * 1024
FORBIDDEN_MAX = 32

Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Weight = Annotated[float, Field(gt=0, le=WEIGHT_MAX, allow_inf_nan=False)]
Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Bound = Annotated[float, Field(ge=0, lt=1)]
Languages = Annotated[list[Language], Field(min_length=1, max_length=len(SUFFIXES))]
Tool = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_+.-]{0,39}$")]
Spdx = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9.+-]+([ ()A-Za-z0-9.+-]*)$")]
Forbidden = Annotated[str, Field(max_length=100)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]


class Limits(StrictModel):
    """Limits of a submission: less source than the default, more memory. Units: bytes, MiB.

    `source_bytes` is for all files together, and `files` counts them with the entry.
    """

    source_bytes: Annotated[int, Field(ge=1, le=SOURCE_BYTES_MAX)] = SOURCE_BYTES_MAX
    memory_mib: Annotated[int, Field(ge=0, le=MEMORY_MIB_MAX)] = 0
    files: Annotated[int, Field(ge=1, le=SOURCE_FILES_MAX)] = 1


class Budgets(StrictModel):
    """Budgets that `task.yml` does not have. Units: seconds."""

    build: Annotated[int, Field(ge=1, le=BUILD_S_MAX)] = 60


class RequiresYml(StrictModel):
    """What an agent needs to get a job. Units: MiB of memory on each GPU."""

    count: Annotated[int, Field(ge=1, le=HOST_GPUS_MAX)] = 1
    memory_mib: Annotated[int, Field(ge=0, le=MEMORY_MIB_MAX)] = 0
    toolchains: list[Tool] = Field(default_factory=list, max_length=16)


class Tolerance(StrictModel):
    """How far an answer may be from the reference: |x - y| <= atol + rtol * |y|."""

    rtol: Bound = 0.0
    atol: Bound = 0.0


class MetricYml(StrictModel):
    """A metric that results show; with `min` or `max`, a rank needs it to be in bounds."""

    metric: MetricName
    min: Finite | None = None
    max: Finite | None = None


class Licence(StrictModel):
    """The licences of the problem and of its submissions, as SPDX."""

    problem: Spdx | None = None
    submissions: Spdx | None = None


class WarpboardYml(StrictModel):
    """The contents of a `warpboard.yml`."""

    title: Line | None = Field(
        default=None, description="The title; default: the name of the folder."
    )
    gpus: Gpus | None = Field(
        default=None, description="The GPU types, in place of those of `task.yml`."
    )
    limits: Limits = Field(
        default=Limits(), description="Limits of a submission, in bytes, MiB and files."
    )
    budget_s: Budgets = Field(default=Budgets(), description="Budgets in seconds.")
    requires: RequiresYml = Field(
        default=RequiresYml(), description="What an agent needs; `memory_mib` is for each GPU."
    )
    tolerance: Tolerance | None = Field(default=None, description="No effect yet.")
    authors: list[Line] = Field(default_factory=list, max_length=32, description="Their names.")
    tags: list[Word] = Field(
        default_factory=list, max_length=32, description="Words such as `reduction`."
    )
    difficulty: Literal["easy", "medium", "hard"] | None = Field(
        default=None, description="A rating."
    )
    languages: Languages = Field(
        default=["python", "cpp", "cuda"], description="What submissions may be written in."
    )
    licence: Licence = Field(
        default=Licence(), description="SPDX licences of the problem and of its submissions."
    )
    consent: FileName | None = Field(
        default=None, description="The file whose text participants accept before they submit."
    )
    ranking_by: RankingRule | None = Field(
        default=None, description="In place of that of `task.yml`."
    )
    weights: list[Weight] = Field(
        default_factory=list,
        max_length=CASES_MAX,
        description="The weight of each benchmark in the score, in their order; default: equal.",
    )
    metrics: list[MetricYml] = Field(
        default_factory=list,
        max_length=len(METRIC_TEXTS),
        description="What a ranked run measures besides the time; a rank needs it in its bounds.",
    )
    hidden: HiddenYml | None = Field(
        default=None,
        description="Families that every ranked run draws cases from, which nobody sees.",
    )
    source_visible: SourceVisible | None = Field(
        default=None, description="Who else may read sources, and when; default `after_close`."
    )
    publish: PublishWhen | None = Field(
        default=None, description="When sources are released as a data set; default `after_close`."
    )
    harness: Literal["warpboard", "popcorn"] | None = Field(
        default=None,
        description="`popcorn` runs the problem's own program, in the lowest tier of trust.",
    )
    bool_as: Literal["int"] | None = Field(
        default=None, description="How a program of the problem gets bools."
    )
    answers: Literal["checked", "strict"] | None = Field(
        default=None,
        description="`checked`: only the problem's own check judges dtypes and shapes.",
    )
    arrays: Literal["host", "device"] | None = Field(
        default=None, description="Where the arrays of a C++ problem are."
    )
    baselines: list[BaselineYml] = Field(
        default_factory=list,
        max_length=BASELINES_MAX,
        description="Files that the platform runs itself and shows between the rows.",
    )
    yardstick: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="The correct solution, or baseline, that every timed run measures beside the "
        "submission; default: the reference.",
    )
    milestones: list[MilestoneYml] = Field(
        default_factory=list,
        max_length=MILESTONES_MAX,
        description="Goals that a participant reaches once and keeps.",
    )
    roofline: RooflineYml | None = Field(
        default=None, description="The minimum work of a call, as formulas over its arguments."
    )
    forbid: list[Forbidden] = Field(
        default_factory=list,
        max_length=FORBIDDEN_MAX,
        description="What no submission may use: torch functions such as `torch.matmul`, and "
        "libraries such as `cublas`.",
    )
    own_kernel: Literal["required"] | None = Field(
        default=None, description="`required`: a submission must define a kernel of its own."
    )


def read_warpboard(document: Document | None) -> WarpboardYml:
    """Validate a `warpboard.yml`; without one the defaults hold. Errors: Refused."""
    return WarpboardYml() if document is None else validate_document(document, WarpboardYml)


def yardstick_path(data: bytes) -> str:
    """Return the path of the yardstick that a `warpboard.yml` names, for whoever reads the files.

    Return "" if it names none, or is invalid: the compiler explains what is wrong with it.

    >>> yardstick_path(b"yardstick: ./solutions/correct/plain.py"), yardstick_path(b"- 1")
    ('solutions/correct/plain.py', '')
    """
    with suppress(Refused):
        content: Any = read_document(NAME, data).value
        source = content.get("yardstick") if isinstance(content, dict) else None
        if isinstance(source, str):
            return normalize_path(source) or ""
    return ""


def warpboard_warnings(extras: WarpboardYml) -> list[str]:
    """Return warnings about settings that have no effect yet.

    >>> warpboard_warnings(WarpboardYml(tolerance=Tolerance(rtol=1e-5)))
    ['tolerance has no effect yet: only check_implementation decides']
    """
    if extras.tolerance is None:
        return []
    return ["tolerance has no effect yet: only check_implementation decides"]


TEXT_BYTES_MAX = 100_000


def add_consent_text(sources: Sources, extras: WarpboardYml, files: Mapping[str, bytes]) -> Sources:
    """Return the sources with the consent text added. Errors: Refused `bad_problem`."""
    name = extras.consent
    if name is None:
        return sources
    if name not in files:
        reason = f"{NAME}: the consent file {quote_value(name)} is missing: add it beside {NAME}"
        raise bad_problem(reason, "consent")
    text = files[name]
    if name == sources.submission or sources.files.get(name, text) != text:
        reason = f"{NAME}: consent {quote_value(name)} exists with another text: rename one of them"
        raise bad_problem(reason, "consent")
    _check_text(name, text)
    return replace(sources, files={**sources.files, name: text})


def _check_text(name: str, text: bytes) -> None:
    if len(text) > TEXT_BYTES_MAX:
        reason = f"{name} has {len(text):,} bytes: a consent text has at most {TEXT_BYTES_MAX:,}"
        raise bad_problem(reason, "consent")
    try:
        decoded_text = text.decode()
    except UnicodeDecodeError as error:
        reason = f"{name} is not UTF-8 at byte {error.start}: save it as UTF-8"
        raise bad_problem(reason, name) from error
    if not decoded_text.strip():
        raise bad_problem(f"{name} is empty: write the text to accept", "consent")


def consent_manifest(extras: WarpboardYml) -> dict[str, Any]:
    """Return the manifest's entries, absent if there is nothing to accept.

    So the digest of a problem without a consent text is the same as before there were any.
    """
    entry: dict[str, Any] = {} if extras.consent is None else {"consent": extras.consent}
    licence = extras.licence.model_dump(exclude_none=True)
    return entry | ({"licence": licence} if licence else {})


_TORCH_NAME = re.compile(r"torch(\.[A-Za-z_][A-Za-z0-9_]*)+\Z")


def shortcut_manifest(document: Document | None, extras: WarpboardYml) -> dict[str, Any]:
    """Return the entry of the shortcut policy, absent if there is none. Errors: Refused."""
    for index, name in enumerate(extras.forbid):
        if name in LIBRARIES or _TORCH_NAME.match(name):
            continue
        libraries = ", ".join(LIBRARIES)
        reason = f"forbid {quote_value(name)} is neither a torch function nor a known library"
        fix = f"write a full name such as torch.matmul, or one of {libraries}"
        assert document is not None
        document.refuse(("forbid", index), f"{reason}: {fix}")
    policy: dict[str, Any] = {}
    if extras.forbid:
        policy["forbid"] = list(dict.fromkeys(extras.forbid))
    if extras.own_kernel is not None:
        policy["own_kernel"] = extras.own_kernel
    return {"shortcuts": policy} if policy else {}


CONSENT = "CONSENT.md"


@dataclass(frozen=True)
class PublishSettings:
    """Keys of warpboard.yml given beside the files; None keeps the files' own.

    `consent` is the text itself. All settings are part of a version, so whoever checks the problem
    and whoever publishes it must use the same settings.
    """

    title: str | None = None
    ranking_by: str | None = None
    source_visible: str | None = None
    publish: str | None = None
    licence: Mapping[str, str] | None = None
    consent: bytes | None = None

    @property
    def keys(self) -> dict[str, Any]:
        """The settings as the keys of a warpboard.yml."""
        consent = None if self.consent is None else CONSENT
        licence = dict(self.licence) if self.licence else None
        values = vars(self) | {"licence": licence, "consent": consent}
        return {name: value for name, value in values.items() if value is not None}


NO_SETTINGS = PublishSettings()


def apply_settings(files: Mapping[str, bytes], settings: PublishSettings) -> dict[str, bytes]:
    """Write the settings into a problem's files; without settings the files are unchanged.

    Errors: Refused `bad_problem` for an invalid warpboard.yml.

    >>> apply_settings({}, PublishSettings(title="Copy"))
    {'warpboard.yml': b'{"title": "Copy"}\\n'}
    """
    if not settings.keys:
        return dict(files)
    own: Any = {}
    if NAME in files:
        document = read_document(NAME, files[NAME])
        # Validate it now, while its line numbers are known for error messages.
        read_warpboard(document)
        own = document.value or {}
    merged = own | settings.keys
    if isinstance(own.get("licence"), dict) and "licence" in settings.keys:
        merged["licence"] = own["licence"] | settings.keys["licence"]
    # JSON is YAML.
    written = {NAME: json.dumps(merged, ensure_ascii=False).encode() + b"\n"}
    text = {} if settings.consent is None else {CONSENT: settings.consent}
    return {**files, **text, **written}


OWNER: Final = "owner"
NEVER: Final = "never"
AFTER_CLOSE: Final = "after_close"
ALWAYS: Final = "always"
# How open each setting is. Everybody reads what is published, so `publish` must not be more open.
_OPENNESS = {OWNER: 0, NEVER: 0, AFTER_CLOSE: 1, ALWAYS: 2}


def release_manifest(extras: WarpboardYml) -> dict[str, Any]:
    """Return the entries for who can see sources, and when they are published.

    They are absent if no policy is set, so the digest of a problem without a policy is the same as
    before there were policies. Errors: Refused `bad_problem`.

    >>> release_manifest(WarpboardYml(source_visible="owner"))
    {'source_visible': 'owner', 'publish': 'never'}
    """
    if extras.source_visible is None and extras.publish is None:
        return {}
    visible = extras.source_visible or AFTER_CLOSE
    publish = extras.publish or (NEVER if visible == OWNER else AFTER_CLOSE)
    if _OPENNESS[publish] > _OPENNESS[visible]:
        reason = (
            f"{NAME}: publish: {publish} with source_visible: {visible}: everybody sees "
            f"published sources, so write source_visible: {publish} too"
        )
        raise bad_problem(reason, "publish")
    return {"source_visible": visible, "publish": publish}


def policies_manifest(document: Document | None, extras: WarpboardYml) -> dict[str, Any]:
    """Return the entries of the consent, release and shortcut policies. Errors: Refused."""
    return consent_manifest(extras) | release_manifest(extras) | shortcut_manifest(document, extras)


# The dialect that editors understand best.
DIALECT = "http://json-schema.org/draft-07/schema#"
TASK, WARPBOARD = "task.json", "warpboard.json"


@cache
def problem_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of `task.yml` as `task.json`, and that of `warpboard.yml` likewise."""
    references, task = models_json_schema(
        [(TaskYml, "validation"), (NativeYml, "validation")], ref_template="#/$defs/{model}"
    )
    is_native = {"properties": {"lang": {"const": "cu"}}, "required": ["lang"]}
    return {
        TASK: {
            "$schema": DIALECT,
            "title": "task.yml",
            "description": "A problem of Warpboard: its files, cases and budgets.",
            "type": "object",
            # As `read_task` chooses the model.
            "if": is_native,
            "then": references[NativeYml, "validation"],
            "else": references[TaskYml, "validation"],
            "$defs": task["$defs"],
        },
        WARPBOARD: {"$schema": DIALECT}
        | WarpboardYml.model_json_schema()
        | {
            "title": "warpboard.yml",
            "description": "Settings of a Warpboard problem beside its task.yml; all are optional.",
        },
    }
