"""Snapshots of folds: a start folds only the events after the newest one.

A snapshot is derived from the log and may be lost at any time. One that another version of the code
made, that belongs to another log, or that is damaged is ignored.
"""

import asyncio
import gc
import hashlib
import logging
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from shared.blobs import Snapshots
from shared.errors import Failed

State = TypeVar("State")

# Level 1 makes a sixth of a state in 7 ms a MB; higher ones take longer than they save.
COMPRESSION = 1

IMPORT = re.compile(r"^from (\w+(?:\.\w+)*) import (\([^)]*|.*)", re.MULTILINE)
NAME = re.compile(r"\w+")

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


def fold_digest(fold: Callable[..., object]) -> str:
    """Return the digest of all the source code that a fold, a function or class, depends on."""
    files = sorted(find_fold_files(sys.modules[fold.__module__]))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def find_fold_files(module: ModuleType) -> set[Path]:
    """Return the files of a module and of all that it imports from its service and `shared`."""
    assert module.__file__ is not None, "it is a module with source"
    file, shared_file = Path(module.__file__), Path(__file__)
    names = module.__name__.split(".")
    roots = {"shared": shared_file.parents[1], names[0]: file.parents[len(names) - 1]}
    files, waiting = set[Path](), {file, shared_file}
    while waiting:
        file = waiting.pop()
        files.add(file)
        waiting |= set(_find_imported(file, roots)) - files
    return files


def _find_imported(file: Path, roots: Mapping[str, Path]) -> Iterator[Path]:
    """Yield the files of the modules and packages that a file imports from below these roots."""
    for module, names in IMPORT.findall(file.read_text()):
        root = roots.get(module.partition(".")[0])
        if root is None:
            continue
        path = root.joinpath(*module.split("."))
        for imported in (path, *(path / name for name in NAME.findall(names))):
            yield from imported.glob("__init__.py")
            yield from imported.parent.glob(f"{imported.name}.py")


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
