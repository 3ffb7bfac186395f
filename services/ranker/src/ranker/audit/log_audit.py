"""Reads a log for an audit: which events are folded, which every reader ignores, and how far."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from math import isclose
from typing import Any, Protocol

import msgspec

from ranker.domain.stored_log import ChainVerifier, PublishedSeal, StoredEvent, Verify
from shared.api.audits import AuditScope, Finding
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, EventSkipped, Fact, JobAssigned, RunDiscarded, RunStarted
from shared.subjects import history_of
from shared.wire import (
    UNREADABLE,
    UnknownEvent,
    forgery_reason,
    is_genuine,
    is_noise,
    is_written_by_agent,
)

# SQL and Python add numbers in a different order.
TOLERANCE = 1e-9
IGNORED_MAX = 100


class LogCopy(Protocol):
    """A source of events that also reports what is wrong with itself."""

    def events(self) -> AsyncIterator[StoredEvent]:
        """Every event, in order."""

    def findings(self) -> Sequence[Finding]:
        """What is wrong with the copy as a whole, after all events were read."""


class LogAudit:
    """Checks every event of a log, and folds those up to the moment of the audit.

    Each of `folds` gets every readable event. `seq` and `at` are those of the last folded event.
    """

    def __init__(
        self,
        scope: AuditScope,
        verify: Verify,
        folds: Sequence[Callable[[RecordedEvent], None]],
    ) -> None:
        self.verifier = ChainVerifier(scope.keys, verify)
        self.ignored = IgnoredEvents()
        self.seq = 0
        self.at: datetime | None = None
        self._scope = scope
        self._folds = folds
        self._unreadable: dict[int, str] = {}
        self._of_copy: Sequence[Finding] = ()

    async def read(self, copy: LogCopy, published: Sequence[PublishedSeal]) -> None:
        """Read a copy of the log, which must still have the published seals."""
        async for stored in copy.events():
            self._look(stored)
        self.verifier.finish()
        self.verifier.compare(published)
        self._of_copy = copy.findings()

    def findings(self) -> list[Finding]:
        """What is wrong with the log."""
        unreadable = [Finding(seq, reason) for seq, reason in self._unreadable.items()]
        return [*self.verifier.findings, *unreadable, *self._of_copy]

    def fields(
        self, findings: Iterable[Finding], live_seq: int | None, differences: Sequence[str]
    ) -> dict[str, Any]:
        """The fields of a report that tell of the log."""
        findings = sorted(findings, key=lambda finding: finding.seq)
        return {
            "is_clean": not (findings or differences),
            "as_of": self._scope.as_of,
            "seq": self.seq,
            "events": self.verifier.seq,
            "chain": self.verifier.chain,
            "seals": self.verifier.seals,
            "keys": list(self._scope.keys),
            "key_changes": self.verifier.key_changes,
            "findings": findings,
            "live_seq": live_seq,
            "differences": list(differences),
        }

    def _look(self, stored: StoredEvent) -> None:
        event = self.verifier.look(stored)
        if event is None or not self._is_by_then(event):
            return
        self.seq = event.seq
        self.ignored.look(event)
        if event.envelope.type == UNREADABLE:
            if not is_noise(event.envelope):
                self._unreadable[event.seq] = "it is not a readable event"
            return
        self.at = event.envelope.at
        try:
            self._fold(event)
        except (msgspec.MsgspecError, UnknownEvent) as error:
            if is_written_by_agent(event.envelope) and not isinstance(error, UnknownEvent):
                self.ignored.add(event.seq, f"the event cannot be read: {error}")
                return
            self._unreadable[event.seq] = f"the event cannot be folded: {error}"

    def _is_by_then(self, event: RecordedEvent) -> bool:
        as_of, as_of_seq = self._scope.as_of, self._scope.as_of_seq
        if as_of is not None and event.envelope.at > as_of:
            return False
        return as_of_seq is None or event.seq <= as_of_seq

    def _fold(self, event: RecordedEvent) -> None:
        if event.envelope.type == "EventSkipped" and is_genuine(event.envelope):
            fact = event.fact
            assert isinstance(fact, EventSkipped)
            # The live projection skipped it, and so does this one.
            self._unreadable.pop(fact.seq, None)
        for fold in self._folds:
            fold(event)


def is_equal(first: object, second: object) -> bool:
    """Whether two values of a report are equal, up to rounding."""
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=TOLERANCE)
    return first == second


class IgnoredEvents:
    """Names the events that every reader ignores, up to 100 of them."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._open: set[str] = set()
        self._started: set[str] = set()
        self._ended: set[str] = set()

    def look(self, event: RecordedEvent) -> None:
        """Check the next event."""
        reason = forgery_reason(event.envelope) or self._find_misplaced(event)
        if reason:
            self.add(event.seq, reason)

    def add(self, seq: int, reason: str) -> None:
        """Add an event."""
        if len(self.findings) < IGNORED_MAX:
            self.findings.append(Finding(seq, reason))

    def _find_misplaced(self, event: RecordedEvent) -> str:
        """Why an event of a run is ignored although its writer is right, or ""."""
        envelope = event.envelope
        if is_noise(envelope):
            return f"the message on {envelope.aggregate} is not an event"
        run, kind = history_of(envelope.aggregate), CATALOGUE.get(envelope.type)
        if not run.startswith("run.") or envelope.type == UNREADABLE:
            return ""
        if run in self._ended:
            late = f"{envelope.type} comes after the end of {run}"
            return "" if kind is RunDiscarded else late
        return self._find_out_of_turn(run, envelope.type, kind)

    def _find_out_of_turn(self, run: str, name: str, kind: type[Fact] | None) -> str:
        """Why an event before the end of its run is ignored, or ""; also tracks the run's state."""
        if kind is JobAssigned:
            self._open.add(run)
        elif run not in self._open:
            return f"{name} is on {run}, which was not assigned to any agent"
        if kind is RunStarted and run in self._started:
            return f"{run} has already started"
        if kind is RunStarted:
            self._started.add(run)
        if kind is not None and kind.is_terminal:
            self._open.discard(run)
            self._started.discard(run)
            self._ended.add(run)
        return ""
