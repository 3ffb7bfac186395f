"""The archiver's loop, and the sealer's beside it."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from nacl.signing import SigningKey

from ranker.domain.seals import AGGREGATE, Rhythm, is_due
from shared.clock import now
from shared.event_log import Conflict, EventLog, New, Recorded
from shared.events import AuditSealed
from shared.ids import derived
from shared.signing import sign
from shared.wire import Envelope, Stamp, seal

log = logging.getLogger(__name__)

ACTOR = "service:ranker"
# Ten milliseconds of the loop, while far behind.
BATCH_MAX = 2000
# Nobody waits for the archive: while events come, it is a few transactions a second.
PAUSE_S = 0.25
LOOK_S = 2.0


class Copy(Protocol):
    """Where the second copy of the log is kept."""

    async def checkpoint(self) -> int:
        """The last sequence that is archived."""
        ...

    async def head(self) -> tuple[int, bytes]:
        """The last sequence that is archived, and the chain up to it."""
        ...

    async def write(self, after: int, events: Sequence[Recorded]) -> None:
        """Keep a batch, all or nothing. Errors: Fenced."""
        ...

    async def newest_seal(self) -> Recorded | None:
        """The last seal that is archived."""
        ...


class Metrics(Protocol):
    """What operators watch."""

    def archived(self, seq: int, behind: int) -> None:
        """Everything up to `seq` is archived, and so many events still wait."""
        ...

    def sealed(self) -> None:
        """The chain was signed."""
        ...


async def keep(
    event_log: EventLog, archive: Copy, metrics: Metrics, until: int | None = None
) -> None:
    """Copy the log for ever, or up to a sequence. Errors: Gap and Fenced stop the process."""
    done = await archive.checkpoint()
    if until is not None and done >= until:
        return
    feed = event_log.follow(done)
    try:
        while until is None or done < until:
            batch = await feed.take(BATCH_MAX if until is None else min(BATCH_MAX, until - done))
            await archive.write(done, batch)
            done = batch[-1].seq
            metrics.archived(done, feed.behind)
            if until is None and feed.behind < BATCH_MAX:
                await asyncio.sleep(PAUSE_S)
    finally:
        await feed.close()


@dataclass(frozen=True)
class Sealer:
    """Signs the chain every so often, with a key that this platform alone has."""

    event_log: EventLog
    archive: Copy
    key: SigningKey
    rhythm: Rhythm
    metrics: Metrics

    async def run(self) -> None:
        """Look again and again whether a seal is due, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Seal what is archived, if it is time."""
        seq, chain = await self.archive.head()
        last = await self.archive.newest_seal()
        if not is_due(seq, last, now(), self.rhythm):
            return
        try:
            await self.event_log.append(New(self._seal(seq, chain), last.seq if last else 0))
        except Conflict:
            log.info("the chain up to %d was sealed by another, or a moment ago", seq)
        else:
            log.info("sealed the chain up to %d", seq)
            self.metrics.sealed()

    def _seal(self, seq: int, chain: bytes) -> Envelope:
        fact = AuditSealed(seq=seq, chain=chain.hex(), count=seq)
        stamp = Stamp(derived(f"seal.{seq}", "AuditSealed"), now(), ACTOR, "", "")
        plain = seal(fact, AGGREGATE, stamp)
        return msgspec.structs.replace(plain, sig=sign(self.key, AGGREGATE, seq, bytes(plain.data)))
