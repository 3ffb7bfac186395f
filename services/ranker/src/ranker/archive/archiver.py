"""Runs the archiver and the sealer: the log's second copy, and seals of its hash chain."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec
from nacl.signing import SigningKey

from ranker.archive.postgres import Archive, open_archive
from ranker.domain.stored_log import SEAL_AGGREGATE, SealInterval, is_seal_due
from ranker.metrics import ArchiveMetrics
from ranker.service.decisions import ACTOR, Metrics
from ranker.service.progress import log_progress
from ranker.service.projection import take_with_checks
from ranker.settings import Settings
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Conflict, EventLog, EventSource, NewEvent
from shared.events import AuditSealed
from shared.health import HealthReporter, Outage
from shared.postgres import CheckpointConflict
from shared.signing import load_key, public_key, sign_verdict
from shared.subjects import derive_id
from shared.wire import Envelope, EventMetadata, make_envelope

log = logging.getLogger(__name__)

# Takes ten milliseconds of the event loop while far behind.
BATCH_MAX = 2000
# Nobody waits for the archive: a few transactions per second are enough while events arrive.
PAUSE_S = 0.25
LOOK_S = 2.0


async def run_archiver(
    event_log: EventSource, archive: Archive, metrics: Metrics, until: int | None = None
) -> None:
    """Copy the log for ever, or up to a sequence. Gap and Fenced stop the process."""
    archived_seq = await archive.checkpoint()
    if until is not None and archived_seq >= until:
        return
    metrics.archived(archived_seq, max(0, await event_log.last() - archived_seq))
    feed = event_log.follow(archived_seq)
    try:
        while until is None or archived_seq < until:
            most = BATCH_MAX if until is None else min(BATCH_MAX, until - archived_seq)
            check = partial(archive.check_checkpoint, archived_seq)
            batch = await take_with_checks(feed, most, check)
            await archive.write(archived_seq, batch)
            archived_seq = batch[-1].seq
            if until is not None:
                log_progress("events", archived_seq, until)
            metrics.archived(archived_seq, feed.behind)
            if until is None and feed.behind < BATCH_MAX:
                await asyncio.sleep(PAUSE_S)
    finally:
        await feed.close()


@dataclass(frozen=True)
class Sealer:
    """Seals the chain at intervals with this platform's own key."""

    event_log: EventLog
    archive: Archive
    key: SigningKey
    interval: SealInterval
    metrics: Metrics

    async def run(self) -> None:
        """Check for ever whether a seal is due."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Seal what is archived if a seal is due."""
        seq, chain = await self.archive.head()
        last = await self.archive.newest_seal()
        if not is_seal_due(seq, last, now(), self.interval):
            return
        try:
            await self.event_log.append(
                NewEvent(self._make_seal(seq, chain), last.seq if last else 0)
            )
        except Conflict:
            log.info("the chain up to %d was already sealed", seq)
        else:
            log.info("sealed the chain up to %d", seq)
            self.metrics.sealed()

    def _make_seal(self, seq: int, chain: bytes) -> Envelope:
        fact = AuditSealed(seq=seq, chain=chain.hex(), count=seq)
        stamp = EventMetadata(derive_id(f"seal.{seq}", "AuditSealed"), now(), ACTOR, "", "")
        unsigned = make_envelope(fact, SEAL_AGGREGATE, stamp)
        return msgspec.structs.replace(
            unsigned, sig=sign_verdict(self.key, SEAL_AGGREGATE, seq, bytes(unsigned.data))
        )


# Another instance writes: this one waits for it to end.
STANDBY_S = 5.0


class SealConfig(NamedTuple):
    """The key and interval of seals."""

    key: SigningKey
    interval: SealInterval


class ArchiveService:
    """The archiver and the sealer; each has its own connection."""

    def __init__(self, event_log: EventLog, dsn: str, report: HealthReporter) -> None:
        self.event_log = event_log
        self.dsn = dsn
        self.report = report
        self.metrics = ArchiveMetrics()

    async def keep(self) -> None:
        """Copy the log for ever. Gap stops the process."""
        outage = Outage("archive", self.report)

        async def run_once() -> None:
            async with open_archive(self.dsn) as archive_store:
                await archive_store.check_writable()
                outage.end()
                await run_archiver(self.event_log, archive_store, self.metrics)

        await self._run_with_retries(outage, run_once)

    async def seal(self, config: SealConfig | None) -> None:
        """Seal for ever; without a key, wait for ever."""
        if config is None:
            log.warning("nothing is sealed: WARPBOARD_RANKER_SEAL_KEY is not set")
            await asyncio.Event().wait()
            return

        outage = Outage("seals", self.report)

        async def run_once() -> None:
            async with open_archive(self.dsn) as archive_store:
                outage.end()
                key, interval = config
                await Sealer(self.event_log, archive_store, key, interval, self.metrics).run()

        await self._run_with_retries(outage, run_once)

    async def _run_with_retries(
        self, outage: Outage, run_once: Callable[[], Awaitable[None]]
    ) -> None:
        while True:
            try:
                await run_once()
            except Failed as failed:
                await outage.wait(failed)
            except CheckpointConflict as fenced:
                log.warning("%s: standing by: %s", outage.part, fenced)
                await asyncio.sleep(STANDBY_S)


def read_own_key(settings: Settings) -> str | None:
    """The public key of this platform's seals, if there is one yet."""
    path = settings.seal_key
    return public_key(load_key(path)) if path is not None and path.exists() else None
