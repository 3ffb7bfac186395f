"""The archive inside the ranker's process: for ever, through outages of Postgres."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from nacl.signing import SigningKey

from ranker.archive.keeping import Sealer, keep
from ranker.archive.metrics import ArchiveMetrics
from ranker.archive.postgres import archive
from ranker.domain.seals import Rhythm
from shared.errors import Failed
from shared.event_log import EventLog
from shared.outages import Outage
from shared.postgres import Fenced

log = logging.getLogger(__name__)

# Another instance writes: this one waits for it to go.
STANDBY_S = 5.0


class Ailing(Protocol):
    """Where /healthz learns which part is ill."""

    def ail(self, part: str, reason: str | None) -> None:
        """Mark a part ill, or well again by None."""
        ...


class Sealing(NamedTuple):
    """What seals are made with, and how often."""

    key: SigningKey
    rhythm: Rhythm


class Archiving:
    """The two loops of the archive; each has a connection of its own."""

    def __init__(self, event_log: EventLog, dsn: str, life: Ailing) -> None:
        self.event_log = event_log
        self.dsn = dsn
        self.life = life
        self.metrics = ArchiveMetrics()

    async def keep(self) -> None:
        """Copy for ever. Errors: Gap stops the process."""
        outage = Outage("archive", self.life.ail)

        async def once() -> None:
            async with archive(self.dsn) as kept:
                await kept.check_writable()
                outage.end()
                await keep(self.event_log, kept, self.metrics)

        await self._again(outage, once)

    async def seal(self, sealing: Sealing | None) -> None:
        """Seal for ever; without a key, never."""
        if sealing is None:
            log.warning("nothing is sealed: WARPBOARD_RANKER_SEAL_KEY names no file")
            await asyncio.Event().wait()
            return

        outage = Outage("seals", self.life.ail)

        async def once() -> None:
            async with archive(self.dsn) as kept:
                outage.end()
                key, rhythm = sealing
                await Sealer(self.event_log, kept, key, rhythm, self.metrics).run()

        await self._again(outage, once)

    async def _again(self, outage: Outage, once: Callable[[], Awaitable[None]]) -> None:
        """From the checkpoint on, whenever Postgres or the log is back."""
        while True:
            try:
                await once()
            except Failed as failed:
                await outage.wait(failed)
            except Fenced as fenced:
                log.warning("%s: standing by: %s", outage.part, fenced)
                await asyncio.sleep(STANDBY_S)
