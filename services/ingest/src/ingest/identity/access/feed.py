"""Follows the log for access rights, so that requests are authorized from memory."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile

from ingest.identity.access.fold import AGGREGATES, Access, Token, evolve
from ingest.identity.access.preferences import PreferenceIndex
from ingest.identity.secrets import hash_secret
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Branch, BranchSource
from shared.events import Fact
from shared.snapshots import FoldSnapshots

SNAPSHOT_NAME = "ingest"

log = logging.getLogger(__name__)

READY_POLL_S = 0.05
FOLD_WAIT_S_MAX = 5.0
# A log that has been silent for longer may have revoked a token that is still accepted here.
SILENT_S_MAX = 30.0
# Events that a connected server does not deliver for this long cannot be read.
STUCK_S_MIN = 20.0
# A start folds at most this many events after a snapshot.
SNAPSHOT_EVENTS = 5_000
SWEEP_EVENTS, SWEEP_S = 20_000, 3600.0
STARTING = "ingest is starting: access rights are not loaded yet"


@dataclass
class AccessState:
    """Everything that the access feed folds."""

    access: Access = field(default_factory=Access)
    preferences: PreferenceIndex = field(default_factory=PreferenceIndex)


class AccessFeed:
    """Keeps the access rights up to date; `folded` counts the events folded since the start.

    `damage` returns why the log cannot be trusted, "" if it can.
    """

    def __init__(
        self,
        log: BranchSource,
        clock: Callable[[], datetime] = now,
        silent_s_max: float = SILENT_S_MAX,
        damage: Callable[[], str] = lambda: "",
        snapshots: FoldSnapshots[AccessState] | None = None,
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
        self._folded_event = asyncio.Event()
        self._listeners: list[Callable[[str], None]] = []

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call a listener with the aggregate of each event once it is folded."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Follow the log; never returns. Raises `Gap` and `UnknownEvent`, which end the process."""
        if self._snapshots is not None:
            snapshot = await self._snapshots.load()
            if snapshot is not None:
                self._state = snapshot.state
            self._state.access.drop_ended(self._clock())
        branch = self._branch = self._log.branch(self._state.access.seq, *AGGREGATES)
        self._taken_at = time.monotonic()
        take_task = asyncio.create_task(branch.take())
        try:
            while True:
                limit_s = SWEEP_S if self._is_ready else READY_POLL_S
                await asyncio.wait({take_task}, timeout=limit_s)
                if take_task.done():
                    self._taken_at = time.monotonic()
                    for event in take_task.result():
                        self._state.preferences.fold(event)
                        evolve(self._state.access, event)
                        self.folded += 1
                        for listener in self._listeners:
                            listener(event.envelope.aggregate)
                    take_task = asyncio.create_task(branch.take())
                self._is_ready = self._is_ready or branch.behind == 0
                self._tidy_up()
                self._folded_event.set()
                self._folded_event = asyncio.Event()
        finally:
            tasks = [task for task in (take_task, self._saving) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await branch.close()

    async def save(self) -> None:
        """Store a snapshot, so that the next start reads only new events; a failure is harmless."""
        if self._snapshots is None or not self._is_ready or self.folded == self._saved:
            return
        folded = self.folded
        try:
            await self._snapshots.save(self._state, self._state.access.seq)
        except Failed as failed:
            seq = self._state.access.seq
            log.warning("cannot store a snapshot at event %d: %s", seq, failed)
        self._saved = folded

    def _tidy_up(self) -> None:
        """Forget ended tokens and store a snapshot from time to time."""
        is_due = time.monotonic() - self._swept_at >= SWEEP_S
        # Also while a long log is being read.
        if is_due or self.folded - self._swept >= SWEEP_EVENTS:
            self._state.access.drop_ended(self._clock())
            self._swept, self._swept_at = self.folded, time.monotonic()
        is_saving = self._saving is not None and not self._saving.done()
        if not is_saving and self._is_ready and self.folded - self._saved >= SNAPSHOT_EVENTS:
            # In the background: revocations must not wait for it.
            self._saving = asyncio.create_task(self.save())

    @property
    def preferences(self) -> PreferenceIndex:
        """Return the preferences of all participants."""
        return self._state.preferences

    def why_unhealthy(self) -> str:
        """Return why access rights are unknown now, "" if they are known.

        A log that has lost events may have lost a revocation, so its access rights are uncertain.
        """
        if damage := self._damage():
            return damage
        branch, still_s = self._branch, time.monotonic() - self._taken_at
        if branch is None:
            return STARTING
        if self._is_ready:
            message = f"the log has been silent for {branch.silent_s:.0f} s"
            is_silent = branch.silent_s > self._silent_s_max
            return f"{message}: access rights are uncertain" if is_silent else ""
        if still_s < STUCK_S_MIN or branch.silent_s > STUCK_S_MIN:
            return STARTING
        # The server is connected, and never sends an event that it cannot read.
        return (
            f"ingest cannot read {branch.behind} of the log's events after "
            f"{self._state.access.seq}: compare the log with its archive (warpboard server scrub)"
        )

    def rights(self) -> Access:
        """Return the access rights. Raises `Failed` while they are unknown or uncertain."""
        if reason := self.why_unhealthy():
            raise Failed(reason)
        return self._state.access

    def find_token(self, secret: str) -> Token | None:
        """Return the live token with this text, or None. Raises `Failed`."""
        return self.rights().token(hash_secret(secret), self._clock())

    async def wait_until_folded(self, seq: int | None, batch: Sequence[Fact] = ()) -> None:
        """Wait until an event is folded, at most 5 s.

        Events at the end of `batch` (which ends at `seq`) that carry no access rights never come
        here, so they are not waited for.
        """
        known_aggregates = {pattern.removesuffix(".>") for pattern in AGGREGATES}
        trailing = list(
            takewhile(lambda fact: fact.aggregate not in known_aggregates, reversed(batch))
        )
        if seq is None or (batch and len(trailing) == len(batch)):
            return
        seq -= len(trailing)
        # After the timeout the event is in the log all the same, and every ingest will fold it.
        with suppress(TimeoutError):
            async with asyncio.timeout(FOLD_WAIT_S_MAX):
                while self._state.access.seq < seq:
                    await self._folded_event.wait()
