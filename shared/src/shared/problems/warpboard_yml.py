"""What Warpboard adds to a `task.yml`: `warpboard.yml` beside it, every key optional."""

from typing import Annotated, Literal

from pydantic import Field

from shared.problems.baselines import BASELINES_MAX, BaselineYml
from shared.problems.document import Document
from shared.problems.milestones import MILESTONES_MAX, MilestoneYml
from shared.problems.roofline import RooflineYml
from shared.problems.schema import Strict, fitted
from shared.problems.task_yml import HOST_GPUS_MAX, Gpus

NAME = "warpboard.yml"
SOURCE_BYTES_MAX = 1_000_000
BUILD_S_MAX = 600
MEMORY_MIB_MAX = 1024 * 1024

Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Bound = Annotated[float, Field(ge=0, lt=1)]
Language = Literal["python", "cpp", "cuda"]
Languages = Annotated[list[Language], Field(min_length=1, max_length=3)]
Tool = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_+.-]{0,39}$")]
Spdx = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9.+-]+([ ()A-Za-z0-9.+-]*)$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]
Line = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]*$")]


class Limits(Strict):
    """What a submission may use: less source than elsewhere, more memory. Units: bytes, MiB."""

    source_bytes: Annotated[int, Field(ge=1, le=SOURCE_BYTES_MAX)] = SOURCE_BYTES_MAX
    memory_mib: Annotated[int, Field(ge=0, le=MEMORY_MIB_MAX)] = 0


class Budgets(Strict):
    """Budgets beyond those of `task.yml`. Units: seconds."""

    build: Annotated[int, Field(ge=1, le=BUILD_S_MAX)] = 60


class Requires(Strict):
    """What a machine must have to be given a job. Units: MiB of memory, on each GPU."""

    count: Annotated[int, Field(ge=1, le=HOST_GPUS_MAX)] = 1
    memory_mib: Annotated[int, Field(ge=0, le=MEMORY_MIB_MAX)] = 0
    toolchains: list[Tool] = Field(default_factory=list, max_length=16)


class Tolerance(Strict):
    """How far an answer may be from the reference: |x - y| <= atol + rtol * |y|."""

    rtol: Bound = 0.0
    atol: Bound = 0.0


class Licence(Strict):
    """Under which licences a problem, and what is sent in for it, may be passed on, as SPDX."""

    problem: Spdx | None = None
    submissions: Spdx | None = None


class WarpboardYml(Strict):
    """What a `warpboard.yml` says."""

    title: Line | None = None
    gpus: Gpus | None = None
    limits: Limits = Limits()
    budget_s: Budgets = Budgets()
    requires: Requires = Requires()
    tolerance: Tolerance | None = None
    authors: list[Line] = Field(default_factory=list, max_length=32)
    tags: list[Word] = Field(default_factory=list, max_length=32)
    difficulty: Literal["easy", "medium", "hard"] | None = None
    languages: Languages = Field(default=["python", "cpp", "cuda"])
    licence: Licence = Licence()
    consent: FileName | None = None
    ranking_by: Literal["last", "mean", "geom"] | None = None
    source_visible: Literal["owner", "after_close", "always"] | None = None
    publish: Literal["never", "after_close", "always"] | None = None
    harness: Literal["warpboard", "popcorn"] | None = None
    bool_as: Literal["int"] | None = None
    answers: Literal["checked", "strict"] | None = None
    arrays: Literal["host", "device"] | None = None
    baselines: list[BaselineYml] = Field(default_factory=list, max_length=BASELINES_MAX)
    milestones: list[MilestoneYml] = Field(default_factory=list, max_length=MILESTONES_MAX)
    roofline: RooflineYml | None = None


def read_warpboard(document: Document | None) -> WarpboardYml:
    """The `warpboard.yml` in a document; the defaults if there is none. Errors: Refused."""
    return WarpboardYml() if document is None else fitted(document, WarpboardYml)


def warpboard_warnings(extras: WarpboardYml) -> list[str]:
    """What is legal and has no effect yet.

    >>> warpboard_warnings(WarpboardYml(tolerance=Tolerance(rtol=1e-5)))
    ['tolerance has no effect yet: check_implementation alone decides']
    """
    if extras.tolerance is None:
        return []
    return ["tolerance has no effect yet: check_implementation alone decides"]
