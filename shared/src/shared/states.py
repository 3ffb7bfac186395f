"""The states of a submission: who must act in each, and by when."""

from dataclasses import dataclass
from datetime import datetime, timedelta

# How long after the deadline a verdict may still be decided: that delay is ours.
DECISION_GRACE_S = 300.0


@dataclass(frozen=True)
class State:
    """A state before the last: who must end it, and what limits it.

    `bound` is `acceptance` (the one deadline set when the submission was accepted), `lease` (the
    time an agent has to start) or `decision` (the deadline, or the verdict if it is later, plus
    DECISION_GRACE_S).
    """

    name: str
    owner: str
    bound: str

    @property
    def overdue(self) -> str:
        """The code of a submission that ended in this state because its time was over.

        >>> STATES["queued"].overdue
        'overdue_queued'
        """
        return f"overdue_{self.name}"


FINISHED = "finished"
# In the usual order; an assigned submission may be queued again.
STATES: dict[str, State] = {
    "queued": State("queued", "scheduler", "acceptance"),
    "assigned": State("assigned", "gpu-agent", "lease"),
    "running": State("running", "gpu-agent", "acceptance"),
    "ranking": State("ranking", "ranker", "decision"),
}


def state_deadline(
    state: str, deadline_at: datetime, since_at: datetime, lease_until_at: datetime | None = None
) -> datetime:
    """Return when a submission in this state since `since_at` is overdue. Errors: KeyError.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> state_deadline("ranking", noon, noon - timedelta(hours=1)) - noon
    datetime.timedelta(seconds=300)
    """
    bound = STATES[state].bound
    if bound == "decision":
        return max(deadline_at, since_at) + timedelta(seconds=DECISION_GRACE_S)
    if bound == "lease" and lease_until_at is not None:
        return min(deadline_at, lease_until_at)
    return deadline_at
