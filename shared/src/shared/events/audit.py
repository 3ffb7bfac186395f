"""Facts of the platform itself: what operators did, and what guards the log."""

from typing import ClassVar

from shared.events.fact import Fact


class IntakePaused(Fact, frozen=True, kw_only=True):
    """No submission is taken in, until intake is resumed."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ingest"

    reason: str


class IntakeResumed(Fact, frozen=True, kw_only=True):
    """Submissions are taken in again."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ingest"

    reason: str


class AuditSealed(Fact, frozen=True, kw_only=True):
    """The hash chain over events 1 to `seq` ends in `chain`, hex; signed."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ranker"

    seq: int
    chain: str
    count: int


class ProjectionSwitched(Fact, frozen=True, kw_only=True):
    """Readers of a projection see another schema, folded up to `seq`."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ranker"

    name: str
    from_schema: str
    to_schema: str
    seq: int
    is_equal: bool


class EventSkipped(Fact, frozen=True, kw_only=True):
    """A projection goes on without an event that it could not fold."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ingest"

    projection: str
    seq: int
    reason: str


class DeadLetterRedriven(Fact, frozen=True, kw_only=True):
    """An event that a consumer gave up was handed to it again."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ingest"

    consumer: str
    seq: int
    reason: str


class LogImported(Fact, frozen=True, kw_only=True):
    """A log begins as a copy of another, whose chain ended in `chain`."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ranker"

    chain: str
    count: int


class AccountTablesAdopted(Fact, frozen=True, kw_only=True):
    """The names of participants are those in the tables with this register; no name is in it."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ingest"

    register: str
    reason: str


class OperatorActed(Fact, frozen=True, kw_only=True):
    """An operator did what has no event of its own."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ingest"

    command: str
    target: str
    reason: str
