"""Responses of the client's routes, in its terms; the OpenAPI document shows them."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from shared.api.fields import Visibility
from shared.http import SCHEMA_KEY, Seconds, SubmissionNumber, TimestampText

# Keys such as `benchmark.0.mean`: counts are integers, times nanoseconds.
Protocol = Annotated[
    dict[str, int | float | str], Field(description="The public protocol's keys; nanoseconds.")
]
Score = Annotated[float | None, Field(description="Seconds.", gt=0)]
PublicMode = Literal["test", "benchmark", "profile", "leaderboard"]
Category = Literal["test", "leaderboard"]
LeaderboardId = Annotated[int, Field(description="Derived from the leaderboard's name.", ge=0)]
UserId = Annotated[str, Field(description="An account.")]
QueueOf = Annotated[dict[str, Any], WithJsonSchema({SCHEMA_KEY: "QueueOfGpu"})]
Waiting = Annotated[dict[str, Any], WithJsonSchema({SCHEMA_KEY: "Queue"})]
Ranked = Annotated[dict[str, Any], WithJsonSchema({SCHEMA_KEY: "Ranking"})]


class System(TypedDict):
    """The machine that a submission ran on."""

    gpu: str
    device_count: int
    cpu: str
    runtime: Literal["CPU", "CUDA", "ROCm"]
    platform: str
    torch: str
    hostname: str


class CommandResult(TypedDict):
    """How a command ended."""

    success: bool
    command: str
    stdout: str
    stderr: str
    exit_code: int


class Compilation(CommandResult):
    """A failed build."""

    nvcc_found: bool
    nvcc_version: str


class StageRunResult(CommandResult):
    """The output and keys of a stage."""

    passed: bool
    duration: Seconds
    result: Protocol


class Profile(TypedDict):
    """The profile of a case: a zip in base64, or its URL if it is too large."""

    profiler: str
    trace: str
    download_url: str | None


class EvalResult(TypedDict):
    """One stage."""

    start: TimestampText | None
    end: TimestampText | None
    compilation: Compilation | None
    run: StageRunResult
    profile: Profile | None


class ProfileMetadata(TypedDict):
    """What was profiled and how; `config_sha256` is the fingerprint of the other fields."""

    problem: str
    problem_version: int
    source_sha256: str
    harness_sha256: str
    benchmarks: list[str]
    capture_options: dict[str, str | int]
    config_sha256: str


class FullResult(TypedDict):
    """All public stages, by their public names; the metadata is that of a profile."""

    success: bool
    error: str
    system: System
    runs: dict[str, EvalResult]
    profile_metadata: NotRequired[ProfileMetadata]


class Task(TypedDict):
    """The language of a leaderboard's submissions."""

    lang: Literal["py", "cu"]


class LeaderboardItem(TypedDict):
    """A leaderboard as the client's picker shows it."""

    id: LeaderboardId
    name: str
    title: str
    description: Annotated[str, Field(max_length=400)]
    task: Task
    deadline: TimestampText | None
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

    id: SubmissionNumber
    job_status_id: SubmissionNumber


class QuotaLeft(TypedDict, total=False):
    """What is left of the tightest quota; empty without one."""

    mode: PublicMode
    used: int
    remaining: int
    max: int
    window_s: Seconds
    reset_at: TimestampText
    concurrent: int | None
    concurrent_max: int | None


class EmptyObject(TypedDict):
    """No data is available at the moment."""


class AcceptedSubmission(TypedDict):
    """A submission that is in the log."""

    details: Details
    runner_queue: RunnerQueue | None
    status: Literal["accepted"]
    queue: QueueOf | EmptyObject
    quota: QuotaLeft
    warning: str | None
    licence_notice: str | None


class StageRun(TypedDict):
    """A stage of a submission; a secret one has no result."""

    start_time: TimestampText | None
    end_time: TimestampText | None
    mode: PublicMode
    secret: bool
    runner: Annotated[str, Field(description="The GPU type.")]
    score: Score
    passed: bool
    result: NotRequired[Protocol]


class JobState(TypedDict):
    """The status of a submission; one that is not final may have details behind a colon."""

    status: Annotated[
        str, Field(pattern="^((pending|running)(: .*)?|succeeded|failed|timed_out|hacked)$")
    ]
    error: Annotated[str | None, Field(max_length=1500)]
    last_heartbeat: TimestampText | None
    state: str
    stage: str | None
    deadline: TimestampText | None


class ListedSubmission(TypedDict):
    """What every response about a submission has."""

    id: SubmissionNumber
    leaderboard_name: str
    file_name: str
    submission_time: TimestampText
    done: bool


class PolledSubmission(ListedSubmission):
    """A submission as the client polls it, all of one moment."""

    leaderboard_id: LeaderboardId
    user_id: UserId
    code: Annotated[str, Field(description="The source.")]
    runs: list[StageRun]
    job: JobState
    runner_queue: RunnerQueue | None
    ranking: Ranked | None
    queue: Waiting | None
    problem_version: int


class GpuScore(TypedDict):
    """The score of an eligible run."""

    gpu_type: str
    score: Score


class OwnSubmission(ListedSubmission):
    """One's own submission in a list."""

    runs: list[GpuScore]


class RankingRow(TypedDict):
    """A row of a ranking."""

    submission_id: SubmissionNumber
    rank: int
    submission_name: str
    submission_time: TimestampText
    submission_score: Score
    leaderboard_name: str
    user_id: UserId
    user_name: str
    gpu_type: str


class Count(TypedDict):
    """A number of entries."""

    count: int


class StartedProfile(TypedDict):
    """A profile that was started."""

    job_id: str


class Artifact(TypedDict):
    """A zip of a profile."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+\.zip$")]
    url: str


class ProfileJob(TypedDict):
    """The status of a profile, and its artefacts."""

    status: Literal["queued", "running", "succeeded", "failed", "timed_out"]
    queue_position: int | None
    error: str | None
    artifacts: list[Artifact]


class StreamStatus(TypedDict):
    """The status of a streamed submission."""

    status: Literal["processing"]
    elapsed_time: Seconds
    message: str


class StreamResult(TypedDict):
    """The result of a streamed submission."""

    status: Literal["success"]
    submission_id: SubmissionNumber
    results: list[FullResult]
    reports: list[str]


class StreamError(TypedDict):
    """Why a streamed submission failed."""

    status: Literal["error"]
    detail: str
    status_code: int
    code: str


StreamPayload = StreamStatus | StreamResult | StreamError


class Liveness(TypedDict):
    """The process is alive, or can take traffic."""

    status: Literal["ok"]


class DeletedSubmission(Liveness):
    """A submission that is off its leaderboard."""

    submission_id: SubmissionNumber


class Member(Liveness):
    """The leaderboards that one has joined."""

    leaderboards: list[str]


class IntakeSwitch(Liveness):
    """Whether submissions are accepted now."""

    accepts_jobs: bool


class AdminStats(Liveness):
    """Statistics; times in seconds, names behind a dot are GPU types and accounts."""

    stats: dict[str, float]


class AdminSubmission(Liveness):
    """Any submission."""

    submission: PolledSubmission


class DeletedSubmissions(Liveness):
    """How many submissions of a participant were taken off a leaderboard."""

    leaderboard_id: LeaderboardId
    user_name: str
    deleted_submissions: int


class BanStatus(Liveness):
    """Whether a participant is banned now."""

    user_id: UserId
    banned: bool


class LeaderboardResult(Liveness):
    """The leaderboard that a request was about."""

    leaderboard: str


class SubmissionNumbers(LeaderboardResult):
    """The numbers of a leaderboard's submissions, newest first."""

    limit: int
    offset: int
    submission_ids: list[SubmissionNumber]


class RateLimitItem(TypedDict):
    """How many submissions per hour each participant may send."""

    mode_category: Category
    max_submissions_per_hour: int


class RateLimitSet(LeaderboardResult, RateLimitItem):
    """A rate limit that was set."""


class RateLimitRemoved(LeaderboardResult):
    """A rate limit that was lifted."""

    mode_category: str


class RateLimitList(LeaderboardResult):
    """The rate limits of a leaderboard."""

    rate_limits: list[RateLimitItem]


class SkippedProblem(TypedDict):
    """A problem that was left unchanged."""

    name: str
    reason: str


class ProblemError(TypedDict):
    """A problem or a file that could not be published."""

    name: str
    error: str


class RepositoryUpdateResult(Liveness):
    """The result for every problem of a repository."""

    created: list[str]
    updated: list[str]
    skipped: list[SkippedProblem]
    errors: list[ProblemError]


class ArchivedLeaderboard(LeaderboardResult):
    """An archived leaderboard."""

    force: bool


class LeaderboardVisibility(LeaderboardResult):
    """Who sees a leaderboard now."""

    visibility: Visibility


class CreatedInvites(Liveness):
    """New invites."""

    leaderboards: list[str]
    codes: list[str]


class InviteItem(TypedDict):
    """An invite, and who claimed it."""

    code: str
    user_id: str | None
    user_name: str | None
    claimed_at: TimestampText | None
    created_at: TimestampText


class InviteList(LeaderboardResult):
    """The invites to a leaderboard."""

    invites: list[InviteItem]


class RevokedInviteCode(Liveness):
    """A revoked invite."""

    code: str
    was_claimed: bool
