"""Leaderboards: entries, records, histories, comparisons."""

from typing import Annotated, Literal

from msgspec import Meta

from harness.vocabulary import SubmissionMode
from shared.api.cases import (
    Baseline,
    Case,
    Interval,
    Milestone,
    Speedup,
    Speedups,
    Verdict,
    YardstickComparison,
)
from shared.api.fields import (
    ApiModel,
    BestRank,
    Microseconds,
    OwnRunMicroseconds,
    PooledSubmissions,
    SequenceNumber,
    SubmissionNumber,
    Timestamp,
    Visibility,
)
from shared.api.queues import Parked
from shared.api.rating import RatedParticipant
from shared.api.submissions import Code, Outcome


class Leader(ApiModel, frozen=True, kw_only=True):
    """One of the fastest entries of a leaderboard."""

    rank: int
    number: SubmissionNumber
    participant_id: str
    participant: str | None
    score_us: Microseconds


class ScoreAt(ApiModel, frozen=True, kw_only=True):
    """A score and when it was set."""

    at: Timestamp
    score_us: Microseconds


class LeaderboardLine(ApiModel, frozen=True, kw_only=True):
    """A leaderboard that has an entry."""

    problem: str
    problem_version: int
    gpu: str
    entries_count: int
    best_us: Microseconds
    own_us: Annotated[Microseconds | None, Meta(description="The reader's best score.")]
    leaders: Annotated[
        list[Leader], Meta(description="The fastest entries, as many as `top` asks for.")
    ]
    records: Annotated[
        list[ScoreAt],
        Meta(description="The newest valid records, oldest first, as many as `records` asks for."),
    ]


class Leaderboards(ApiModel, frozen=True, kw_only=True):
    """The leaderboards with an entry that the reader can see."""

    items: list[LeaderboardLine]
    agents_online: Annotated[
        dict[str, int], Meta(description="By GPU type, without those that have none.")
    ]
    as_of: SequenceNumber


class Entry(YardstickComparison, frozen=True, kw_only=True):
    """A row of a leaderboard: a participant's best source, all its runs pooled."""

    rank: int
    best_rank: BestRank = None
    is_tied: bool
    submission: str
    number: SubmissionNumber
    participant_id: str
    participant: str | None
    score_us: Microseconds
    run_us: OwnRunMicroseconds
    pooled_over: PooledSubmissions
    interval_us: Interval | None
    error: float | None
    freedom: int
    delta: Annotated[float, Meta(description="Scores closer than this fraction share a rank.")]
    grade: str
    is_provisional: bool
    received_at: Timestamp
    tier: str | None
    level: str | None
    language: Annotated[str | None, Meta(description="By the suffix of its file.")]
    toolchains: Annotated[
        list[str], Meta(description="What an agent needs to build and run it, such as `triton`.")
    ]
    roofline_fraction: Annotated[
        float | None, Meta(description="Its share of the roofline by the GPU type's data sheet.")
    ]
    vs_baseline: Speedups
    has_several_files: bool = False
    source_visible: bool
    duel: Annotated[str, Meta(description="Why it is ahead of the next entry, if by a duel.")]
    confirmation: Annotated[
        str, Meta(description="Whether its run was confirmed on another agent, if it was repeated.")
    ]
    metrics: Annotated[
        dict[str, float], Meta(description="What its run measured besides, if the problem asks.")
    ] = {}


class OtherVersion(ApiModel, frozen=True, kw_only=True):
    """Another version of the problem whose leaderboard on this GPU type has entries."""

    problem_version: int
    entries_count: int


class GpuLeaderboard(ApiModel, frozen=True, kw_only=True):
    """A GPU type of a problem, with its entries under the version that is shown."""

    gpu: str
    is_open: Annotated[bool, Meta(description="Whether it accepts submissions.")]
    is_tested: Annotated[
        bool, Meta(description="Whether the problem's check ran on it before publication.")
    ]
    entries_count: int
    agents_online: int


class Record(ApiModel, frozen=True, kw_only=True):
    """A score that was the best when it was set; `is_standing` unless it was invalidated since."""

    seq: SequenceNumber
    problem: str
    gpu: str
    problem_version: int
    submission: str
    number: SubmissionNumber
    participant_id: str
    participant: str | None
    score_us: Microseconds
    previous_us: Microseconds | None
    at: Timestamp
    is_standing: bool


class ProgressPoint(ScoreAt, frozen=True, kw_only=True):
    """A submission that was the best of its participant so far."""

    number: SubmissionNumber


class EntryProgress(ApiModel, frozen=True, kw_only=True):
    """How a participant became faster on a leaderboard, oldest first."""

    participant_id: str
    points: list[ProgressPoint]


class Leaderboard(ApiModel, frozen=True, kw_only=True):
    """One leaderboard, best first, as of an event of the log."""

    problem: str
    title: str
    problem_version: int
    gpu: str
    items: list[Entry]
    baselines: Annotated[
        list[Baseline], Meta(description="Unranked; those with a score come first, best first.")
    ]
    milestones: list[Milestone]
    other_versions: list[OtherVersion]
    gpu_leaderboards: Annotated[
        list[GpuLeaderboard], Meta(description="The GPU types of the problem, each a leaderboard.")
    ]
    records: Annotated[
        list[Record], Meta(description="The newest records, as many as `records` asks for.")
    ] = []
    progress: Annotated[
        list[EntryProgress],
        Meta(
            description="How the first entries became faster, for as many as `progress` asks for."
        ),
    ] = []
    languages: Annotated[list[str], Meta(description="Those that the problem accepts.")]
    best_us: Annotated[
        Microseconds | None, Meta(description="The score of the first entry, on every page.")
    ]
    deadline_at: Timestamp | None
    has_practice: Annotated[
        bool, Meta(description="Whether it takes submissions for practice after its deadline.")
    ] = False
    next_cursor: str | None
    as_of: SequenceNumber
    as_of_at: Timestamp | None
    frozen: bool
    parked: Parked | None

    @property
    def is_untested(self) -> bool:
        """Whether the problem's check ran nothing on its GPU type."""
        return any(it.gpu == self.gpu and not it.is_tested for it in self.gpu_leaderboards)


class PracticeEntry(ApiModel, frozen=True, kw_only=True):
    """A participant's best source among those received after the deadline, all its runs pooled."""

    rank: int
    is_tied: bool
    number: SubmissionNumber
    participant_id: str
    participant: str | None
    score_us: Microseconds
    received_at: Timestamp


class PracticeLeaderboard(ApiModel, frozen=True, kw_only=True):
    """The practice leaderboard of a problem that is in no contest, best first."""

    problem: str
    title: str
    gpu: str
    problem_version: int
    items: list[PracticeEntry]
    entries_count: int
    deadline_at: Timestamp | None
    is_open: Annotated[bool, Meta(description="Whether it takes submissions for practice now.")]
    as_of: SequenceNumber


class Records(ApiModel, frozen=True, kw_only=True):
    """Records, newest first."""

    items: list[Record]
    as_of: SequenceNumber


class EntryCases(ApiModel, frozen=True, kw_only=True):
    """An entry of a leaderboard with the times of its public cases."""

    rank: int
    best_rank: BestRank = None
    is_tied: bool
    number: SubmissionNumber
    participant_id: str
    participant: str | None
    score_us: Microseconds
    cases: list[Case]


class LeaderboardCases(ApiModel, frozen=True, kw_only=True):
    """The cases of the fastest entries of a leaderboard, best first."""

    problem: str
    title: str
    gpu: str
    problem_version: int
    items: list[EntryCases]
    as_of: SequenceNumber


class CasePlace(ApiModel, frozen=True, kw_only=True):
    """An entry of a leaderboard in the order of one case.

    With `is_tied`, its interval overlaps that of the fastest, so the two cannot be told apart.
    """

    place: int
    is_tied: bool
    rank: Annotated[int, Meta(description="Its rank on the leaderboard, by its whole score.")]
    number: SubmissionNumber
    participant_id: str
    participant: str | None
    time_us: Microseconds
    interval_us: Interval | None = None
    speedup: Speedup = None


class CaseLeaderboard(ApiModel, frozen=True, kw_only=True):
    """The fastest entries at one public case."""

    case: str
    weight: Annotated[float, Meta(description="The weight of the case in the score.")]
    entries_count: Annotated[int, Meta(description="How many entries have a time of it.")]
    items: list[CasePlace]


class CaseLeaderboards(ApiModel, frozen=True, kw_only=True):
    """Who is fastest at each public case of a leaderboard, in the order of the cases."""

    problem: str
    title: str
    gpu: str
    problem_version: int
    items: list[CaseLeaderboard]
    as_of: SequenceNumber


class LeaderboardChange(ApiModel, frozen=True, kw_only=True):
    """A message of a leaderboard's stream: it may have changed, up to this event."""

    as_of: SequenceNumber


class ParticipantEntry(ApiModel, frozen=True, kw_only=True):
    """The place of a participant on a leaderboard, under the newest version that ranks them."""

    problem: str
    title: str
    problem_version: int
    gpu: str
    rank: int
    best_rank: BestRank = None
    is_tied: bool
    entries_count: int
    number: SubmissionNumber
    score_us: Microseconds
    best_us: Microseconds
    received_at: Timestamp


class SetEntry(ApiModel, frozen=True, kw_only=True):
    """A participant's results over a set of problems."""

    participant_id: str
    participant: str | None
    correct: Annotated[int, Meta(description="On how many of the problems they are ranked.")]
    fast: Annotated[
        dict[str, dict[str, float]],
        Meta(
            description="fast_p by baseline and p: the share of all problems of the set on which"
            " they are ranked and more than p times as fast as the baseline; for p = 0 the share on"
            " which they are ranked."
        ),
    ]


class SetScores(ApiModel, frozen=True, kw_only=True):
    """fast_p of every participant over the newest versions of a set's problems, best first."""

    prefix: Annotated[str, Meta(description="How the slugs of the set begin.")]
    gpu: str
    problems_count: int
    baselines: list[str]
    items: list[SetEntry]
    as_of: SequenceNumber


class ParticipantRecord(ApiModel, frozen=True, kw_only=True):
    """A record that a participant set; `is_standing` unless it was invalidated since."""

    problem: str
    problem_version: int
    gpu: str
    number: SubmissionNumber
    score_us: Microseconds
    previous_us: Microseconds | None
    at: Timestamp
    is_standing: bool


class PublicParticipant(ApiModel, frozen=True, kw_only=True):
    """A participant with their places and records on the leaderboards that the reader can see."""

    participant_id: str
    participant: str
    entries: list[ParticipantEntry]
    records: Annotated[list[ParticipantRecord], Meta(description="Newest first.")]
    rating: Annotated[
        RatedParticipant | None, Meta(description="Null without an entry that counts.")
    ]
    as_of: SequenceNumber


class PersonalRecord(ApiModel, frozen=True, kw_only=True):
    """A ranked submission of a participant with its result; its name is shown to the owner."""

    number: SubmissionNumber
    id: str
    participant_id: str
    problem: str
    name: str
    received_at: Timestamp
    finished_at: Timestamp | None
    outcome: Outcome | None
    verdict: Verdict | None
    code: Code | None
    reason: str | None
    problem_version: int | None
    is_eligible: bool
    score_us: Microseconds | None
    run_us: OwnRunMicroseconds
    pooled_over: PooledSubmissions
    error: float | None
    freedom: int | None
    interval_us: Interval | None
    grade: str
    is_provisional: bool
    counts: bool
    was_best: bool


class RecordHistory(ApiModel, frozen=True, kw_only=True):
    """The best score over time: the records of a leaderboard."""

    participant: None = None
    problem: str
    gpu: str
    problem_version: int
    items: list[Record]
    as_of: SequenceNumber


class History(ApiModel, frozen=True, kw_only=True):
    """A participant's scores over time: their ranked submissions on a leaderboard."""

    participant: str
    problem: str
    gpu: str
    problem_version: int
    items: list[PersonalRecord]
    as_of: SequenceNumber


class ComparedSubmission(ApiModel, frozen=True, kw_only=True):
    """One of two compared submissions."""

    number: SubmissionNumber
    problem: str
    problem_version: int
    gpu: str
    mode: SubmissionMode
    verdict: Verdict | None
    score_us: Microseconds | None


class ComparedCase(ApiModel, frozen=True, kw_only=True):
    """A case in both submissions; a ratio (b over a) below one means that b is faster."""

    name: str
    stage: str
    a_us: Microseconds | None
    b_us: Microseconds | None
    ratio: float | None
    ci95: Interval | None
    outcome: Annotated[
        str,
        Meta(description="`faster`, `slower`, `same` or `unknown` of b, or the changed verdict."),
    ]
    a_verdict: Verdict | None
    b_verdict: Verdict | None


FileChange = Literal["same", "changed", "added", "removed"]


class ComparedFile(ApiModel, frozen=True, kw_only=True):
    """How a file of b differs from that of a; the entry files are compared whatever their names."""

    name: str
    change: FileChange
    diff: Annotated[str, Meta(description="A unified diff; empty if the files are equal.")]


class Comparison(ApiModel, frozen=True, kw_only=True):
    """How b differs from a."""

    a: ComparedSubmission
    b: ComparedSubmission
    diff: Annotated[
        str | None,
        Meta(
            description="A unified diff of all files; null unless the reader may see both sources."
        ),
    ]
    score: ComparedCase
    cases: list[ComparedCase]
    files: Annotated[
        list[ComparedFile],
        Meta(description="File by file, the entry files first; empty where `diff` is null."),
    ] = []


class InviteCodes(ApiModel, frozen=True, kw_only=True):
    """New invites, and their leaderboards."""

    leaderboards: list[str]
    codes: list[str]


class Invite(ApiModel, frozen=True, kw_only=True):
    """An invite, and who used it."""

    code: str
    participant_id: str | None
    participant: str | None
    claimed_at: Timestamp | None
    created_at: Timestamp
    expires_at: Timestamp | None


class Invites(ApiModel, frozen=True, kw_only=True):
    """The invites to a leaderboard that are not revoked."""

    items: list[Invite]


class RevokedInvite(ApiModel, frozen=True, kw_only=True):
    """A revoked invite."""

    code: str
    was_claimed: bool


class LeaderboardMembership(ApiModel, frozen=True, kw_only=True):
    """The leaderboards that the participant joined."""

    status: Literal["ok"]
    leaderboards: list[str]


class LeaderboardSettings(ApiModel, frozen=True, kw_only=True):
    """The settings of a leaderboard; `ranking_by` to `consent` come from its newest version."""

    slug: str
    title: str
    problem_version: Annotated[int, Meta(description="The newest version.")]
    visibility: Visibility
    deadline_at: Timestamp | None
    has_practice: Annotated[
        bool, Meta(description="Whether it takes submissions for practice after its deadline.")
    ] = False
    is_archived: bool
    gpus: Annotated[list[str], Meta(description="The GPU types that accept submissions.")]
    gpus_closed: Annotated[
        list[str], Meta(description="GPU types that were open; their entries stay.")
    ]
    quotas: Annotated[list[str], Meta(description="Quotas for everybody, such as ranked=10/day.")]
    ranking_by: str
    source_visible: Annotated[str, Meta(description="owner, after_close or always.")]
    publish: Annotated[str, Meta(description="never, after_close or always.")]
    licence: Annotated[dict[str, str], Meta(description="SPDX names for problem and submissions.")]
    consent: Annotated[
        str, Meta(description="The file to accept before submitting; empty if none.")
    ]
    contest: Annotated[str, Meta(description="The contest that it belongs to, if any.")] = ""
