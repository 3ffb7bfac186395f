"""Facts about leaderboards and rejudges."""

from typing import ClassVar, TypeAlias

from shared.events.submissions import SubmissionFinished
from shared.events.values import Blob, DuelResult, DuelSide, Fact, RejudgeItem


class LeaderboardEvent(Fact, frozen=True, kw_only=True):
    """An event of a leaderboard."""

    aggregate: ClassVar[str] = "ranking"
    publisher: ClassVar[str] = "ranker"


class RecordSet(LeaderboardEvent, frozen=True, kw_only=True):
    """A submission is the fastest on its leaderboard."""

    problem_number: int
    submission: str
    run: str
    account: str
    score_us: float
    previous_us: float | None = None


class PodiumChanged(LeaderboardEvent, frozen=True, kw_only=True):
    """The accounts in the first three places changed, or their order did.

    `is_by_run` if a run caused it, rather than a decision about another submission.
    """

    problem_number: int
    before: list[str]
    after: list[str]
    is_by_run: bool = True


class MilestoneReached(LeaderboardEvent, frozen=True, kw_only=True):
    """A participant reached a milestone on a leaderboard, for ever; `value` is the value met.

    It stays reached in all versions, whatever later happens to the submission.
    """

    problem_number: int
    milestone: str
    title: str
    account: str
    submission: str
    value: float


class DuelRequested(Fact, frozen=True, kw_only=True):
    """Two submissions of one leaderboard are to be timed in alternation.

    An operator requests it, or ranker for tied neighbours among the first three.
    """

    aggregate: ClassVar[str] = "duel"
    publisher: ClassVar[str] = "ingest, ranker"
    is_operator_act: ClassVar[bool] = True
    problem: str
    problem_number: int
    problem_digest: str
    gpu: str
    first: DuelSide
    second: DuelSide
    reason: str = ""


class DuelJudged(Fact, frozen=True, kw_only=True):
    """A duel ended. `result` names the winner, A being the first; None without a signed verdict.

    It orders the two within their shared rank, and changes no score.
    """

    aggregate: ClassVar[str] = "duel"
    publisher: ClassVar[str] = "ranker"
    is_terminal: ClassVar[bool] = True
    problem: str
    problem_number: int
    gpu: str
    run: str | None = None
    result: DuelResult | None = None
    code: str = ""
    reason: str = ""


class ConfirmationRequested(Fact, frozen=True, kw_only=True):
    """A ranked run of an entry among the first three is to be repeated on another agent.

    `run` is the run to confirm, `agent` the agent that ran it, and `score_us` its score.
    """

    aggregate: ClassVar[str] = "confirmation"
    publisher: ClassVar[str] = "ranker"
    problem: str
    problem_number: int
    problem_digest: str
    gpu: str
    item: RejudgeItem
    run: str
    agent: str
    score_us: float


class ConfirmationJudged(Fact, frozen=True, kw_only=True):
    """A confirmation ended. It changes no score and no rank.

    `code` is `confirmed`, `slower` or the verdict of a repetition that did not pass; without a
    `result` that counts it says why there is none. `ratio` is the score of the repetition divided
    by the score of the run.
    """

    aggregate: ClassVar[str] = "confirmation"
    publisher: ClassVar[str] = "ranker"
    is_terminal: ClassVar[bool] = True
    problem: str
    problem_number: int
    gpu: str
    agent: str = ""
    code: str
    reason: str = ""
    ratio: float | None = None
    result: SubmissionFinished | None = None


class RejudgeEvent(Fact, frozen=True, kw_only=True):
    """An event of a rejudge."""

    aggregate: ClassVar[str] = "rejudge"
    publisher: ClassVar[str] = "ingest"


class RejudgeRequested(RejudgeEvent, frozen=True, kw_only=True):
    """These submissions are to run again with another version of their problem."""

    is_operator_act: ClassVar[bool] = True
    problem: str
    from_number: int
    to_number: int
    to_digest: str
    select: str
    reason: str
    items: list[RejudgeItem]


class RejudgeJudged(RejudgeEvent, frozen=True, kw_only=True):
    """One submission of a rejudge has a result, which does not count yet."""

    publisher: ClassVar[str] = "ranker"
    submission: str
    result: SubmissionFinished


class RejudgePreviewed(RejudgeEvent, frozen=True, kw_only=True):
    """All results of a rejudge are known; `diff` lists what they would change."""

    publisher: ClassVar[str] = "ranker"
    diff: Blob
    changed_count: int


class RejudgeApplied(RejudgeEvent, frozen=True, kw_only=True):
    """The results of a rejudge count."""

    is_operator_act: ClassVar[bool] = True
    is_terminal: ClassVar[bool] = True
    reason: str


class RejudgeDiscarded(RejudgeEvent, frozen=True, kw_only=True):
    """The results of a rejudge do not count."""

    is_operator_act: ClassVar[bool] = True
    is_terminal: ClassVar[bool] = True
    reason: str


LeaderboardFact: TypeAlias = RecordSet | PodiumChanged | MilestoneReached
ComparisonFact: TypeAlias = DuelRequested | DuelJudged | ConfirmationRequested | ConfirmationJudged
RejudgeFact: TypeAlias = (
    RejudgeRequested | RejudgeJudged | RejudgePreviewed | RejudgeApplied | RejudgeDiscarded
)
