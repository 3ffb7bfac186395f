"""Facts of jobs: the work that a submission gives on one GPU type."""

from datetime import datetime
from typing import ClassVar

import msgspec

from shared.events.fact import Fact
from shared.events.values import Blob, Requires


class JobQueued(Fact, frozen=True, kw_only=True):
    """The work that a submission gives on one GPU type waits for an agent.

    The job of a submission waits from SubmissionReceived on: this is said only in older logs, and
    of one that came while its participant had too many open.

    A rejudge's or a canary's job names its `source` itself, for its submission may be over; a
    canary's is for `agent` alone. So does a duel's, which names the `rival` of its source besides,
    and a confirmation's, which goes to none of the `excluded_agents`.
    """

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"

    submission: str
    account: str
    problem: str
    problem_digest: str
    gpu: str
    mode: str
    deadline_at: datetime
    attempts_max: int
    class_: str = msgspec.field(default="practice", name="class")
    requires: Requires = Requires()
    rejudge: str = ""
    agent: str = ""
    source: Blob | None = None
    name: str = ""
    duel: str = ""
    rival: Blob | None = None
    rival_name: str = ""
    confirmation: str = ""
    excluded_agents: list[str] = []


class JobLeased(Fact, frozen=True, kw_only=True):
    """A job was given to an agent; that run's JobAssigned follows, whoever lives to say it.

    A job of several GPUs is given to a gang, all `agents` at once, the first of which runs it; its
    orders come in one batch with this. A lease whose run is ordered for another job was none.
    """

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"

    run: str
    agent: str
    attempt: int
    lease_until_at: datetime
    agents: list[str] = []


class JobRequeued(Fact, frozen=True, kw_only=True):
    """The platform failed a run; the job waits again."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"

    run: str
    reason: str
    avoid_agents: list[str] = []


class JobFinished(Fact, frozen=True, kw_only=True):
    """A run of the job ended with a verdict; said of rejudges, canaries and duels.

    The job of a submission ends with the RunCompleted of the run that its lease names; older logs
    have this besides.
    """

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    run: str
    verdict: str


class JobGivenUp(Fact, frozen=True, kw_only=True):
    """The platform could not run the job in its attempts or its time."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    attempts: int
    reason: str


class JobCancelled(Fact, frozen=True, kw_only=True):
    """The job ended without a verdict, because somebody wanted it so."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    reason: str
