"""Problems and their versions."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from harness.ranking_rules import RankingRule
from shared.api.fields import (
    ApiModel,
    Digest,
    PublishWhen,
    SequenceNumber,
    SourceVisible,
    Timestamp,
    Visibility,
)

Budgets = Annotated[
    dict[str, float], Meta(description="Seconds that each stage may take: build, test and so on.")
]


class Problem(ApiModel, frozen=True, kw_only=True):
    """A version of a problem."""

    slug: str
    problem_version: int
    digest: Digest
    title: str
    gpus: Annotated[list[str], Meta(description="GPU types that accept submissions.")]
    gpus_closed: Annotated[
        list[str], Meta(description="GPU types that no longer do; their entries remain.")
    ]
    untested_gpus: Annotated[
        list[str], Meta(description="Open GPU types on which the check ran nothing.")
    ]
    cases_count: Annotated[dict[str, int], Meta(description="How many tests and benchmarks.")]
    ranking_by: RankingRule
    budgets_s: Budgets
    source_bytes_max: Annotated[int, Meta(description="Of all files of a submission together.")]
    languages: list[str]
    tags: Annotated[list[str] | None, Meta(description="As the author chose them.")]
    manifest: Digest
    published_at: Timestamp
    visibility: Visibility
    deadline_at: Timestamp | None
    archived_at: Timestamp | None
    source_visible: Annotated[SourceVisible, Meta(description="Who may read sources, and when.")]
    publish: Annotated[PublishWhen, Meta(description="When sources are published.")]
    state: Literal["active", "ended", "archived"]
    is_over: bool
    contest: Annotated[str, Meta(description="The contest that it belongs to, if any.")] = ""
    has_practice: Annotated[
        bool, Meta(description="Whether it takes submissions for practice after its deadline.")
    ] = False
    source_files_max: Annotated[
        int, Meta(description="How many files a submission may have, with its entry file.")
    ] = 1

    @property
    def is_practice(self) -> bool:
        """Whether what is submitted now is ranked on the practice leaderboard."""
        return self.state == "ended" and self.has_practice

    @property
    def takes_submissions(self) -> bool:
        """Whether it accepts submissions now, in its ranking or for practice, or may do so.

        Until it is archived, the phases of its contest decide.
        """
        is_ended = self.state == "ended"
        may_be_late = is_ended and (self.has_practice or self.contest != "")
        return bool(self.gpus) and (self.state == "active" or may_be_late)


class Problems(ApiModel, frozen=True, kw_only=True):
    """The newest version of each problem, sorted by name."""

    items: list[Problem]
    next_cursor: str | None
    as_of: SequenceNumber


class ProblemCase(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """A case by its arguments, without the seed, which a ranked run draws again."""

    name: str
    args: dict[str, Any]
    is_seeded: Annotated[bool, Meta(description="Whether it also takes a seed.")]
    weight: Annotated[float, Meta(description="The weight of a timed case in the score.")] = 1.0


class HiddenSizes(ApiModel, frozen=True, kw_only=True):
    """What every ranked run draws cases from; nobody sees which."""

    group: Literal["tests", "benchmarks"]
    count: Annotated[int, Meta(description="How many cases a run draws.")]
    weight: Annotated[float, Meta(description="The weight of each timed case in the score.")]
    args: Annotated[
        dict[str, Any],
        Meta(
            description="What each argument may be: a value, a list of values, or integers "
            "`{from, to, step, scale}`."
        ),
    ]


class Cases(ApiModel, frozen=True, kw_only=True):
    """The public cases; more of the same kind are hidden."""

    tests: list[ProblemCase]
    benchmarks: list[ProblemCase]
    hidden: list[HiddenSizes] = []


class Requires(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """What a machine must have; empty means one GPU of any kind."""

    count: int = 0
    memory_mib: Annotated[int, Meta(description="MiB on each GPU.")] = 0
    toolchains: list[str] = []


class Licence(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """The SPDX licences under which the problem and its submissions may be published."""

    problem: str = ""
    submissions: str = ""


class Formulas(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """The minimum work of a call, as formulas over the arguments of its case."""

    bytes: str = ""
    written: Annotated[str, Meta(description="The part of the bytes that is written.")] = ""
    flops: str = ""
    dtype: str = ""
    floor_us: str = ""


class ShortcutPolicy(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """What submissions may not use; empty if everything is allowed."""

    forbid: Annotated[list[str], Meta(description="torch functions and libraries.")] = []
    own_kernel: Annotated[
        str, Meta(description="`required` if a submission must define its own kernel.")
    ] = ""


class Rules(ApiModel, frozen=True, kw_only=True):
    """The rules of a problem, as text."""

    formula: str
    cases: Cases
    tolerances: str
    budgets_s: Budgets
    deadline_at: Timestamp | None
    ties: str
    source_policy: str
    shortcuts: ShortcutPolicy = ShortcutPolicy()
    requires: Requires
    licence: Licence
    consent: Annotated[
        str, Meta(description="The file that participants accept before submitting, or empty.")
    ]
    roofline: Formulas


class SolutionFound(ApiModel, frozen=True, kw_only=True):
    """How one of the author's own solutions ended on their machine."""

    name: str
    kind: Literal["correct", "wrong", "baseline"]
    verdict: str
    as_expected: bool


class Check(ApiModel, frozen=True, kw_only=True):
    """The check of a version on the publisher's machine."""

    state: Literal["clean", "unchecked"]
    reason: Annotated[str, Meta(description="Why it was not checked; empty if it was.")]
    harness: str | None
    device: str | None
    made_at: Timestamp | None
    solutions: Annotated[int, Meta(description="How many of the author's solutions were run.")]
    solutions_found: Annotated[
        list[SolutionFound], Meta(description="Each of them; for the author and operators.")
    ]
    warnings: list[str]


class ProblemFile(ApiModel, frozen=True, kw_only=True):
    """A file that participants may see."""

    name: str
    url: str


class Native(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """How a C++ problem is compiled; empty for others."""

    defines: dict[str, str] = {}
    flags: list[str] = []
    sources: Annotated[
        list[str], Meta(description="In addition to the submission and the drivers.")
    ] = []
    arrays: Annotated[str, Meta(description="`device` if the arrays stay on the device.")] = ""


class Start(ApiModel, frozen=True, kw_only=True):
    """A language, and the file to start from."""

    language: str
    name: Annotated[str, Meta(description="The file name, with the suffix of the language.")]
    url: str
    is_generated: Annotated[bool, Meta(description="Whether it is generated from the reference.")]


class FullProblem(Problem, frozen=True, kw_only=True):
    """A problem with everything that a participant needs to know."""

    authors: list[str] | None
    difficulty: str | None
    lang: str | None
    description: str
    templates: Annotated[dict[str, str], Meta(description="The file of each language.")]
    submission: str | None
    form: Literal[
        "task", "native", "program", "input_output", "outputs", "reference_outputs", "kernelbench"
    ]
    main: Annotated[str, Meta(description="The problem's own program, if it has one.")]
    is_multi_gpu: bool
    native: Native
    answers: Annotated[
        str, Meta(description="`checked` if only the problem's own check judges them.")
    ]
    memory_mib: Annotated[
        int, Meta(description="The memory that a submission may use at least, or 0.")
    ]
    files: list[ProblemFile]
    starts: Annotated[list[Start], Meta(description="The most likely first.")]
    evaluation: Annotated[
        list[ProblemFile],
        Meta(
            description="The program that shows how submissions are evaluated, and its utilities."
        ),
    ]
    rules: Rules
    check: Check
    newest_version: Annotated[int, Meta(description="Its versions are 1 to this one.")]
    statement: Annotated[str, Meta(description="Markdown; may be empty.")]


class PublishedVersion(ApiModel, frozen=True, kw_only=True):
    """The newest version of a problem."""

    slug: str
    problem_version: int
    digest: Digest
    is_new: bool
    warnings: list[str]


class CheckFinding(ApiModel, frozen=True, kw_only=True):
    """What a check found: an error prevents publication."""

    code: str
    level: Literal["error", "warning"]
    where: str
    text: str


class CheckProgress(ApiModel, frozen=True, kw_only=True):
    """What the agent does now: it inspects the problem's own code, then runs its files."""

    text: str
    done: int
    total: int


class ProblemCheck(ApiModel, frozen=True, kw_only=True):
    """A check of a version that is not published, on an agent.

    It is `clean`, `refused` with findings, or `failed` if the platform could not check it.
    """

    id: str
    slug: str
    digest: Digest
    gpu: Annotated[str, Meta(description="The GPU type on which it is checked.")]
    gpus: Annotated[list[str], Meta(description="The GPU types of its leaderboards.")]
    state: Literal["queued", "assigned", "running", "clean", "refused", "failed"]
    text: Annotated[str, Meta(description="Its state in a sentence, with what to do.")]
    requested_at: Timestamp
    deadline_at: Annotated[Timestamp, Meta(description="When it ends without a result.")]
    progress: CheckProgress | None = None
    findings: list[CheckFinding] = []
    warnings: Annotated[list[str], Meta(description="About its files.")] = []
    tested_gpus: list[str] = []

    @property
    def is_over(self) -> bool:
        """Whether it has a result, or will get none."""
        return self.state in ("clean", "refused", "failed")
