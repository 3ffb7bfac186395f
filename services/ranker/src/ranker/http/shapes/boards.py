"""What is answered of leaderboards: entries, records, histories, comparisons."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ranker.http.shapes.cases import Against, Interval, Verdict
from ranker.http.shapes.goals import Baseline, Milestone
from ranker.http.shapes.submissions import Code, Outcome
from ranker.http.shapes.waiting import Parked
from shared.answers import At, Mode, Number, PooledOver, RunUs, Seconds, Seq, Us


class BoardLine(TypedDict):
    """A leaderboard that has an entry."""

    problem: str
    problem_number: int
    gpu: str
    entries_count: int
    best_us: Us
    own_us: Annotated[Us | None, Field(description="The best of who asks.")]


class Leaderboards(TypedDict):
    """Every leaderboard that has an entry one may see."""

    items: list[BoardLine]
    as_of: Seq


class Entry(TypedDict):
    """A row of a leaderboard: the best source of a participant, all their runs of it pooled."""

    rank: int
    is_tied: bool
    tied: bool
    submission: str
    number: Number
    account: str
    participant_id: str
    participant: str | None
    name: str | None
    score_us: Us
    score: Seconds
    run_us: RunUs
    pooled_over: PooledOver
    low_us: Us | None
    high_us: Us | None
    ci95: Interval | None
    error: float | None
    freedom: int
    delta: Annotated[float, Field(description="Scores closer than this fraction share a rank.")]
    grade: str
    is_provisional: bool
    received_at: At
    submitted_at: At
    tier: str | None
    level: str | None
    roofline_fraction: Annotated[
        float | None,
        Field(description="Which share of the roofline of the GPU type's data sheet it is."),
    ]
    vs_baseline: Against
    source_visible: bool
    duel: Annotated[
        str, Field(description="Why it is before the next of its rank, if a duel decided that.")
    ]
    confirmation: Annotated[
        str,
        Field(description="Whether its run was confirmed on another agent, if it was repeated."),
    ]


class OtherVersion(TypedDict):
    """Another version of the problem whose leaderboard on this GPU type has entries."""

    problem_version: int
    entries_count: int


class Leaderboard(TypedDict):
    """One leaderboard, best first, as of an event of the log."""

    problem: str
    title: str
    problem_version: int
    gpu: str
    items: list[Entry]
    baselines: Annotated[
        list[Baseline], Field(description="Unranked; those with a score first, the best of all.")
    ]
    milestones: list[Milestone]
    other_versions: list[OtherVersion]
    next_cursor: str | None
    as_of: Seq
    as_of_at: At | None
    frozen: bool
    parked: Parked | None


class Record(TypedDict):
    """A score that was the best when it came; `is_standing` if nothing took it away since."""

    seq: Seq
    problem_number: int
    submission: str
    number: Number
    account: str
    participant: str | None
    score_us: Us
    previous_us: Us | None
    at: At
    is_standing: bool


class Point(Record):
    """A record as a point of a curve."""

    score: Seconds | None


class Records(TypedDict):
    """The records of a leaderboard, newest first."""

    items: list[Record]
    as_of: Seq


class Personal(TypedDict):
    """A ranked submission of a participant, with its result there; a name is its owner's."""

    number: Number
    id: str
    account: str
    problem: str
    name: str
    received_at: At
    finished_at: At | None
    outcome: Outcome | None
    verdict: Verdict | None
    code: Code | None
    reason: str | None
    problem_number: int | None
    is_eligible: bool
    score_us: Us | None
    score: Seconds | None
    run_us: RunUs
    pooled_over: PooledOver
    error: float | None
    freedom: int | None
    low_us: Us | None
    high_us: Us | None
    grade: str
    is_provisional: bool
    counts: bool
    was_best: bool


class History(TypedDict):
    """The score over time: a participant's ranked submissions, or else the records."""

    participant: str | None
    problem: str
    gpu: str
    problem_version: int
    items: list[Personal] | list[Point]
    as_of: Seq


class PersonalHistory(TypedDict):
    """Every ranked submission of a participant on a leaderboard, newest first."""

    participant: str
    problem: str
    gpu: str
    problem_version: int
    items: list[Personal]
    as_of: Seq


class Side(TypedDict):
    """One of two submissions that are compared."""

    number: Number
    problem: str
    problem_number: int
    gpu: str
    mode: Mode
    verdict: Verdict | None
    score_us: Us | None


class Contrast(TypedDict):
    """A case in both; a ratio, b over a, under one says that b is the faster."""

    name: str
    stage: str
    a_us: Us | None
    b_us: Us | None
    ratio: float | None
    ci95: Interval | None
    outcome: Annotated[
        str,
        Field(description="`faster`, `slower`, `same` or `unknown` of b, or the verdict it has."),
    ]
    a_verdict: Verdict | None
    b_verdict: Verdict | None


class Comparison(TypedDict):
    """How b differs from a."""

    a: Side
    b: Side
    diff: Annotated[str | None, Field(description="Unified; null unless both are to be seen.")]
    score: Contrast
    cases: list[Contrast]
