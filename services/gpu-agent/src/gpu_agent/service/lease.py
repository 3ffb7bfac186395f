"""A run in hand, and what an agent says of it in the log."""

import asyncio
from dataclasses import dataclass, field

import msgspec
from nacl.signing import SigningKey

from shared import subjects
from shared.bus import Delivery
from shared.clock import now
from shared.errors import Failed
from shared.event_log import EventLog, New
from shared.events import Fact, JobAssigned, RunCompleted, RunDiscarded, StageResult
from shared.ids import derived
from shared.signing import sign
from shared.wire import Stamp, seal


@dataclass
class Lease:
    """A run in hand; `version` is the sequence of its last event, at first the fencing token.

    `agg` is the aggregate of its orders. `lost` says why it is no longer ours; with `is_ending` its
    last word is being said. `stages` are those that ended.
    """

    order: JobAssigned
    agg: str
    token: int
    version: int
    delivery: Delivery
    task: asyncio.Task[None] | None = None
    lost: str = ""
    is_drained: bool = False
    has_begun: bool = False
    is_ending: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    stages: list[StageResult] = field(default_factory=list)

    @property
    def run(self) -> str:
        """The run's id."""
        return subjects.last_token(self.agg)

    @property
    def is_left(self) -> bool:
        """Whether its run is at its end here: for the log, which may know first, it is over."""
        is_done = self.task is not None and self.task.done()
        return is_done or self.is_ending or bool(self.lost)

    def stop(self) -> None:
        """End what is being done; a last word, once begun, is left to the log to judge."""
        if self.task is not None and not self.is_ending:
            self.task.cancel()


def lease_of(delivery: Delivery, order: JobAssigned) -> Lease:
    """The lease that an order gives."""
    recorded = delivery.recorded
    return Lease(order, recorded.envelope.agg, recorded.seq, recorded.seq, delivery)


@dataclass
class Reporter:
    """Says facts of an agent's runs; each verdict is signed with the agent's own key."""

    agent: str
    log: EventLog
    key: SigningKey

    async def append(self, lease: Lease, fact: Fact) -> None:
        """Say the next fact of a run. Errors: Conflict when the lease is over."""
        stamp = self._stamp(lease, f"{type(fact).__name__}/{lease.version}")
        envelope = seal(fact, self._report(lease), stamp)
        if isinstance(fact, RunCompleted):
            sig = sign(self.key, lease.agg, lease.token, bytes(envelope.data))
            envelope = msgspec.structs.replace(envelope, sig=sig)
        event = New(envelope, lease.version)
        while True:
            try:
                lease.version = await self.log.append(event)
                return
            except Failed:
                if lease.is_drained or now() >= lease.order.deadline_at:
                    raise

    async def discard(self, lease: Lease, verdict: str) -> None:
        """Leave a note of a result that came too late."""
        note = RunDiscarded(verdict=verdict)
        stamp = self._stamp(lease, "RunDiscarded")
        await self.log.append(New(seal(note, self._report(lease), stamp), None))

    def _report(self, lease: Lease) -> str:
        return subjects.report(self.agent, lease.run)

    def _stamp(self, lease: Lease, effect: str) -> Stamp:
        actor = f"agent:{self.agent}"
        return Stamp(derived(lease.run, effect), now(), actor, lease.order.submission, lease.run)
