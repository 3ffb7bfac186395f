"""Admission control: limits on concurrent submissions and on the queue of each GPU type."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ingest.ports import Lookups
from ingest.submissions.resolution import SubmissionBatch
from shared.api.queues import QueueOfGpu
from shared.errors import Failed, Refused
from shared.events import SubmissionReceived
from shared.metrics import metric_prefix

RETRY_S = 2.0
# The public client waits 60 s and never retries; others give up sooner and retry. Work for clients
# that have left keeps the next ones waiting.
WAIT_S_MAX = 10.0
QUEUE_RETRY_S = 60.0
LOOKUP_S_MAX = 1.0
FRESH_S = 1.0
# The state of a queue that somebody serves.
QUEUED = "queued"
NO_AGENT = "no_agent"
QUEUE_FULL = "queue_full"


class AdmissionLimits(NamedTuple):
    """How many submissions are accepted at once, wait for that, and wait for a GPU type.

    `of_one_max` limits those of one participant that are accepted at once, `open_max` those that
    are not over, so that nobody fills the queue alone. With `asks_licence`, participants choose a
    licence before they submit ranked.
    """

    at_once_max: int = 100
    waiting_max: int = 300
    queued_max: int = 10_000
    open_max: int = 100
    of_one_max: int = 40
    asks_licence: bool = True


DEFAULT_LIMITS = AdmissionLimits()


class AdmissionQueue:
    """Admits a number of submissions at once, first come first served; others wait briefly.

    `refused` counts those that it did not admit.
    """

    def __init__(self, limits: AdmissionLimits, wait_s_max: float = WAIT_S_MAX) -> None:
        self._slots = asyncio.Semaphore(limits.at_once_max)
        self._waiting_max = limits.waiting_max
        self._per_account_max = limits.of_one_max
        self._wait_s_max = wait_s_max
        self._per_account: Counter[str] = Counter()
        self.under_way = 0
        self.waiting = 0
        self.refused = 0

    @asynccontextmanager
    async def admit(self, account: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it. Raises `Refused` (`queue_full`)."""
        if self._per_account[account] >= self._per_account_max:
            self.refused += 1
            message = (
                f"{self._per_account_max} of your submissions are in progress: send this one again"
            )
            raise Refused(QUEUE_FULL, message, retry_after_s=RETRY_S)
        self._per_account[account] += 1
        try:
            await self._wait_for_slot()
            self.under_way += 1
            try:
                yield
            finally:
                self.under_way -= 1
                self._slots.release()
        finally:
            self._per_account[account] -= 1
            if not self._per_account[account]:
                del self._per_account[account]

    async def _wait_for_slot(self) -> None:
        if self._slots.locked() and self.waiting >= self._waiting_max:
            raise self._queue_full()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s_max):
                await self._slots.acquire()
        except TimeoutError as error:
            raise self._queue_full() from error
        finally:
            self.waiting -= 1

    def _queue_full(self) -> Refused:
        self.refused += 1
        message = f"{self.under_way} submissions are being processed and {self.waiting} are waiting"
        return Refused(QUEUE_FULL, f"{message}: send yours again", retry_after_s=RETRY_S)


class QueueName(NamedTuple):
    """A GPU type and a mode, which not every agent offers."""

    gpu: str
    mode: str


@dataclass(frozen=True)
class QueueReport:
    """The queues of the GPU types of a request, as far as they are known, and what follows.

    `refused` is the refusal for a full queue, a missing toolchain or a missing agent. `warnings`
    has a text for each GPU type that nobody serves now.
    """

    queues: Mapping[str, QueueOfGpu]
    warnings: Mapping[str, str]
    refused: Refused | None = None


class GpuQueues:
    """The queue of each GPU type and what its agents offer, as the read side last reported.

    The read side is asked at most once a second. If it does not answer, nobody is refused: only the
    submissions of that time can exceed the limit, or wait for an agent with their toolchain.
    `refused` counts the submissions that were refused because of a full queue.
    """

    def __init__(self, lookups: Lookups, queued_max: int) -> None:
        self._lookups = lookups
        self._queued_max = queued_max
        self._recent_lookups: dict[QueueName, tuple[float, asyncio.Task[QueueOfGpu | None]]] = {}
        self.refused = 0

    async def report(
        self, submissions: Sequence[SubmissionReceived], *, waits_for_agent: bool
    ) -> QueueReport:
        """Return the queues that submissions would join, and why they cannot join them now."""
        queues: dict[str, QueueOfGpu] = {}
        for submission in submissions:
            queue = await self._current_queue(QueueName(submission.gpu, submission.mode))
            if queue is not None:
                queues[submission.gpu] = queue
        known = [(it, queues[it.gpu]) for it in submissions if it.gpu in queues]
        warnings = {it.gpu: text for it, queue in known if (text := no_agent_warning(it, queue))}
        refused = next(filter(None, (self._refusal(*pair) for pair in known)), None)
        if refused is None and warnings and not waits_for_agent:
            refused = Refused(NO_AGENT, "; ".join(warnings.values()), "gpu")
        return QueueReport(queues, warnings, refused)

    def check(self, report: QueueReport) -> None:
        """Refuse what a report refuses, and count it if a queue is full."""
        if report.refused is not None:
            self.refused += report.refused.code == QUEUE_FULL
            raise report.refused

    def _refusal(self, submission: SubmissionReceived, queue: QueueOfGpu) -> Refused | None:
        if missing := missing_toolchain(submission, queue):
            return missing
        if queue.waiting < self._queued_max:
            return None
        message = f"{queue.waiting:,} submissions are waiting for {submission.gpu}, which "
        message += "is the limit: send yours again when some have finished"
        return Refused(QUEUE_FULL, message, "gpu", QUEUE_RETRY_S)

    async def _current_queue(self, name: QueueName) -> QueueOfGpu | None:
        now = asyncio.get_running_loop().time()
        started_at, task = self._recent_lookups.get(name, (now - FRESH_S, None))
        if task is None or now - started_at >= FRESH_S:
            task = asyncio.create_task(self._look_up(name))
            self._recent_lookups[name] = now, task
        # The first caller may be cancelled; the others still need the result.
        return await asyncio.shield(task)

    async def _look_up(self, name: QueueName) -> QueueOfGpu | None:
        with contextlib.suppress(Failed, TimeoutError):
            async with asyncio.timeout(LOOKUP_S_MAX):
                return await self._lookups.queue(*name)
        return None


def no_agent_warning(submission: SubmissionReceived, queue: QueueOfGpu) -> str:
    """Return why nobody can run a submission now and what happens then, "" if somebody can.

    This is the only rule: clients show its text. One that names a launcher was checked against it.
    """
    if queue.state == QUEUED or submission.requires.runner:
        return ""
    reason = queue.reason or f"no agent with {submission.gpu} takes jobs"
    return f"{reason}: a submission waits up to an hour, then ends, and its quota is refunded"


def missing_toolchain(submission: SubmissionReceived, queue: QueueOfGpu) -> Refused | None:
    """Return the refusal of a submission that no agent can compile or import, or None.

    The agents are those online and those that launchers start. Without either, a submission waits.
    One that names a launcher was checked against that one.
    """
    needed, launched = submission.requires.toolchains, [it.toolchains for it in queue.launchers]
    offers = [*queue.toolchains, *launched]
    is_unknown = not offers or [] in launched
    if (
        submission.requires.runner
        or is_unknown
        or any(set(needed) <= set(offer) for offer in offers)
    ):
        return None
    offered = sorted({name for offer in offers for name in offer})
    missing = [name for name in needed if name not in offered] or needed
    message = (
        f"no agent of {submission.gpu} has {' and '.join(missing)}, which {submission.name} needs: "
        f"use what they offer ({', '.join(offered) or 'nothing'}), or another GPU type"
    )
    return Refused("toolchain_missing", message, "file")


class Admission:
    """Admits submissions: how many at once, in which order, and into which queues."""

    def __init__(self, lookups: Lookups, limits: AdmissionLimits) -> None:
        self.slots = AdmissionQueue(limits)
        self.queues = GpuQueues(lookups, limits.queued_max)
        self._account_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def admit(self, batch: SubmissionBatch) -> AsyncIterator[QueueReport]:
        """Hold a slot, and report the queues. Raises `Refused` (`queue_full`).

        Requests of one account wait for each other, because they change the same quotas; the
        version of the quotas in the log detects those of other processes.
        """
        async with self.slots.admit(batch.account):
            report = await self.queues.report(
                batch.submissions, waits_for_agent=batch.waits_for_agent
            )
            async with self._account_locks.setdefault(batch.account, asyncio.Lock()):
                yield report


class AdmissionMetrics(Collector):
    """Submissions admitted, waiting and refused; read on each scrape."""

    def __init__(self, admission: Admission, registry: CollectorRegistry = REGISTRY) -> None:
        self._admission = admission
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the current counts."""
        prefix, slots = f"{metric_prefix('ingest')}_submissions", self._admission.slots
        help_text = "Submissions being taken in"
        yield GaugeMetricFamily(f"{prefix}_under_way", help_text, slots.under_way)
        help_text = "Submissions that wait to be taken in"
        yield GaugeMetricFamily(f"{prefix}_waiting", help_text, slots.waiting)
        refused = CounterMetricFamily(
            f"{prefix}_refused", "Submissions refused as queue_full", labels=["reason"]
        )
        refused.add_metric(["slots"], slots.refused)
        refused.add_metric(["queue"], self._admission.queues.refused)
        yield refused
