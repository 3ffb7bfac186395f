"""Follows the log for who may do what, so that each request is asked of memory alone."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import takewhile

from ingest.domain.access import AGGREGATES, Access, Token, evolve
from ingest.domain.preferences import Choices
from ingest.service.snapshots import AccessSnapshots, AccessState
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Branch, Branches, Recorded
from shared.events import Fact

LOOK_S = 0.05
REACH_S_MAX = 5.0
# A log that is silent for longer may have revoked what is still believed here.
SILENT_S_MAX = 30.0
# Events that are there, and do not come for so long from a server that speaks, cannot be read.
STUCK_S_MIN = 20.0
# A start folds so many events at most beside a snapshot.
SNAPSHOT_EVENTS = 5_000
SWEEP_EVENTS, SWEEP_S = 20_000, 3600.0

log = logging.getLogger(__name__)


def digest(secret: str) -> str:
    """What is kept of a secret: its SHA-256, in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class AccessFeed:
    """Who may do what, never long after the log says so; `folded` counts the events since start.

    `damage` says why the log cannot be trusted, "" if it can.
    """

    def __init__(
        self,
        log: Branches,
        clock: Callable[[], datetime] = now,
        silent_s_max: float = SILENT_S_MAX,
        damage: Callable[[], str] = lambda: "",
        snapshots: AccessSnapshots | None = None,
    ) -> None:
        self._log = log
        self._damage = damage
        self._silent_s_max = silent_s_max
        self._clock = clock
        self._snapshots = snapshots
        self._state = AccessState()
        self.folded, self._saved, self._swept = 0, 0, 0
        self._swept_at = time.monotonic()
        self._saving: asyncio.Task[None] | None = None
        self._branch: Branch | None = None
        self._is_ready = False
        self._taken_at = time.monotonic()
        self._grown = asyncio.Event()

    async def run(self) -> None:
        """Follow for ever. Errors: Gap and UnknownEvent stop the process."""
        if self._snapshots is not None:
            self._state = await self._snapshots.load()
            self._state.access.drop_ended(self._clock())
        branch = self._branch = self._log.branch(self._state.access.seq, *AGGREGATES)
        self._taken_at = time.monotonic()
        taking = asyncio.create_task(branch.take())
        try:
            while True:
                limit_s = SWEEP_S if self._is_ready else LOOK_S
                await asyncio.wait({taking}, timeout=limit_s)
                if taking.done():
                    self._taken_at = time.monotonic()
                    self._fold(taking.result())
                    taking = asyncio.create_task(branch.take())
                self._is_ready = self._is_ready or branch.behind == 0
                self._sweep()
                self._save_now_and_then()
                self._grown.set()
                self._grown = asyncio.Event()
        finally:
            tasks = [task for task in (taking, self._saving) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await branch.close()

    async def save(self) -> None:
        """Store a snapshot, so that the next start reads new events alone; failing is harmless."""
        if self._snapshots is None or not self._is_ready or self.folded == self._saved:
            return
        folded = self.folded
        try:
            await self._snapshots.save(self._state)
        except Failed as failed:
            seq = self._state.access.seq
            log.warning("no snapshot was stored at event %d: %s", seq, failed)
        self._saved = folded

    def _fold(self, events: Sequence[Recorded]) -> None:
        for event in events:
            self._state.choices.take(event)
            evolve(self._state.access, event)
        self.folded += len(events)

    def _sweep(self) -> None:
        """Forget ended tokens now and then, also in the middle of a long past."""
        is_due = time.monotonic() - self._swept_at >= SWEEP_S
        if is_due or self.folded - self._swept >= SWEEP_EVENTS:
            self._state.access.drop_ended(self._clock())
            self._swept, self._swept_at = self.folded, time.monotonic()

    def _save_now_and_then(self) -> None:
        is_saving = self._saving is not None and not self._saving.done()
        if not is_saving and self._is_ready and self.folded - self._saved >= SNAPSHOT_EVENTS:
            # Beside the fold: who was revoked meanwhile must not wait for it.
            self._saving = asyncio.create_task(self.save())

    @property
    def choices(self) -> Choices:
        """What participants have chosen of how they are told."""
        return self._state.choices

    def ill(self) -> str:
        """Why nothing can be asked now; "" if all is well.

        A log that has lost events may have lost a revocation, so nobody's rights are sure.
        """
        if damage := self._damage():
            return damage
        if self._branch is None:
            return "ingest is starting: it does not know yet who may do what"
        if not self._is_ready:
            return self._starting(self._branch)
        silent_s = self._branch.silent_s
        if silent_s > self._silent_s_max:
            return f"the log has been silent for {silent_s:.0f} s: nobody's rights are sure"
        return ""

    def _starting(self, branch: Branch) -> str:
        """Why the first fold is not done; a server never sends an event that it cannot read."""
        still_s = time.monotonic() - self._taken_at
        if still_s < STUCK_S_MIN or branch.silent_s > STUCK_S_MIN:
            return "ingest is starting: it does not know yet who may do what"
        seq = self._state.access.seq
        return (
            f"ingest cannot read {branch.behind} of the log's events after {seq}: "
            "compare the log with its archive (warpboard scrub)"
        )

    def now(self) -> Access:
        """Who may do what. Errors: Failed while that is not known, or no longer sure."""
        if ill := self.ill():
            raise Failed(ill)
        return self._state.access

    def token(self, secret: str) -> Token | None:
        """The live token with this text; None if it is nobody's. Errors: Failed."""
        return self.now().token(digest(secret), self._clock())

    async def reach(self, seq: int | None, batch: Sequence[Fact] = ()) -> None:
        """Wait until an event is folded, so that who said it finds it so; at most 5 s.

        Of a `batch` that ends in it, whose sequences follow each other, what says nothing of who
        may do what is not waited for: it does not come here.
        """
        known = {one.removesuffix(".>") for one in AGGREGATES}
        aside = list(takewhile(lambda fact: fact.aggregate not in known, reversed(batch)))
        if seq is None or (batch and len(aside) == len(batch)):
            return
        seq -= len(aside)
        try:
            async with asyncio.timeout(REACH_S_MAX):
                while self._state.access.seq < seq:
                    await self._grown.wait()
        except TimeoutError:
            # It is in the log all the same, and every ingest will come to it.
            return
