"""The states of a submission: who must act in each, and by when."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

UnfinishedState = Literal["queued", "assigned", "running", "ranking"]
EvaluationState = Literal["queued", "running", "finished"]
SubmissionState = Literal[UnfinishedState, "finished"]

# How long after the deadline a verdict may still be decided: that delay is ours.
DECISION_GRACE_S = 300.0


@dataclass(frozen=True)
class State:
    """A state before the last: who must end it, what limits it, and its text for people.

    `bound` is `acceptance` (the one deadline set when the submission was accepted), `lease` (the
    time an agent has to start) or `decision` (the deadline, or the verdict if it is later, plus
    DECISION_GRACE_S). `events` are those after which a submission is in this state.
    """

    name: UnfinishedState
    owner: str
    bound: str
    text: str
    events: tuple[str, ...]

    @property
    def overdue(self) -> str:
        """The code of a submission that ended in this state because its time was over.

        >>> STATES["queued"].overdue
        'overdue_queued'
        """
        return f"overdue_{self.name}"


QUEUED: UnfinishedState = "queued"
FINISHED: SubmissionState = "finished"
# In the usual order; an assigned submission may be queued again.
_STATES = (
    State(QUEUED, "scheduler", "acceptance", "queued", ("SubmissionReceived", "JobRequeued")),
    State("assigned", "gpu-agent", "lease", "given to an agent", ("JobLeased",)),
    State("running", "gpu-agent", "acceptance", "running", ("RunStarted",)),
    State("ranking", "ranker", "decision", "has a verdict; ranking", ("RunCompleted",)),
)
STATES: dict[str, State] = {state.name: state for state in _STATES}
# The state that an event leads to.
STATE_AFTER: dict[str, SubmissionState] = {
    **{event: state.name for state in _STATES for event in state.events},
    "SubmissionFinished": FINISHED,
}


# An evaluation waits until its first chunk has an agent; its runs are bounded one by one, too.
EVALUATION_STATES: dict[str, State] = {
    state.name: state
    for state in (
        State(QUEUED, "scheduler", "acceptance", "waits for an agent", ("EvaluationRequested",)),
        State("running", "gpu-agent", "acceptance", "running", ("JobLeased",)),
    )
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
