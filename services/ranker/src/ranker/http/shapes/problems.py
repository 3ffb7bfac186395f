"""What is answered of problems."""

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.answers import At, Digest, Seq, Visibility

Budgets = Annotated[
    dict[str, int], Field(description="Seconds that each stage may take: build, test and so on.")
]


class Problem(TypedDict):
    """A version of a problem."""

    slug: str
    name: Annotated[str, Field(description="The slug once more.")]
    number: Annotated[int, Field(description="The version.")]
    digest: Digest
    title: str
    gpus: Annotated[list[str], Field(description="On which submissions are taken in.")]
    gpus_closed: Annotated[list[str], Field(description="On which they were; entries stay.")]
    cases_count: Annotated[dict[str, int], Field(description="How many tests and benchmarks.")]
    ranking_by: Literal["last", "mean", "geom"]
    budgets_s: Budgets
    source_bytes_max: int
    languages: list[str]
    manifest: Digest
    published_at: At
    visibility: Visibility
    deadline_at: At | None
    archived_at: At | None
    source_visible: Annotated[
        Literal["owner", "after_close", "always"], Field(description="Who reads sources, when.")
    ]
    publish: Annotated[
        Literal["never", "after_close", "always"], Field(description="When they are passed on.")
    ]
    state: Literal["active", "ended", "archived"]
    is_over: bool


class Problems(TypedDict):
    """The newest version of each problem, in the order of their names."""

    items: list[Problem]
    next_cursor: str | None
    as_of: Seq


class CaseOf(TypedDict):
    """A case by its arguments, without the seed, which a ranked run draws anew."""

    name: str
    args: dict[str, Any]
    is_seeded: Annotated[bool, Field(description="Whether it takes a seed besides.")]


class Cases(TypedDict):
    """The cases that everybody knows; more of the same kind are hidden."""

    tests: list[CaseOf]
    benchmarks: list[CaseOf]


class Requires(TypedDict, total=False):
    """What a machine must have; nothing is one GPU of any kind."""

    count: int
    memory_mib: Annotated[int, Field(description="MiB on each GPU.")]
    toolchains: list[str]


class Licence(TypedDict, total=False):
    """Under which licences the problem, and what is sent in for it, may be passed on; as SPDX."""

    problem: str
    submissions: str


class Formulas(TypedDict, total=False):
    """The least that a call does, as formulas over the arguments of its case."""

    bytes: str
    written: Annotated[str, Field(description="The part of the bytes that is written.")]
    flops: str
    dtype: str
    floor_us: str


class Rules(TypedDict):
    """By what a problem is judged, as text."""

    formula: str
    cases: Cases
    tolerances: str
    budgets_s: Budgets
    deadline_at: At | None
    ties: str
    source_policy: str
    requires: Requires
    licence: Licence
    consent: Annotated[str, Field(description="The file one accepts before one submits, or none.")]
    roofline: Formulas


class SolutionFound(TypedDict):
    """How one of the author's own solutions ended on their machine."""

    name: str
    kind: Literal["correct", "wrong", "baseline"]
    verdict: str
    as_expected: bool


class Check(TypedDict):
    """What was found when a version was checked, on the machine of who published it."""

    state: Literal["clean", "unchecked"]
    reason: Annotated[str, Field(description="Why it was not checked; empty if it was.")]
    harness: str | None
    device: str | None
    made_at: At | None
    solutions: Annotated[int, Field(description="How many of the author's own were run.")]
    solutions_found: Annotated[
        list[SolutionFound], Field(description="Each of them, for its author and for operators.")
    ]
    warnings: list[str]


class ProblemFile(TypedDict):
    """A file that participants may see."""

    name: str
    url: str


class Native(TypedDict, total=False):
    """How a problem in C++ is compiled; nothing of any other."""

    defines: dict[str, str]
    flags: list[str]
    sources: Annotated[list[str], Field(description="Beside the submission and our drivers.")]
    arrays: Annotated[str, Field(description="`device`, where they stay there.")]


class Start(TypedDict):
    """A language to begin in, and where the file to begin with is had."""

    language: str
    name: Annotated[str, Field(description="What to call it, with the end that says its language.")]
    url: str
    is_generated: Annotated[bool, Field(description="It is made of the reference.")]


class ProblemWhole(Problem):
    """A problem with all that a participant has to know."""

    authors: list[str] | None
    difficulty: str | None
    tags: list[str] | None
    lang: str | None
    description: str
    templates: Annotated[dict[str, str], Field(description="The file of each language.")]
    submission: str | None
    form: Literal["task", "native", "program", "input_output", "outputs", "kernelbench"]
    main: Annotated[str, Field(description="The problem's own program, if it has one.")]
    is_multi_gpu: bool
    native: Native
    answers: Annotated[str, Field(description="`checked`, where its own check alone judges them.")]
    memory_mib: Annotated[int, Field(description="What a submission may use at least, or 0.")]
    files: list[ProblemFile]
    starts: Annotated[list[Start], Field(description="The likeliest first.")]
    rules: Rules
    check: Check
    statement: Annotated[str, Field(description="Markdown; empty where there is none.")]
