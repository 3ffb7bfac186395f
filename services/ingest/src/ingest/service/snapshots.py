"""Snapshots of who may do what, so that a start need not read the log from its beginning.

They are derived from the log, and may be lost at any time. One that does not fit the log, the code
or itself is ignored.
"""

import logging
from dataclasses import dataclass, field

import msgspec

from ingest.domain.access import Access
from ingest.domain.preferences import Choices
from ingest.service.ports import Snapshots
from shared.errors import Failed
from shared.event_log import Branches

NAME = "ingest"

log = logging.getLogger(__name__)


@dataclass
class AccessState:
    """All that is folded of the log for the gate."""

    access: Access = field(default_factory=Access)
    choices: Choices = field(default_factory=Choices)


class _Snapshot(msgspec.Struct, array_like=True):
    """A state as it is stored: by which code, of which log, and what it is."""

    code: str
    fingerprint: str
    state: msgspec.Raw


@dataclass(frozen=True)
class AccessSnapshots:
    """Stores and loads snapshots; `code` names the fold, whose snapshots no other code reads."""

    log: Branches
    snapshots: Snapshots
    code: str

    async def load(self) -> AccessState:
        """Return the state of the newest snapshot, or an empty one if none can be used."""
        try:
            state = await self._load()
        except Failed as failed:
            log.warning("the snapshot cannot be loaded, reading the log from event 1: %s", failed)
            state = None
        return state or AccessState()

    async def save(self, state: AccessState) -> None:
        """Store a snapshot of the state as it is now. Raises `Failed`."""
        seq, data = state.access.seq, msgspec.msgpack.encode(state)
        fingerprint = await self.log.fingerprint(seq)
        if fingerprint is None:
            raise Failed(f"the log has no event {seq}, which was folded")
        snapshot = _Snapshot(self.code, fingerprint, msgspec.Raw(data))
        await self.snapshots.save(NAME, msgspec.msgpack.encode(snapshot))

    async def _load(self) -> AccessState | None:
        data = await self.snapshots.load(NAME)
        if data is None:
            return None
        try:
            snapshot = msgspec.msgpack.decode(data, type=_Snapshot)
            if snapshot.code != self.code:
                log.info("the snapshot is another version's, reading the log from event 1")
                return None
            state = msgspec.msgpack.decode(snapshot.state, type=AccessState)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.warning("the snapshot is damaged, reading the log from event 1: %s", error)
            return None
        seq = state.access.seq
        if await self.log.fingerprint(seq) != snapshot.fingerprint:
            log.warning("the snapshot at event %d is not of this log, reading it from event 1", seq)
            return None
        return state
