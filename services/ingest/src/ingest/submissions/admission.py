"""Admission control: limits on concurrent submissions and on the queue of each GPU type."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ingest.ports import Lookups
from shared.api.queues import QueueOfGpu, QueueSnapshot
from shared.errors import Failed, Refused
from shared.events import SubmissionReceived
from shared.metrics import metric_prefix

RETRY_S = 2.0
# The public client waits 60 s and never retries; others give up sooner and retry. Work for clients
# that have left keeps the next ones waiting.
WAIT_S_MAX = 10.0
QUEUE_RETRY_S = 60.0
LOOK_S_MAX = 1.0
FRESH_S = 1.0
# The state of a queue that somebody serves.
QUEUED = "queued"
NO_AGENT = "no_agent"


class AdmissionLimits(NamedTuple):
    """How many submissions are accepted at once, wait for that, and wait for a GPU type.

    `of_one_max` limits those of one participant that are accepted at once, `open_max` those that
    are not over, so that nobody fills the queue alone.
    """

    at_once_max: int = 100
    waiting_max: int = 300
    queued_max: int = 10_000
    open_max: int = 100
    of_one_max: int = 40


DEFAULT_LIMITS = AdmissionLimits()


class AdmissionQueue:
    """Admits a number of submissions at once, first come first served; others wait briefly.

    `turned_away` counts the ones that were refused.
    """

    def __init__(self, limits: AdmissionLimits, wait_s_max: float = WAIT_S_MAX) -> None:
        self._slots = asyncio.Semaphore(limits.at_once_max)
        self._waiting_max = limits.waiting_max
        self._per_account_max = limits.of_one_max
        self._wait_s_max = wait_s_max
        self._per_account: Counter[str] = Counter()
        self.under_way = 0
        self.waiting = 0
        self.turned_away = 0

    @asynccontextmanager
    async def admit(self, account: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it. Raises `Refused` (`queue_full`)."""
        if self._per_account[account] >= self._per_account_max:
            self.turned_away += 1
            message = (
                f"{self._per_account_max} of your submissions are in progress: send this one again"
            )
            raise Refused("queue_full", message, retry_after_s=RETRY_S)
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
        self.turned_away += 1
        message = f"{self.under_way} submissions are being processed and {self.waiting} are waiting"
        return Refused("queue_full", f"{message}: send yours again", retry_after_s=RETRY_S)


class QueueName(NamedTuple):
    """A GPU type and a mode, which not every agent offers."""

    gpu: str
    mode: str


class GpuQueues:
    """The queue of each GPU type and what its agents offer, as the read side last reported.

    The read side is asked at most once a second. If it does not answer, nobody is refused: only the
    submissions of that time can exceed the limit, or wait for an agent with their toolchain.
    `turned_away` counts the ones that intake refused because of a full queue.
    """

    def __init__(self, lookups: Lookups, queued_max: int) -> None:
        self._lookups = lookups
        self._queued_max = queued_max
        self._recent_lookups: dict[QueueName, tuple[float, asyncio.Task[QueueOfGpu | None]]] = {}
        self.turned_away = 0

    async def refusal(
        self, submissions: Sequence[SubmissionReceived], *, waits_for_agent: bool
    ) -> Refused | None:
        """Return why submissions cannot be accepted now, None if they can."""
        warnings: list[str] = []
        for submission in submissions:
            queue = await self._current_queue(QueueName(submission.gpu, submission.mode))
            if queue is None:
                continue
            if refused := missing_toolchain(submission, queue):
                return refused
            warnings += [text] if (text := no_agent_warning(submission, queue)) else []
            if queue.waiting >= self._queued_max:
                message = f"{queue.waiting:,} submissions are waiting for {submission.gpu}, which "
                message += "is the limit: send yours again when some have finished"
                return Refused("queue_full", message, "gpu", QUEUE_RETRY_S)
        if warnings and not waits_for_agent:
            return Refused(NO_AGENT, "; ".join(warnings), "gpu")
        return None

    def last_snapshot(self, gpu: str, mode: str) -> QueueSnapshot | None:
        """Return the last known queue of a GPU type for a mode, or None."""
        _, task = self._recent_lookups.get(QueueName(gpu, mode), (0.0, None))
        queue = task.result() if task is not None and task.done() else None
        if queue is None:
            return None
        return msgspec.convert(queue, QueueSnapshot, from_attributes=True)

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
            async with asyncio.timeout(LOOK_S_MAX):
                return await self._lookups.queue(*name)
        return None


def no_agent_warning(
    submission: SubmissionReceived, queue: QueueOfGpu | QueueSnapshot | None
) -> str:
    """Return why nobody can run a submission now and what happens then, "" if somebody can.

    This is the only rule: clients show its text. One that names a launcher was checked against it.
    """
    if queue is None or queue.state == QUEUED or submission.requires.runner:
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


class AdmissionMetrics(Collector):
    """Submissions admitted, waiting and refused; read on each scrape."""

    def __init__(
        self, admission: AdmissionQueue, queues: GpuQueues, registry: CollectorRegistry = REGISTRY
    ) -> None:
        self._admission = admission
        self._queues = queues
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the current counts."""
        prefix_, admission = f"{metric_prefix('ingest')}_submissions", self._admission
        help_text = "Submissions being taken in"
        yield GaugeMetricFamily(f"{prefix_}_under_way", help_text, admission.under_way)
        help_text = "Submissions that wait to be taken in"
        yield GaugeMetricFamily(f"{prefix_}_waiting", help_text, admission.waiting)
        refused = CounterMetricFamily(
            f"{prefix_}_turned_away", "Submissions refused as queue_full", labels=["for_want_of"]
        )
        refused.add_metric(["room"], admission.turned_away)
        refused.add_metric(["queue"], self._queues.turned_away)
        yield refused
