"""What the loop needs of the world: read models, metrics, and what is said and not kept."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from ranker.domain.attestation import Origin
from ranker.domain.batch import Told
from ranker.domain.conclusion import Verdict
from ranker.domain.roofs import floors
from shared.event_log import Recorded
from shared.events import CaseResult, Roof, SubmissionFinished


class Unfoldable(Exception):  # noqa: N818
    """An event cannot be decoded or folded: a person has to look (`seq` is the event's)."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"event {seq} cannot be folded: {reason}")
        self.seq = seq
        self.reason = reason


class Board(NamedTuple):
    """A leaderboard: one problem version on one GPU type."""

    problem: str
    gpu: str
    problem_number: int


class Change(NamedTuple):
    """What a batch moved: leaderboards, and whether an end or a draft may be due since.

    On the leaderboards that it `met` some may have reached a milestone, though no place changed.
    """

    boards: frozenset[Board]
    is_end_due: bool
    is_draft_due: bool
    met: frozenset[Board] = frozenset()

    def and_then(self, later: "Change") -> "Change":
        """What this batch and the next one moved."""
        is_end_due = self.is_end_due or later.is_end_due
        is_draft_due = self.is_draft_due or later.is_draft_due
        met = self.met | later.met
        return Change(self.boards | later.boards, is_end_due, is_draft_due, met)


class Waiting(NamedTuple):
    """A run that waits for its decision: of a submission, or of its place in a rejudge.

    `version` is the last sequence of the history that the decision goes to; `ended_seq` is its
    verdict's event. The `verdict` says nothing yet of whether it counts, given its `origin`.
    """

    submission: str
    version: int
    verdict: Verdict
    origin: Origin
    ended_seq: int
    rejudge: str = ""
    given_up: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], submission: str) -> "Waiting":
        """What a row of sql/project.sql's `undecided` says."""
        verdict = Verdict(
            mode=row["mode"],
            job=row["job"],
            run=row["run"],
            verdict=row["verdict"],
            stage=row["stage"],
            reason=row["reason"],
            cases=msgspec.convert(row["cases"], list[CaseResult]),
            ranking_by=row["ranking_by"],
            level=row["level"] or "",
            tier=row["tier"] or "",
            sigma_run=row["sigma_run"],
            tie_us=row["tie_us"],
            floors_us=floors(msgspec.convert(row["roofs"], list[Roof]), row["gpu"]),
            baseline=row["baseline"],
        )
        return cls(
            submission=submission,
            version=row["version"],
            verdict=verdict,
            origin=Origin(
                agent=row["agent"],
                run=row["run"],
                token=row["token"],
                sign_key=row["sign_key"],
                key_commit=row["key_commit"],
                harness_code=row["harness_code"] or "",
            ),
            ended_seq=row["ended_seq"],
        )


class Due(NamedTuple):
    """A rejudge whose drafts are all there."""

    id: str
    version: int
    problem: str
    from_number: int
    to_number: int


class Reads(Protocol):
    """The read models, asked by the names of sql/read.sql."""

    async def rows(self, statement: str, **values: object) -> list[dict[str, Any]]:
        """The rows of one statement. Errors: Failed."""
        ...


class Models(Protocol):
    """Where the read models are kept."""

    async def checkpoint(self) -> int:
        """The last sequence that is folded in."""
        ...

    def prepare(self, batch: Sequence[Told]) -> None:
        """Fold the batch that is written next, while the one before it is still being written.

        Where that needs rows that are not at hand, nothing happens, and `write` folds it.
        """
        ...

    async def write(self, after: int, batch: Sequence[Told]) -> Change:
        """Fold a batch in, all or nothing, and move the checkpoint with it.

        Errors: Fenced; Unfoldable for the first event of a batch, which is then split by the
        caller.
        """
        ...

    async def park(self, seq: int, reason: str) -> None:
        """Keep the event at which the projection stopped."""
        ...

    async def skip(self, seq: int) -> None:
        """Go on without an event. Errors: Fenced."""
        ...


class Deciding(Models, Reads, Protocol):
    """Read models, and what is due in them."""

    async def undecided(self, limit: int) -> Sequence[Waiting]:
        """The submissions that wait for a decision, oldest first."""
        ...

    async def undecided_items(self, limit: int) -> Sequence[Waiting]:
        """The places in rejudges that wait for a decision."""
        ...

    async def unpreviewed(self) -> Sequence[Due]:
        """The rejudges that wait for their preview."""
        ...

    async def preview(self, due: Due) -> dict[str, Any]:
        """What a rejudge would change; nothing is changed."""
        ...


class Metrics(Protocol):
    """What operators watch."""

    def folded(self, batch: Sequence[Recorded], behind: int) -> None:
        """A batch is in Postgres, and so many events still wait."""
        ...

    def parked(self, events: int) -> None:
        """The projection stands before so many events that it cannot fold: one or none."""
        ...

    def decided(self, end: SubmissionFinished) -> None:
        """A submission was ended."""
        ...


class Alive(Protocol):
    """What is said and not kept."""

    @property
    def progress(self) -> Mapping[str, dict[str, Any]]:
        """The newest word on each running submission."""
        ...

    @property
    def queues(self) -> Mapping[str, dict[str, Any]]:
        """The newest forecast of each GPU type's queue."""
        ...

    def alive(self) -> dict[str, dict[str, Any]]:
        """The agents heard of lately, with what they offer."""
        ...
