"""The events of a submission."""

from collections.abc import Sequence
from typing import NamedTuple

from shared.event_log import RecordedEvent
from shared.events import Fact, SubmissionFinished, SubmissionReceived


class SubmissionHistory(NamedTuple):
    """A submission with its events."""

    id: str
    received: SubmissionReceived
    history: Sequence[RecordedEvent]

    @property
    def facts(self) -> list[Fact]:
        """Return the facts of its events."""
        return [event.fact for event in self.history]

    @property
    def outcome(self) -> str:
        """Return the outcome with which it ended, "" while it is open."""
        ends = [fact for fact in self.facts if isinstance(fact, SubmissionFinished)]
        return ends[-1].outcome if ends else ""

    @property
    def account(self) -> str:
        """Return its owner."""
        return self.received.account
