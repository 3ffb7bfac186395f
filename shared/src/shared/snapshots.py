"""Snapshots of folds: a start folds only the events after the newest one.

A snapshot is derived from the log and may be lost at any time. One that another version of the code
made, that belongs to another log, or that is damaged is ignored.
"""

import asyncio
import gc
import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from shared.blobs import Snapshots
from shared.errors import Failed

State = TypeVar("State")

# Level 1 makes a sixth of a state in 7 ms a MB; higher ones take longer than they save.
COMPRESSION = 1

log = logging.getLogger(__name__)


class Fingerprints(Protocol):
    """The log, as far as a snapshot needs it to prove that it belongs to it."""

    async def fingerprint(self, seq: int) -> str | None:
        """Return an identifier of this log up to an event; see shared.event_log.BranchSource."""


class _Snapshot(msgspec.Struct, array_like=True):
    """A folded state, the last event in it, the log it belongs to, and the code that folded it.

    The state is compressed. The store adds a SHA-256 of everything, which it checks before it
    returns a snapshot.
    """

    code: str
    seq: int
    fingerprint: str
    state: bytes


@contextmanager
def _paused_gc() -> Iterator[None]:
    """Collect no garbage for a moment: among a million new objects it takes most of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class FoldedSnapshot(NamedTuple, Generic[State]):
    """A state, and the sequence of the last event in it."""

    state: State
    seq: int


@dataclass(frozen=True)
class FoldSnapshots(Generic[State]):
    """Stores and loads the snapshots of one fold in the stream SNAPSHOTS.

    `name` is the service's, `code` identifies the fold, `type` is the type of its state.
    """

    log: Fingerprints
    store: Snapshots
    name: str
    code: str
    type: type[State]

    async def load(self) -> FoldedSnapshot[State] | None:
        """Return the newest snapshot; None if there is none that can be used."""
        try:
            data = await self.store.load(self.name)
            if data is None:
                return None
            snapshot = msgspec.msgpack.decode(data, type=_Snapshot)
            if snapshot.code != self.code:
                log.info("the snapshot is another version's, reading the log from event 1")
                return None
            seq = snapshot.seq
            if await self.log.fingerprint(seq) == snapshot.fingerprint:
                with _paused_gc():
                    state = msgspec.msgpack.decode(zlib.decompress(snapshot.state), type=self.type)
                return FoldedSnapshot(state, seq)
            log.warning("the snapshot at event %d is not of this log, reading it from event 1", seq)
        except (msgspec.DecodeError, zlib.error, UnicodeDecodeError, RecursionError) as error:
            log.warning("the snapshot is damaged, reading the log from event 1: %s", error)
        except Failed as failed:
            log.warning("the snapshot cannot be loaded, reading the log from event 1: %s", failed)
        return None

    async def save(self, state: State, seq: int) -> None:
        """Store the state as it is now, after the event `seq`.

        Errors: Failed; ValueError above 250 MB.
        """
        # Encoded before the first wait: the fold goes on meanwhile.
        data = await asyncio.to_thread(zlib.compress, msgspec.msgpack.encode(state), COMPRESSION)
        fingerprint = await self.log.fingerprint(seq)
        if fingerprint is None:
            raise Failed(f"the log has no event {seq}, which was folded")
        snapshot = _Snapshot(self.code, seq, fingerprint, data)
        await self.store.save(self.name, msgspec.msgpack.encode(snapshot))
