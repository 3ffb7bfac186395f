"""What the client's routes answer, in its words; the OpenAPI document shows it."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from ingest.popcorn.result_shapes import FullResult, Protocol
from shared.answers import ELSEWHERE, AtText, Number, Seconds, Visibility

Ok = Literal["ok"]
Score = Annotated[float | None, Field(description="Seconds.", gt=0)]
PublicMode = Literal["test", "benchmark", "profile", "leaderboard"]
Category = Literal["test", "leaderboard"]
LeaderboardId = Annotated[int, Field(description="Made of the leaderboard's name.", ge=0)]
UserId = Annotated[str, Field(description="An account.")]
QueueOf = Annotated[dict[str, Any], WithJsonSchema({ELSEWHERE: "QueueOfGpu"})]
Waiting = Annotated[dict[str, Any], WithJsonSchema({ELSEWHERE: "Queue"})]
Ranked = Annotated[dict[str, Any], WithJsonSchema({ELSEWHERE: "Ranking"})]


class Alive(TypedDict):
    """That a process lives, or may take traffic."""

    status: Ok


class Task(TypedDict):
    """In which language a leaderboard's submissions are."""

    lang: Literal["py", "cu"]


class BoardListed(TypedDict):
    """A leaderboard as the client's picker shows it."""

    id: LeaderboardId
    name: str
    title: str
    description: Annotated[str, Field(max_length=400)]
    task: Task
    deadline: AtText | None
    gpu_types: list[str]
    visibility: Visibility
    problem_version: int
    state: Literal["active", "ended"]


class RunnerQueue(TypedDict):
    """The queue of a GPU type; `queued_jobs` are those ahead."""

    runner: Annotated[str, Field(description="The pool, with when the job may start.")]
    gpu: str
    queued_jobs: int
    running_jobs: int
    available_runners: int
    status: Literal["available", "no_agent", "paused"]
    error: str | None


class Details(TypedDict):
    """A submission's number, twice."""

    id: Number
    job_status_id: Number


class QuotaLeft(TypedDict, total=False):
    """What is left of the tightest quota; nothing where there is none."""

    mode: PublicMode
    used: int
    remaining: int
    max: int
    window_s: Seconds
    reset_at: AtText
    concurrent: int | None
    concurrent_max: int | None


class Nothing(TypedDict):
    """Nobody says it at the moment."""


class Accepted(TypedDict):
    """A submission that is in the log."""

    details: Details
    runner_queue: RunnerQueue | None
    status: Literal["accepted"]
    queue: QueueOf | Nothing
    quota: QuotaLeft


class RunPolled(TypedDict):
    """A stage of a submission; a secret one has no result."""

    start_time: AtText | None
    end_time: AtText | None
    mode: PublicMode
    secret: bool
    runner: Annotated[str, Field(description="The GPU type.")]
    score: Score
    passed: bool
    result: NotRequired[Protocol]


class JobPolled(TypedDict):
    """How far a submission is; a status that is not the last may say more behind a colon."""

    status: Annotated[
        str, Field(pattern="^((pending|running)(: .*)?|succeeded|failed|timed_out|hacked)$")
    ]
    error: Annotated[str | None, Field(max_length=1500)]
    last_heartbeat: AtText | None
    state: str
    stage: str | None
    deadline: AtText | None


class Polled(TypedDict):
    """A submission as the client polls it, all of one moment."""

    id: Number
    leaderboard_id: LeaderboardId
    leaderboard_name: str
    file_name: str
    user_id: UserId
    submission_time: AtText
    done: bool
    code: Annotated[str, Field(description="The source.")]
    runs: list[RunPolled]
    job: JobPolled
    runner_queue: RunnerQueue | None
    ranking: Ranked | None
    queue: Waiting | None
    problem_version: int


class GpuScore(TypedDict):
    """The score of an eligible run."""

    gpu_type: str
    score: Score


class OwnListed(TypedDict):
    """One's own submission in a list."""

    id: Number
    leaderboard_name: str
    file_name: str
    submission_time: AtText
    done: bool
    runs: list[GpuScore]


class Deleted(TypedDict):
    """A submission that is off its leaderboard."""

    status: Ok
    submission_id: Number


class Member(TypedDict):
    """Of which leaderboards one is a member now."""

    status: Ok
    leaderboards: list[str]


class Place(TypedDict):
    """A row of a ranking."""

    submission_id: Number
    rank: int
    submission_name: str
    submission_time: AtText
    submission_score: Score
    leaderboard_name: str
    user_id: UserId
    user_name: str
    gpu_type: str


class Count(TypedDict):
    """How many there are."""

    count: int


class Profiling(TypedDict):
    """A profile that goes on."""

    job_id: str


class Artifact(TypedDict):
    """A zip that a profile left."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+\.zip$")]
    url: str


class ProfileJob(TypedDict):
    """How far a profile is, and what it left."""

    status: Literal["queued", "running", "succeeded", "failed", "timed_out"]
    queue_position: int | None
    error: str | None
    artifacts: list[Artifact]


class StreamStatus(TypedDict):
    """How far a streamed submission is."""

    status: Literal["processing"]
    elapsed_time: Seconds
    message: str


class StreamResult(TypedDict):
    """What came of a streamed submission."""

    status: Literal["success"]
    submission_id: Number
    results: list[FullResult]
    reports: list[str]


class StreamError(TypedDict):
    """Why a streamed submission is no success."""

    status: Literal["error"]
    detail: str
    status_code: int
    code: str


Streamed = StreamStatus | StreamResult | StreamError
