"""What the loop needs: read models, metrics, and live state."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from ranker.domain.conclusion import RunOrigin, RunVerdict
from ranker.domain.goals import case_floors_us
from ranker.domain.rows import DecodedEvent, LeaderboardKey
from shared.event_log import RecordedEvent
from shared.events import CaseResult, Composition, Roof, SubmissionFinished

# The fields of a verdict that its row has as they are.
VERDICT_COLUMNS = (
    *("mode", "job", "run", "verdict", "stage", "reason"),
    *("ranking_by", "sigma_run", "tie_us", "baseline"),
)


class Unfoldable(Exception):  # noqa: N818
    """An event that cannot be decoded or folded; an operator must look at it."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"event {seq} cannot be folded: {reason}")
        self.seq = seq
        self.reason = reason


class BatchChange(NamedTuple):
    """What a batch changed: leaderboards, and whether a decision or a draft may be due.

    On the leaderboards in `met`, a milestone may be reached though no place changed.
    """

    boards: frozenset[LeaderboardKey]
    is_end_due: bool
    is_draft_due: bool
    met: frozenset[LeaderboardKey] = frozenset()

    def and_then(self, later: "BatchChange") -> "BatchChange":
        """The changes of this batch and the next."""
        is_end_due = self.is_end_due or later.is_end_due
        is_draft_due = self.is_draft_due or later.is_draft_due
        met = self.met | later.met
        return BatchChange(self.boards | later.boards, is_end_due, is_draft_due, met)


class PendingDecision(NamedTuple):
    """A run that waits for its decision, of a submission or of an item in a rejudge.

    `version` is the last sequence of the history that the decision is appended to; `ended_seq` is
    the event of the verdict. The `verdict` does not yet take its `origin` into account.
    """

    submission: str
    version: int
    verdict: RunVerdict
    origin: RunOrigin
    ended_seq: int
    rejudge: str = ""
    given_up: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any], submission: str) -> "PendingDecision":
        """Make it from a row of sql/project.sql's `undecided`."""
        verdict = RunVerdict(
            **{name: row[name] for name in VERDICT_COLUMNS},
            cases=msgspec.convert(row["cases"], list[CaseResult]),
            level=row["level"] or "",
            tier=row["tier"] or "",
            floors_us=case_floors_us(msgspec.convert(row["roofs"], list[Roof]), row["gpu"]),
            doubts=msgspec.convert(row["composition"] or {}, Composition).doubts,
        )
        origin = RunOrigin(**{name: row[name] for name in RunOrigin._fields})
        origin = origin._replace(harness_code=row["harness_code"] or "")
        return cls(submission, row["version"], verdict, origin, row["ended_seq"])


class DueRejudge(NamedTuple):
    """A rejudge with all drafts."""

    id: str
    version: int
    problem: str
    from_number: int
    to_number: int


class Reads(Protocol):
    """The read models, queried by the statement names of sql/read.sql."""

    async def rows(self, statement: str, **values: object) -> list[dict[str, Any]]:
        """The rows of one statement. Raises Failed."""


class ReadModelStore(Protocol):
    """The store of the read models."""

    async def checkpoint(self) -> int:
        """The sequence of the last folded event."""

    def prepare(self, batch: Sequence[DecodedEvent]) -> None:
        """Fold the batch that is written next while the one before it is still being written.

        Does nothing if rows are missing; then `write` folds it.
        """

    async def write(self, after: int, batch: Sequence[DecodedEvent]) -> BatchChange:
        """Fold a batch, all or nothing, and move the checkpoint with it.

        Raises Fenced, or Unfoldable for the first event of a batch, which the caller then splits.
        """

    async def park(self, seq: int, reason: str) -> None:
        """Record the event at which the projection stopped."""

    async def skip(self, seq: int) -> None:
        """Continue without an event. Raises Fenced."""


class DecisionStore(ReadModelStore, Reads, Protocol):
    """Read models, and what is due in them."""

    async def undecided(self, limit: int) -> Sequence[PendingDecision]:
        """The submissions that wait for a decision, oldest first."""

    async def undecided_items(self, limit: int) -> Sequence[PendingDecision]:
        """The items of rejudges that wait for a decision."""

    async def unpreviewed(self) -> Sequence[DueRejudge]:
        """The rejudges that wait for their preview."""

    async def preview(self, due: DueRejudge) -> dict[str, Any]:
        """What a rejudge would change, without changing it."""


class Metrics:
    """Metrics of the projection and of the archive; this base class counts nothing."""

    def folded(self, batch: Sequence[RecordedEvent], behind: int) -> None:
        """A batch is in Postgres; `behind` events are still waiting."""

    def parked(self, events: int) -> None:
        """The number of events that cannot be folded and stop the projection: 0 or 1."""

    def decided(self, end: SubmissionFinished) -> None:
        """A submission was ended."""

    def archived(self, seq: int, behind: int) -> None:
        """Everything up to `seq` is archived; `behind` events are still waiting."""

    def sealed(self) -> None:
        """The chain was sealed."""
