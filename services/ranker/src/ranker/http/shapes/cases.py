"""What is answered of a submission's cases."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from shared.answers import Us

Verdict = Annotated[str, Field(description="`passed`, or what went wrong; said by the supervisor.")]
Interval = Annotated[
    list[float], Field(description="A 95 % interval, low and high.", min_length=2, max_length=2)
]

Against = Annotated[
    dict[str, float],
    Field(description="How many times as fast as each baseline it is, by the baseline's name."),
]


class Mismatch(TypedDict):
    """One wrong element of a public case, as text."""

    index: str
    got: str
    expected: str


class Roofline(TypedDict):
    """What a time amounts to, in 10^9 bytes and 10^9 operations a second."""

    bandwidth_gb_s: float | None
    gflops: float | None
    dtype: Annotated[str, Field(description="Of which numbers the operations are.")]
    share: Annotated[
        float | None,
        Field(description="Of what the GPU type's data sheet allows; null where none is known."),
    ]
    bound: Literal["memory", "compute"] | None


class Case(TypedDict):
    """How a case ended; a hidden one has its stage and verdict alone."""

    name: str
    stage: str
    verdict: Verdict
    is_hidden: bool
    message: NotRequired[str]
    time_us: NotRequired[Us | None]
    interval_us: NotRequired[Interval | None]
    samples: NotRequired[int]
    process_us: NotRequired[list[Us]]
    error: NotRequired[float | None]
    freedom: NotRequired[int]
    null_us: NotRequired[list[Us]]
    grade: NotRequired[str]
    statistics: NotRequired[dict[str, float]]
    dropped: NotRequired[int]
    wrong: NotRequired[int]
    mismatches: NotRequired[list[Mismatch]]
    roofline: NotRequired[Roofline | None]
    vs_baseline: NotRequired[Against]


class Estimate(TypedDict):
    """The time of one call, and how sure that is."""

    time_us: Us
    time_us_ci95: Interval | None
    statistics: dict[str, float]
    samples: int | None
    dropped: int | None
    process_us: list[Us] | None
    error: float | None
    freedom: int | None
    null_us: list[Us] | None
    grade: str | None


class CaseShown(TypedDict):
    """How a case ended, and what a public one was made of."""

    index: int
    name: str
    stage: str
    visibility: Literal["public", "hidden"]
    case: Annotated[dict[str, Any] | None, Field(description="Its arguments, without the seed.")]
    verdict: Verdict
    message: str | None
    wrong: int
    mismatches: list[Mismatch]
    estimate: Estimate | None
    roofline: Annotated[
        Roofline | None, Field(description="Null where the problem says nothing of its work.")
    ]
    vs_baseline: Against
