"""The events of a log that mean nothing: forged ones, and reports on runs that nobody was given."""

from ranker.domain.scrutiny import Finding
from shared.event_log import Recorded
from shared.events import CATALOGUE, Fact, JobAssigned, RunDiscarded, RunStarted
from shared.subjects import history_of
from shared.wire import UNREADABLE, forgery, is_of_agent

STRAYS_MAX = 100


class Strays:
    """Names the events that every reader drops, up to 100 of them; `count` counts all."""

    def __init__(self) -> None:
        self.count = 0
        self.findings: list[Finding] = []
        self._open: set[str] = set()
        self._begun: set[str] = set()
        self._over: set[str] = set()

    def look(self, event: Recorded) -> None:
        """Take the next event."""
        reason = forgery(event.envelope) or self._misplaced(event)
        if reason:
            self.add(event.seq, reason)

    def add(self, seq: int, what: str) -> None:
        """Name an event."""
        self.count += 1
        if len(self.findings) < STRAYS_MAX:
            self.findings.append(Finding(seq, what))

    def _misplaced(self, event: Recorded) -> str:
        """Why an event of a run means nothing although its writer may write it, or ""."""
        envelope = event.envelope
        if not is_of_agent(envelope):
            return ""
        if envelope.type == UNREADABLE:
            return f"what lies on {envelope.agg} is no event"
        run, kind = history_of(envelope.agg), CATALOGUE.get(envelope.type)
        if run in self._over:
            late = f"{envelope.type} comes after the end of {run}"
            return "" if kind is RunDiscarded else late
        return self._out_of_turn(run, envelope.type, kind)

    def _out_of_turn(self, run: str, name: str, kind: type[Fact] | None) -> str:
        """Why an event means nothing before the end of its run, or ""; the run moves on by it."""
        if kind is JobAssigned:
            self._open.add(run)
        elif run not in self._open:
            return f"{name} is on {run}, which no agent was given"
        if kind is RunStarted and run in self._begun:
            return f"{run} has begun already"
        if kind is RunStarted:
            self._begun.add(run)
        if kind is not None and kind.is_terminal:
            self._open.discard(run)
            self._begun.discard(run)
            self._over.add(run)
        return ""
