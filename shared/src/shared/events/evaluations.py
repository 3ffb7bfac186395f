"""Facts about evaluations: many sources for one problem version, which no leaderboard shows."""

from datetime import datetime
from typing import ClassVar, TypeAlias

import msgspec

from shared.events.submissions import RunOptions
from shared.events.values import Blob, CachedVerdict, Fact
from shared.problems.values import Requires


class EvaluationRequested(Fact, RunOptions, frozen=True, kw_only=True):
    """Sources are to be evaluated on one problem version; each of these items must end once.

    `source` has a line of JSON for each item (`shared.evaluations`) and `sources` the digests of
    their texts, in the same order. The last items are the `cached` ones, which do not run. The
    others wait from now on, in chunks of `chunk_items`; each runs for `item_s_max` at most. `token`
    is the token that sent them, "" for none.
    """

    aggregate: ClassVar[str] = "evaluation"
    publisher: ClassVar[str] = "ingest"
    account: str
    token: str
    problem: str
    problem_number: int
    problem_digest: str
    gpu: str
    mode: str
    source: Blob
    sources: list[str]
    chunk_items: int
    item_s_max: float
    deadline_at: datetime
    request_hash: str
    requires: Requires = Requires()
    cached: list[CachedVerdict] = []


class EvaluationCancelRequested(Fact, frozen=True, kw_only=True):
    """The actor wants an evaluation to end; items without a verdict get none."""

    aggregate: ClassVar[str] = "evaluation"
    publisher: ClassVar[str] = "ingest"
    reason: str


class EvaluationFinished(Fact, frozen=True, kw_only=True):
    """All items of an evaluation ended; its runs held a device for `device_s`.

    `completed` items have a verdict, the cached ones among them; `failed` ones have none by a fault
    of the platform or the problem, `cancelled` ones because somebody cancelled the evaluation.
    """

    aggregate: ClassVar[str] = "evaluation"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True
    outcome: str
    completed: int
    failed: int
    cancelled: int
    device_s: float


class DeviceTimeEvent(Fact, frozen=True, kw_only=True):
    """An event of the device time that an account used for evaluations."""

    aggregate: ClassVar[str] = "budget"


class DeviceTimeReserved(DeviceTimeEvent, frozen=True, kw_only=True):
    """An evaluation may hold devices for so long; stored in one batch with the evaluation.

    It counts on its token and its account until `until_at`.
    """

    publisher: ClassVar[str] = "ingest"
    evaluation: str
    token: str
    device_s: float
    until_at: datetime


class SharedDeviceTime(msgspec.Struct, frozen=True, kw_only=True):
    """The device time that an evaluation used, until the end of its day."""

    evaluation: str
    token: str
    device_s: float
    until_at: datetime


class DeviceTimeShared(DeviceTimeEvent, frozen=True, kw_only=True):
    """What another account used counts for this one, too; stored with a merge or its undo."""

    publisher: ClassVar[str] = "ingest"
    account: str
    uses: list[SharedDeviceTime] = []


class DeviceTimeSettled(DeviceTimeEvent, frozen=True, kw_only=True):
    """An evaluation is over and held devices for `device_s`, which replaces what it reserved."""

    publisher: ClassVar[str] = "scheduler"
    evaluation: str
    device_s: float


class ChunkStopRequested(Fact, frozen=True, kw_only=True):
    """The run of a chunk is to end after its current item, because a person's job needs its agent.

    It is on a subject of its own, so that the version of the run does not change, and comes with
    the orders in the agent's inbox. The agent sets a flag on the lease of `run` and acknowledges;
    a request for any other run is void. The run then completes with the items that it ended, and
    scheduler queues the others. After a restart of the agent the lease is lost, as always.
    """

    aggregate: ClassVar[str] = "stop"
    publisher: ClassVar[str] = "scheduler"
    run: str
    reason: str


EvaluationFact: TypeAlias = (
    EvaluationRequested
    | EvaluationCancelRequested
    | EvaluationFinished
    | DeviceTimeReserved
    | DeviceTimeShared
    | DeviceTimeSettled
    | ChunkStopRequested
)
